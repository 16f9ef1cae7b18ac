"""What entering a `with` has taken is given back also where its exit is never run.

KeyboardInterrupt is raised at the first instruction of an `__exit__` as well, before any of it has
run: Python 3.11 and newer look for signals where a function begins. The traceback then keeps the
object for as long as a notebook keeps the traceback, so its end cannot be what gives back.

But the `with` statement alone holds what it calls at its end, and drops it in the same moment,
however it is left. So that is an object of its own here, and a weak reference to it does the rest.
Its callback is a function of C, which nothing interrupts, and which may be called in the midst of
anything, as garbage is; a thread that gets no signals does what is to be done.
"""

from __future__ import annotations

import functools
import queue
import weakref
from typing import Any, Callable, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
#: It must not wait. It is called on a thread of the library.
Undo = Callable[[], None]

_dropped: queue.SimpleQueue[weakref.ref[Any] | None] = queue.SimpleQueue()
_undos: dict[int, tuple[weakref.ref[Any], Undo]] = {}


class _Exit:
    def __init__(self, function: Callable[..., Any], is_async: bool) -> None:
        self._function = function
        self._is_async = is_async

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """By a `with` statement this is called before the object is entered."""
        if instance is None:
            return self._function
        if self._is_async:
            exit = functools.partial(_leave_async, self._function, instance)
        else:
            exit = functools.partial(self._function, instance)
        instance._exit = weakref.ref(exit, _dropped.put)
        return exit


def _leave_async(function: Callable[..., Any], instance: Any, *arguments: Any) -> Any:
    """A coroutine, which an `async with` holds in place of what has made it."""
    coroutine = function(instance, *arguments)
    hold: Held | None = instance._hold
    found = None if hold is None else _undos.get(hold._key)
    if hold is not None and found is not None:
        before, exit = hold._key, weakref.ref(coroutine, _dropped.put)
        _undos[id(exit)] = exit, found[1]
        hold._exit, hold._key = exit, id(exit)
        del _undos[before]  # no call: from here on, nothing interrupts before it is awaited
    return coroutine


def gives_back(function: Function) -> Function:
    """Of an `__exit__`, in a class whose `__enter__` makes a Held and keeps it as `_hold`."""
    return cast(Function, _Exit(function, False))


def gives_back_async(function: Function) -> Function:
    """The same of an `__aexit__`."""
    return cast(Function, _Exit(function, True))


class Held:
    """By the `with` statement that enters the object now; by none where it is entered by hand."""

    def __init__(self, entered: Any, undo: Undo) -> None:
        exit: weakref.ref[Any] | None = vars(entered).pop("_exit", None)
        self._exit = exit
        self._key = 0 if exit is None else id(exit)
        if exit is not None:
            _undos[self._key] = exit, undo
            if exit() is None:  # it was looked at, and that was all
                self.end()

    @property
    def lost(self) -> bool:
        """Whether it was left without its exit having been run, or will be undone at once."""
        return self._exit is not None and self._exit() is None

    def end(self) -> None:
        """There is nothing to give back any more."""
        _undos.pop(self._key, None)
        self._key = 0  # before the reference is gone, whose number another one may get
        self._exit = None


def when_gone(thing: Any, undo: Undo) -> None:
    """Undoes it once nobody refers to `thing`, to which `undo` must not refer either. TypeError for
    what cannot be referred to weakly."""
    gone = weakref.ref(thing, _dropped.put)
    _undos[id(gone)] = gone, undo


def end_undoing() -> None:
    _dropped.put(None)


def undo_what_is_dropped(failed: Callable[[str], None]) -> None:
    """Until end_undoing()."""
    while True:
        exit = _dropped.get()
        if exit is None:
            return
        found = _undos.pop(id(exit), None)
        if found is not None:
            try:
                found[1]()
            except Exception:
                failed("giving back what an interrupted `with` held failed")
        del exit, found
