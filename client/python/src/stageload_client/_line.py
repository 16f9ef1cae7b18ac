"""Which line of work asks for a lease: a thread, or a task of asyncio.

The daemon takes a lease for held by the line that asked for it, so no number is ever used twice:
the next thread or task at the same address is another one. A call that was handed to a pool
(`asyncio.to_thread`) is a line of its own, since what it gets is held elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from contextvars import ContextVar
from typing import Any

_numbers = itertools.count(1)
_here: ContextVar[tuple[weakref.ref[Any], int] | None] = ContextVar("stageload_line", default=None)


def this_line() -> int:
    try:
        owner: Any = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        owner = None
    if owner is None:
        owner = threading.current_thread()
    known = _here.get()
    # A task begins with the context of whoever made it, and so with that one's number.
    if known is not None and known[0]() is owner:
        return known[1]
    number = next(_numbers)
    _here.set((weakref.ref(owner), number))
    return number
