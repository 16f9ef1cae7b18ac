"""Ctrl-C at each moment at which something is taken or given back."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import dis
import functools
import gc
import os
import signal
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Callable

import pytest
from conftest import Daemon, eventually

import stageload_client
from stageload_client import (
    Job,
    Lease,
    MemoryMeter,
    NeverFits,
    NoRoom,
    StageloadError,
    on_call,
)
from stageload_client import meter as meter_module
from stageload_client._loop import library
from stageload_client.job import active_job

WITHIN = 5.0
# A call that is interrupted between being made and being begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")


PACKAGE = str(Path(stageload_client.__file__).parent)
# Where nothing would come of it: callbacks of weak references.
NOT_IN = weakref.WeakSet.__init__.__code__.co_filename


class Interrupt:
    """Raises KeyboardInterrupt at the n-th moment at which Python looks for signals in what this
    thread calls: where a function begins, and in the package after each call and loop."""

    def __init__(self, at: int, everywhere: bool) -> None:
        self.left = at
        self._everywhere = everywhere
        self.raised = False
        self._last: dict[FrameType, str] = {}

    def arm(self) -> None:
        sys.settrace(self._step)

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        ours = code.co_filename.startswith(PACKAGE)
        frame.f_trace_opcodes, frame.f_trace_lines = ours, False
        looks = event == "call" and (ours or self._everywhere) and code.co_filename != NOT_IN
        if event == "opcode":
            looks = self._last.get(frame, "").startswith(("CALL", "JUMP"))
            self._last[frame] = dis.opname[code.co_code[frame.f_lasti]]
        if looks:
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                self._last.clear()
                self.raised = True
                raise KeyboardInterrupt
        return self._step


def moments(run: Callable[[Interrupt], None], everywhere: bool = True) -> Iterator[int]:
    """After each run that was interrupted: at the first moment, at the second, ... at all."""
    for at in range(100_000):
        interrupt = Interrupt(at, everywhere)
        try:
            run(interrupt)
        except KeyboardInterrupt:
            pass  # as a notebook, which keeps the traceback
        finally:
            sys.settrace(None)
        if not interrupt.raised:
            assert at > 5
            return
        yield at


class Pending:
    """`PENDING @ 0` is an operation within which Ctrl-C is pressed: it is noticed by the next
    function that begins. All of it is C."""

    __matmul__ = staticmethod(functools.partial(next, iter(_thread.interrupt_main, 0)))


PENDING: Any = Pending()


def no_lease(job: Job) -> bool:
    """Whether all of the pool is free, soon: one that waited for itself would be let in."""

    def free() -> bool:
        probe = job.stage("probe", memory="150M", timeout=WITHIN).acquire()
        probe.release()
        return not probe.forced

    eventually(free, WITHIN)
    eventually(lambda: job.current_stage is None)
    return True


def taken(job: Job) -> bool:
    """Whether a part of the pool is: then this thread, which has it, is let in all the same."""
    probe = job.stage("probe", memory="150M", timeout=WITHIN).acquire()
    probe.release()
    return probe.forced


def no_job() -> bool:
    with Job("next", require=True) as job:
        joined = job.joined
    return active_job() is None and not joined


@pytest.fixture
def pool(no_daemon: Daemon) -> Iterator[Daemon]:
    no_daemon.config('memory_pool = "150M"\n')
    no_daemon.start()
    yield no_daemon
    gc.collect()  # so that no other test gets warnings of the calls that were interrupted


def test_a_stage_that_is_interrupted_as_it_ends_gives_its_lease_back(pool: Daemon) -> None:
    with Job("render", require=True) as job:
        kept: list[Lease] = []  # as a notebook's variable does

        def run(interrupt: Interrupt) -> None:
            with job.stage("decode", memory="150M") as lease:
                kept.append(lease)
                interrupt.arm()

        for at in moments(run):
            assert no_lease(job), at
            eventually(lambda: not kept[-1].held)


def test_a_stage_that_is_interrupted_as_it_begins_leaves_no_lease(pool: Daemon) -> None:
    with Job("render", require=True) as job:

        def run(interrupt: Interrupt) -> None:
            lease = job.stage("decode", memory="150M")
            interrupt.arm()
            with lease:
                sys.settrace(None)

        for at in moments(run):
            assert no_lease(job), at


def test_a_stage_that_is_only_named_ends_also_when_it_is_interrupted(pool: Daemon) -> None:
    with Job("render", require=True) as job:

        def run(interrupt: Interrupt) -> None:
            with job.stage("decode"):
                interrupt.arm()

        for at in moments(run):
            eventually(lambda: job.current_stage is None)
            assert at < 5000


def test_a_release_that_is_interrupted_is_done_or_can_be_done_again(pool: Daemon) -> None:
    with Job("render", require=True) as job:
        leases: list[Lease] = []

        def run(interrupt: Interrupt) -> None:
            leases.append(job.stage("decode", memory="150M").acquire())
            interrupt.arm()
            leases[-1].release()

        for at in moments(run):
            if leases[-1].held:
                assert at < 2
                leases[-1].release()
            assert no_lease(job), at


@pytest.mark.parametrize("moment", ["entered", "left", "closed"])
def test_a_job_that_is_interrupted_as_it_starts_or_ends_leaves_no_registration(
    pool: Daemon, moment: str
) -> None:
    def run(interrupt: Interrupt) -> None:
        job = Job("leaky", require=True)
        if moment == "entered":
            interrupt.arm()
        if moment == "closed":
            job.start()
            interrupt.arm()
            try:
                job.close()
            finally:
                if not job.closed:
                    job.close()
            return
        with job:
            sys.settrace(None)
            if moment == "left":
                interrupt.arm()

    for at in moments(run):
        eventually(no_job)
        assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL, at


@pytest.mark.parametrize("moment", ["entered", "left", "closed"])
def test_a_meter_that_is_interrupted_as_it_starts_or_ends_samples_no_more(
    pool: Daemon, tmp_path: Path, moment: str
) -> None:
    path = tmp_path / "run.jsonl"

    def run(interrupt: Interrupt) -> None:
        meter = MemoryMeter(path, interval=0.02)
        if moment == "entered":
            interrupt.arm()
        if moment == "closed":
            meter.start()
            interrupt.arm()
            try:
                meter.close()
            finally:
                if not meter.closed:
                    meter.close()
            return
        with meter:
            sys.settrace(None)
            if moment == "left":
                interrupt.arm()

    for at in moments(run):
        eventually(lambda: not meter_module.active_meters())
        if path.exists():
            eventually(lambda: '"type":"end"' in path.read_text())
            path.unlink()
        else:
            assert moment == "entered", at


@pytest.mark.parametrize("moment", ["entered", "left"])
def test_a_call_of_a_part_that_is_interrupted_ends_its_stage(pool: Daemon, moment: str) -> None:
    class Vae:
        def decode(self, interrupt: Interrupt | None) -> str | None:
            if interrupt is not None:
                sys.settrace(None)
                if moment == "left":
                    interrupt.arm()
                return None
            return job.current_stage

    with Job("render", require=True) as job:
        vae = Vae()
        with on_call(vae, "decode", "decode", job, memory="150M") as watched:

            def run(interrupt: Interrupt) -> None:
                if moment == "entered":
                    interrupt.arm()
                vae.decode(interrupt)

            for at in moments(run):
                if at % 2 == 0:
                    assert no_lease(job), at
                assert vae.decode(None) == "decode", at
                assert watched._inside == []


@pytest.mark.parametrize("moment", ["entered", "left"])
def test_a_coroutine_that_is_interrupted_in_a_stage_gives_its_lease_back(
    pool: Daemon, moment: str
) -> None:
    async def stage(job: Job, interrupt: Interrupt) -> None:
        if moment == "entered":
            interrupt.arm()
        async with job.stage("decode", memory="150M"):
            sys.settrace(None)
            if moment == "left":
                interrupt.arm()
        sys.settrace(None)

    with Job("render", require=True) as job:
        # asyncio itself does not live through all.
        for at in moments(lambda interrupt: asyncio.run(stage(job, interrupt)), everywhere=False):
            assert no_lease(job), at


@pytest.mark.parametrize("moment", ["entered", "left"])
def test_a_coroutine_that_is_interrupted_in_a_job_leaves_no_registration(
    pool: Daemon, moment: str
) -> None:
    async def enter(interrupt: Interrupt) -> None:
        if moment == "entered":
            interrupt.arm()
        async with Job("leaky", require=True):
            sys.settrace(None)
            if moment == "left":
                interrupt.arm()
        sys.settrace(None)

    for _ in moments(lambda interrupt: asyncio.run(enter(interrupt)), everywhere=False):
        eventually(no_job)


def test_ctrl_c_in_the_last_operation_of_a_with_loses_nothing(pool: Daemon, tmp_path: Path) -> None:
    with Job("render", require=True) as job:
        with pytest.raises(KeyboardInterrupt) as caught, job.stage("decode", memory="150M"):
            PENDING @ 0
        # As a notebook keeps it.
        assert caught.value.__traceback__ is not None
        assert no_lease(job)
    with pytest.raises(KeyboardInterrupt), Job("leaky", require=True):
        PENDING @ 0
    eventually(no_job)
    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt), MemoryMeter(path, interval=0.02):
        PENDING @ 0
    eventually(lambda: '"type":"end"' in path.read_text())
    assert meter_module.active_meters() == []


def test_what_is_looked_at_or_entered_by_hand_is_not_given_back_by_itself(pool: Daemon) -> None:
    with Job("render", require=True) as job:
        lease = job.stage("decode", memory="100M")
        assert callable(lease.__exit__)
        with lease:
            assert callable(lease.__exit__)
            with pytest.raises(StageloadError, match="held already"), lease:
                pass
            with pytest.raises(StageloadError, match="started once"), job:
                pass
            assert taken(job)
            assert lease.held
        lease.__enter__()
        assert taken(job)
        lease.__exit__(None, None, None)
        with contextlib.ExitStack() as stack:
            stack.enter_context(lease)
            assert lease.held
        assert not lease.held
        assert no_lease(job)


def test_a_child_that_drops_what_its_parent_has_entered_leaves_it_alone(pool: Daemon) -> None:
    with Job("render", require=True) as job:
        try:
            with job.stage("decode", memory="150M") as lease:
                pid = os.fork()
                if pid != 0:
                    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
                    assert taken(job)
                    assert lease.held
                else:
                    PENDING @ 0
        except KeyboardInterrupt:
            os._exit(7)


AT_THE_END = """
import functools, sys, _thread
from stageload_client import Job

class Pending:
    __matmul__ = staticmethod(functools.partial(next, iter(_thread.interrupt_main, 0)))

def run():
    with Job("render", require=True) as job:
        with job.stage("decode", memory="150M"):
            Pending() @ 0

if len(sys.argv) > 1:
    run()
try:
    run()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_program_that_ctrl_c_ends_does_so_at_once(pool: Daemon) -> None:
    assert pool.run(AT_THE_END).end(within=10) == (0, "interrupted\n", "")
    code, _, err = pool.run(AT_THE_END, "at once").end(within=10)
    assert code == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n")
    assert "stageload_client:" not in err


def tasks_of_the_library() -> list[Any]:
    loop = library().loop
    found = [one for one in gc.get_objects() if issubclass(type(one), asyncio.Task)]
    return [task for task in found if task.get_loop() is loop]


def test_no_task_of_a_closed_job_or_meter_waits_to_be_collected(
    pool: Daemon, tmp_path: Path
) -> None:
    """Where one is collected in the main thread, asyncio swallows a Ctrl-C that comes then."""
    gc.collect()
    gc.disable()
    try:
        with Job("worker", require=True) as job, MemoryMeter(tmp_path / "run.jsonl") as meter:
            with job.stage("s", memory="1M"):
                meter.mark("here")
            assert tasks_of_the_library()
        eventually(lambda: not tasks_of_the_library(), WITHIN)
    finally:
        gc.enable()


def test_an_error_that_is_handled_keeps_no_task(pool: Daemon) -> None:
    kept: list[BaseException] = []

    async def in_a_coroutine(job: Job) -> None:
        with pytest.raises(NoRoom) as late:
            await job.stage("s", memory="100M", timeout=0).acquire_async()
        kept.append(late.value)

    gc.collect()
    gc.disable()
    try:
        with Job("worker", require=True) as job, job.stage("holds", memory="100M"):
            with pytest.raises(NoRoom) as no:
                job.stage("s", memory="100M", timeout=0).acquire()
            with pytest.raises(NeverFits) as never:
                job.stage("s", memory="1T").acquire()
            kept += [no.value, never.value]
            asyncio.run(in_a_coroutine(job))
        with pytest.raises(StageloadError) as closed:
            job.mark("late")
        kept.append(closed.value)
        eventually(lambda: not tasks_of_the_library(), WITHIN)
    finally:
        gc.enable()
