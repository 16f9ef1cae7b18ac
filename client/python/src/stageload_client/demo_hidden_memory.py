"""Shows memory that no footprint shows: python -m stageload_client.demo_hidden_memory [--gib 4]

A tensor is made on MPS, moved "to the CPU", touched and freed. After each step it prints the
process's footprint, what the GPU's driver holds, the machine's level and its swap, as the daemon
reads them.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
from typing import Any, Callable

from ._gauges import device_gauges
from ._loop import library
from .errors import StageloadError
from .job import Job
from .release import empty_caches

_GIB = 1 << 30
_MOST = 1 << 60


_PAGE = 4096  # the smallest


def _bytes(nbytes: int) -> bytearray:
    """In memory, every page of them."""
    block = bytearray(nbytes)
    for at in range(0, nbytes, _PAGE):
        block[at] = 1
    return block


class _Show:
    """A line for each step. The daemon's reading is one that is newer than the step."""

    def __init__(self, job: Job) -> None:
        self._job = job
        print(f"{'step':28} {'footprint':>10} {'driver':>10} {'level':>7} {'swap':>10}")

    def line(self, step: str) -> None:
        frame = self._frame_after(time.time_ns())
        mine = [client for client in frame.clients if client.job_id == self._job.client_id]
        host = frame.host
        driver = device_gauges().get("mps_driver_bytes")
        cells = [
            _gib(mine[0].footprint_bytes if mine and mine[0].HasField("footprint_bytes") else None),
            _gib(driver),
            f"{host.level_percent:.0f} %" if host.HasField("level_percent") else "-",
            _gib(host.swap_used_bytes if host.HasField("swap_used_bytes") else None),
        ]
        print(f"{step:28} {cells[0]:>10} {cells[1]:>10} {cells[2]:>7} {cells[3]:>10}", flush=True)

    def _frame_after(self, time_ns: int) -> Any:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.25)
            frame = library().run(self._job._session.snapshot())
            if frame is not None and frame.time_ns > time_ns:
                return frame
        raise StageloadError("the daemon has taken no sample for 10 s", code="UNAVAILABLE")


def _gib(nbytes: float | None) -> str:
    return "-" if nbytes is None else f"{nbytes / _GIB:.2f} GiB"


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def _steps_on_mps(torch: Any, nbytes: int) -> list[tuple[str, Callable[[], None]]]:
    held: list[Any] = []

    def make() -> None:
        held.append(torch.full((nbytes // 4,), 1.0, device="mps"))
        torch.mps.synchronize()

    def park() -> None:
        held.append(held.pop().to("cpu"))
        empty_caches()

    def touch() -> None:
        held[0].add_(1.0)

    def free() -> None:
        held.clear()
        empty_caches()

    return [
        ("on mps", make),
        ('after .to("cpu")', park),
        ("touched on the CPU", touch),
        ("freed", free),
    ]


def _steps_on_cpu(torch: Any, nbytes: int) -> list[tuple[str, Callable[[], None]]]:
    held: list[Any] = []

    def make() -> None:
        held.append(_bytes(nbytes) if torch is None else torch.full((nbytes // 4,), 1.0))

    def park() -> None:
        if torch is not None:
            held.append(held.pop().to("cpu"))

    def touch() -> None:
        if torch is not None:
            held[0].add_(1.0)

    def free() -> None:
        held.clear()
        empty_caches()

    return [
        ("on the CPU", make),
        ('after .to("cpu")', park),
        ("touched", touch),
        ("freed", free),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stageload_client.demo_hidden_memory",
        description="Shows memory of MPS that no footprint shows.",
    )
    parser.add_argument("--gib", type=float, default=4.0, help="size of the tensor, in GiB (4)")
    gib = parser.parse_args(arguments).gib
    if not (math.isfinite(gib) and 1 <= gib * _GIB <= _MOST):
        parser.error(f"--gib: a number above 0 and up to {_MOST // _GIB}, not {gib}")
    nbytes = int(gib * _GIB)
    torch = _torch()
    backend = getattr(getattr(torch, "backends", None), "mps", None)
    has_mps = bool(backend is not None and backend.is_available() and hasattr(torch, "mps"))
    if not has_mps:
        why = "this machine has no MPS" if torch is not None else "there is no torch here"
        print(f"{why}: the same steps on the CPU, where a footprint hides nothing")
    steps = (_steps_on_mps if has_mps else _steps_on_cpu)(torch, nbytes)
    try:
        with Job("hidden memory", require=True, on_over_budget="warn") as job:
            show = _Show(job)
            show.line("start")
            for step, do in steps:
                do()
                show.line(step)
    except (MemoryError, RuntimeError) as error:  # the latter is torch's
        print(f"demo_hidden_memory: take {gib:g} GiB: {str(error) or 'no room'}", file=sys.stderr)
        return 1
    except StageloadError as error:
        print(f"demo_hidden_memory: {error}", file=sys.stderr)
        return 69 if error.reason == "NO_DAEMON" else 1
    return 0


def run() -> int:
    """What is printed may go into a full disk, or to a reader that has had enough."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except OSError as error:
        # Else Python tries again to write the rest, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"demo_hidden_memory: write the output: {error.strerror}", file=sys.stderr)
        return 74


if __name__ == "__main__":
    sys.exit(run())
