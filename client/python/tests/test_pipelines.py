"""Two programs whose stages do not fit together, under the real daemon."""

from __future__ import annotations

import json
import signal
import time

from conftest import Daemon, eventually

PIPELINE = """
import json, sys, time
from stageload_client import Job

SIZE = 600 << 20

def say(*words):
    print(json.dumps([time.monotonic(), *words]))

with Job(sys.argv[1], require=True) as job:
    for stage in ("encode", "denoise", "decode"):
        with job.stage(stage, memory=SIZE, timeout=60, on_wait=lambda w: say("waits", str(w))):
            say("holds", stage)
            weights = b"\\1" * SIZE
            say("loaded", stage)
            time.sleep(float(sys.argv[2]))
            del weights
            say("frees", stage)
say("done")
"""


def spans(lines: list[list[str]]) -> list[tuple[float, float, str]]:
    """From holding a stage to freeing it."""
    begun = {line[2]: float(line[0]) for line in lines if line[1] == "holds"}
    return [(begun[line[2]], float(line[0]), line[2]) for line in lines if line[1] == "frees"]


def test_two_pipelines_with_stages_of_600_mb_in_a_pool_of_1_gb_never_hold_two(
    no_daemon: Daemon,
) -> None:
    no_daemon.config('memory_pool = "1G"\n')
    no_daemon.start()
    programs = [no_daemon.run(PIPELINE, name, "0.3") for name in ("left", "right")]
    most = 0
    footprints: list[int] = []
    while any(program.process.poll() is None for program in programs):
        clients = no_daemon.clients().values()
        held = sum(len(client.get("leases", [])) for client in clients)
        most = max(most, held)
        footprints.append(sum(client.get("footprint_bytes", 0) for client in clients))
        time.sleep(0.02)
    outputs = [program.end() for program in programs]
    assert [code for code, _, _ in outputs] == [0, 0], outputs
    lines = [[json.loads(text) for text in out.splitlines()] for _, out, _ in outputs]
    left, right = (spans(of) for of in lines)
    assert [stage for _, _, stage in left] == ["encode", "denoise", "decode"]
    assert [stage for _, _, stage in right] == ["encode", "denoise", "decode"]
    overlaps = [(a, b) for a in left for b in right if a[0] < b[1] and b[0] < a[1]]
    waits = [line[2] for of in lines for line in of if line[1] == "waits"]
    print(
        f"six stages of 600 MiB one after another, at most {most} lease at a time, "
        f"{max(footprints) / 2**20:.0f} MiB in both at most; they waited: {waits[0]}"
    )
    assert overlaps == []
    assert most == 1
    assert "needs 600 MiB, 424 MiB left in the pool of 1 GiB" in waits[0]


def test_killing_one_pipeline_lets_the_other_on_within_a_second(no_daemon: Daemon) -> None:
    no_daemon.config('memory_pool = "1G"\n')
    no_daemon.start()
    first = no_daemon.run(PIPELINE, "first", "600")
    while "loaded" not in first.line():
        pass
    second = no_daemon.run(PIPELINE, "second", "0.1")
    assert "waits" in second.line()
    eventually(no_daemon.waiting)
    killed = time.monotonic()
    first.process.send_signal(signal.SIGKILL)
    while "holds" not in (line := second.line()):
        pass
    after = json.loads(line)[0] - killed
    print(f"{after * 1000:.0f} ms from SIGKILL to the other's lease")
    assert after < 1
    assert second.end()[0] == 0
