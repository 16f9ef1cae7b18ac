"""A lock of objects that live on in the child of a fork.

There, a lock that another thread of the parent held would be held for ever, so a child begins with
none held.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

from ._loop import check_may_wait


class ForkedLock:
    """Taken by `with`, also again by who holds it. What comes to the library's thread, as garbage
    does, gets StageloadError where it would wait: who holds the lock may wait for that thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            check_may_wait()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # it was taken before a fork
            self._lock.release()

    def _begin_in_child(self) -> None:
        self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkedLock] = weakref.WeakSet()


def _begin_in_child() -> None:
    for lock in list(_locks):
        lock._begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)
