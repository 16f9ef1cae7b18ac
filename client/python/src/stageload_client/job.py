"""A program that loads one thing after another, and asks before each.

    with Job("qwen", swap_budget="8G") as job:
        with job.stage("transformer", memory="13.3G", timeout="10m"):
            ...load, use and free it...

A Job registers the process with stageload's daemon, as a client with a swap budget. Each stage
holds a lease, the right to load a declared number of bytes: entering waits until there is room
beside what everybody else on the machine has been promised, leaving gives it back.

When the daemon is restarted, the job registers with the next one and takes its leases up again. An
idle job takes no CPU: it waits for the daemon to speak.

Threads: a Job may be used from any thread; a Lease belongs to one at a time. Both work in `async
with` too. Callbacks are made by a thread of the library, one after another.

A daemon can be there and not answer, as on a machine deep in swap. It holds no call up for more
than 2 s over its timeout, and takes back what was given up as soon as it answers; a job is started
within 15 s, as without a daemon. Only a stage without a timeout waits for it.

fork: a child has no part in its parent's Job. There, calls raise Forked, and leaving a `with` does
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Union

from ._checks import (
    check_filled,
    check_gauges,
    check_mark_figures,
    check_pid,
    check_policy,
    check_priority,
    check_word,
    invalid,
)
from ._connection import options_for
from ._exit import Held, gives_back, gives_back_async
from ._gauges import device_gauges
from ._line import this_line
from ._loop import CallbackThread, LibraryThread, Together, in_loop, library, say
from ._session import Ask, Grant, Phase, Session
from ._stop import MainThreadStop
from ._wire import admission_service_pb2 as admission
from ._wire import job_pb2, policy_pb2, telemetry_service_pb2
from .errors import Forked, NoDaemonWarning, StageloadError, StopRequested, Waiting
from .units import (
    Duration,
    Size,
    format_size,
    parse_duration,
    parse_size,
    parse_timeout,
    to_float,
    whole_bytes,
)

_ON_OVER_BUDGET = {
    "stop": policy_pb2.OVER_BUDGET_STOP,
    "suspend": policy_pb2.OVER_BUDGET_SUSPEND,
    "warn": policy_pb2.OVER_BUDGET_WARN,
}
_CHARGE = {"system": policy_pb2.CHARGE_MODE_SYSTEM, "own": policy_pb2.CHARGE_MODE_OWN}
# While a stage is held on a GPU, what its driver holds is told this often.
_GAUGES_EVERY = 2.0

#: True prints what a stage waits for to stderr; a callable is given it, on the waiting thread.
OnWait = Union[bool, Callable[[Waiting], Any]]


@dataclass(frozen=True)
class BudgetWarning:
    """The charge is over four fifths of the budget, or over it with on_over_budget="warn"."""

    charge: int  #: bytes
    swap_budget: int  #: bytes
    text: str


@dataclass(frozen=True)
class Suspension:
    """All processes of the job were stopped, or go on again; told only after they go on."""

    resumed: bool
    reason: str
    text: str


@dataclass(frozen=True)
class PressureChange:
    """The kernel's word on memory is another one than before."""

    pressure: str  #: "NORMAL", "WARN", "CRITICAL"
    level: float | None  #: percent of memory available


@dataclass(frozen=True)
class JobEvent:
    """Of the way to the daemon.

    kind: "lost" (it went away, the next one is looked for), "restored" (registered with the next
    one, leases and all), "no_daemon" (none answers), "ended" (it has ended the registration for
    good).
    """

    kind: str
    text: str


def _policy(terms: dict[str, Any]) -> policy_pb2.Policy:
    """Of Job's arguments by their names; those that are None take the daemon's default."""
    policy = policy_pb2.Policy()
    for name, field in (
        ("memory", "memory_bytes"),
        ("swap_budget", "swap_budget_bytes"),
        ("swap_limit", "swap_limit_bytes"),
    ):
        if terms[name] is not None:
            setattr(policy, field, parse_size(terms[name]))
    for name, field in (("wait_free", "wait_free_percent"), ("kill_free", "kill_free_percent")):
        if terms[name] is not None:
            setattr(policy, field, to_float(terms[name]))
    if terms["priority"] is not None:
        policy.priority = check_priority(terms["priority"])
    if terms["grace"] is not None:
        policy.grace_ns = round(parse_duration(terms["grace"]) * 1e9)
    policy.on_over_budget = _choice("on_over_budget", terms["on_over_budget"], _ON_OVER_BUDGET)
    policy.charge_mode = _choice("charge", terms["charge"], _CHARGE)
    check_policy(policy)
    return policy


def _choice(name: str, word: str, of: dict[str, Any]) -> Any:
    if word not in of:
        raise ValueError(f'{name} is one of {", ".join(of)}, not "{word}"')
    return of[word]


def _program() -> str:
    name = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "") or "python"
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _print_waiting(stage: str, memory: int, waiting: Waiting) -> None:
    say(f'stageload: "{stage}" ({format_size(memory)}) waits: {waiting}')


class Lease:
    """The right to hold what was declared while its `with` lasts; made by Job.stage().

    The holder frees the memory first. After `async with` and acquire_async() as well.
    """

    def __init__(
        self,
        job: Job,
        stage: str,
        memory: int | None,
        timeout: float | None,
        on_wait: OnWait,
    ) -> None:
        self._job = job
        self._timeout = timeout
        self._on_wait = on_wait
        self._ask: Ask | None = None
        self._hold: Held | None = None
        self.stage = stage
        self.memory = memory  #: bytes; None for a stage that was only named
        self.held = False
        self.managed = False  #: False when it was given without a daemon (require=False)
        self.forced = False  #: granted though it may not fit: every client waited for a lease
        self.waited = 0.0  #: seconds

    def acquire(self) -> Lease:
        """Waits for room. NoRoom with the figures when time runs out, NeverFits, StopRequested,
        NoDaemon. After an exception no lease is left behind."""
        thread = self._begin()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        ask = self._ask = self._new_ask(answers.put)
        try:
            if self.memory is None:
                self._only_named(self._job.new_stage(self.stage))
                return self
            thread.submit(self._job._session.acquire(ask), ask.failed)
            while True:
                answer = answers.get()
                if not isinstance(answer, Waiting):
                    break
                self._tell_waiting(answer)
            self._take(answer)
        except BaseException:
            answer = None  # as in _take()
            self._drop()
            raise
        return self

    async def acquire_async(self) -> Lease:
        """acquire() for a coroutine; when that is cancelled, the request is taken back."""
        thread = self._begin()
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[Any] = asyncio.Queue()

        def deliver(answer: Any) -> None:
            loop.call_soon_threadsafe(answers.put_nowait, answer)

        ask = self._ask = self._new_ask(deliver)
        try:
            if self.memory is None:
                self._only_named(await self._job.new_stage_async(self.stage))
                return self
            thread.submit(self._job._session.acquire(ask), ask.failed)
            while True:
                answer = await answers.get()
                if not isinstance(answer, Waiting):
                    break
                self._tell_waiting(answer)
            self._take(answer)
        except BaseException:
            answer = None  # as in _take()
            self._drop()
            raise
        return self

    def release(self) -> None:
        """Gives it back; a second time does nothing. When it is interrupted, it goes back all the
        same, unless that was before it began: then it is `held` still."""
        try:
            ask = self._to_give_back()
            if ask is not None:
                self._job._stage_ends(self)
                library().finish(self._job._session.release_of(ask))
                self._given_back(ask)
        except BaseException:
            self._drop()
            raise

    def _begin_release(self, together: Together) -> None:
        """release(), which is not waited for here."""
        try:
            ask = self._to_give_back()
            if ask is not None:
                self._job._stage_ends(self)
                together.begin(self._job._session.release_of(ask))
                self._given_back(ask)
        except BaseException:
            self._drop()
            raise

    async def release_async(self) -> None:
        try:
            ask = self._to_give_back()
            if ask is not None:
                self._job._stage_ends(self)
                await library().finish_async(self._job._session.release_of(ask))
                self._given_back(ask)
        except BaseException:
            self._drop()
            raise

    def __enter__(self) -> Lease:
        self._check_not_held()
        self._hold = Held(self, self._drop)
        return self.acquire()

    @gives_back
    def __exit__(self, *_: object) -> None:
        self.release()

    async def __aenter__(self) -> Lease:
        self._check_not_held()
        self._hold = Held(self, self._drop)
        return await self.acquire_async()

    @gives_back_async
    async def __aexit__(self, *_: object) -> None:
        await self.release_async()

    def _check_not_held(self) -> None:
        if self.held:
            raise StageloadError(
                f'the lease of "{self.stage}" is held already',
                code="FAILED_PRECONDITION",
                reason="WRONG_STATE",
            )

    def _begin(self) -> LibraryThread:
        self._check_not_held()
        thread = self._job._thread()
        stop = self._job._session.stop
        if stop is not None:
            raise stop._copy()
        return thread

    def _tell_waiting(self, waiting: Waiting) -> None:
        if self._timeout == 0:  # it does not wait
            return
        if callable(self._on_wait):
            self._on_wait(waiting)
        elif self._on_wait:
            _print_waiting(self.stage, self.memory or 0, waiting)

    def _take(self, answer: Any) -> None:
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # it and this frame would keep each other
        assert isinstance(answer, Grant)
        if not answer.managed:
            self._job._warn_unmanaged("no daemon answers")
        self.held = True
        self.managed = answer.managed
        self.forced = answer.forced
        self.waited = answer.waited
        self._job._stage_begins(self)

    def _only_named(self, managed: bool) -> None:
        self.held = True
        self.managed = managed
        self._job._stage_begins(self)

    def _new_ask(self, deliver: Callable[[Any], None]) -> Ask:
        """A task is a line of work as a thread is."""
        return Ask(self.stage, self.memory or 0, self._timeout, this_line(), deliver)

    def _to_give_back(self) -> Ask | None:
        return self._ask if self.held and not self._job._in_child() else None

    def _drop(self) -> None:
        """Gives back what there is, also what is only asked for, and does not wait for that."""
        ask = self._ask
        if ask is None or self._job._in_child():
            return
        library().submit(self._job._session.release_of(ask))
        self._given_back(ask)

    def _given_back(self, ask: Ask) -> None:
        """That is on its way, so nothing is lost any more wherever this is interrupted."""
        self._job._forget_stage(self)
        if self._hold is not None:
            self._hold.end()
        if self._ask is ask:
            self.held = False
            self._ask = None


class Job:
    """Registers this process while its `with` lasts.

    name: for display; the program's name by default.
    memory: what it holds besides its stages.
    swap_budget: swap that it may add over what was used when it registered (8 GiB).
    swap_limit: it is stopped while the whole machine's swap is above this (none).
    wait_free: its stages start only at this level, in percent of memory available, or above (40).
    kill_free: it may be chosen to stop while the level is below this (10).
    priority: higher goes first; -1000 to 1000 (0).
    grace: from being told to stop to SIGTERM, and from there to SIGKILL (5 s).
    on_over_budget: "stop", "suspend" or "warn". charge: "system" or "own".
    enforce: the daemon may signal it; else it is only told.
    pid: of the process that is watched with its descendants, when it is not this one.
    socket: of the daemon; by default $STAGELOAD_SOCKET, else the user's own.
    autostart: start a daemon where none answers; never with STAGELOAD_NO_AUTOSTART=1.
    require: without a daemon, raise NoDaemon. By default the program runs on, with one
    NoDaemonWarning
        and stages that keep nobody away, until a daemon is there.
    on_wait: True prints what stages wait for; a callable is given it.
    on_stop: called when the daemon asks the job to end. By default StopRequested is raised: in the
        main thread, or in the task that entered `async with`, and by every stage() from then on.
    gauges: tell what torch's MPS or CUDA allocator, or MLX, holds, when a stage begins, ends, and
        while it lasts.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        memory: Size | None = None,
        swap_budget: Size | None = None,
        swap_limit: Size | None = None,
        wait_free: float | None = None,
        kill_free: float | None = None,
        priority: int | None = None,
        grace: Duration | None = None,
        on_over_budget: str = "stop",
        charge: str = "system",
        enforce: bool = False,
        pid: int = 0,
        socket: str | None = None,
        autostart: bool = True,
        require: bool = False,
        on_wait: OnWait = False,
        on_stop: Callable[[StopRequested], Any] | None = None,
        on_warning: Callable[[BudgetWarning], Any] | None = None,
        on_pressure: Callable[[PressureChange], Any] | None = None,
        on_suspended: Callable[[Suspension], Any] | None = None,
        on_event: Callable[[JobEvent], Any] | None = None,
        gauges: bool = True,
    ) -> None:
        terms = dict(locals())
        self.name = check_word("name", name or _program())
        self._on_wait = on_wait
        self._on_stop = on_stop
        self._on_warning = on_warning
        self._on_pressure = on_pressure
        self._on_suspended = on_suspended
        self._on_event = on_event
        self._gauges = gauges
        self._pid = os.getpid()
        self._callbacks = CallbackThread()
        self._main_stop = MainThreadStop(self._stop_while_idle)
        self._task: asyncio.Task[Any] | None = None
        self._task_loop: asyncio.AbstractEventLoop | None = None
        self._task_stopped = False
        self._stages: list[Lease] = []
        self._gauge_timer: asyncio.TimerHandle | None = None
        self._started = False
        self._hold: Held | None = None
        self._warned = False  # that there is no daemon
        self.closed = False
        request = admission.RegisterRequest(
            name=self.name, policy=_policy(terms), pid=check_pid(pid), enforce=enforce
        )
        self._session = Session(request, options_for(socket, autostart), require, self._tell)

    # ---- Its life ----

    def start(self) -> Job:
        """What entering the `with` does: registers. NoDaemon where one is required; StageloadError
        INVALID_FIELD names what the daemon refuses."""
        thread = self._begin()
        try:
            if self._on_stop is None:
                self._main_stop.install()
            self._began(thread, thread.run(self._session.start()))
        except BaseException:
            self._drop()
            raise
        return self

    async def start_async(self) -> Job:
        """As start(). Without on_stop, the task that called it is cancelled when the job is to end,
        and close_async() turns that into StopRequested."""
        thread = self._begin()
        self._task = asyncio.current_task()
        self._task_loop = asyncio.get_running_loop()
        try:
            self._began(thread, await thread.run_async(self._session.start()))
        except BaseException:
            self._drop()
            raise
        return self

    def close(self) -> None:
        """Ends the registration: its leases and its places in the queue are free again. When it is
        interrupted, that happens all the same, unless it was before it began."""
        try:
            if self._may_close():
                self._be_quiet()
                library().finish(self._close_session())
                self._ended()
        except BaseException:
            self._drop()
            raise

    async def close_async(self) -> None:
        """As close(). When the daemon has had the task cancelled that called start_async(), this
        raises StopRequested in it in place of the CancelledError that it is called under, as in a
        `finally`, or gets."""
        await self._close_async(sys.exc_info()[1])

    def __enter__(self) -> Job:
        self._check_not_started()
        self._hold = Held(self, self._drop)
        return self.start()

    @gives_back
    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Job:
        self._check_not_started()
        self._hold = Held(self, self._drop)
        return await self.start_async()

    @gives_back_async
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close_async(error)

    async def _close_async(self, error: BaseException | None) -> None:
        """`error`: the exception that is on its way out."""
        try:
            if self._may_close():
                self._be_quiet()
                await library().finish_async(self._close_session())
                self._ended()
        except asyncio.CancelledError as cancelled:
            self._drop()
            if not self._stop_was(cancelled):
                raise
            error = cancelled
        except BaseException:
            self._drop()
            raise
        stop = self._session.stop
        if stop is None or not self._stop_was(error):
            return
        error = None  # this frame would keep it, and it the frames that it came through
        self._task_stopped = False
        uncancel = getattr(self._task, "uncancel", None)
        if uncancel is not None:
            uncancel()
        raise stop._copy() from None

    def _stop_was(self, error: BaseException | None) -> bool:
        """Whether the daemon's word was what has cancelled this task."""
        if not self._task_stopped or not isinstance(error, asyncio.CancelledError):
            return False
        return in_loop() and asyncio.current_task() is self._task

    def _check_not_started(self) -> None:
        if self._started:
            raise StageloadError(
                "a Job is started once", code="FAILED_PRECONDITION", reason="WRONG_STATE"
            )

    def _begin(self) -> LibraryThread:
        self._check_not_started()
        if self._in_child():
            raise Forked("this Job")
        thread = library()
        self._started = True
        return thread

    def _began(self, thread: LibraryThread, absent: str | None) -> None:
        thread.close_at_exit(id(self), self._close_at_exit)
        _active.append(self)
        if absent is None:
            return
        self._warn_unmanaged(absent)
        self._event("no_daemon", absent)

    def _warn_unmanaged(self, why: str) -> None:
        """Once, until there is a daemon again; of the user's line."""
        if self._warned:
            return
        self._warned = True
        text, depth, frame = f"{why}; {self.name} runs on unmanaged", 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
            depth, frame = depth + 1, frame.f_back
        with contextlib.suppress(OSError, ValueError):  # stderr is full or closed
            warnings.warn(text, NoDaemonWarning, stacklevel=depth)

    def _may_close(self) -> bool:
        """Whether there is a registration to end."""
        return self._started and not self.closed and not self._in_child()

    def _drop(self) -> None:
        """As close(), which is not waited for: nothing is left of what was interrupted."""
        if not self._started or self._in_child():
            return
        library().submit(self._close_session())
        self._be_quiet()
        self._ended()

    async def _close_at_exit(self) -> None:
        if self._may_close():
            self._be_quiet()
            await self._close_session()

    async def _close_session(self) -> None:
        """Here, where nothing interrupts, it is known that it will be closed."""
        self.closed = True
        await self._session.close()

    def _be_quiet(self) -> None:
        """From here on nothing is raised by itself."""
        self._main_stop.remove()
        with contextlib.suppress(ValueError):
            _active.remove(self)

    def _ended(self) -> None:
        """Or will be, so nothing is lost any more wherever this is interrupted."""
        self.closed = True
        library().closed(id(self))
        self._callbacks.close()
        if self._hold is not None:
            self._hold.end()

    def _in_child(self) -> bool:
        return os.getpid() != self._pid

    def _thread(self) -> LibraryThread:
        """For a call."""
        if self._in_child():
            raise Forked("this Job")
        if self.closed or not self._started:
            raise StageloadError(
                "the job has been closed" if self.closed else "the job has not been started",
                code="FAILED_PRECONDITION",
                reason="SESSION_CLOSED",
            )
        thread = library()
        thread.check_may_wait()
        return thread

    # ---- What it does ----

    def stage(
        self,
        name: str,
        memory: Size | None = None,
        *,
        timeout: Duration | None = None,
        on_wait: OnWait | None = None,
    ) -> Lease:
        """A stage of the program: `with job.stage("decode", memory="3G"):`.

        memory: what will be loaded on top of what the program holds now, at its peak. Without it
        the stage is only named. timeout: how long to wait for room, for ever by default; 0 (which
        takes a few ms, for the answer to say why not) or less to have it now or not at all.
        """
        size = None if memory is None else parse_size(memory)
        if size == 0:
            raise ValueError("a stage's memory is above 0; leave it out to name the stage only")
        return Lease(
            self,
            check_filled("stage", name, 'name it, as in job.stage("transformer", "13G")'),
            size,
            parse_timeout(timeout),
            self._on_wait if on_wait is None else on_wait,
        )

    def report(self, **gauges: float) -> bool:
        """Numbers of the program's own, such as mps_driver_bytes=..., shown beside its footprint;
        each replaces the one of the same name, 32 at most. False when no daemon heard it."""
        return self._thread().run(self._session.report(self._all_gauges(gauges), []))

    async def report_async(self, **gauges: float) -> bool:
        return await self._thread().run_async(self._session.report(self._all_gauges(gauges), []))

    def mark(
        self,
        note: str = "",
        *,
        kind: str = "mark",
        stage: str | None = None,
        name: str = "",
        nbytes: float | None = None,
        seconds: float | None = None,
    ) -> bool:
        """A word about the run, in the telemetry and in every recording of the process. kind:
        "mark", "load", "reload", "release" (of `name`), or "stage". False when no daemon heard
        it."""
        mark = _mark(note, kind, stage, name, nbytes, seconds)
        return self._thread().run(self._session.report({}, [mark]))

    async def mark_async(
        self,
        note: str = "",
        *,
        kind: str = "mark",
        stage: str | None = None,
        name: str = "",
        nbytes: float | None = None,
        seconds: float | None = None,
    ) -> bool:
        mark = _mark(note, kind, stage, name, nbytes, seconds)
        return await self._thread().run_async(self._session.report({}, [mark]))

    def _begin_mark(
        self,
        together: Together,
        kind: str,
        name: str,
        nbytes: float,
        seconds: float,
        stage: str | None,
        note: str,
        unheard: Callable[[], None],
    ) -> None:
        """mark(), which is not waited for here. `unheard` is called, on the library's thread, where
        no daemon heard it."""
        mark = _mark(note, kind, stage, name, nbytes, seconds)
        self._thread()

        async def tell() -> None:
            with contextlib.suppress(StageloadError):
                if await self._session.report({}, [mark]):
                    return
            unheard()

        together.begin(tell())

    def new_stage(self, name: str) -> bool:
        """Names the stage that begins, without a lease."""
        return self.mark(kind="stage", stage=name)

    async def new_stage_async(self, name: str) -> bool:
        return await self.mark_async(kind="stage", stage=name)

    # ---- What it knows ----

    @property
    def client_id(self) -> int:
        """By which `stageloadctl show` knows it; 0 without a daemon."""
        link = self._session.link
        return 0 if link is None else link.client_id

    @property
    def joined(self) -> bool:
        """The process belongs to a client that was there already, such as a job that runs it: then
        it is that client, under that one's terms."""
        link = self._session.link
        return link is not None and link.joined

    @property
    def managed(self) -> bool:
        """Whether a daemon knows of it now."""
        return self._session.phase is Phase.CONNECTED

    @property
    def stop_requested(self) -> StopRequested | None:
        """Once the daemon asked the job to end."""
        stop = self._session.stop
        return None if stop is None else stop._copy()

    @property
    def current_stage(self) -> str | None:
        """Of the lease that was taken last and is held."""
        return self._stages[-1].stage if self._stages else None

    # ---- What the daemon says; on the library's thread ----

    def _tell(self, word: str, payload: Any) -> None:
        if word == "stop":
            self._stop(payload)
        elif word == "warned" and self._on_warning:
            warning = BudgetWarning(payload.charge_bytes, payload.swap_budget_bytes, payload.text)
            self._call(self._on_warning, warning)
        elif word == "pressure_changed" and self._on_pressure:
            pressure = telemetry_service_pb2.Pressure.Name(payload.pressure)
            host = payload.host
            level = host.level_percent if host.HasField("level_percent") else None
            change = PressureChange(pressure[len("PRESSURE_") :], level)
            self._call(self._on_pressure, change)
        elif word == "suspended" and self._on_suspended:
            reason = job_pb2.Reason.Name(payload.reason)[len("REASON_") :]
            self._call(self._on_suspended, Suspension(False, reason, payload.text))
        elif word == "resumed" and self._on_suspended:
            self._call(self._on_suspended, Suspension(True, "", ""))
        elif word in ("lost", "restored", "no_daemon", "ended"):
            self._warned = self._warned and word != "restored"
            self._event(word, payload)

    def _event(self, kind: str, text: str) -> None:
        if self._on_event:
            self._call(self._on_event, JobEvent(kind, text))

    def _call(self, callback: Callable[[Any], Any], argument: Any) -> None:
        def call() -> None:
            callback(argument)

        self._callbacks.call(call)

    def _stop(self, stop: StopRequested) -> None:
        if self._on_stop is not None:
            self._call(self._on_stop, stop._copy())
        elif self._task is not None and self._task_loop is not None:
            if self._task.done():
                self._stop_without_task(stop)
                return
            try:
                self._task_loop.call_soon_threadsafe(self._cancel_task, stop)
            except RuntimeError:  # the loop it was started in is over
                self._main_stop.fire(stop)
        else:
            self._main_stop.fire(stop)

    def _stop_while_idle(self, stop: StopRequested) -> None:
        text = f'stageload: job "{self.name}" is to end: {stop}; its next stage raises that'
        self._callbacks.call(lambda: say(text))

    def _cancel_task(self, stop: StopRequested) -> None:
        if self.closed or self._task is None:
            return
        if self._task.done():
            # Not from here: what is raised in a callback of asyncio is logged, and that is all.
            library().post(self._stop_without_task, stop)
            return
        self._task_stopped = True
        self._task.cancel()

    def _stop_without_task(self, stop: StopRequested) -> None:
        self._main_stop.fire(stop)
        if self._task_loop is not None:
            with contextlib.suppress(RuntimeError):
                self._task_loop.call_soon_threadsafe(lambda: None)  # out of its call that blocks

    # ---- Gauges ----

    def _all_gauges(self, own: dict[str, float]) -> dict[str, float]:
        gauges = device_gauges() if self._gauges else {}
        gauges.update(check_gauges(own))
        return gauges

    def _stage_begins(self, lease: Lease) -> None:
        self._stages.append(lease)
        self._tell_gauges(again=True)

    def _forget_stage(self, lease: Lease) -> None:
        with contextlib.suppress(ValueError):  # another thread may do so as well
            self._stages.remove(lease)

    def _stage_ends(self, lease: Lease) -> None:
        self._forget_stage(lease)
        self._tell_gauges(again=False)

    def _tell_gauges(self, again: bool) -> None:
        """Without waiting for it; then every few seconds, while a stage is held on a GPU."""
        if self.closed:
            return
        thread = library()
        if thread.is_current():  # see _gauge_time()
            self._callbacks.call(lambda: self._tell_gauges(again))
            return
        gauges = self._all_gauges({})
        if not gauges:
            return
        thread.submit(self._session.report(gauges, []))
        if again:
            thread.post(self._tell_gauges_later)

    def _tell_gauges_later(self) -> None:
        if self._gauge_timer is None and self._stages and not self.closed:
            loop = asyncio.get_running_loop()
            self._gauge_timer = loop.call_later(_GAUGES_EVERY, self._gauge_time)

    def _gauge_time(self) -> None:
        self._gauge_timer = None
        if self._stages and not self.closed:
            # The allocator may be held by who computes, so not on this thread.
            self._callbacks.call(lambda: self._tell_gauges(again=True))


def _mark(
    note: str,
    kind: str,
    stage: str | None,
    name: str,
    nbytes: float | None,
    seconds: float | None,
) -> telemetry_service_pb2.Mark:
    for field, word in (("stage", stage or ""), ("name", name), ("note", note)):
        check_word(f"marks.{field}", word)
    if kind == "stage" and not stage:
        raise invalid("marks.stage", 'is empty; a mark of kind "stage" names the stage that begins')
    if kind == "mark" and not note:
        raise invalid("marks.note", 'is empty; a mark of kind "mark" says something')
    mark = telemetry_service_pb2.Mark(kind=kind, stage=stage or "", name=name, note=note)
    whole = None if nbytes is None else whole_bytes(nbytes)
    check_mark_figures(whole or 0, seconds or 0.0)
    if whole is not None:
        mark.nbytes = whole
    if seconds is not None:
        mark.seconds = seconds
    return mark


# Those of this process that are started and not closed.
_active: list[Job] = []


def active_job() -> Job | None:
    """The one of this process that was started last and is not closed."""
    for job in reversed(_active):
        if not job._in_child():
            return job
    return None
