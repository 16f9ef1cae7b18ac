"""The library's one thread of its own, which waits for the daemon to speak.

It runs an asyncio loop with gRPC's asyncio client, since the other one wakes up several times a
second for each call that waits. It blocks all signals, so that the program's main thread gets them.

A child of a fork has no such thread, and gRPC does not live through a fork: there, everything
raises Forked.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Any, Callable, TypeVar

from .errors import Forked

Result = TypeVar("Result")

_ENDS_WITHIN = 2.0


def say(text: str) -> None:
    """On stderr. Where that is full, closed or None, no more than the text is lost."""
    with contextlib.suppress(Exception):
        if sys.stderr is not None:  # print() would take None for stdout
            print(text, file=sys.stderr, flush=True)


def print_exception(what: str) -> None:
    """The one that is being handled, and that must not end a thread of the library."""
    say(f"stageload_client: {what}:\n{traceback.format_exc()}")


class LibraryThread:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="stageload", daemon=True)
        self._closers: dict[int, Callable[[], Coroutine[Any, Any, None]]] = {}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        atexit.register(self._end)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Not cancelled with the future: who gives up says so to the object that works."""
        future: Future[Result] = Future()

        async def run() -> None:
            try:
                result = await work
            except BaseException as error:
                with contextlib.suppress(InvalidStateError):  # cancelled
                    future.set_exception(error)
            else:
                with contextlib.suppress(InvalidStateError):
                    future.set_result(result)

        def begin() -> None:
            task = self.loop.create_task(run())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

        self.post(begin)
        return future

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.submit(work).result()

    async def run_async(self, work: Coroutine[Any, Any, Result]) -> Result:
        """From the caller's own loop."""
        return await asyncio.wrap_future(self.submit(work))

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

        with contextlib.suppress(Exception):  # the process ends, whatever it was
            self.submit(close_all()).result(timeout=_ENDS_WITHIN)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_ENDS_WITHIN)


# asyncio itself keeps only weak references to tasks.
_tasks: set[asyncio.Task[None]] = set()
_lock = threading.Lock()
_library: LibraryThread | None = None


def library() -> LibraryThread:
    """Of this process; started by the first call."""
    global _library
    with _lock:
        if _library is None:
            _library = LibraryThread()
        elif _library.pid != os.getpid():
            raise Forked("stageload_client's connection to the daemon")
        return _library


def _child_has_no_lock_held() -> None:
    global _lock
    _lock = threading.Lock()


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
        if not loop.is_closed():
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
