"""Raises StopRequested in the main thread.

A real signal is needed for that, since nothing else gets a thread out of a system call, and SIGURG
is one that nobody uses and that does nothing where it is not handled. Its handler is there while a
job is, and hands on what is not ours.

Under IPython, such as in a notebook's kernel, nothing is raised while no cell runs: it would come
out of the kernel's own loop, and end it with all that the user has in memory.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType
from typing import Any, Callable

from .errors import StopRequested

_SIGNAL = signal.SIGURG

# Those that the handler is for, and what was there before it.
_installed: list[MainThreadStop] = []
_before: Any = None
# Sends _SIGNAL to have the handler taken away, where that was not done in the main thread.
_unneeded = False
# Of exceptions that are raised without a signal: whose the last one was. Where this is locked, what
# is collected as garbage may close a job.
_async_lock = threading.RLock()
_async_of: MainThreadStop | None = None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _between_cells(frame: FrameType | None) -> bool:
    """Whether the main thread, which is in `frame`, is IPython's own."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if shell is None or shell() is None:
        return False
    while frame is not None:
        code = frame.f_globals.get("__name__"), frame.f_code.co_name
        # The one function of IPython that executes what the user has written.
        if code == ("IPython.core.interactiveshell", "run_code"):
            return False
        frame = frame.f_back
    return True


class MainThreadStop:
    """`idle` is called, at once and from any thread, where there is nothing to raise it in."""

    def __init__(self, idle: Callable[[StopRequested], None]) -> None:
        self._idle = idle
        self._pending: StopRequested | None = None
        self._removed = False

    def install(self) -> None:
        """Elsewhere than in the main thread no handler can be installed: see fire()."""
        global _before
        if not _in_main_thread():
            return
        if signal.getsignal(_SIGNAL) is not _handle:  # the program may have set its own meanwhile
            _before = signal.signal(_SIGNAL, _handle)
        _installed.append(self)

    def remove(self) -> None:
        global _async_of, _unneeded
        self._pending = None
        with _async_lock:
            self._removed = True
            if _async_of is self:
                _async_of = None
                _raise_in_main(None)  # takes it back where it was not raised yet
        if self in _installed:
            _installed.remove(self)
        if _installed:
            return
        main = threading.main_thread().ident
        if _in_main_thread():
            _restore()
        elif main is not None and signal.getsignal(_SIGNAL) is _handle:
            _unneeded = True
            signal.pthread_kill(main, _SIGNAL)

    def fire(self, stop: StopRequested) -> None:
        """From any thread."""
        global _async_of
        main = threading.main_thread().ident
        if main is None:
            return
        if self in _installed:
            self._pending = stop
            signal.pthread_kill(main, _SIGNAL)
            return
        if _between_cells(sys._current_frames().get(main)):
            self._idle(stop)
            return

        # The second best: at its next step of Python, so not out of a call that blocks.
        class Stop(StopRequested):
            def __init__(self) -> None:
                super().__init__(stop.reason, stop.text, stop.grace)

            def __reduce__(self) -> tuple[Any, ...]:
                return stop.__reduce__()

        Stop.__name__ = Stop.__qualname__ = "StopRequested"
        with _async_lock:
            if not self._removed:
                _async_of = self
                _raise_in_main(Stop)

    def take(self, frame: FrameType | None) -> bool:
        """In the main thread. Whether the signal was for this one; raises where it is to."""
        stop, self._pending = self._pending, None
        if stop is None:
            return False
        if not _between_cells(frame):
            raise stop._copy()
        self._idle(stop)
        return True


def _raise_in_main(kind: type[BaseException] | None) -> None:
    """At its next step; None takes back what was not raised yet."""
    main = threading.main_thread().ident
    if main is not None:
        exception = ctypes.py_object() if kind is None else ctypes.py_object(kind)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), exception)


def _restore() -> None:
    if signal.getsignal(_SIGNAL) is _handle:
        signal.signal(_SIGNAL, _before if _before is not None else signal.SIG_DFL)


def _handle(number: int, frame: FrameType | None) -> None:
    global _unneeded
    ours, _unneeded = _unneeded, False
    if not _installed:
        _restore()
    # One that raises is followed by the others at their own signals.
    taken = [one.take(frame) for one in list(_installed)]
    if not any(taken) and not ours and callable(_before):
        _before(number, frame)
