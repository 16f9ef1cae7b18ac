"""The library's one thread of its own, which waits for the daemon to speak.

It runs an asyncio loop with gRPC's asyncio client, since the other one wakes up several times a
second for each call that waits. It blocks all signals, so that the program's main thread gets them.

A child of a fork has no such thread, and gRPC does not live through a fork: there, everything
raises Forked.

Any Python code can be interrupted by other code, in the same thread: by a signal's handler, and by
what is collected as garbage, which happens on this thread, too. So nothing waits for this thread
while it holds a lock that this thread takes, and on this thread itself nothing is waited for.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import itertools
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine
from typing import Any, Callable, TypeVar

from . import _exit
from .errors import Forked, StageloadError, bare

Result = TypeVar("Result")
#: What came of it, or the exception.
Deliver = Callable[[Any, "BaseException | None"], None]

_ENDS_WITHIN = 2.0


def say(text: str) -> None:
    """On stderr. Where that is full, closed or None, no more than the text is lost."""
    with contextlib.suppress(Exception):
        if sys.stderr is not None:  # print() would take None for stdout
            print(text, file=sys.stderr, flush=True)


def print_exception(what: str) -> None:
    """The one that is being handled, and that must not end a thread of the library."""
    say(f"stageload_client: {what}:\n{traceback.format_exc()}")


class Ended(StageloadError):
    """The program is at its end, and the library with it."""

    def __init__(self) -> None:
        super().__init__(
            "the program is ending, and its jobs have been closed",
            code="FAILED_PRECONDITION",
            reason="SESSION_CLOSED",
        )


def _to_nobody(_result: Any, _error: BaseException | None) -> None:
    pass


class LibraryThread:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="stageload", daemon=True)
        self._undoes = threading.Thread(
            target=_exit.undo_what_is_dropped,
            args=(print_exception,),
            name="stageload-undo",
            daemon=True,
        )
        self._closers: dict[int, Callable[[], Coroutine[Any, Any, None]]] = {}
        self._numbers = itertools.count()
        self._unanswered: dict[int, tuple[Coroutine[Any, Any, Any], Deliver]] = {}
        self._over = False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._undoes.start()
            self._thread.start()
        except BaseException:
            _exit.end_undoing()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        atexit.register(self._end)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._refuse_all()

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def check_may_wait(self) -> None:
        if self.is_current():
            raise StageloadError(
                "not from the library's own thread, such as by what is collected as garbage there",
                code="FAILED_PRECONDITION",
                reason="WRONG_THREAD",
            )

    @property
    def ended(self) -> bool:
        """Nothing runs on it any more: the program is at its end."""
        return self._over or sys.is_finalizing()

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self.ended:
            self.loop.call_soon_threadsafe(function, *arguments)

    def submit(self, work: Coroutine[Any, Any, Any], deliver: Deliver = _to_nobody) -> None:
        """Begins it. `deliver` is called once, on any thread, and must not wait; with Ended when
        the program is at its end. Who gives up says so to the object that works."""
        number = next(self._numbers)
        self._unanswered[number] = work, deliver
        self.post(self._begin, number, work)
        if self.ended:
            self._refuse(number)

    def _begin(self, number: int, work: Coroutine[Any, Any, Any]) -> None:
        async def run() -> None:
            try:
                result = await work
            except BaseException as error:
                self._answer(number, None, error)
            else:
                self._answer(number, result, None)

        if number in self._unanswered:
            task = self.loop.create_task(run())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    def _answer(self, number: int, result: Any, error: BaseException | None) -> None:
        waits = self._unanswered.pop(number, None)
        if waits is not None:
            waits[1](result, None if error is None else bare(error))

    def _refuse(self, number: int) -> None:
        waits = self._unanswered.pop(number, None)
        if waits is None:
            return
        work, deliver = waits
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()
        deliver(None, Ended())

    def _refuse_all(self) -> None:
        self._over = True
        for number in list(self._unanswered):
            self._refuse(number)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What comes of it. Ended at the end of the program; StageloadError on this thread."""
        try:
            self.check_may_wait()
        except StageloadError:
            work.close()
            raise
        # Not a Future: its lock would be held where it is waited for, and taken by this thread.
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.submit(work, lambda *answer: answers.put(answer))
        result, error = answers.get()
        if error is not None:
            try:
                raise error
            finally:
                del error  # it and this frame would keep each other
        answer: Result = result
        return answer

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """What ends or gives back something, wherever that is: it is not waited for on this thread,
        and is no error at the end of the program, where all was closed."""
        if self.is_current():
            self.submit(work)
            return
        with contextlib.suppress(Ended):
            self.run(work)

    async def run_async(self, work: Coroutine[Any, Any, Result]) -> Result:
        """From the caller's own loop."""
        try:
            self.check_may_wait()
            loop = asyncio.get_running_loop()
        except BaseException:
            work.close()
            raise
        future: asyncio.Future[Result] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():  # cancelled
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def deliver(result: Any, error: BaseException | None) -> None:
            with contextlib.suppress(RuntimeError):  # that loop is over
                loop.call_soon_threadsafe(settle, result, error)

        self.submit(work, deliver)
        return await future

    async def finish_async(self, work: Coroutine[Any, Any, None]) -> None:
        """As finish(), also in a coroutine that is collected as garbage, where no loop runs."""
        if self.is_current() or not in_loop():
            self.submit(work)
            return
        with contextlib.suppress(Ended):
            await self.run_async(work)

    def close_at_exit(self, key: int, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._closers[key] = close

    def closed(self, key: int) -> None:
        self._closers.pop(key, None)

    def _end(self) -> None:
        if os.getpid() != self.pid or not self._thread.is_alive():
            return

        async def close_all() -> None:
            closing = [close() for close in list(self._closers.values())]
            await asyncio.gather(*closing, return_exceptions=True)

        closed: queue.SimpleQueue[None] = queue.SimpleQueue()
        try:
            self.submit(close_all(), lambda *_: closed.put(None))
            with contextlib.suppress(queue.Empty):  # the process ends, whatever it was
                closed.get(timeout=_ENDS_WITHIN)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_ENDS_WITHIN)
            _exit.end_undoing()
            if self is _library:  # else it may have been the other one's that has ended
                self._undoes.join(_ENDS_WITHIN)
        finally:
            self._refuse_all()


class Together:
    """Work that is begun one by one and waited for at once, as the `with` is left: not on the
    library's thread, nor by an interrupt."""

    def __init__(self) -> None:
        self._ends: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._lasting = 0

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        library().submit(work, lambda *_: self._ends.put(None))
        self._lasting += 1

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if on_library_thread() or (kind is not None and not issubclass(kind, Exception)):
            return
        while self._lasting > 0:
            self._ends.get()
            self._lasting -= 1


def in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# asyncio itself keeps only weak references to tasks.
_tasks: set[asyncio.Task[None]] = set()
_lock = threading.RLock()
_library: LibraryThread | None = None


def library() -> LibraryThread:
    """Of this process; started by the first call."""
    if _library is None:
        with _lock:
            _start()
    assert _library is not None
    if _library.pid != os.getpid():
        raise Forked("stageload_client's connection to the daemon")
    return _library


def _start() -> None:
    global _library
    if _library is None:
        made = LibraryThread()
        if _library is None:
            _library = made
        else:  # a signal's handler has come here, too, while this one started
            made._end()


def on_library_thread() -> bool:
    return _library is not None and _library.is_current()


def check_may_wait() -> None:
    """StageloadError on the library's thread."""
    if _library is not None:
        _library.check_may_wait()


def _child_has_no_lock_held() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_child_has_no_lock_held)


async def in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """What blocks, in a thread that is there for this call only and holds up no exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            result, error = function(*arguments), None
        except BaseException as raised:
            result, error = None, raised
        with contextlib.suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="stageload-start", daemon=True).start()
    return await done


class CallbackThread:
    """Makes a job's callbacks, one after another; there from the first of them on."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, callback: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stageload-call", daemon=True)
            self._thread.start()
        self._queue.put(callback)

    def close(self) -> None:
        if self._thread is not None:
            self._queue.put(None)

    def _run(self) -> None:
        while True:
            callback = self._queue.get()
            if callback is None:
                return
            try:
                callback()
            except BaseException:  # sys.exit() too ends no more than the callback that calls it
                print_exception("an exception left a callback")
