"""Stages of a pipeline object that somebody else wrote, told from which of its parts is called.

    on_call(pipe, "vae.decode", "decode", job, memory="6G")
    with watch_pipeline(pipe, job, memory={"decode": "6G"}):
        image = pipe(prompt)

Threads: a pipeline is called by one thread at a time.
"""

from __future__ import annotations

import copy
import functools
import operator
import threading
import types
from collections.abc import Mapping
from typing import Any

from .job import Job, Lease
from .units import Duration, Size

# Parts of diffusers' pipelines, by the stage that a call of them is.
_DIFFUSERS = {
    "text encoder": ("text_encoder", "text_encoder_2", "text_encoder_3", "prior_text_encoder"),
    "denoise": ("transformer", "transformer_2", "unet", "prior", "decoder"),
    "decode": ("vae.decode", "vqvae.decode", "vqgan.decode", "image_vae.decode"),
}


class Watched:
    """Calls that are watched, until close() or the end of a `with`."""

    def __init__(self, job: Job, memory: Mapping[str, Size], timeout: Duration | None) -> None:
        self._job = job
        self._memory = dict(memory)
        self._timeout = timeout
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._depth = 0
        self._patched: list[_Call] = []
        self.stages: list[str] = []  #: whose calls are watched

    def close(self) -> None:
        with self._lock:
            self._leave()
            for call in reversed(self._patched):
                call.undo()
            self._patched.clear()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self, target: Any, path: str, stage: str, ends_with_call: bool) -> None:
        *parts, name = path.split(".")
        for part in parts:
            target = getattr(target, part)
        call = _Call(self, target, name, stage, ends_with_call)
        self._patched.append(call)
        setattr(target, name, call)
        if stage not in self.stages:
            self.stages.append(stage)

    def _enter(self, stage: str) -> None:
        if self._lease is not None and self._lease.stage == stage:
            return
        self._leave()
        if self._job.closed:
            return
        memory = self._memory.get(stage)
        self._lease = self._job.stage(stage, memory, timeout=self._timeout).acquire()

    def _leave(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()


class _Call:
    """Stands where the method was, in the dictionary of its owner.

    A copy of the owner, and what is pickled of it, gets what was there before instead: bound to the
    copy, so that it computes with the copy's weights, and not watched.
    """

    def __init__(
        self, watched: Watched, owner: Any, name: str, stage: str, ends_with_call: bool
    ) -> None:
        self._watched = watched
        self._owner = owner
        self._name = name
        self._stage = stage
        self._ends_with_call = ends_with_call
        self._before = vars(owner).get(name)
        self._original = getattr(owner, name)
        functools.update_wrapper(self, self._original)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        watched = self._watched
        with watched._lock:
            if watched._depth == 0:
                watched._enter(self._stage)
            watched._depth += 1
        try:
            return self._original(*arguments, **named)
        finally:
            with watched._lock:
                watched._depth -= 1
                if watched._depth == 0 and self._ends_with_call:
                    watched._leave()

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
            return  # somebody else has put something over it
        if self._before is None:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


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
    it. A module is watched by its "forward"."""
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
    the VAE returns, the others when another stage begins: the denoiser is called once a step.
    ValueError when no part is found.
    """
    watched = Watched(job, memory or {}, timeout)
    for name in memory or {}:
        if name not in _DIFFUSERS:
            raise ValueError(f'memory: there is no stage "{name}", only: {", ".join(_DIFFUSERS)}')
    for stage, parts in _DIFFUSERS.items():
        for part in parts:
            owner = getattr(pipe, part.split(".")[0], None)
            if owner is None:
                continue
            if "." in part:
                if hasattr(owner, "decode"):
                    watched._watch(pipe, part, stage, ends_with_call=True)
            elif hasattr(owner, "forward"):
                watched._watch(owner, "forward", stage, ends_with_call=False)
    if not watched.stages:
        raise ValueError(
            f"{type(pipe).__name__} has no text encoder, denoiser or VAE that is known here; "
            "use on_call for its parts"
        )
    return watched
