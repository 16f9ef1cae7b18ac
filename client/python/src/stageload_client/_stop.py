"""Raises StopRequested in the main thread.

A real signal is needed for that, since nothing else gets a thread out of a system call, and SIGURG
is one that nobody uses and that does nothing where it is not handled. Its handler is there while a
job is, and hands on what is not ours.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any, Callable

from .errors import StopRequested

_SIGNAL = signal.SIGURG


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class MainThreadStop:
    def __init__(self) -> None:
        self._pending: StopRequested | None = None
        self._before: Any = None
        self._installed = False
        self._handler: Callable[[int, Any], None] = self._handle  # one object, to be compared

    def install(self) -> None:
        """Elsewhere than in the main thread no handler can be installed: see fire()."""
        if _in_main_thread():
            self._before = signal.signal(_SIGNAL, self._handler)
            self._installed = True

    def remove(self) -> None:
        self._pending = None
        if not self._installed or not _in_main_thread():
            return
        self._installed = False
        if signal.getsignal(_SIGNAL) is self._handler:
            signal.signal(_SIGNAL, self._before if self._before is not None else signal.SIG_DFL)

    def fire(self, stop: StopRequested) -> None:
        """From any thread."""
        main = threading.main_thread().ident
        if main is None:
            return
        if self._installed:
            self._pending = stop
            signal.pthread_kill(main, _SIGNAL)
            return

        # The second best: at its next step of Python, so not out of a call that blocks.
        class Stop(StopRequested):
            def __init__(self) -> None:
                super().__init__(stop.reason, stop.text, stop.grace)

            def __reduce__(self) -> tuple[Any, ...]:
                return stop.__reduce__()

        Stop.__name__ = Stop.__qualname__ = "StopRequested"
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Stop))

    def _handle(self, number: int, frame: Any) -> None:
        stop, self._pending = self._pending, None
        if stop is not None:
            raise stop
        if callable(self._before):
            self._before(number, frame)
