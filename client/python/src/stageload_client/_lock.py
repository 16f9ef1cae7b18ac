"""A lock of objects that live on in the child of a fork.

There, a lock that another thread of the parent held would be held for ever, so a child begins with
none held.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable

from ._loop import check_may_wait, on_library_thread


class ForkedLock:
    """Taken by `with`, also again by who holds it. What comes to the library's thread, as garbage
    does, gets StageloadError where it would wait: who holds the lock may wait for that thread.

    A `with` gets the lock's own methods, which are functions of C: no interrupt comes between one
    and what it does, after which nobody would give the lock back."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    @property
    def __enter__(self) -> Callable[[], Any]:
        return self._enter_at_once if on_library_thread() else self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., Any]:
        """Of the lock that is taken, also in the child of a fork, where there is another one."""
        return self._lock.__exit__

    def try_acquire(self) -> bool:
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        self._lock.release()

    def _enter_at_once(self) -> None:  # interrupts come to the main thread only
        if not self._lock.acquire(blocking=False):
            check_may_wait()

    def _begin_in_child(self) -> None:
        self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkedLock] = weakref.WeakSet()


def _begin_in_child() -> None:
    for lock in list(_locks):
        lock._begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)
