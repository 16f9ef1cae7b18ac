"""Recordings of this process, and their figures beside those of stageloadctl."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pickle
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Daemon, eventually

from stageload_client import Job, MemoryMeter, NoDaemon, StageloadError
from stageload_client import meter as meter_module
from stageload_client._trace import read_trace, summarise


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["type"] == kind]


def hold_the_interpreter(seconds: int) -> None:
    """A call of C that does not let go of the interpreter's lock."""
    ctypes.PyDLL(None).sleep(seconds)


def test_a_meter_around_code_that_holds_the_interpreter_lock_has_no_gap(
    daemon: Daemon, tmp_path: Path
) -> None:
    """3 s with the lock held, no gap longer than two intervals."""
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, interval=0.1) as meter:
        meter.stage("held")
        hold_the_interpreter(3)
        meter.mark("let go")
    times = [sample["t"] for sample in lines(path, "sample")]
    gaps = [after - before for before, after in zip(times, times[1:])]
    marks = {line.get("note", line.get("stage")): line["t"] for line in lines(path, "event")}
    held = [t for t in times if marks["held"] <= t <= marks["let go"]]
    assert times[-1] >= marks["let go"] - 0.2
    print(
        f"{len(held)} samples in 3 s with the lock held, one each 100 ms; "
        f"the longest gap {max(gaps) * 1000:.0f} ms"
    )
    assert len(held) >= 25
    assert max(gaps) <= 0.2


def test_the_trace_is_read_by_stageloadctl_with_the_same_numbers(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, interval=0.05, fields={"model": "Quatsch-Ü", "seed": 7}) as meter:
        meter.stage("load")
        weights = bytearray(64 << 20)
        meter.load("weights", len(weights), 0.1234567)
        meter.load("vae", 10, 0.1, note="outside_stage")
        hold_the_interpreter(1)
        meter.stage("run")
        del weights
        meter.release("weights", 64 << 20, 0.001)
        meter.mark("an end with ümlauts")
        hold_the_interpreter(1)
    ours = meter.summary()
    theirs = json.loads(daemon.ctl("summary", "--json", str(path)).stdout)
    assert ours == theirs
    print(
        f"{ours['samples']} samples, peak {ours['peak_footprint']}, true peak {ours['true_peak']}, "
        f"{[(s['stage'], s['seconds'], s['peak_footprint']) for s in ours['stages']]}: the same"
    )
    assert ours["ended"]
    assert ours["notes"] == []
    assert ours["meta"]["model"] == "Quatsch-Ü"
    assert [stage["stage"] for stage in ours["stages"]] == ["setup", "load", "run"]
    assert ours["stages"][1]["peak_footprint"] - ours["stages"][2]["peak_footprint"] > -(64 << 20)
    assert ours["peak_footprint"] > 64 << 20
    assert ours["outside_stage"] == ["vae"]
    assert ours["releases"] == {"count": 1, "bytes": 64 << 20}


def some_trace(seed: int) -> str:
    """Lines as they may come: in any order, with values missing, cut."""
    dice = random.Random(seed)
    made: list[dict[str, Any]] = []
    if dice.random() < 0.9:
        made.append({"type": "start", "utc": "2026-01-02T03:04:05+00:00", "interval": 0.5, "x": 1})
    t = 0.0
    for _ in range(dice.randint(1, 40)):
        t = round(t + dice.choice([0.5, 0.5, 0.481, 3.2, 75.5, 0.0]), 3)
        sample: dict[str, Any] = {"type": "sample", "t": t}
        for name, top in (("footprint", 1 << 36), ("swap_used", 1 << 34), ("available", 1 << 35)):
            if dice.random() < 0.9:
                sample[name] = dice.choice([dice.randint(0, top), None])
        if dice.random() < 0.9:
            sample["level"] = round(dice.uniform(0, 100), 2)
        made.append(sample)
        if dice.random() < 0.3:
            at = round(t + dice.uniform(-2, 2), 3)
            kind = dice.choice(["stage", "load", "reload", "release", "mark", "other"])
            event: dict[str, Any] = {"type": "event", "kind": kind, "t": at}
            if kind == "stage":
                event["stage"] = dice.choice(["a", "b", "c", None])
            elif kind != "mark":
                event.update(
                    name=dice.choice(["x", "y", "z", None]), nbytes=dice.randint(0, 1 << 33)
                )
                event["seconds"] = dice.uniform(0, 9)
                event["note"] = dice.choice(["", "outside_stage", None])
            extras = [key for key in event if key not in ("type", "kind", "t")]
            if extras and dice.random() < 0.2:
                del event[dice.choice(extras)]
            made.append(event)
    if dice.random() < 0.3:
        dice.shuffle(made)
    if dice.random() < 0.7:
        made.append({"type": "end"})
    text = "\n".join(json.dumps(line) for line in made) + "\n"
    return text[:-5] if dice.random() < 0.2 else text


def test_any_trace_has_the_same_figures_here_as_in_stageloadctl(
    no_daemon: Daemon, tmp_path: Path
) -> None:
    paths = []
    for seed in range(120):
        path = tmp_path / f"{seed}.jsonl"
        path.write_text(some_trace(seed))
        paths.append(str(path))
    theirs = json.loads(no_daemon.ctl("summary", "--json", *paths).stdout)
    assert len(theirs) == len(paths)
    for path_text, summary in zip(paths, theirs):
        assert summarise(read_trace(path_text)) == summary, path_text


def test_loads_without_a_name_have_the_empty_one(no_daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    made: list[dict[str, Any]] = [{"type": "sample", "t": 0}, {"type": "sample", "t": 1}]
    names: list[dict[str, Any]] = [{}, {"name": None, "stage": None}, {"name": "x"}]
    for kind in ("load", "release", "stage"):
        for more in names:
            event = {"type": "event", "kind": kind, "t": 0.5, "note": "outside_stage", **more}
            made.append(event)
    path.write_text("".join(json.dumps(line) + "\n" for line in [*made, {"type": "end"}]))
    ours = summarise(read_trace(str(path)))
    assert ours["outside_stage"] == ["", "x"]
    assert ours == json.loads(no_daemon.ctl("summary", "--json", str(path)).stdout)


@pytest.mark.parametrize(
    ("releases", "begin"),
    [
        ([(59, 0.1)], 10),
        ([(59, None)], 10),
        ([(12, 0.5)], 10),
        ([(55, 44.5)], 55),
        ([(15, None)], 15),
        ([(12, 1.5), (17, 5), (40, 0.1)], 17),
        ([(10 + 0.75 * i, 0.25) for i in range(1, 50)], 11.5),
        ([(10 + 0.75 * i, None) for i in range(1, 50)], 19.75),
    ],
)
def test_a_stage_begins_behind_the_releases_at_its_beginning_only(
    no_daemon: Daemon, tmp_path: Path, releases: list[tuple[float, float | None]], begin: float
) -> None:
    """The cases of trace_summary_test.cc."""
    made: list[dict[str, Any]] = [{"type": "sample", "t": t} for t in (0, 30, 60)]
    for stage, at in (("denoise", 0), ("decode", 10)):
        made.append({"type": "event", "kind": "stage", "stage": stage, "t": at})
    for t, seconds in releases:
        made.append({"type": "event", "kind": "release", "t": t, "seconds": seconds})
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*made, {"type": "end"}]))
    ours = summarise(read_trace(str(path)))
    assert [stage["seconds"] for stage in ours["stages"]] == [begin, 60 - begin]
    assert ours == json.loads(no_daemon.ctl("summary", "--json", str(path)).stdout)


def test_the_recordings_of_a_mac_have_the_same_figures_here_as_in_stageloadctl(
    no_daemon: Daemon,
) -> None:
    folder = Path(__file__).resolve().parents[4] / "shared" / "traces"
    paths = sorted(str(path) for path in folder.glob("*.jsonl"))
    if not paths:
        pytest.skip("no recordings beside this checkout")
    for path in paths:
        theirs = json.loads(no_daemon.ctl("summary", "--json", path).stdout)
        assert summarise(read_trace(path)) == theirs


def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for text, wrong in (
        ('{"type":"sample","t":0}\nnonsense\n{"type":"end"}\n', ":2: no JSON"),
        ('{"type":"sample","t":0,"footprint":-1}\n{"type":"end"}\n', ':1: "footprint" is -1'),
        ('{"type":"start"}\n{"type":"start"}\n{"type":"end"}\n', ":2: a second"),
        ("", "the file is empty"),
        ('{"type":"start"}\n', "no sample in 1"),
    ):
        path.write_text(text)
        with pytest.raises(StageloadError, match=wrong):
            read_trace(str(path))


def test_marks_of_a_job_come_into_the_recording(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, interval=0.05), Job("render") as job:
        with job.stage("decode", memory="1M"):
            job.mark("checkpoint")

        def marked() -> bool:
            events = lines(path, "event")
            return any(e.get("note") == "checkpoint" for e in events) and any(
                e["kind"] == "stage" and e["stage"] == "decode" for e in events
            )

        eventually(marked)


def test_the_recording_goes_on_with_the_next_daemon(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, interval=0.05) as meter:
        meter.mark("before")
        daemon.kill()
        before = len(lines(path, "sample"))
        meter.mark("nobody samples")
        daemon.start()
        eventually(lambda: len(lines(path, "sample")) > before + 3)
    assert meter.summary()["ended"]


def test_without_a_daemon_it_is_an_error_or_a_file_of_marks(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(NoDaemon):
        MemoryMeter(path).start()
    assert not path.exists()
    with MemoryMeter(path, require=False) as meter:
        meter.mark("alone")
    alone, gap = (e["note"] for e in lines(path, "event"))
    assert alone == "alone"
    assert gap.startswith("no samples for ")
    assert gap.endswith(": no daemon answered")
    with pytest.raises(StageloadError, match="not running"):
        meter.mark("late")


def test_where_there_was_no_daemon_a_note_says_for_how_long(
    no_daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, 0.05, require=False):
        no_daemon.start()
        eventually(lambda: lines(path, "sample"))
        no_daemon.stop()
        no_daemon.start()
        eventually(lambda: len(lines(path, "event")) == 2)
        no_daemon.stop()
    notes = [event["note"] for event in lines(path, "event")]
    assert [note.partition(": ")[2] for note in notes] == [
        "no daemon answered",
        "the daemon went away",
        "the daemon went away",
    ]
    assert all(note.startswith("no samples for ") for note in notes)


def test_a_daemon_that_stood_still_leaves_a_note_of_the_gap(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with MemoryMeter(path, 0.05):
        before = len(lines(path, "sample"))
        with daemon.hung():
            time.sleep(2.5)  # longer than a late sample takes
        eventually(lambda: len(lines(path, "sample")) > before + 1 and lines(path, "event"))
    note = lines(path, "event")[0]["note"]
    assert note.startswith("no samples for 2.")
    assert note.endswith(": the daemon did not sample")


def test_what_no_reader_takes_is_not_written(daemon: Daemon, tmp_path: Path) -> None:
    with MemoryMeter(tmp_path / "run.jsonl", 0.05) as meter:
        meter.load("largest", 1 << 60, 1e10)
        with pytest.raises(ValueError, match="4611686018427387904 bytes, not from 0 to"):
            meter.load("vae", 1 << 62, 1)
        with pytest.raises(ValueError, match="note: is empty"):
            meter.mark("")
        with pytest.raises(ValueError, match="stage: is empty"):
            meter.stage("")
        with pytest.raises(ValueError, match="-1 bytes"):
            meter.release("vae", -1, 1)
        with pytest.raises(ValueError, match=r"2e\+10|20000000000.0 s, not from 0 to 1e\+10 s"):
            meter.reload("vae", 1, 2e10)
        assert meter.summary()["loads"] == {"count": 1, "bytes": 1 << 60, "seconds": 1e10}
    with pytest.raises(ValueError, match="1 MiB at most is read"):
        MemoryMeter(tmp_path / "other.jsonl", fields={"x": "y" * (1 << 20)}).start()


def test_a_sum_that_cannot_be_counted_stands_at_the_most(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    load = {"type": "event", "t": 1, "kind": "load", "name": "a", "nbytes": 1 << 60}
    text = [json.dumps({"type": "sample", "t": 0})] + [json.dumps(load)] * 8
    path.write_text("\n".join(text))
    assert summarise(read_trace(str(path)))["loads"]["bytes"] == (1 << 63) - 1


def test_a_killed_program_leaves_all_but_its_last_moment(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = daemon.run(
        """
import sys, time
from stageload_client import MemoryMeter
meter = MemoryMeter(sys.argv[1], interval=0.05).start()
meter.stage("run")
print("runs")
time.sleep(600)
""",
        str(path),
    )
    assert program.line() == "runs"
    eventually(lambda: len(lines(path, "sample")) > 5)
    program.kill()
    summary = summarise(read_trace(str(path)))
    assert not summary["ended"]
    assert summary["stages"][-1]["stage"] == "run"


def test_a_meter_that_nobody_closes_is_ended_with_the_program(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    program = daemon.run(
        "import sys\nfrom stageload_client import MemoryMeter\nMemoryMeter(sys.argv[1]).start()\n",
        str(path),
    )
    assert program.end() == (0, "", "")
    assert summarise(read_trace(str(path)))["ended"]


def test_a_full_disk_is_an_error_of_the_mark_and_none_of_the_samples(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    program = daemon.run(
        """
import resource, signal, sys, time
from stageload_client import MemoryMeter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with MemoryMeter(sys.argv[1], interval=0.02) as meter:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    time.sleep(0.5)
    try:
        for _ in range(50):
            meter.mark("x" * 200)
    except OSError as error:
        print(type(error).__name__, error.errno)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    meter.mark("room again")
    time.sleep(0.2)
""",
        str(path),
    )
    assert program.line() == "OSError 27"
    assert program.end()[0] == 0
    marks = [e["note"] for e in lines(path, "event")]
    assert marks[-1] == "room again"
    assert summarise(read_trace(str(path)))["ended"]


def test_a_meter_in_a_coroutine(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def run() -> None:
        async with MemoryMeter(path, interval=0.05) as meter:
            meter.stage("decode")
            await asyncio.sleep(0.2)

    asyncio.run(run())
    assert len(lines(path, "sample")) > 2


@pytest.mark.parametrize("moment", ["connects", "waits for a sample"])
def test_a_start_that_is_interrupted_records_nothing(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = tmp_path / "run.jsonl"
    meter = MemoryMeter(path, interval=0.1)

    async def start() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(meter.start_async(), 0.5)

    if moment == "connects":
        with daemon.hung():
            asyncio.run(start())
    else:

        async def never(*_: object) -> None:
            await asyncio.sleep(5)

        monkeypatch.setattr(meter_module, "_wait", never)
        asyncio.run(start())
    eventually(lambda: meter.closed)
    assert meter_module.active_meters() == []
    # And the daemon samples for nobody: a recording of this process would get the mark.
    with Job("render") as job, MemoryMeter(tmp_path / "next.jsonl", interval=0.1) as after:
        assert job.mark("after")
        eventually(lambda: after.summary()["samples"] > 2)
    if moment == "connects":
        assert not path.exists()
    else:
        assert lines(path, "end")
        assert "after" not in path.read_text()


INTERRUPTED = """
import os, signal, sys, threading
from stageload_client import Job, MemoryMeter

write, count = os.write, 0

def interrupt(data):
    if b"step" in data and threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGUSR1)

def interrupted(file, data):
    interrupt(data)
    written = write(file, data)
    interrupt(data)
    return written

def alarm(*_):
    global count
    meter.mark(f"alarm {count}")
    if count % 20 == 0:  # this waits for the library's thread, which writes samples
        job.mark("from the handler")
    count += 1

signal.signal(signal.SIGUSR1, alarm)
with Job("render") as job, MemoryMeter(sys.argv[1], interval=0.02) as meter:
    os.write = interrupted
    for number in range(200):
        meter.mark(f"step {number}")
    os.write = write
"""


def test_a_signals_handler_may_mark_what_it_has_interrupted(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = daemon.run(INTERRUPTED, str(path))
    assert program.end() == (0, "", "")
    notes = [line.get("note", "") for line in lines(path, "event")]
    steps = [note for note in notes if note.startswith("step")]
    alarms = [note for note in notes if note.startswith("alarm")]
    assert steps == [f"step {number}" for number in range(200)]
    assert alarms == [f"alarm {number}" for number in range(len(alarms))]
    assert len(alarms) == 400
    assert summarise(read_trace(str(path)))["ended"]


def test_what_many_threads_mark_is_in_the_file_when_they_go_on(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"

    def mark(thread: int) -> bool:
        for number in range(50):
            note = f"{thread}.{number}."
            meter.mark(note)
            if f'"{note}"' not in path.read_text():
                return False
        return True

    with MemoryMeter(path, interval=0.02) as meter, ThreadPoolExecutor(4) as threads:
        assert all(threads.map(mark, range(4)))
    assert len(lines(path, "event")) == 200


def loads(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines(path, "event") if line["kind"] == "load"]


def test_a_size_that_was_computed_leaves_a_file_that_is_read(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with Job("render") as job, MemoryMeter(path, interval=0.1) as meter:
        meter.load("te", 16.3 * 2**30, 0.1)
        assert job.mark("te", kind="load", name="te", nbytes=0.7 * 2**30)
        with pytest.raises(ValueError, match="number of bytes"):
            meter.load("te", float("nan"), 0.1)
        # The job's mark comes with what the daemon tells next.
        eventually(lambda: len(loads(path)) == 2)
    assert [line["nbytes"] for line in loads(path)] == [17501991731, 751619277]
    assert json.loads(daemon.ctl("summary", "--json", str(path)).stdout)["samples"] > 0


def test_a_meter_of_a_relative_path_does_not_follow_the_program(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with MemoryMeter("run.jsonl", interval=0.1) as meter:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert meter.summary()["samples"] > 0
    assert Path(meter.path) == tmp_path / "run.jsonl"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"pid": 5}, '"pid" is a name of the format\'s own'),
        ({"stageload": "x"}, '"stageload" is a name'),
        ({"x": float("nan")}, '"x" is nan, which is no JSON number'),
        ({"x": [1]}, "'x' is \\[1\\], neither a number nor text"),
        ({"x": "x" * (1 << 20)}, "1 MiB at most is read"),
    ],
)
def test_fields_that_no_reader_takes_cost_no_file(
    daemon: Daemon, tmp_path: Path, fields: dict[str, Any], wrong: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("of yesterday\n")
    with pytest.raises((ValueError, TypeError), match=wrong):
        MemoryMeter(path, fields=fields).start()
    assert path.read_text() == "of yesterday\n"


def test_a_file_that_could_stand_still_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Job("render") as job:
        begin = time.monotonic()
        with pytest.raises(ValueError, match="is a pipe; a trace is written to a regular file"):
            MemoryMeter(pipe).start()
        assert time.monotonic() - begin < 10
        assert job.report(x=1)
    with MemoryMeter(os.devnull) as meter:
        meter.mark("goes nowhere")


def test_a_file_that_another_recording_writes_is_refused_and_left_as_it_is(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    code = """
import sys
from stageload_client import MemoryMeter, StageloadError
try:
    MemoryMeter(sys.argv[1]).start().close()
    print("recorded")
except StageloadError as error:
    print(error.reason, error)
"""
    with MemoryMeter(path) as meter:
        meter.mark("mine")
        with pytest.raises(StageloadError, match="another recording writes it now"):
            MemoryMeter(path).start()
        refused = f"WRONG_STATE record into {path}: another recording writes it now"
        assert daemon.run(code, str(path)).line().startswith(refused)
        meter.mark("still mine")
        child = os.fork()
        if child == 0:
            time.sleep(600)
    try:
        notes = [event["note"] for event in read_trace(str(path)).events]
        assert notes == ["mine", "still mine"]
        assert daemon.run(code, str(path)).line() == "recorded"
        with MemoryMeter("/dev/null"), MemoryMeter("/dev/null"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert read_trace(str(path)).events == []


def test_a_meter_that_was_not_started_may_be_sent_to_another_process(
    daemon: Daemon, tmp_path: Path
) -> None:
    meter = MemoryMeter(tmp_path / "run.jsonl")
    code = """
import pickle, sys
with pickle.loads(bytes.fromhex(sys.argv[1])) as meter:
    meter.mark("there")
"""
    assert daemon.run(code, pickle.dumps(meter).hex()).end() == (0, "", "")
    assert [event["note"] for event in read_trace(meter.path).events] == ["there"]
