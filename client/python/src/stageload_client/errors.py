"""What the package raises.

Each exception that it raises of its own accord is a StageloadError, but for StopRequested, and for
ValueError and TypeError where an argument cannot be. `reason` is one of a few fixed words for
programs to switch on; str() is one line for people, with the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Blocker:
    """One reason why a request waits, with the value read and the value needed."""

    kind: str  #: "MEMORY", "LEVEL", "ORDER"...: docs/admission.md
    read: float  #: in the unit of the kind: bytes, percent, seconds
    needed: float
    text: str  #: one line for people, with the figures
    ends_in: float | None  #: seconds after which it blocks no more, where that can be told


@dataclass(frozen=True)
class Waiting:
    """Why a request for a lease waits now."""

    blockers: tuple[Blocker, ...]  #: never empty
    position: int  #: its place among the leases that wait, from 1

    def __str__(self) -> str:
        return "; ".join(f"{blocker.kind}: {blocker.text}" for blocker in self.blockers)


def _restore(
    kind: type[BaseException], arguments: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class _Pickled(BaseException):
    """By what it became; BaseException's own way is to call the class with str() once more."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__.copy())


class StageloadError(_Pickled, Exception):
    """`code` is a status code of gRPC, such as "INVALID_ARGUMENT"."""

    def __init__(self, message: str, *, code: str = "UNKNOWN", reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NoRoom(StageloadError):
    """There was no room before the timeout, or nobody who said so (ADMISSION_TIMEOUT)."""

    def __init__(
        self, message: str, *, stage: str, memory: int, blockers: tuple[Blocker, ...] = ()
    ) -> None:
        super().__init__(message, code="RESOURCE_EXHAUSTED", reason="ADMISSION_TIMEOUT")
        self.stage = stage
        self.memory = memory  #: bytes that were asked for
        self.blockers = blockers  #: what it waited for at last; empty when nothing was ever told


class NeverFits(StageloadError):
    """It asks for more than this machine or its pool can ever give (NEVER_FITS)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="INVALID_ARGUMENT", reason="NEVER_FITS")


class NoDaemon(StageloadError):
    """No daemon answers, and none could be started (NO_DAEMON)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="UNAVAILABLE", reason="NO_DAEMON")


class Forked(StageloadError):
    """The object belongs to the parent of this process (FORKED)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} belongs to the process that made it, and this is a child that was forked from "
            'it: use it there, or start children with multiprocessing\'s "spawn"',
            code="FAILED_PRECONDITION",
            reason="FORKED",
        )


class NoDaemonWarning(RuntimeWarning):
    """The program runs on unmanaged: nobody keeps room for it, and it keeps none from others."""


class StopRequested(_Pickled):
    """The daemon asks the job to end, and gives it no more leases.

    Not an Exception, as KeyboardInterrupt is not one: a loop that goes on after every failed step
    must not go on after this.
    """

    def __init__(self, reason: str, text: str, grace: float = 0.0) -> None:
        super().__init__(text)
        self.reason = reason  #: "SWAP_BUDGET", "SWAP_LIMIT", "LOW_MEMORY", "CANCELLED"...
        self.text = text  #: one line with the figures
        self.grace = grace  #: seconds until SIGTERM, where `enforce` allowed that

    def _copy(self) -> StopRequested:
        """What is raised or handed out in its place: the traceback of one that is kept would keep
        what the frames held that it came through."""
        return StopRequested(self.reason, self.text, self.grace)


def bare(error: BaseException) -> BaseException:
    """Of the package's own, without the frames of the library's thread that it came through: they
    keep gRPC's calls and their tasks, and asyncio swallows a Ctrl-C where a task is collected."""
    if isinstance(error, (StageloadError, StopRequested)):
        error.__traceback__ = error.__context__ = None
    return error


class ReleasedModuleError(_Pickled, RuntimeError):
    """A module was used after release() had freed its memory."""

    def __init__(self, name: str, stage: str | None = None, missing: Sequence[str] = ()) -> None:
        where = f' at the end of stage "{stage}"' if stage else ""
        gone = "its weights are gone; load it again before it is used"
        if missing:
            gone = (
                f"{', '.join(missing)}: gone, and in no state dict; set it again, or make the "
                "module anew"
            )
        super().__init__(f'"{name}" was released{where}: {gone}')
        self.name = name
        self.stage = stage
        self.missing = tuple(missing)  #: what a state dict cannot bring back, where that is all
