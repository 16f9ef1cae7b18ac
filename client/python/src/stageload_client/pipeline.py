"""Stages of a pipeline object that somebody else wrote, told from which of its parts is called.

    on_call(pipe, "vae.decode", "decode", job, memory="6G")
    with watch_pipeline(pipe, job, memory={"decode": "6G"}):
        image = pipe(prompt)

Threads: a pipeline is called by one thread at a time; coroutines of one beside each other.
"""

from __future__ import annotations

import collections.abc
import contextlib
import contextvars
import copy
import functools
import inspect
import operator
import types
from collections.abc import Mapping
from typing import Any

from ._checks import check_filled
from ._exit import Held, gives_back
from ._lock import ForkedLock
from .job import Job, Lease
from .units import Duration, Size, parse_size, parse_timeout

# Parts of diffusers' pipelines, by the stage that a call of them is.
_DIFFUSERS = {
    "text encoder": ("text_encoder", "text_encoder_2", "text_encoder_3", "prior_text_encoder"),
    "denoise": ("transformer", "transformer_2", "unet", "prior", "decoder"),
    "decode": ("vae.decode", "vqvae.decode", "vqgan.decode", "image_vae.decode"),
}
# What they call last, also where nothing is decoded (output_type="latent").
_DIFFUSERS_LAST = "maybe_free_model_hooks"


class Watched:
    """Calls that are watched, until close() or the end of a `with`."""

    def __init__(self, job: Job, memory: Mapping[str, Size], timeout: Duration | None) -> None:
        self._job = job
        self._memory = {stage: parse_size(size) for stage, size in memory.items()}
        if 0 in self._memory.values():
            raise ValueError("a stage's memory is above 0; leave it out to name the stage only")
        self._timeout = parse_timeout(timeout)
        self._lock = ForkedLock()
        self._lease: Lease | None = None
        self._inside: list[_Inside] = []  # calls of parts, the outermost first
        self._hold: Held | None = None
        self._patched: list[_Call] = []
        self._closed = False
        self.stages: list[str] = []  #: whose calls are watched

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._leave()
            self._undo_all()
            if self._hold is not None:
                self._hold.end()

    def _undo_all(self) -> None:
        for call in reversed(self._patched):
            call.undo()
        self._patched.clear()

    def _drop(self) -> None:
        """As close(), without waiting."""
        self._closed = True
        self._drop_lease()
        self._undo_all()

    def __enter__(self) -> Watched:
        self._hold = Held(self, self._drop)
        return self

    @gives_back
    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self, target: Any, path: str, stage: str, ends_with_call: bool) -> None:
        *parts, name = path.split(".")
        for part in parts:
            target = getattr(target, part)
        self._put(_kind(target, name)(self, target, name, stage, ends_with_call))
        if stage not in self.stages:
            self.stages.append(stage)

    def _put(self, call: _Call) -> None:
        self._patched.append(call)
        setattr(call._owner, call._name, call)

    def _enter(self, stage: str) -> None:
        if self._lease is not None and self._lease.stage == stage and self._lease.held:
            return
        self._leave()
        if self._idle():
            return
        self._lease = self._new_lease(stage)
        try:
            self._lease.acquire()
        except BaseException:
            self._leave()
            raise

    def _idle(self) -> bool:
        """Calls are only passed on."""
        return self._closed or self._job.closed

    def _new_lease(self, stage: str) -> Lease:
        return self._job.stage(stage, self._memory.get(stage), timeout=self._timeout)

    def _leave(self) -> None:
        if self._lease is None:
            return
        try:
            self._lease.release()
        except BaseException:
            self._drop_lease()
            raise
        self._lease = None

    def _drop_lease(self) -> None:
        lease = self._lease
        if lease is not None:
            lease._drop()


class _Inside:
    """A call of a part. Without a stage it is only a part of the one that lasts."""

    def __init__(self, watched: Watched, stage: str | None, ends_with_call: bool) -> None:
        self._watched = watched
        self._stage = stage
        self._ends_with_call = ends_with_call

    def __enter__(self) -> None:
        self._hold = Held(self, self._drop)
        watched = self._watched
        with watched._lock:
            watched._inside = [call for call in watched._inside if not call._hold.lost]
            if self._stage is not None and not watched._inside:
                watched._enter(self._stage)
            watched._inside.append(self)

    @gives_back
    def __exit__(self, kind: object, *_: object) -> None:
        watched = self._watched
        with watched._lock:
            try:
                if watched._inside == [self] and (self._ends_with_call or kind is not None):
                    watched._leave()
            finally:
                watched._inside.remove(self)
        self._hold.end()

    def _drop(self) -> None:
        """The call was interrupted as it ended, and with it the stage."""
        watched = self._watched
        with contextlib.suppress(ValueError):
            watched._inside.remove(self)
        # Who has the lock begins or ends a stage, and that is the end of this one, too.
        if watched._lock.try_acquire():
            try:
                if not watched._inside:
                    watched._drop_lease()
            finally:
                watched._lock.release()


class _Call:
    """Stands where the method was, in the dictionary of its owner.

    A copy of the owner, and what is pickled of it, gets what was there before instead: bound to the
    copy, so that it computes with the copy's weights, and not watched.
    """

    def __init__(
        self, watched: Watched, owner: Any, name: str, stage: str, ends_with_call: bool
    ) -> None:
        original = getattr(owner, name)
        functools.update_wrapper(self, original)  # first: its attributes may have these names
        self._watched = watched
        self._owner = owner
        self._name = name
        self._stage = stage
        self._ends_with_call = ends_with_call
        self._before = vars(owner).get(name)
        self._original = original
        self._runs_later = False  # what it returned last only began its work

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self._ends_with_call or not self._runs_later:
            with _Inside(self._watched, self._stage, self._ends_with_call):
                result = self._original(*arguments, **named)
        else:  # a lease would be waited for here, and with it the loop that its holder runs in
            result = self._original(*arguments, **named)
        if not self._ends_with_call or self._watched._idle():
            return result
        return self._run_later(result)

    def _run_later(self, result: Any) -> Any:
        """A decorated coroutine or generator does its work after the call."""
        later = isinstance(result, collections.abc.Coroutine)
        if isinstance(result, collections.abc.Generator):
            self._runs_later = True
            return self._step(result)
        if isinstance(result, collections.abc.AsyncGenerator):
            raise ValueError(
                f"{type(self._owner).__name__}.{self._name} returned an asynchronous generator, "
                'which cannot be watched; use "async with job.stage(...)"'
            )
        self._runs_later = later
        return self._await(result) if later else result

    async def _await(self, work: Any) -> Any:
        """In a stage that lasts until it has been awaited, under a lease of its own."""
        watched = self._watched
        if watched._idle() or watched in _running.get():
            return await work
        try:
            async with watched._new_lease(self._stage):
                before = _running.get()
                inside = (*before, watched)
                try:
                    _running.set(inside)
                    return await work
                finally:
                    if _running.get() is inside:  # not where it is collected as garbage
                        _running.set(before)
        finally:
            if isinstance(work, collections.abc.Coroutine):
                work.close()  # where it was not begun; else it has ended

    def _step(self, generator: Any) -> Any:
        """In a stage that begins with its first value and lasts until it ends."""
        watched = self._watched
        if watched._idle() or watched in _running.get():
            return (yield from generator)
        with watched._new_lease(self._stage):
            return (yield from _Steps(watched, generator))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Only where a class is watched."""
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._original, memo)

    def __reduce__(self) -> Any:
        if self._before is None and hasattr(type(self._owner), self._name):
            return getattr, (self._owner, self._name)  # while it is loaded, that of the class
        return operator.itemgetter(0), ((self._original,),)

    def undo(self) -> None:
        if vars(self._owner).get(self._name) is not self:
            return  # somebody else has put something over it, which goes on to call this
        before = self._before
        while isinstance(before, _Call) and before._watched._closed:
            before = before._before
        if before is None:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, before)


# Whose coroutines or generators run here: what they call themselves is a part of them.
_running: contextvars.ContextVar[tuple[Watched, ...]] = contextvars.ContextVar(
    "stageload_running", default=()
)


class _LastCall(_Call):
    """What a pipeline calls when it is done."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with _Inside(self._watched, None, True):
            return self._original(*arguments, **named)


class _CoroutineCall(_Call):
    """The stage lasts until it has been awaited. Each has a lease of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        mark = getattr(inspect, "markcoroutinefunction", None)  # since Python 3.12
        if mark is not None:
            mark(self)

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        return await self._await(self._original(*arguments, **named))


class _GeneratorCall(_Call):
    """The stage begins when its first value is asked for, and lasts until it ends or is closed.
    Each has a lease of its own."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return (yield from self._step(self._original(*arguments, **named)))


class _Steps(collections.abc.Generator[Any, Any, Any]):
    """A generator that is known to run only while it does, and not while its caller has a value."""

    def __init__(self, watched: Watched, generator: Any) -> None:
        self._watched = watched
        self._generator = generator

    def send(self, value: Any) -> Any:
        return self._step(self._generator.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._generator.throw, *error)

    def close(self) -> None:
        self._step(self._generator.close)

    def _step(self, step: Any, *arguments: Any) -> Any:
        before = _running.get()
        try:
            _running.set((*before, self._watched))
            return step(*arguments)
        finally:
            _running.set(before)


def _kind(target: Any, name: str) -> type[_Call]:
    """How the method is watched. ValueError for one that cannot be."""
    method = getattr(target, name)
    where = f"{type(target).__name__}.{name}"
    if not callable(method):
        raise ValueError(f"{where} is not called: it is of type {type(method).__name__}")
    if not hasattr(target, "__dict__"):
        raise ValueError(f"{where} cannot be watched: a {type(target).__name__} has fixed slots")
    if isinstance(method, _Call):
        return type(method)
    if isinstance(target, type):
        if not inspect.isfunction(inspect.getattr_static(target, name)):
            raise ValueError(f"{target.__name__}.{name} is no method of the class's instances")
    elif name.startswith("__") and name.endswith("__"):
        raise ValueError(
            f"{where} would never be seen: Python looks for it in the class. Watch a method that "
            'it calls, such as "forward", or put the call into a "with job.stage(...)"'
        )
    if inspect.isasyncgenfunction(method):
        raise ValueError(f'{where} is an asynchronous generator; use "async with job.stage(...)"')
    if inspect.iscoroutinefunction(method):
        return _CoroutineCall
    return _GeneratorCall if inspect.isgeneratorfunction(method) else _Call


def on_call(
    target: Any,
    method: str,
    stage: str,
    job: Job,
    *,
    memory: Size | None = None,
    timeout: Duration | None = None,
) -> Watched:
    """Each call of target's `method` ("decode", or "vae.decode") is a stage of the job, which ends
    when the call returns; with `memory`, under a lease of so much. A call within one is a part of
    it. A module is watched by its "forward". The stage of a coroutine ends when it has been
    awaited, that of a generator when that ends or is closed, also where a plain method returns one.
    ValueError for what cannot be watched: "__call__" and the like of one object, asynchronous
    generators."""
    check_filled("stage", stage, 'name it, as in on_call(pipe, "vae.decode", "decode", job)')
    watched = Watched(job, {} if memory is None else {stage: memory}, timeout)
    watched._watch(target, method, stage, ends_with_call=True)
    return watched


def watch_pipeline(
    pipe: Any,
    job: Job,
    *,
    memory: Mapping[str, Size] | None = None,
    timeout: Duration | None = None,
) -> Watched:
    """Makes "text encoder", "denoise" and "decode" of a diffusers pipeline stages of the job.

    memory: what to take a lease of before a stage, by its name, such as {"decode": "6G"}: what the
    stage takes on top of what is loaded already. A stage without is only named. "decode" ends when
    the VAE returns, the others when another stage begins (the denoiser is called once a step), when
    a call of a part raises, and at the end of the pipeline, where that calls its
    maybe_free_model_hooks().
    ValueError when no part is found.
    """
    for name in memory or {}:
        if name not in _DIFFUSERS:
            raise ValueError(f'memory: there is no stage "{name}", only: {", ".join(_DIFFUSERS)}')
    watched = Watched(job, memory or {}, timeout)
    try:
        _watch_parts(watched, pipe)
    except BaseException:
        watched.close()
        raise
    if not watched.stages:
        raise ValueError(
            f"{type(pipe).__name__} has no text encoder, denoiser or VAE that is known here; "
            "use on_call for its parts"
        )
    return watched


def _watch_parts(watched: Watched, pipe: Any) -> None:
    for stage, parts in _DIFFUSERS.items():
        for part in parts:
            owner = getattr(pipe, part.split(".")[0], None)
            if owner is None:
                continue
            method = "decode" if "." in part else "forward"
            if not hasattr(owner, method):
                continue
            if _kind(owner, method) is not _Call:
                raise ValueError(
                    f"{type(owner).__name__}.{method} is no ordinary method; use on_call for it"
                )
            watched._watch(owner, method, stage, ends_with_call=method == "decode")
    with contextlib.suppress(ValueError):  # it cannot be watched
        if hasattr(pipe, _DIFFUSERS_LAST) and _kind(pipe, _DIFFUSERS_LAST) in (_Call, _LastCall):
            watched._put(_LastCall(watched, pipe, _DIFFUSERS_LAST, "", ends_with_call=True))
