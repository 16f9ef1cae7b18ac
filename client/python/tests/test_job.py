"""Jobs and their stages, with the real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import BIN, Daemon, eventually

import stageload_client
from stageload_client import (
    BudgetWarning,
    Forked,
    Job,
    JobEvent,
    MemoryMeter,
    NeverFits,
    NoDaemon,
    NoDaemonWarning,
    NoRoom,
    PressureChange,
    StageloadError,
    StopRequested,
    Waiting,
    _autostart,
    _connection,
    _session,
    on_call,
)
from stageload_client import job as job_module
from stageload_client._loop import library
from stageload_client._wire import admission_service_pb2 as admission
from stageload_client._wire import telemetry_service_pb2 as telemetry

POOL = 'memory_pool = "150M"\n'

HOLDER = """
import sys
from stageload_client import Job
with Job(sys.argv[1]) as job, job.stage("holds", memory=sys.argv[2]):
    print("holds")
    sys.stdin.read() if len(sys.argv) > 3 else __import__("time").sleep(600)
"""


def daemon_waits_for_nobody(daemon: Daemon) -> bool:
    return bool(eventually(lambda: not daemon.waiting()))


def test_a_job_is_a_client_while_its_with_lasts(daemon: Daemon) -> None:
    with Job("render", memory="10M", swap_budget="3G", priority=7) as job:
        assert job.managed
        client = eventually(lambda: daemon.client("render"))
        assert client["job_id"] == job.client_id
        assert client["swap_budget_bytes"] == 3 << 30
        assert client["memory_bytes"] == 10 << 20
        assert client["pid"] == os.getpid()
    assert job.closed
    eventually(lambda: "render" not in daemon.clients())


def test_a_stage_holds_a_lease_while_its_with_lasts(daemon: Daemon) -> None:
    with Job("render") as job:
        with job.stage("decode", memory="20M") as lease:
            assert lease.managed
            assert not lease.forced
            assert job.current_stage == "decode"
            eventually(lambda: daemon.leases("render") == ["decode"])
            assert daemon.client("render")["leases"][0]["memory_bytes"] == 20 << 20
        assert job.current_stage is None
        eventually(lambda: daemon.leases("render") == [])


def test_a_stage_waits_for_another_programs_and_says_why(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    waits: list[Waiting] = []
    with Job("second") as job:

        def on_wait(waiting: Waiting) -> None:
            waits.append(waiting)
            holder.process.send_signal(signal.SIGKILL)

        with job.stage("decode", memory="100M", timeout=20, on_wait=on_wait) as lease:
            assert lease.waited > 0
    assert waits[0].position == 1
    memory = waits[0].blockers[0]
    assert memory.kind == "MEMORY"
    assert memory.needed == 100 << 20
    assert "50 MiB left in the pool of 150 MiB" in str(waits[0])


def test_asked_to_it_prints_the_blockers_while_it_waits(
    no_daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second", on_wait=True) as job:
        with pytest.raises(NoRoom), job.stage("decode", memory="100M", timeout=0.3):
            pass
        printed = capsys.readouterr().err
        assert 'stageload: "decode" (100 MiB) waits: MEMORY: needs 100 MiB' in printed
        with pytest.raises(NoRoom), job.stage("decode", "100M", timeout=0.1, on_wait=False):
            pass
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stderr", ["full", "closed", "None", "broken pipe"])
def test_what_cannot_be_printed_ends_no_stage(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, stderr: str
) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    file: Any = None
    if stderr == "full":
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full")
        file = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", buffering=1)
    elif stderr == "closed":
        file = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        file.close()
    elif stderr == "broken pipe":
        read, write = os.pipe()
        os.close(read)
        file = os.fdopen(write, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", file)
    try:
        with Job("second", on_wait=True) as job, pytest.raises(NoRoom):
            job.stage("decode", memory="100M", timeout=0.3).acquire()
    finally:
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def test_a_warning_that_cannot_be_printed_ends_no_start(no_daemon: Daemon) -> None:
    program = no_daemon.run("""
import sys
from stageload_client import Job
sys.stderr.close()
with Job("render"):
    print("runs on")
""")
    assert program.line() == "runs on"


def test_no_room_carries_the_figures_and_leaves_no_request(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second") as job:
        begin = time.monotonic()
        with pytest.raises(NoRoom) as raised:
            job.stage("decode", memory="100M", timeout="300ms").acquire()
        assert 0.25 < time.monotonic() - begin < 5
        assert raised.value.stage == "decode"
        assert raised.value.memory == 100 << 20
        assert raised.value.blockers[0].needed == 100 << 20
        assert raised.value.blockers[0].read == 50 << 20
        assert raised.value.reason == "ADMISSION_TIMEOUT"
        assert daemon_waits_for_nobody(no_daemon)
        with job.stage("small", memory="40M", timeout=5):
            pass


@pytest.mark.parametrize(
    ("timeout", "text"),
    [(0, "0s"), (1e-5, "0s"), ("40ms", "40ms")],
)
def test_no_room_says_why_and_how_long_it_was_waited(
    no_daemon: Daemon,
    timeout: float | str,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second", on_wait=True) as job:
        with pytest.raises(NoRoom, match=f"no room within {text}: MEMORY: ") as raised:
            job.stage("decode", memory="100M", timeout=timeout).acquire()
        assert [blocker.kind for blocker in raised.value.blockers] == ["MEMORY"]
        assert ("waits" in capsys.readouterr().err) == (timeout != 0)
        with job.stage("small", memory="40M", timeout=0) as lease:
            assert lease.managed


def test_a_lease_that_another_line_of_work_got_is_no_reason_to_force_the_next(
    no_daemon: Daemon,
) -> None:
    no_daemon.config(POOL)
    no_daemon.start()

    async def in_a_pool(job: Job) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        first = job.stage("first", memory="100M")
        await asyncio.to_thread(first.acquire)
        with pytest.raises(NoRoom):
            await asyncio.to_thread(job.stage("second", "100M", timeout=0.3).acquire)
        await first.release_async()

    async def in_tasks(job: Job) -> None:
        first = job.stage("first", memory="100M")
        await asyncio.create_task(first.acquire_async())
        for _ in range(20):  # a task may lie where one was before
            with pytest.raises(NoRoom):
                await asyncio.create_task(job.stage("second", "100M", timeout=0.02).acquire_async())
        await first.release_async()

    with Job("lines") as job:
        asyncio.run(in_a_pool(job))
        asyncio.run(in_tasks(job))
        # One that holds a lease and waits for the next would wait for itself.
        with job.stage("first", "100M"), job.stage("second", "100M", timeout=5) as forced:
            assert forced.forced


@pytest.mark.parametrize("timeout", ["36500d", "100000d", 9223372036.85])
def test_a_very_long_timeout_waits(no_daemon: Daemon, timeout: float | str) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second") as job:
        waits = lambda _: holder.kill()  # noqa: E731
        with job.stage("decode", memory="100M", timeout=timeout, on_wait=waits) as lease:
            assert lease.managed


def test_what_can_never_fit_is_refused_with_the_arithmetic(daemon: Daemon) -> None:
    with Job("render") as job, pytest.raises(NeverFits, match="never fits: the machine has"):
        job.stage("all", memory="1000T").acquire()


def test_an_exception_of_on_wait_takes_the_request_back(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"

    def on_wait(_: Waiting) -> None:
        raise LookupError("enough")

    with Job("second") as job:
        with pytest.raises(LookupError):
            job.stage("decode", memory="100M", on_wait=on_wait).acquire()
        assert daemon_waits_for_nobody(no_daemon)


def test_a_lease_that_was_granted_as_it_was_given_up_goes_back(daemon: Daemon) -> None:
    """Cancelled at every moment of the way to a grant."""
    left_behind = 0

    async def run() -> None:
        nonlocal left_behind
        async with Job("render") as job:
            for delay in range(60):
                task = asyncio.ensure_future(job.stage("s", memory="1M").acquire_async())
                await asyncio.sleep(delay / 10000)
                if task.done():
                    await task.result().release_async()
                    continue
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await asyncio.sleep(0.1)
            left_behind = len(job._session._leases)
            await job.stage("last", memory="1M").acquire_async()
            eventually(lambda: daemon.leases("render") == ["last"])

    asyncio.run(run())
    assert left_behind == 0


def test_a_refused_argument_is_named(daemon: Daemon) -> None:
    with pytest.raises(ValueError, match='"8 apples" is no size'):
        Job("x", swap_budget="8 apples")
    with pytest.raises(ValueError, match="on_over_budget is one of stop, suspend, warn"):
        Job("x", on_over_budget="panic")
    with pytest.raises(StageloadError, match="priority") as raised:
        Job("x", priority=5000).start()
    assert raised.value.reason == "INVALID_FIELD"
    with Job("x") as job, pytest.raises(ValueError, match="above 0"):
        job.stage("s", memory=0)


def test_what_it_reports_is_shown_beside_its_footprint(daemon: Daemon) -> None:
    with Job("render") as job:
        assert job.report(mps_driver_bytes=5 << 30, loaded_bytes=3)

        def gauges() -> bool:
            told = {g["name"]: g["value"] for g in daemon.client("render").get("gauges", [])}
            return told == {"mps_driver_bytes": 5 << 30, "loaded_bytes": 3}

        eventually(gauges)
        assert job.new_stage("decode")
        eventually(lambda: daemon.client("render").get("stage") == "decode")
        with pytest.raises(StageloadError, match="gauge") as raised:
            job.report(**{"no such name!": 1})
        assert raised.value.reason == "INVALID_FIELD"


def test_what_a_gpus_driver_holds_is_told_by_itself(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a torch that says that it has MPS, and an MLX."""

    class Mps:
        held = 7 << 30

        @staticmethod
        def is_available() -> bool:
            return True

        @classmethod
        def driver_allocated_memory(cls) -> int:
            return cls.held

        @classmethod
        def current_allocated_memory(cls) -> int:
            return cls.held // 2

    class Torch:
        class backends:
            mps = Mps

        mps = Mps

    class Mlx:
        @staticmethod
        def get_active_memory() -> int:
            return 11

        @staticmethod
        def get_cache_memory() -> int:
            return 12

    monkeypatch.setitem(sys.modules, "torch", Torch)
    monkeypatch.setitem(sys.modules, "mlx.core", Mlx)

    def told() -> dict[str, float]:
        gauges = daemon.client("render").get("gauges", [])
        return {gauge["name"]: gauge["value"] for gauge in gauges}

    with Job("render") as job, job.stage("decode", memory="1M"):
        eventually(lambda: told().get("mps_driver_bytes") == 7 << 30)
        assert told()["mps_allocated_bytes"] == 7 << 29
        assert told()["mlx_active_bytes"] == 11
        assert told()["mlx_cache_bytes"] == 12
        Mps.held = 9 << 30  # nobody says so
        eventually(lambda: told().get("mps_driver_bytes") == 9 << 30)


def test_asked_to_end_the_main_thread_gets_stop_requested(daemon: Daemon) -> None:
    """Out of a call that blocks, with the figures; and no stage is given from then on."""
    with Job("render") as job:
        threading.Timer(0.2, lambda: daemon.ctl("cancel", str(job.client_id))).start()
        begin = time.monotonic()
        with pytest.raises(StopRequested) as raised:
            time.sleep(30)
        assert time.monotonic() - begin < 10
        assert raised.value.reason == "CANCELLED"
        assert job.stop_requested is not None
        assert job.stop_requested.args == raised.value.args
        with pytest.raises(StopRequested):
            job.stage("more", memory="1M").acquire()
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_stop_keeps_nothing_of_the_code_that_it_ended(daemon: Daemon) -> None:
    class Model:
        pass

    models: list[weakref.ref[Model]] = []

    def run(job: Job, until: Callable[[Job], None]) -> None:
        model = Model()
        models.append(weakref.ref(model))
        until(job)

    def wait(job: Job) -> None:
        daemon.ctl("cancel", str(job.client_id))
        time.sleep(30)

    def stage(job: Job) -> None:
        job.stage("more", "1M").acquire()

    def length(error: BaseException) -> int:
        return len(traceback.extract_tb(error.__traceback__))

    gc.disable()
    try:
        with Job("render") as job:
            lengths = []
            for until in (wait, stage, stage):
                try:
                    run(job, until)
                except StopRequested as stop:
                    lengths.append(length(stop))
                assert models[-1]() is None
            assert lengths[1] == lengths[2]
    finally:
        gc.enable()


def test_a_refused_stage_keeps_nothing_of_its_caller(daemon: Daemon) -> None:
    class Model:
        pass

    def run(job: Job) -> None:
        model = Model()
        models.append(weakref.ref(model))
        job.stage("all", memory="1000T").acquire()

    models: list[weakref.ref[Model]] = []
    gc.disable()
    try:
        with Job("render") as job:
            with contextlib.suppress(NeverFits):
                run(job)
            assert models[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("memory", [None, "1M"])
def test_asked_to_end_no_stage_begins_any_more(daemon: Daemon, memory: str | None) -> None:
    async def coroutine(job: Job) -> None:
        await job.stage("more", memory).acquire_async()

    stops: list[StopRequested] = []
    with Job("render", on_stop=stops.append) as job:
        daemon.ctl("cancel", str(job.client_id))
        eventually(lambda: stops)
        with pytest.raises(StopRequested):
            job.stage("more", memory).acquire()
        with pytest.raises(StopRequested):
            asyncio.run(coroutine(job))
        assert job.current_stage is None


def test_asked_to_end_a_stage_that_waits_ends(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second") as job:
        threading.Timer(0.3, lambda: no_daemon.ctl("cancel", str(job.client_id))).start()
        with pytest.raises(StopRequested):
            job.stage("decode", memory="100M").acquire()


def test_an_except_exception_does_not_swallow_a_stop(daemon: Daemon) -> None:
    program = daemon.run("""
import time
from stageload_client import Job
with Job("stubborn") as job:
    print(job.client_id)
    while True:
        try:
            time.sleep(30)
        except Exception:
            pass
""")
    client_id = program.line()
    daemon.ctl("cancel", client_id)
    code, _, err = program.end()
    assert code == 1
    assert "StopRequested: " in err


# What of IPython is looked at: that there is a shell, and the function that runs what was typed.
KERNEL = """
import sys, time, types
from stageload_client import Job, StopRequested
ipython = types.ModuleType("IPython")
ipython.get_ipython = lambda: ipython
sys.modules["IPython"] = ipython
shell = types.ModuleType("IPython.core.interactiveshell")
exec("def run_code(code, names): exec(code, names)", shell.__dict__)

def cell(code):
    try:
        shell.run_code(code, globals())
    except StopRequested as stop:
        print("cell:", stop.reason)
"""


@pytest.mark.parametrize("thread", ["main", "another"])
def test_a_stop_leaves_a_notebooks_kernel_alone_while_no_cell_runs(
    daemon: Daemon, thread: str
) -> None:
    program = daemon.run(f"""{KERNEL}
import threading
job = Job("notebook")
start = threading.Thread(target=job.start)
cell("job.start()") if "{thread}" == "main" else (start.start(), start.join())
print(job.client_id)
for _ in range(1000):
    time.sleep(0.01)  # the kernel's loop
    if job.stop_requested:
        break
time.sleep(0.3)
print("lives")
cell("with job.stage('more', '1M'): print('entered')")
""")
    daemon.ctl("cancel", program.line())
    assert program.line() == "lives"
    assert program.line() == "cell: CANCELLED"
    code, _, err = program.end()
    assert code == 0, err
    assert 'stageload: job "notebook" is to end: ' in err


def test_a_stop_ends_the_cell_that_runs(daemon: Daemon) -> None:
    program = daemon.run(f"""{KERNEL}
cell("job = Job('notebook').start()")
cell("print(job.client_id); time.sleep(30)")
print("lives")
""")
    daemon.ctl("cancel", program.line())
    assert program.line() == "cell: CANCELLED"
    assert program.line() == "lives"
    assert program.end()[0] == 0


@pytest.mark.parametrize("first", ["a", "b"])
def test_after_the_last_job_the_signals_handler_is_the_one_of_before(
    daemon: Daemon, first: str
) -> None:
    def own(number: int, frame: Any) -> None:
        heard.append(number)

    heard: list[int] = []
    before = signal.signal(signal.SIGURG, own)
    try:
        jobs = {name: Job(name).start() for name in ("a", "b")}
        jobs.pop(first).close()
        assert signal.getsignal(signal.SIGURG) is not own
        os.kill(os.getpid(), signal.SIGURG)
        eventually(lambda: heard == [signal.SIGURG])
        jobs.popitem()[1].close()
        assert signal.getsignal(signal.SIGURG) is own
    finally:
        signal.signal(signal.SIGURG, before)


def test_a_job_that_another_thread_closes_leaves_no_handler(daemon: Daemon) -> None:
    def own(number: int, frame: Any) -> None:
        heard.append(number)

    heard: list[int] = []
    before = signal.signal(signal.SIGURG, own)
    try:
        job = Job("render").start()
        thread = threading.Thread(target=job.close)
        thread.start()
        thread.join()
        eventually(lambda: signal.getsignal(signal.SIGURG) is own)
        assert not heard
    finally:
        signal.signal(signal.SIGURG, before)


def test_a_handler_that_the_program_set_meanwhile_keeps_no_job_from_being_stopped(
    daemon: Daemon,
) -> None:
    first = Job("first").start()
    closing = threading.Thread(target=first.close)
    closing.start()
    closing.join()
    signal.signal(signal.SIGURG, signal.SIG_DFL)
    with Job("second") as job:
        threading.Timer(0.2, lambda: daemon.ctl("cancel", str(job.client_id))).start()
        begin = time.monotonic()
        with pytest.raises(StopRequested):
            time.sleep(30)
        assert time.monotonic() - begin < 20
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_job_that_a_thread_has_closed_stops_nothing_any_more(daemon: Daemon) -> None:
    """Not even what the main thread did not get to yet."""
    told: list[StopRequested | None] = []

    def work() -> None:
        time.sleep(0.3)  # until the main thread is in a call that blocks
        with Job("render") as job:
            daemon.ctl("cancel", str(job.client_id))
            eventually(lambda: job.stop_requested)
            time.sleep(0.3)
            told.append(job.stop_requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert [stop.reason for stop in told if stop] == ["CANCELLED"]


def test_a_stop_is_told_though_the_task_that_started_the_job_has_ended(daemon: Daemon) -> None:
    async def run() -> None:
        job = await asyncio.ensure_future(Job("render").start_async())
        try:
            threading.Timer(0.2, lambda: daemon.ctl("cancel", str(job.client_id))).start()
            await asyncio.sleep(30)
        finally:
            job.close()

    begin = time.monotonic()
    with pytest.raises(StopRequested):
        asyncio.run(run())
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("way", ["finally", "while it closes", "cancelled by another"])
def test_close_async_raises_the_stop_that_has_cancelled_its_task(daemon: Daemon, way: str) -> None:
    async def run() -> str:
        job = await Job("render", require=True).start_async()
        try:
            if way == "cancelled by another":
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)
            else:
                daemon.ctl("cancel", str(job.client_id))
            if way == "while it closes":  # nothing was awaited since
                eventually(lambda: job.stop_requested)
                job._cancel_task(job._session.stop or StopRequested("", ""))
            else:
                await asyncio.sleep(30)
        finally:
            await job.close_async()
            closed.append(True)
        return "nothing"

    async def task() -> str:
        try:
            return await run()
        except StopRequested as stop:
            await asyncio.sleep(0)  # the task goes on
            return stop.reason

    closed: list[bool] = []
    if way == "cancelled by another":
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(task())
        assert closed
    else:
        assert asyncio.run(task()) == "CANCELLED"


def test_a_job_of_an_awaited_cell_that_is_to_end_is_told_between_cells(daemon: Daemon) -> None:
    program = daemon.run(f"""{KERNEL}
import asyncio
async def kernel():
    async def awaited_cell():
        return await Job("notebook").start_async()
    job = await asyncio.ensure_future(awaited_cell())
    print(job.client_id)
    while not job.stop_requested:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    print("lives")
    job.close()
asyncio.run(kernel())
""")
    daemon.ctl("cancel", program.line())
    assert program.line() == "lives"
    code, _, err = program.end()
    assert code == 0, err
    assert 'stageload: job "notebook" is to end: ' in err


def test_on_stop_is_called_instead(daemon: Daemon) -> None:
    stops: list[StopRequested] = []
    with Job("render", on_stop=stops.append) as job:
        daemon.ctl("cancel", str(job.client_id))
        eventually(lambda: stops)
        assert stops[0].reason == "CANCELLED"
        time.sleep(0.2)  # and nothing is raised here


def test_a_job_made_by_another_thread_stops_the_main_thread_too(daemon: Daemon) -> None:
    jobs: list[Job] = []
    thread = threading.Thread(target=lambda: jobs.append(Job("render").start()))
    thread.start()
    thread.join()

    def wait_in_short_calls() -> None:
        daemon.ctl("cancel", str(jobs[0].client_id))
        for _ in range(1000):
            time.sleep(0.01)

    with pytest.raises(StopRequested) as raised:
        wait_in_short_calls()
    assert raised.value.reason == "CANCELLED"
    jobs[0].close()


def test_in_a_coroutine_the_task_gets_stop_requested(daemon: Daemon) -> None:
    async def run() -> str:
        try:
            async with Job("render") as job, job.stage("decode", memory="1M") as lease:
                assert lease.managed
                assert await job.report_async(loaded_bytes=1)
                assert await job.mark_async("checkpoint")
                daemon.ctl("cancel", str(job.client_id))
                await asyncio.sleep(30)
        except StopRequested as stop:
            await asyncio.sleep(0)  # the task goes on
            return stop.reason
        return "nothing"

    assert asyncio.run(run()) == "CANCELLED"


def test_coroutines_take_turns(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    held = 0
    most = 0

    async def pipeline(job: Job, name: str) -> None:
        nonlocal held, most
        for stage in ("encode", "decode"):
            async with job.stage(f"{name} {stage}", memory="100M", timeout=20):
                held += 1
                most = max(most, held)
                await asyncio.sleep(0.05)
                held -= 1

    async def run() -> None:
        async with Job("render") as job:
            await asyncio.gather(*(pipeline(job, str(i)) for i in range(3)))

    asyncio.run(run())
    assert most == 1


def test_threads_take_turns(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    held: list[int] = []
    most: list[int] = []

    def work(job: Job, number: int) -> None:
        for _ in range(5):
            with job.stage(f"of {number}", memory="100M", timeout=20):
                held.append(number)
                most.append(len(held))
                time.sleep(0.01)
                held.remove(number)

    with Job("render") as job:
        threads = [threading.Thread(target=work, args=(job, i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(most) == 20
    assert max(most) == 1


def test_without_a_daemon_it_runs_on_with_one_warning(home: Path) -> None:
    events: list[JobEvent] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Job("render", on_event=events.append) as job:
            assert not job.managed
            assert job.client_id == 0
            with job.stage("decode", memory="1000T") as lease:
                assert not lease.managed
            with job.stage("again", memory="1G"):
                assert not job.report(x=1)
        eventually(lambda: events)
    told = [w for w in caught if w.category is NoDaemonWarning]
    assert len(told) == 1
    assert f"no daemon answers at {home}/stageloadd.sock" in str(told[0].message)
    assert "render runs on unmanaged" in str(told[0].message)
    assert told[0].filename == __file__
    assert [event.kind for event in events] == ["no_daemon"]


@pytest.mark.filterwarnings("ignore::stageload_client.NoDaemonWarning")
def test_what_the_daemon_would_refuse_is_refused_without_one_too(home: Path) -> None:
    """In the same words; else it would come to the next daemon, which is not asked again."""
    with Job("render") as job:
        with pytest.raises(StageloadError, match=r"gauges.value: loss is nan") as raised:
            job.report(loss=float("nan"))
        assert raised.value.reason == "INVALID_FIELD"
        with pytest.raises(StageloadError, match=r"gauges.name: must be 1 to 64 letters"):
            job.report(**{"a b": 1})
        with pytest.raises(StageloadError, match="gauges: 33, a client has at most 32"):
            job.report(**{f"g{i}": i for i in range(33)})
        with pytest.raises(StageloadError, match=r"marks.note: 257 bytes, the limit is 256"):
            job.mark("x" * 257)
        with pytest.raises(StageloadError, match=r"marks.stage: is empty"):
            job.new_stage("")
        with pytest.raises(StageloadError, match=r"marks.note: is empty"):
            job.mark("")
        with pytest.raises(StageloadError, match=r"marks.nbytes: -5 is negative"):
            job.mark(kind="load", name="vae", nbytes=-5)
        with pytest.raises(StageloadError, match=r"marks.nbytes: \d+ bytes \(8 EiB\) is more than"):
            job.mark(kind="load", name="vae", nbytes=2**63)
        with pytest.raises(StageloadError, match=r"marks.seconds: nan s is not a time from 0 to"):
            job.mark(kind="load", name="vae", seconds=float("nan"))
        with pytest.raises(StageloadError, match=r"stage: is empty; name it, as in on_call"):
            on_call(object(), "decode", "", job)
        for memory in (None, "1M"):
            with pytest.raises(StageloadError, match=r"stage: is empty") as empty:
                job.stage("", memory)
            assert empty.value.reason == "INVALID_FIELD"
        with pytest.raises(TypeError, match="stage is text, not 123"):
            job.stage(123, "1M")  # type: ignore[arg-type]
        for name in ("\udc80", "a\nb", "x" * 257):
            with pytest.raises(StageloadError, match="stage: ") as raised:
                job.stage(name, "1M")
            assert raised.value.reason == "INVALID_FIELD"
    with pytest.raises(StageloadError, match="name: holds a control character"):
        Job("a\nb")
    with pytest.raises(StageloadError, match="priority: 5000 is not from -1000 to 1000"):
        Job("x", priority=5000)
    with pytest.raises(StageloadError, match="wait_free_percent: nan is not a percentage"):
        Job("x", wait_free=float("nan"))


@pytest.mark.filterwarnings("ignore::stageload_client.NoDaemonWarning")
def test_a_gauge_that_the_next_daemon_refuses_costs_the_others_nothing(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a release that is stricter."""
    monkeypatch.setattr(job_module, "check_gauges", lambda gauges: gauges)
    events: list[JobEvent] = []
    stops: list[StopRequested] = []
    with Job("train", on_event=events.append, on_stop=stops.append) as job:
        assert not job.report(steps=3, loss=float("nan"))
        no_daemon.start()
        restored = eventually(lambda: [event for event in events if event.kind == "restored"])
        assert 'it did not take the gauge "loss"' in restored[0].text

        def told() -> list[str]:
            return [gauge["name"] for gauge in no_daemon.client("train").get("gauges", [])]

        eventually(lambda: told() == ["steps"])
        no_daemon.ctl("cancel", str(job.client_id))
        eventually(lambda: stops)


def test_a_job_hears_the_daemon_whatever_a_callback_or_a_loop_does(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def start() -> Job:
        return await Job("render").start_async()

    def wait_in_short_calls() -> None:
        daemon.ctl("cancel", str(job.client_id))
        for _ in range(1000):
            time.sleep(0.01)

    job = asyncio.run(start())
    try:
        # No coroutine to raise it in is left.
        with pytest.raises(StopRequested):
            wait_in_short_calls()

        def no_more_threads(kind: str, text: str) -> None:
            raise RuntimeError(f"no thread for {kind}")

        monkeypatch.setattr(job, "_event", no_more_threads)
        daemon.kill()
        daemon.start()
        eventually(lambda: job.managed and job.report(x=1))
        assert "no thread for lost" in capfd.readouterr().err
    finally:
        job.close()


def test_a_mistake_of_the_library_costs_a_job_no_more_than_a_registration(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    take_up = _session.Session._take_up
    mistakes = ["a mistake"]

    async def take_up_or_not(session: _session.Session, link: _session.Link) -> Any:
        if mistakes:
            raise LookupError(mistakes.pop())
        return await take_up(session, link)

    stops: list[StopRequested] = []
    with Job("render", on_stop=stops.append) as job, job.stage("decode", memory="1M"):
        monkeypatch.setattr(_session, "_REFUSED_PAUSE", 0.1)
        monkeypatch.setattr(_session.Session, "_take_up", take_up_or_not)
        daemon.kill()
        daemon.start()
        eventually(lambda: daemon.leases("render") == ["decode"])
        assert not job.joined
        daemon.ctl("cancel", str(job.client_id))
        eventually(lambda: stops)
    assert "LookupError: a mistake" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lease_for_a_loop_that_is_over_goes_back(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second") as job:
        loop = asyncio.new_event_loop()
        waits = loop.create_future()
        lease = job.stage("decode", memory="100M", on_wait=waits.set_result)
        asking = loop.create_task(lease.acquire_async())
        loop.run_until_complete(waits)
        loop.close()
        holder.kill()
        with job.stage("other", memory="100M", timeout=20):
            pass
        assert daemon_waits_for_nobody(no_daemon)
        assert not asking.done()
    del asking, waits, lease
    gc.collect()  # which asyncio complains of


@pytest.mark.parametrize("name", ["50% of ä?#", "a,b, c"])
def test_a_home_with_odd_letters_is_found(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    odd = no_daemon.home / name
    odd.mkdir(mode=0o700)
    monkeypatch.setenv("STAGELOAD_HOME", str(odd))
    no_daemon.start()
    with Job("render", require=True) as job:
        assert job.report(x=1)


def test_the_link_to_a_home_with_a_comma_goes_away_with_the_program(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, temporary = no_daemon.home / "a,b", no_daemon.home / "t"
    odd.mkdir(mode=0o700)
    temporary.mkdir()
    monkeypatch.setenv("STAGELOAD_HOME", str(odd))
    monkeypatch.setenv("TMPDIR", str(temporary))
    no_daemon.start()
    program = no_daemon.run("""
from stageload_client import Job
for name in "ab":
    with Job(name, require=True) as job:
        print(job.managed)
""")
    code, out, err = program.end()
    assert (code, out) == (0, "True\nTrue\n"), err
    assert list(temporary.iterdir()) == []


def test_a_home_that_is_not_utf_8_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGELOAD_HOME", os.fsdecode(b"/tmp/\xff"))
    with pytest.raises(ValueError, match=r"'/tmp/\\udcff' is not UTF-8; set another"):
        Job("render")


def test_a_job_is_named_by_its_program_whatever_letters_that_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/a\nb\udcff.py"])
    assert Job().name == "a?b?.py"


def test_with_require_no_daemon_is_an_error(home: Path) -> None:
    with pytest.raises(NoDaemon, match="no daemon answers at"):
        Job("render", require=True).start()


def test_a_daemon_that_comes_later_gets_to_know_what_is_held(no_daemon: Daemon) -> None:
    with pytest.warns(NoDaemonWarning):
        job = Job("render").start()
    try:
        with job.stage("decode", memory="20M"):
            no_daemon.start()
            eventually(lambda: job.managed)
            eventually(lambda: no_daemon.leases("render") == ["decode"])
    finally:
        job.close()


def test_a_daemon_is_started_where_none_answers(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAGELOAD_NO_AUTOSTART")
    with Job("render", require=True) as job:
        assert job.managed
        eventually(lambda: "render" in no_daemon.clients())
        # It has no signals blocked and no terminal.
        pid = int((no_daemon.home / "stageloadd.lock").read_text().splitlines()[0])
        assert os.getsid(pid) != os.getsid(0)
    no_daemon.ctl("daemon", "stop")


def test_a_daemon_that_is_started_is_no_child_of_the_program(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAGELOAD_NO_AUTOSTART")
    program = no_daemon.run("""
import os
from stageload_client import Job
with Job("render", require=True):
    try:
        print("a child", os.wait())
    except ChildProcessError:
        print("no child")
""")
    assert program.line() == "no child"
    no_daemon.ctl("daemon", "stop")


def test_a_start_that_fails_says_what_the_daemon_said(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAGELOAD_NO_AUTOSTART")
    no_daemon.config("no_such_key = 1\n")
    with pytest.raises(NoDaemon, match="no_such_key"):
        Job("render", require=True).start()
    monkeypatch.setenv("STAGELOAD_DAEMON", "/no/such/program")
    with pytest.raises(NoDaemon, match="start /no/such/program: No such file"):
        Job("render", require=True).start()


@pytest.mark.parametrize("crash", [True, False])
def test_after_a_restart_of_the_daemon_it_registers_again_with_what_it_holds(
    daemon: Daemon, crash: bool
) -> None:
    events: list[JobEvent] = []
    with Job("render", on_event=events.append) as job, job.stage("decode", memory="20M"):
        job.report(loaded_bytes=4)
        if crash:
            daemon.kill()
        else:
            daemon.stop()
        eventually(lambda: [event.kind for event in events] == ["lost"])
        daemon.start()
        eventually(lambda: [event.kind for event in events] == ["lost", "restored"])
        eventually(lambda: daemon.leases("render") == ["decode"])
        eventually(lambda: daemon.client("render").get("gauges"))
        with job.stage("more", memory="10M", timeout=10) as more:
            assert more.managed


def test_after_a_restart_a_job_inside_another_does_not_decide_its_terms(daemon: Daemon) -> None:
    with Job("outer", swap_budget="7G", memory="70M") as outer, contextlib.ExitStack() as inside:
        inner = [inside.enter_context(Job(f"inner{number}")) for number in range(3)]
        for _ in range(4):
            before = outer.client_id
            daemon.kill()
            daemon.start()
            eventually(lambda: outer.client_id not in (None, before))  # noqa: B023
            eventually(lambda: {job.client_id for job in inner} == {outer.client_id})
            assert eventually(lambda: list(daemon.clients())) == ["outer"]
            assert daemon.client("outer")["swap_budget_bytes"] == 7 << 30


def test_a_stage_that_waits_goes_on_waiting_with_the_next_daemon(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    # Two programs, since one that this process starts would join a Job of this process.
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    second = no_daemon.run("""
from stageload_client import Job
with Job("second") as job:
    with job.stage("decode", memory="100M", on_wait=lambda w: print(w.blockers[0].kind)) as lease:
        print("granted", lease.managed)
""")
    assert second.line() == "MEMORY"
    no_daemon.kill()
    no_daemon.start()
    eventually(lambda: {"holder", "second"} <= set(no_daemon.clients()))
    said = eventually(lambda: second.line() == "MEMORY")  # maybe after RETURNING
    assert said
    holder.kill()
    eventually(lambda: second.line() == "granted True")
    assert second.end()[0] == 0


def test_without_a_next_daemon_stages_go_on_unmanaged_or_fail_where_one_is_required(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "PATIENCE", 0.3)
    events: list[str] = []
    with Job("easy", on_event=lambda event: events.append(event.kind)) as easy:
        with Job("strict", require=True) as strict:
            daemon.stop()
            with pytest.warns(NoDaemonWarning, match="easy runs on unmanaged"):
                easy_lease = easy.stage("s", memory="1M", timeout=20).acquire()
            assert not easy_lease.managed
            with pytest.raises(NoDaemon):
                strict.stage("s", memory="1M").acquire()
            with pytest.raises(NoRoom, match="the daemon went away") as raised:
                _stage_while_one_is_looked_for(monkeypatch, daemon)
            assert raised.value.blockers == ()
        eventually(lambda: events == ["lost", "no_daemon"])


def test_a_stage_that_is_let_in_as_the_daemon_went_away_warns_once_until_there_is_one(
    no_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "PATIENCE", 0.3)
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with warnings.catch_warnings(record=True) as caught, Job("second") as job:
        warnings.simplefilter("always")

        def went_away(waiting: Waiting) -> None:
            if no_daemon.process is not None:
                no_daemon.kill()

        with job.stage("decode", memory="100M", on_wait=went_away) as lease:
            assert not lease.managed
        with job.stage("again", memory="100M"):
            pass
        told = [w for w in caught if w.category is NoDaemonWarning]
        assert [str(w.message) for w in told] == ["no daemon answers; second runs on unmanaged"]
        assert told[0].filename == __file__

        no_daemon.start()
        eventually(lambda: job.managed)
        no_daemon.kill()
        warnings.simplefilter("error")
        with pytest.raises(NoDaemonWarning):
            job.stage("third", memory="1M").acquire()
        eventually(lambda: not job._session._leases)


def _stage_while_one_is_looked_for(monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    monkeypatch.setattr(_connection, "PATIENCE", 20.0)
    daemon.start()
    with Job("third") as third:
        daemon.stop()
        third.stage("s", memory="1M", timeout=0.3).acquire()


def test_a_daemon_that_hangs_holds_up_no_call_and_keeps_nothing(daemon: Daemon) -> None:
    with Job("render") as job:
        held = job.stage("held", memory="1M").acquire()
        took: dict[str, float] = {}

        def timed(name: str, call: Callable[[], Any]) -> None:
            begin = time.monotonic()
            call()
            took[name] = time.monotonic() - begin

        def no_room() -> None:
            with pytest.raises(NoRoom, match="the daemon does not answer"):
                job.stage("timeout", memory="1M", timeout=1).acquire()

        async def cancelled() -> None:
            lease = job.stage("cancelled", memory="1M")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(lease.acquire_async(), 0.3)

        def not_heard() -> None:
            assert not job.report(steps=1)
            assert not job.mark("warm")

        calls: dict[str, Callable[[], Any]] = {
            "timeout": no_room,
            "cancelled": lambda: asyncio.run(cancelled()),
            "report": not_heard,
            "release": held.release,
        }
        threads = [threading.Thread(target=timed, args=call) for call in calls.items()]
        with daemon.hung():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert took.keys() == calls.keys()
        assert max(took.values()) < 8, took
        eventually(lambda: daemon.leases("render") == [] and not daemon.waiting())
        # What came to it meanwhile is asked for and given back, however it took them.
        time.sleep(1)
        assert daemon.leases("render") == []
        assert job.mark("awake")
        assert job.stage("next", memory="1M").acquire().managed


def test_a_job_made_while_the_daemon_hangs_runs_on_and_registers_once_it_answers(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "ANSWERS_WITHIN", 1.0)
    with daemon.hung():
        with pytest.raises(NoDaemon, match="has not answered within 1s"):
            Job("strict", require=True).start()
        with pytest.warns(NoDaemonWarning, match="has not answered within 1s"):
            job = Job("render").start()
        assert not job.stage("decode", memory="1M").acquire().managed
    eventually(lambda: job.managed)
    eventually(lambda: daemon.leases("render") == ["decode"])
    job.close()


def test_a_daemon_that_hangs_as_a_job_registers_is_none(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "ANSWERS_WITHIN", 1.0)
    connect = _connection.connect
    hung = contextlib.ExitStack()

    async def connects_and_hangs(options: Any) -> Any:
        connection = await connect(options)
        hung.enter_context(daemon.hung())
        return connection

    monkeypatch.setattr(_session, "connect", connects_and_hangs)
    with hung, pytest.raises(NoDaemon, match="has not answered within 1s"):
        Job("strict", require=True).start()


def test_a_job_that_may_be_signalled_is_told_that_it_was_suspended(daemon: Daemon) -> None:
    program = daemon.run("""
import time
from stageload_client import Job
with Job("may", enforce=True, on_suspended=lambda s: print(s.resumed, s.reason)) as job:
    print(job.client_id)
    time.sleep(600)
""")
    client_id = program.line()
    daemon.ctl("suspend", client_id)
    daemon.ctl("resume", client_id)
    assert program.line() == "False SUSPENDED"
    assert program.line() == "True "


def test_a_job_that_was_suspended_as_the_daemon_went_is_told_that_it_goes_on(
    daemon: Daemon,
) -> None:
    program = daemon.run("""
import time
from stageload_client import Job
with Job("may", enforce=True, on_suspended=lambda s: print(s.resumed, s.reason)) as job:
    print(job.client_id)
    time.sleep(600)
""")
    daemon.ctl("suspend", program.line())
    process = str(program.process.pid)
    eventually(
        lambda: (
            "T"
            in subprocess.run(
                ["ps", "-o", "state=", "-p", process], capture_output=True, text=True
            ).stdout
        )
    )
    # What it has not read as its daemon goes, gRPC may drop; so somebody wakes it before.
    program.process.send_signal(signal.SIGCONT)
    assert program.line() == "False SUSPENDED"
    daemon.kill()
    daemon.start()
    assert program.line() == "True "


def test_warnings_and_pressure_come_with_their_figures(daemon: Daemon) -> None:
    """As the daemon would tell them, since no test should fill a machine's swap."""
    told: list[Any] = []
    with Job("render", on_warning=told.append, on_pressure=told.append) as job:
        warned = admission.Warned(charge_bytes=9, swap_budget_bytes=10, text="9 of 10 B")
        job._tell("warned", warned)
        change = admission.PressureChanged(pressure=telemetry.PRESSURE_WARN)
        change.host.level_percent = 30
        job._tell("pressure_changed", change)
        eventually(lambda: len(told) == 2)
    assert told == [BudgetWarning(9, 10, "9 of 10 B"), PressureChange("WARN", 30.0)]


def test_a_callback_may_use_the_job(daemon: Daemon) -> None:
    answers: list[bool] = []

    def on_stop(_: StopRequested) -> None:
        answers.append(job.mark("saving a checkpoint"))
        raise LookupError("a mistake of the program")  # which ends neither thread nor job

    with Job("render", on_stop=on_stop) as job:
        daemon.ctl("cancel", str(job.client_id))
        eventually(lambda: answers == [True])
        assert job.report(x=1)


def test_a_callback_that_exits_ends_no_more_than_itself(
    daemon: Daemon, capfd: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []

    def on_event(event: JobEvent) -> None:
        events.append(event.kind)
        sys.exit(3)

    with Job("render", on_event=on_event):
        daemon.kill()
        daemon.start()
        eventually(lambda: events == ["lost", "restored"])
    assert "SystemExit: 3" in capfd.readouterr().err


def test_a_job_under_guard_is_that_job(daemon: Daemon, tmp_path: Path) -> None:
    code = """
from stageload_client import Job
with Job("inner") as job, job.stage("s", memory="1M"):
    print(job.joined, job.client_id)
"""
    result = subprocess.run(
        [BIN / "stageloadctl", "guard", "--name", "outer", "--", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.split() == ["True", "1"], result.stderr


def test_a_child_of_a_fork_leaves_its_parents_job_alone(daemon: Daemon) -> None:
    with Job("render") as job, job.stage("decode", memory="1M") as lease:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = []
            for use in (lambda: job.report(x=1), lambda: Job("own").start(), lease.acquire):
                try:
                    use()
                    said.append("no error")
                except Forked:
                    said.append("Forked")
                except StageloadError as error:
                    said.append(error.reason)
            lease.release()
            job.close()
            os.write(write, " ".join(said).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert pipe.read() == "Forked Forked WRONG_STATE"
        assert os.waitpid(pid, 0)[1] == 0
        # The parent's goes on.
        assert job.report(x=2)
        eventually(lambda: daemon.leases("render") == ["decode"])
        with job.stage("more", memory="1M", timeout=10):
            pass


def _square(x: int) -> int:
    return x * x


def test_workers_of_multiprocessing_that_are_forked_live_and_end(daemon: Daemon) -> None:
    context = multiprocessing.get_context("fork")
    with Job("render") as job:
        for _ in range(3):
            with context.Pool(2) as pool:
                assert pool.map(_square, range(50)) == [x * x for x in range(50)]
            with job.stage("s", memory="1M", timeout=10):
                pass


def test_a_child_that_leaves_as_python_does_ends(daemon: Daemon) -> None:
    program = daemon.run("""
import os, sys
from stageload_client import Job
with Job("parent") as job:
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(job.report(x=1))
""")
    assert program.line() == "7"
    assert program.line() == "True"
    assert program.end()[0] == 0


def test_a_fork_right_after_a_job_has_ended_ends_nothing(daemon: Daemon) -> None:
    """When gRPC took itself down with the last connection, grpcio 1.51 aborted here."""
    program = daemon.run("""
import os
from stageload_client import Job
for _ in range(100):
    with Job("short"):
        pass
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
print("lives")
""")
    assert program.line() == "lives"


def test_a_job_is_never_the_one_before_it(daemon: Daemon) -> None:
    seen = set()
    for number in range(1, 301):
        with Job(f"n{number}", swap_budget=f"{number}M") as job:
            assert not job.joined, number
            seen.add(job.client_id)
    assert len(seen) == 300


def test_jobs_beside_each_other_are_one_client_that_ends_with_the_last(daemon: Daemon) -> None:
    first = Job("first").start()
    with Job("second") as second:
        assert second.joined
        begin = time.monotonic()
        first.close()
        assert time.monotonic() - begin < 0.5  # nothing to wait for
        assert second.report(x=1)
    with Job("third") as third:
        assert not third.joined


@pytest.mark.parametrize("way", ["timeout", "ctrl-c"])
def test_a_start_that_is_interrupted_leaves_no_client(daemon: Daemon, way: str) -> None:
    async def start() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(job.start_async(), 0.5)

    job = Job("leaky", swap_budget="1M")
    with daemon.hung():
        if way == "timeout":
            asyncio.run(start())
        else:
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                job.start()
        assert job.closed
    with Job("next", swap_budget="4G") as after:
        assert not after.joined
        assert after.report(x=1)
        eventually(lambda: daemon.client("next"))
        assert "leaky" not in daemon.clients()
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_start_that_is_interrupted_as_it_registers_leaves_no_client(daemon: Daemon) -> None:
    """At every moment of it."""

    async def run() -> None:
        for delay in range(60):
            task = asyncio.ensure_future(Job("leaky").start_async())
            await asyncio.sleep(delay / 5000)
            if task.done():
                await task.result().close_async()
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            async with Job("next") as job:
                assert not job.joined, delay

    asyncio.run(run())


def test_a_job_that_nobody_closes_ends_with_the_program(daemon: Daemon) -> None:
    begin = time.monotonic()
    program = daemon.run("""
from stageload_client import Job
job = Job("careless").start()
job.stage("decode", memory="1M").acquire()
print("ready")
""")
    assert program.line() == "ready"
    code, _, err = program.end()
    assert (code, err) == (0, "")
    assert time.monotonic() - begin < 10
    eventually(lambda: "careless" not in daemon.clients(), within=1)


COLLECTED = """
import gc, sys, threading
from stageload_client import Job, MemoryMeter
from stageload_client._loop import library

class Runner:
    def __init__(self):
        self.job = Job("inner").start()
        self.meter = MemoryMeter(sys.argv[1], 0.05).start()
        self.me = self

    def __del__(self):
        print(threading.current_thread().name, flush=True)
        self.meter.summary()
        self.meter.close()
        self.job.close()
        try:
            job.mark("from there")
        except Exception as error:
            print(error.reason, flush=True)

def steps(box):
    with job.stage("s", memory="1M"):
        yield

job = Job("outer", require=True).start()
gc.disable()
Runner()
box = []
box += [box, steps(box)]
next(box[1])
del box
library().post(gc.collect)
print(job.mark("lives"), job.current_stage, flush=True)
sys.stdin.read()
"""


def test_what_is_collected_on_the_librarys_thread_ends_there_and_holds_up_nobody(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    program = daemon.run(COLLECTED, str(path), stdin=subprocess.PIPE)
    eventually(lambda: path.exists() and '"end"' in path.read_text())
    assert [program.line() for _ in range(3)] == ["stageload", "WRONG_THREAD", "True None"]
    eventually(lambda: "outer" in daemon.clients() and daemon.leases("outer") == [])
    assert program.end() == (0, "", "")


def test_the_librarys_thread_never_waits_for_itself(daemon: Daemon) -> None:
    async def nothing() -> None:
        pass

    async def runs() -> str:
        with pytest.raises(StageloadError) as raised:
            library().run(nothing())
        return raised.value.reason

    with Job("render"):
        assert library().run(runs()) == "WRONG_THREAD"


FIRST_IN_A_HANDLER = """
import signal, threading
from stageload_client import Job

start = threading.Thread.start

def interrupted(thread):
    start(thread)
    threading.Thread.start = start
    signal.raise_signal(signal.SIGUSR1)

def alarm(*_):
    with Job("inner", require=True) as job:
        print(job.mark("inner"))

signal.signal(signal.SIGUSR1, alarm)
threading.Thread.start = interrupted
with Job("outer", require=True) as job:
    print(job.mark("outer"))
print([thread.name for thread in threading.enumerate()])
"""


def test_a_signals_handler_that_interrupts_the_librarys_start_may_make_a_job(
    daemon: Daemon,
) -> None:
    program = daemon.run(FIRST_IN_A_HANDLER)
    code, out, err = program.end()
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["True", "True"]
    assert out.splitlines()[2].count("'stageload'") == 1


def test_where_nothing_says_where_a_daemon_would_be_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "STAGELOAD_HOME", "XDG_STATE_HOME", "STAGELOAD_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    why = "no daemon: neither STAGELOAD_HOME nor HOME is set"
    with pytest.warns(NoDaemonWarning, match=why):
        job = Job("render").start()
    with contextlib.closing(job), job.stage("decode", memory="1M") as lease:
        assert not lease.managed
        assert not job.mark("alone")
    with pytest.raises(NoDaemon, match=why):
        Job("strict", require=True).start()
    with pytest.raises(NoDaemon, match=why):
        MemoryMeter("/dev/null").start()
    with MemoryMeter("/dev/null", require=False) as meter:
        meter.mark("alone")
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(ValueError, match='HOME="relative" is not an absolute path'):
        Job("render")


@pytest.mark.parametrize("way", ["variable", "argument"])
def test_a_socket_that_is_named_is_enough_where_there_is_no_home(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with monkeypatch.context() as homeless:
        for name in ("HOME", "STAGELOAD_HOME", "XDG_STATE_HOME"):
            homeless.delenv(name, raising=False)
        if way == "variable":
            homeless.setenv("STAGELOAD_SOCKET", str(daemon.socket))
        with Job("render", require=True, socket=str(daemon.socket) if way == "argument" else None):
            pass


CLOSED_LATE = {
    "atexit": """
import atexit
from stageload_client import Job
job = Job("late")
atexit.register(job.close)
job.start()
""",
    "generator": """
from stageload_client import Job
def steps():
    with Job("late") as job, job.stage("s", memory="1M"):
        yield 1
        yield 2
g = steps()
next(g)
""",
    "__del__": """
from stageload_client import Job
class Runner:
    def __init__(self):
        self.job = Job("late").start()
        self.lease = self.job.stage("s", memory="1M").acquire()
    def __del__(self):
        self.lease.release()
        self.job.close()
r = Runner()
""",
    "calls": """
import asyncio, atexit
from stageload_client import Job, MemoryMeter
def late():
    for call in (
        lambda: job.mark("late"),
        lambda: job.report(x=1),
        lambda: job.stage("s", memory="1M").acquire(),
        lambda: asyncio.run(job.mark_async("late")),
        lambda: asyncio.run(job.stage("s", memory="1M").acquire_async()),
        lambda: Job("next").start(),
        lambda: asyncio.run(Job("next").start_async()),
        lambda: MemoryMeter("/dev/null").start(),
    ):
        try:
            call()
        except Exception as error:
            assert error.reason == "SESSION_CLOSED", error
        else:
            raise SystemError("no error")
    lease.release()
    asyncio.run(job.close_async())
    assert job.closed and not job._session._leases
atexit.register(late)
job = Job("late").start()
lease = job.stage("s", memory="1M").acquire()
""",
    "first job": """
import atexit
from stageload_client import Job
def late():
    global job
    job = Job("late").start()
atexit.register(late)
class AtExit:
    def __del__(self):
        job.close()
at_exit = AtExit()
""",
}


@pytest.mark.parametrize("way", CLOSED_LATE)
def test_a_job_that_is_used_after_the_programs_end_holds_up_no_exit(
    daemon: Daemon, way: str
) -> None:
    program = daemon.run(CLOSED_LATE[way])
    code, _, err = program.end(within=15)
    if way == "first job" and "new thread at interpreter shutdown" in err:  # Python 3.12
        return
    assert (code, err) == (0, "")
    eventually(lambda: "late" not in daemon.clients(), within=1)


def test_a_job_can_be_interrupted_while_a_stage_waits(no_daemon: Daemon) -> None:
    no_daemon.config(POOL)
    no_daemon.start()
    holder = no_daemon.run(HOLDER, "holder", "100M")
    assert holder.line() == "holds"
    with Job("second") as job:
        interrupt = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            job.stage("decode", memory="100M").acquire()
        assert daemon_waits_for_nobody(no_daemon)


def _cpu_ns(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _switches(pid: int) -> dict[str, tuple[str, int]]:
    """Of each thread so far."""
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        count = sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
        threads[task.name] = ((task / "comm").read_text().strip(), count)
    return threads


# gRPC's own look at the clock about once a second each, whatever there is to do.
OF_GRPC = ("grpc", "event_engine", "lifeguard", "timer", "default-exec", "resolver-exec")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")
def test_an_idle_job_waits_and_polls_nothing(daemon: Daemon) -> None:
    program = daemon.run("""
import time
from stageload_client import Job
with Job("idle") as job, job.stage("held", memory="1M"):
    print("holds")
    time.sleep(600)
""")
    assert program.line() == "holds"
    time.sleep(1.5)  # until all that a start brings is over
    before, cpu = _switches(program.pid), _cpu_ns(program.pid)
    time.sleep(4)
    cpu = _cpu_ns(program.pid) - cpu
    ours = of_grpc = 0
    after = _switches(program.pid)
    for task, (name, count) in after.items():
        more = count - before.get(task, (name, 0))[1]
        if name.startswith(OF_GRPC):
            of_grpc += more
        else:
            ours += more
    print(
        f"an idle job's {len(after)} threads: ours switched {ours} times in 4 s, gRPC's {of_grpc}; "
        f"{cpu / 4e7:.3f} % of a core"
    )
    assert ours == 0, after


def test_the_package_has_the_version_of_the_programs() -> None:
    version = subprocess.run(
        [BIN / "stageloadctl", "version"], capture_output=True, text=True, check=True
    )
    assert stageload_client.__version__ in version.stdout


@pytest.mark.parametrize("lacks", ["a folder for temporary files", "a descriptor", "pipes"])
def test_where_no_daemon_can_be_started_the_program_runs_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.delenv("STAGELOAD_NO_AUTOSTART")

    def no_folder() -> Any:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    def no_more(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    if lacks == "a folder for temporary files":
        monkeypatch.setattr(tempfile, "TemporaryFile", no_folder)
    elif lacks == "pipes":
        monkeypatch.setattr(_autostart, "_spawn", no_more)
    else:
        monkeypatch.setattr(_connection, "listens", no_more)
    why = "No usable temporary directory" if "folder" in lacks else "Too many open files"
    with pytest.warns(NoDaemonWarning, match=why), Job("ro") as job, job.stage("s", "1M") as lease:
        assert not lease.managed
    with pytest.raises(NoDaemon, match=why):
        Job("ro", require=True).start()
