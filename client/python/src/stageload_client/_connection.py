"""The way to the daemon: finds it, starts one if need be, asks who it is.

Runs on the library's thread.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import shutil
import socket as sockets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from . import _autostart, _paths
from ._clock import awake
from ._loop import in_thread, library
from ._wire import admin_service_pb2 as admin
from ._wire import error_pb2
from ._wire.calls import Calls
from .errors import NeverFits, NoDaemon, StageloadError

# A daemon that leaves because it was idle may take a connection with it.
_CONNECT_TRIES = 3
# launchd holds the socket of a daemon that it starts again, and may let 10 s pass between two
# starts.
ANSWERS_WITHIN = 15.0
# The same once it has said who it is: a program does not stand still because the machine is deep in
# swap and the daemon with it.
LATE = 2.0
# How long the next daemon is waited for when one went away, and how often it is looked for.
PATIENCE = 10.0
_PAUSE = 0.1
_IDLE_PAUSE = 1.0
_STARTS = 3  # one that cannot start is not started ten times a second


class CallFailed(Exception):
    """A call ended with another status than OK."""

    def __init__(self, code: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @property
    def went_away(self) -> bool:
        """As in a crash; not when the daemon said that it was leaving."""
        return self.code == "UNAVAILABLE" and not self.reason

    @property
    def unanswered(self) -> bool:
        """The daemon is there, and did not answer in time."""
        return self.code == "DEADLINE_EXCEEDED" and not self.reason


def is_gone(error: Exception) -> bool:
    """Whether there is no daemon any more: it went away, or says that it is leaving."""
    if isinstance(error, NoDaemon):
        return True
    if not isinstance(error, CallFailed):
        return False
    if error.code == "UNAVAILABLE" and error.reason == "SHUTTING_DOWN":
        return True
    # Who cancels a call of ours but ourselves is a server that is being taken down.
    return error.went_away or (error.code == "CANCELLED" and not error.reason)


def none_answers(error: Exception) -> bool:
    """The same, or one is there that does not answer."""
    return is_gone(error) or (isinstance(error, CallFailed) and error.unanswered)


def to_public(error: Exception) -> Exception:
    """What the caller gets to see of a failed call."""
    if not isinstance(error, CallFailed):
        return error
    if error.reason == "NEVER_FITS":
        return NeverFits(str(error))
    if error.went_away or error.unanswered:
        return NoDaemon(str(error))
    return StageloadError(str(error), code=error.code, reason=error.reason)


def _failure(error: Any) -> CallFailed:
    """Of a grpc.aio.AioRpcError."""
    error.args = ()  # older grpcio has it refer to itself, and so to the call and its task
    reason = ""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in error_pb2.ErrorStatus.FromString(value).details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                reason = error_pb2.ErrorInfo.FromString(detail.value).reason
    return CallFailed(error.code().name, error.details() or error.code().name, reason)


def _cancelled() -> CallFailed:
    return CallFailed("CANCELLED", "the call was cancelled")


def _closed() -> CallFailed:
    return CallFailed("UNAVAILABLE", "the connection to the daemon has been closed")


def _unanswered(within: float) -> CallFailed:
    return CallFailed("DEADLINE_EXCEEDED", f"the daemon has not answered within {within:.0f}s")


async def unary(method: Any, request: Any, timeout: float | None) -> Any:
    """Its answer, or CallFailed. No task of this library is ever cancelled, so it is the call."""
    import grpc

    try:
        return await method(request, timeout=timeout)
    except grpc.aio.UsageError:
        raise _closed() from None
    except grpc.aio.AioRpcError as error:
        raise _failure(error) from None
    except asyncio.CancelledError:
        raise _cancelled() from None


class Stream:
    """Answers of one call, until there are no more."""

    def __init__(self, method: Any, request: Any, timeout: float | None = None) -> None:
        import grpc

        try:
            self._call = method(request, timeout=timeout)
        except grpc.aio.UsageError:
            raise _closed() from None

    async def read(self) -> Any:
        """None at a good end; CallFailed at any other."""
        import grpc

        try:
            answer = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _failure(error) from None
        except asyncio.CancelledError:
            raise _cancelled() from None
        return None if answer is grpc.aio.EOF else answer

    async def read_within(self, within: float) -> Any:
        """The same. CallFailed, and the end of the call, when nothing comes."""
        late = False

        def give_up() -> None:
            nonlocal late
            late = True
            self._call.cancel()

        timer = asyncio.get_running_loop().call_later(within, give_up)
        try:
            return await self.read()
        except CallFailed:
            if late:
                raise _unanswered(within) from None
            raise
        finally:
            timer.cancel()

    def cancel(self) -> None:
        self._call.cancel()


@dataclass(frozen=True)
class ConnectOptions:
    paths: _paths.Paths | None
    autostart: bool
    nowhere: str = ""  # why there are no paths

    @property
    def absent(self) -> str:
        """What is said where none answers."""
        if self.paths is None:
            return self.nowhere
        return f"no daemon answers at {self.paths.socket}"

    def without_start(self) -> ConnectOptions:
        return replace(self, autostart=False)


@dataclass
class Connection:
    path: str  # of the daemon's socket
    channel: Any  # a grpc.aio.Channel
    calls: Calls
    version: admin.GetVersionResponse

    async def close(self) -> None:
        await self.channel.close()


def options_for(socket: str | None, autostart: bool) -> ConnectOptions:
    """Reads the environment. ValueError for a path that cannot be. Where nothing says where a
    daemon would be, there is none."""
    try:
        paths = _paths.resolve(socket)
    except _paths.NoHome as error:
        return ConnectOptions(None, False, f"no daemon: {error}")
    return ConnectOptions(paths, autostart and not _autostart.forbidden())


def _lives(path: str) -> bool:
    """Whether a socket is bound there that only takes no connection now: macOS refuses those beyond
    its queue. To a socket of another type both kernels say so before they look at the queue."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as dial:
        return dial.connect_ex(path) == errno.EPROTOTYPE


def listens(path: str) -> bool:
    """Whether somebody does. OSError for everything but that nobody does."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as dial:
        dial.setblocking(False)
        failed = dial.connect_ex(path)
    if failed in (errno.ENOENT, errno.ENOTDIR):
        return False
    if failed == errno.ECONNREFUSED:
        return _lives(path)
    # EAGAIN: its queue of waiting connections is full, as when a hundred clients come at once.
    if failed not in (0, errno.EAGAIN, errno.EINPROGRESS):
        raise OSError(failed, f"connect to {path}: {errno.errorcode.get(failed, failed)}")
    return True


@contextlib.contextmanager
def _without_fork_support() -> Iterator[None]:
    """gRPC's own way to live through a fork crashes children now and then (1.85, epoll1), and
    nothing here is used in one. It looks at this variable once, before its first channel."""
    name = "GRPC_ENABLE_FORK_SUPPORT"
    if name in os.environ:
        yield
        return
    os.environ[name] = "0"
    try:
        yield
    finally:
        os.environ.pop(name, None)


# A channel that never connects. Without any, gRPC shuts itself down, and a fork in that moment,
# such as a subprocess of Python 3.9, aborts the process (1.51, thread_pool.cc).
_kept: list[Any] = []


async def _close_kept() -> None:
    while _kept:
        await _kept.pop().close()


# By the path of a socket: a link to it, for as long as the process lives.
_links: dict[str, str] = {}


def _without_comma(path: str) -> str:
    """gRPC takes a comma, also an escaped one, for the end of one address of several."""
    if "," not in path:
        return path
    if path not in _links:
        folder = tempfile.gettempdir()
        folder = tempfile.mkdtemp(prefix="sl.", dir="/tmp" if "," in folder else folder)
        atexit.register(_remove_link, os.getpid(), folder)
        link = os.path.join(folder, "s")
        os.symlink(path, link)
        _links[path] = link
    return _links[path]


def _remove_link(pid: int, folder: str) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _open(path: str) -> Any:
    with _without_fork_support():
        import grpc

        if not _kept:
            _kept.append(grpc.aio.insecure_channel("unix:/dev/null"))
            library().close_at_exit(id(_kept), _close_kept)
        options = [
            # Channels to one socket would share a connection, and the pause after a failure.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1),
        ]
        address = "unix:" + quote(_without_comma(path))
        return grpc.aio.insecure_channel(address, options=options)


async def connect(options: ConnectOptions) -> Connection:
    """NoDaemon, or CallFailed, when there is none that answers."""
    if options.paths is None:
        raise NoDaemon(options.nowhere)
    path = options.paths.socket
    for tries in range(1, _CONNECT_TRIES + 1):
        try:
            if not listens(path):
                if not options.autostart:
                    raise NoDaemon(f"{options.absent}; start one with `stageloadctl daemon start`")
                await in_thread(_autostart.start, options.paths, listens)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise NoDaemon(f"no daemon: look for it at {path}: {error.strerror}") from error
            raise CallFailed("UNKNOWN", str(error)) from error
        try:
            channel = _open(path)
        except OSError as error:
            raise CallFailed("UNKNOWN", f"link to {path}, which has a comma: {error}") from error
        calls = Calls(channel)
        try:
            version = await unary(calls.get_version, admin.GetVersionRequest(), ANSWERS_WITHIN)
        except CallFailed as error:
            await channel.close()
            if error.unanswered:
                raise _unanswered(ANSWERS_WITHIN) from None
            if tries == _CONNECT_TRIES or not is_gone(error):
                raise
            await asyncio.sleep(0.02)
        else:
            return Connection(path, channel, calls, version)
    raise AssertionError("unreachable")


class Search:
    """For the next daemon, by an object that outlives the one it was connected to."""

    def __init__(self, options: ConnectOptions, patience: float | None = None) -> None:
        self._options = options
        self._soon = awake() + (PATIENCE if patience is None else patience)
        self._starts = 0

    async def look(self) -> Connection:
        """Once. CallFailed or NoDaemon."""
        options = self._options
        if options.autostart and self.early and self._starts < _STARTS:
            self._starts += 1
        else:
            options = options.without_start()
        return await connect(options)

    @property
    def early(self) -> bool:
        return awake() < self._soon

    @property
    def pause(self) -> float:
        return _PAUSE if self.early else _IDLE_PAUSE
