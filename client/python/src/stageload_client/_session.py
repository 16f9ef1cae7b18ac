"""What stands behind a Job: the registration with the daemon of now, and the leases that are held.

All of it runs on the library's thread, and nothing here is locked.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable

from ._checks import check_gauge_count
from ._clock import awake
from ._connection import (
    ANSWERS_WITHIN,
    LATE,
    CallFailed,
    Connection,
    ConnectOptions,
    Search,
    Stream,
    connect,
    is_gone,
    none_answers,
    to_public,
    unary,
)
from ._loop import print_exception
from ._wire import admission_service_pb2 as admission
from ._wire import job_pb2, telemetry_service_pb2
from .errors import Blocker, NoDaemon, NoRoom, StageloadError, StopRequested, Waiting, bare

# A daemon that has just started may be late with what it is told is held.
_TAKES_UP_WITHIN = 10.0
# A daemon that is being started is not waited for by who leaves, nor one that is late with
# forgetting who has left.
_CLOSES_WITHIN = 1.0
_ENDED_PAUSE = 0.001
# A daemon that refuses a registration is not asked again at once.
_REFUSED_PAUSE = 5.0


# How many registrations of this process each client of its own consists of.
_clients: dict[tuple[str, int], int] = {}
# On their way out; a process that registers before they are gone joins them.
_ending: set[asyncio.Task[Any]] = set()


class Phase(Enum):
    CONNECTED = 1
    LOOKING = 2  # the daemon went away a moment ago
    ABSENT = 3  # there is none
    ENDED = 4  # the daemon ended the registration for good
    CLOSED = 5


@dataclass
class Link:
    connection: Connection
    stream: Stream
    client_id: int
    joined: bool
    daemon: int  # how many there were up to this one
    own: tuple[str, int] | None = None  # the key of _clients, where it is this process's client


@dataclass
class Held:
    stage: str
    memory: int
    request_id: str
    worker: int
    lease_id: int = 0  # 0: no daemon of now knows it


@dataclass(frozen=True)
class Grant:
    """What a request got."""

    key: int
    managed: bool
    forced: bool
    waited: float


class Ask:
    """One request for a lease, and the way back to who waits for it.

    `deliver` is called on the library's thread with a Waiting, a Grant or an exception; after one
    of the last two no more comes. It may fail, as when the loop of who waits is over.
    """

    def __init__(
        self,
        stage: str,
        memory: int,
        timeout: float | None,
        worker: int,
        deliver: Callable[[Any], None],
    ) -> None:
        self.held = Held(stage, memory, str(uuid.uuid4()), worker)
        self.begin = awake()
        self.timeout = timeout
        self.asked = False
        self.deadline = None if timeout is None else self.begin + timeout
        self._deliver = deliver
        self.blockers: tuple[Blocker, ...] = ()
        self.given_up = False
        self.key: int | None = None
        self.stream: Stream | None = None
        self.answered = False

    def deliver(self, answer: Any) -> bool:
        """Whether there is still somebody who gets it."""
        try:
            self._deliver(bare(answer) if isinstance(answer, BaseException) else answer)
        except Exception:
            return False
        return True

    def failed(self, _: Any, error: BaseException | None) -> None:
        """The end of the work on it: all but an exception was delivered."""
        if error is not None:
            self.deliver(error)

    def left(self) -> float | None:
        return None if self.deadline is None else max(self.deadline - awake(), 0.0)

    def request(self, link: Link) -> admission.AcquireRequest:
        held = self.held
        request = admission.AcquireRequest(
            client_id=link.client_id,
            stage=held.stage,
            memory_bytes=held.memory,
            request_id=held.request_id,
            worker=held.worker,
        )
        # At first as it was given, since the daemon's words have it.
        left = self.left() if self.asked else self.timeout
        self.asked = True
        if left is not None:
            request.start_timeout_ns = round(max(left, 0.0) * 1e9)
        return request


def blocker_of(blocker: job_pb2.Blocker) -> Blocker:
    kind = job_pb2.BlockerKind.Name(blocker.kind)
    return Blocker(
        kind=kind[len("BLOCKER_KIND_") :],
        read=blocker.read,
        needed=blocker.needed,
        text=blocker.text,
        ends_in=blocker.ends_in_ns / 1e9 if blocker.HasField("ends_in_ns") else None,
    )


def _waiting_of(waiting: admission.Waiting) -> Waiting:
    return Waiting(tuple(blocker_of(b) for b in waiting.blockers), waiting.position)


class Session:
    """`tell(word, payload)` is called on this thread with what the daemon says; it returns at
    once."""

    def __init__(
        self,
        request: admission.RegisterRequest,
        options: ConnectOptions,
        require: bool,
        tell: Callable[[str, Any], None],
    ) -> None:
        self._request = request
        self._options = options  # as they were asked for
        self._connect = options  # without a start, after a daemon that was told to leave
        self._require = require
        self._tell_job = tell
        self.phase = Phase.ABSENT
        self.stop: StopRequested | None = None
        self._suspended = False  # as it was told last
        self.link: Link | None = None
        self._daemons = 0
        self._next_key = 1
        self._leases: dict[int, Held] = {}
        self._gauges: dict[str, float] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._releases: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[Any] | None = None

    # ---- Its life ----

    @property
    def closed(self) -> bool:
        return self.phase is Phase.CLOSED

    async def start(self) -> str | None:
        """Registers. Says why it is not, where that is no error."""
        absent = None
        self._starting = asyncio.current_task()
        try:
            self.link = await self._register(await connect(self._connect))
            self._daemons = self.link.daemon
            self.phase = Phase.CONNECTED
        except (CallFailed, NoDaemon) as error:
            if self.closed:
                raise _closed() from None
            if self._require or not none_answers(error):
                raise to_public(error) from None
            absent = str(error)
        finally:
            self._starting = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        return absent

    async def close(self) -> None:
        if self.closed:
            return
        self.phase = Phase.CLOSED
        self._leases.clear()
        self._changed()
        if self._starting is not None:  # it ends by itself, and is not waited for
            _note_ending(self._starting)
        link, self.link = self.link, None
        if link is not None:
            await _end(link)
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSES_WITHIN)

    async def _run(self) -> None:
        while not self.closed and self.phase is not Phase.ENDED:
            try:
                await self._follow()
            except Exception as error:  # a bug of ours must not leave the job without a reader
                print_exception("a mistake of the library")
                await self._leave(Phase.LOOKING, "lost", f"a mistake of the library: {error}")
                await self._wait(_REFUSED_PAUSE)
        # Else the two keep each other, and a task that is collected as garbage swallows a Ctrl-C.
        self._task = None

    async def _follow(self) -> None:
        """Until this registration ends, or there is a next one."""
        if self.link is None:
            await self._register_again()
            return
        try:
            await self._read_events(self.link.stream)
        except CallFailed as error:
            # One that leaves because it was told to is not started again.
            if not error.went_away:
                self._connect = self._connect.without_start()
            await self._leave(Phase.LOOKING, "lost", str(error))
            return
        if self.closed:
            return
        text = "the daemon has ended the registration"
        self._request_stop(StopRequested("ENDED", text))
        await self._leave(Phase.ENDED, "ended", text)

    async def _register(self, connection: Connection) -> Link:
        try:
            others = _ending - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=_CLOSES_WITHIN)
            if self.closed:
                raise CallFailed("CANCELLED", "the job has been closed")
            stream = Stream(connection.calls.register, self._request)
            first = await stream.read_within(ANSWERS_WITHIN)
            if first is None or not first.HasField("registered"):
                raise CallFailed("INTERNAL", "the daemon's first word is not the client's id")
        except CallFailed:
            await connection.close()
            raise
        registered = first.registered
        if registered.joined:  # for the daemon after this one
            self._request.was_joined = True
        link = Link(connection, stream, registered.client_id, registered.joined, self._daemons + 1)
        client = (connection.path, link.client_id)
        if not link.joined or client in _clients:
            link.own = client
            _clients[client] = _clients.get(client, 0) + 1
        if self.closed:  # while it registered
            await _end(link)
            raise CallFailed("CANCELLED", "the job has been closed")
        return link

    async def _read_events(self, stream: Stream) -> None:
        while True:
            answer = await stream.read()
            if answer is None:
                return
            event = answer.WhichOneof("event")
            if event == "stop_requested":
                asked = answer.stop_requested
                reason = job_pb2.Reason.Name(asked.reason)[len("REASON_") :]
                self._request_stop(StopRequested(reason, asked.text, asked.grace_ns / 1e9))
            elif event is not None:
                if event in ("suspended", "resumed"):
                    self._suspended = event == "suspended"
                self._tell(event, getattr(answer, event))

    def _request_stop(self, stop: StopRequested) -> None:
        """The first request counts."""
        if self.stop is not None:
            return
        self.stop = stop
        self._changed()
        self._tell("stop", stop)

    def _tell(self, word: str, payload: Any) -> None:
        try:
            self._tell_job(word, payload)
        except Exception:  # as when there can be no more threads
            print_exception(f"telling the job of {word!r} failed")

    async def _leave(self, phase: Phase, word: str, text: str) -> None:
        if self.closed:
            return
        self.phase = phase
        link, self.link = self.link, None
        for held in self._leases.values():
            held.lease_id = 0
        self._changed()
        self._tell(word, text)
        if self._suspended:  # that daemon can say no more, and who notices that runs again
            self._suspended = False
            self._tell("resumed", None)
        if link is not None:
            _forget(link)
            await link.connection.close()

    async def _register_again(self) -> None:
        absent = self.phase is Phase.ABSENT  # which was told already, and a start was tried
        search = Search(self._connect, 0.0) if absent else Search(self._connect)
        while not self.closed:
            pause = 0.0
            try:
                link = await self._register(await search.look())
                try:
                    taken_up, refused = await self._take_up(link)
                except Exception:
                    await _end(link)
                    raise
            except (CallFailed, NoDaemon) as error:
                refused_us = not is_gone(error)
                if self.phase is Phase.LOOKING and (refused_us or not search.early):
                    await self._leave(Phase.ABSENT, "no_daemon", str(error))
                pause = _REFUSED_PAUSE if refused_us else search.pause
            else:
                refused += await self._publish(link, taken_up)
                self._tell("restored", f"registered with the daemon{refused}")
                return
            if not self.closed:
                await self._wait(pause)

    async def _take_up(self, link: Link) -> tuple[dict[int, int], str]:
        """Declares what is held. CallFailed only when that daemon has gone, too."""
        taken_up: dict[int, int] = {}
        refused = ""
        for key, held in list(self._leases.items()):
            ask = Ask(held.stage, held.memory, 0.0, held.worker, lambda _: None)
            ask.held.request_id = held.request_id
            request = ask.request(link)
            request.already_loaded = True
            try:
                granted = await self._acquire_of(link, request, ask, _TAKES_UP_WITHIN)
            except CallFailed as error:
                if none_answers(error):
                    raise
                refused += f'; it did not take the lease of "{held.stage}": {error}'
            else:
                taken_up[key] = granted.lease_id
        return taken_up, refused

    async def _publish(self, link: Link, taken_up: dict[int, int]) -> str:
        """Says what of the gauges was refused."""
        if self.closed:
            await _end(link)
            return ""
        self.link = link
        self._daemons = link.daemon
        self.phase = Phase.CONNECTED
        self._connect = self._options
        meanwhile = [lease for key, lease in taken_up.items() if key not in self._leases]
        for key, lease in taken_up.items():
            if key in self._leases:
                self._leases[key].lease_id = lease
        self._changed()
        for lease in meanwhile:
            await self._release_of(link, lease, "")
        return await self._report_again()

    # ---- Waiting for a change ----

    def _changed(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _wait(self, timeout: float | None) -> None:
        """Until something changes, or that long."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout)
        finally:
            self._waiters.discard(waiter)

    # ---- Leases ----

    async def acquire(self, ask: Ask) -> None:
        """Delivers what comes of it."""
        try:
            grant = await self._acquire(ask)
        except (StageloadError, StopRequested) as error:
            ask.deliver(error)
        except (CallFailed, NoDaemon) as error:
            ask.deliver(to_public(error))
        except Exception as error:  # a bug of ours must not leave the caller waiting for ever
            ask.deliver(error)
        else:
            if not ask.deliver(grant):
                self.give_up(ask)

    def give_up(self, ask: Ask) -> None:
        """No lease is left behind, also when it was granted in the same moment."""
        ask.given_up = True
        if ask.key is not None:
            asyncio.get_running_loop().create_task(self.release(ask.key))
        elif ask.stream is not None and ask.answered:
            ask.stream.cancel()
        self._changed()

    async def _acquire(self, ask: Ask) -> Grant:
        known = 0
        while True:
            link = await self._await_link(known, ask)
            if link is None:
                return self._keep(ask, 0, False)
            try:
                granted = await self._acquire_of(link, ask.request(link), ask)
            except CallFailed as error:
                if self.closed:
                    raise _closed() from None
                if ask.given_up:
                    raise
                if not is_gone(error) and error.reason != "CLIENT_NOT_FOUND":
                    raise self._refusal(ask, error) from None
            else:
                # Nothing is loaded yet, so the next daemon is asked as if it were the first.
                if self.link is link:
                    return self._keep(ask, granted.lease_id, granted.forced)
            known = link.daemon

    def _refusal(self, ask: Ask, error: CallFailed) -> BaseException:
        if error.reason == "ADMISSION_TIMEOUT" or error.unanswered:
            held, text = ask.held, str(error)
            if error.unanswered:
                text = f"no room within {awake() - ask.begin:.1f}s: the daemon does not answer"
            return NoRoom(text, stage=held.stage, memory=held.memory, blockers=ask.blockers)
        if error.reason == "JOB_ENDED":
            stop = self.stop or StopRequested("ENDED", str(error))
            return stop._copy()
        return to_public(error)

    def _keep(self, ask: Ask, lease_id: int, forced: bool) -> Grant:
        ask.held.lease_id = lease_id
        ask.key = self._next_key
        self._next_key += 1
        self._leases[ask.key] = ask.held
        if ask.given_up:
            asyncio.get_running_loop().create_task(self.release(ask.key))
        return Grant(ask.key, lease_id != 0, forced, awake() - ask.begin)

    async def _await_link(self, known: int, ask: Ask) -> Link | None:
        """The registration after the `known`-th daemon; None when none is there and none
        required."""
        while True:
            if ask.given_up:
                raise StageloadError("the request was given up", code="CANCELLED")
            if self.closed:
                raise _closed()
            if self.stop is not None:
                raise self.stop._copy()
            if self.link is not None and self.link.daemon > known:
                return self.link
            if self.phase is Phase.ABSENT:
                if self._require:
                    raise NoDaemon(self._options.absent)
                return None
            left = ask.left()
            if left == 0.0:
                held = ask.held
                text = f"no room: the daemon went away {awake() - ask.begin:.1f}s ago"
                raise NoRoom(text, stage=held.stage, memory=held.memory)
            await self._wait(left)

    async def _acquire_of(
        self, link: Link, request: admission.AcquireRequest, ask: Ask, late: float = LATE
    ) -> admission.Granted:
        """`late`: by how much the daemon may be late with saying that there was no room."""
        timeout = None
        if request.HasField("start_timeout_ns"):
            timeout = request.start_timeout_ns / 1e9 + late
        ask.answered = False
        ask.stream = Stream(link.connection.calls.acquire, request, timeout)
        try:
            granted = await self._read_grant(ask, ask.stream)
        except CallFailed as error:
            # It may have been granted all the same, as the call was given up.
            if error.unanswered:
                self._release_later(link, 0, request.request_id)
            elif ask.given_up or error.code == "CANCELLED":
                await self._release_of(link, 0, request.request_id)
            raise
        finally:
            ask.stream = None
        if granted is None:
            raise CallFailed("INTERNAL", "the daemon ended a request without an answer")
        return granted

    async def _read_grant(self, ask: Ask, stream: Stream) -> admission.Granted | None:
        """A call that is cancelled before the daemon has heard of it could come to it after the
        Release that is to take it back; so its first answer, which comes at once, is waited for."""
        granted: admission.Granted | None = None
        while True:
            try:
                answer = await stream.read()
            except CallFailed:
                if granted is None:
                    raise
                return granted  # how the stream ends then does not matter
            if answer is None:
                return granted
            ask.answered = True
            if answer.HasField("granted"):
                granted = answer.granted
            elif ask.given_up:
                stream.cancel()
            else:
                waiting = _waiting_of(answer.waiting)
                ask.blockers = waiting.blockers
                if not ask.deliver(waiting):
                    self.give_up(ask)

    async def release_of(self, ask: Ask) -> None:
        """What was asked for, whatever has come of it; a second time does nothing."""
        if ask.key is None:
            self.give_up(ask)
        else:
            ask.given_up = True
            await self.release(ask.key)

    async def release(self, key: int) -> None:
        held = self._leases.pop(key, None)
        if held is None or self.link is None or held.lease_id == 0:
            return
        await self._release_of(self.link, held.lease_id, held.request_id)

    async def _release_of(
        self, link: Link, lease_id: int, request_id: str, timeout: float | None = LATE
    ) -> None:
        request = admission.ReleaseRequest(client_id=link.client_id, lease_id=lease_id)
        if lease_id == 0:
            request.request_id = request_id
        try:
            await unary(link.connection.calls.release, request, timeout)
        except CallFailed as error:
            # Else it may not be held any more, or by a daemon that has gone.
            if error.unanswered:
                self._release_later(link, lease_id, request_id)

    def _release_later(self, link: Link, lease_id: int, request_id: str) -> None:
        """Told to a daemon that does not answer as soon as it does; nobody waits for that."""
        work = self._release_of(link, lease_id, request_id, None)
        task = asyncio.get_running_loop().create_task(work)
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    # ---- What it says of itself ----

    async def report(
        self, gauges: dict[str, float], marks: list[telemetry_service_pb2.Mark]
    ) -> bool:
        """Whether a daemon said that it heard it. What was refused is not told again."""
        check_gauge_count(self._gauges.keys() | gauges.keys())
        before = {name: self._gauges.get(name) for name in gauges}
        self._gauges.update(gauges)
        link = self.link
        if link is None:
            return False
        request = admission.ReportRequest(
            client_id=link.client_id,
            gauges=[telemetry_service_pb2.Gauge(name=n, value=v) for n, v in gauges.items()],
            marks=marks,
        )
        try:
            await unary(link.connection.calls.report, request, LATE)
        except CallFailed as error:
            if none_answers(error) or error.reason == "CLIENT_NOT_FOUND":
                return False
            for name, value in before.items():
                if value is None:
                    self._gauges.pop(name, None)
                else:
                    self._gauges[name] = value
            raise to_public(error) from None
        return True

    async def _report_again(self) -> str:
        """The gauges, to a new daemon, which may refuse what no other has: all at once, and else
        one by one."""
        if not self._gauges:
            return ""
        gauges, self._gauges = self._gauges, {}
        try:
            await self.report(gauges, [])
            return ""
        except StageloadError:
            pass
        refused = ""
        for name, value in gauges.items():
            if name in self._gauges:  # told anew meanwhile
                continue
            try:
                await self.report({name: value}, [])
            except StageloadError as error:
                refused += f'; it did not take the gauge "{name}": {error}'
        return refused

    async def snapshot(self) -> telemetry_service_pb2.Frame | None:
        """The newest frame; None without a daemon, or before its first."""
        if self.link is None:
            return None
        method = self.link.connection.calls.get_snapshot
        request = telemetry_service_pb2.GetSnapshotRequest()
        try:
            answer = await unary(method, request, LATE)
        except CallFailed:
            return None
        frame: telemetry_service_pb2.Frame = answer.frame
        return frame


def _note_ending(task: asyncio.Task[Any]) -> None:
    _ending.add(task)
    task.add_done_callback(_ending.discard)


def _forget(link: Link) -> bool:
    """Whether the client ends with this registration."""
    client, link.own = link.own, None
    if client is None:
        return False
    _clients[client] -= 1
    if _clients[client] > 0:
        return False
    del _clients[client]
    return True


async def _end(link: Link) -> None:
    """Ends a registration, and returns when the daemon has ended it, too, or is late."""
    task = asyncio.get_running_loop().create_task(_end_and_see(link))
    _note_ending(task)
    await asyncio.wait([task])


async def _end_and_see(link: Link) -> None:
    link.stream.cancel()
    if _forget(link):
        # The daemon does not say so, but it can be asked whether it knows the client.
        request = admission.ReportRequest(client_id=link.client_id)
        until, pause = awake() + _CLOSES_WITHIN, _ENDED_PAUSE
        with contextlib.suppress(CallFailed):
            while awake() < until:
                await unary(link.connection.calls.report, request, until - awake())
                await asyncio.sleep(pause)
                pause *= 2
    await link.connection.close()


def _closed() -> StageloadError:
    return StageloadError(
        "the job has been closed", code="FAILED_PRECONDITION", reason="SESSION_CLOSED"
    )
