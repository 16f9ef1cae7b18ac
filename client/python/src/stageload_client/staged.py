"""Models that are loaded when they are needed and freed when they are not.

    models = StagedModels(
        {"text_encoder": load_text_encoder,
         "transformer": Model(load_transformer, files="models/transformer"),
         "vae": Model(load_vae, memory="2G")},
        stages={"encode": ["text_encoder"], "denoise": ["transformer"], "decode": ["vae"]},
        job=job)
    with models:
        with models.stage("encode"):
            prompt = models["text_encoder"](tokens)
        with models.stage("denoise"):
            latents = models["transformer"](noise, prompt)

Entering a stage frees every model that it does not name. A model is loaded when it is first asked
for, under a lease of its size. Random generators stand after a load where they stood before.

A torch module, also one in a dict, list or tuple, is freed by release(), whoever else refers to it.
Of anything else, such as a model of MLX or a dict of tensors, the reference is dropped, so that it
is freed unless something else refers to it.

Threads: one at a time loads or frees; a model must not be in use when a stage begins that frees it.
A load that waits for its lease holds up other loads, but nobody who frees; unless it is the loader
of another model that asked for it.
fork: a child may free what it has of the models, whatever another thread did; their leases are its
parent's.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import struct
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union

from ._exit import Held, gives_back, when_gone
from ._lock import ForkedLock
from ._loop import Together
from .errors import StageloadError
from .job import Job, Lease
from .release import (
    StillHeldWarning,
    empty_caches,
    free,
    generators_kept,
    is_module,
    is_of_torch,
    is_released,
    modules_of,
    refusal,
    tell,
    torch_size,
    warn_of_held,
    weights_in,
)
from .units import Duration, Size, parse_size, parse_timeout

_LOCKED_WITHIN = 1.0
_LONGEST_HEADER = 100_000_000  # as the safetensors library itself has it


def safetensors_size(path: str | os.PathLike[str]) -> int:
    """Bytes of the tensors in a .safetensors file, or in all of a folder, from their headers."""
    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"no .safetensors file in {path}")
    total = 0
    for file in files:
        with file.open("rb") as opened:
            start = opened.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= _LONGEST_HEADER:
                raise ValueError(f"{file}: no safetensors file: a header of {length} bytes")
            try:
                header = json.loads(opened.read(length))
                for key, value in header.items():
                    if key != "__metadata__":
                        begin, end = value["data_offsets"]
                        if not 0 <= begin <= end:
                            raise ValueError(f'"{key}" lies from {begin} to {end}')
                        total += end - begin
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ValueError(f"{file}: no safetensors file: {error}") from None
    return total


@dataclass(frozen=True)
class Model:
    """How one is loaded, and how large it is.

    memory: bytes to declare. Else the tensors of `files` (a .safetensors file or a folder of them),
    else what it took the last time that it was loaded, in this run or an earlier one, which only
    modules and tensors of torch tell.
    """

    load: Callable[[], Any]
    files: str | os.PathLike[str] | None = None
    memory: Size | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            parse_size(self.memory)  # so that a wrong one is refused now


#: A Model, or just how it is loaded.
Loader = Union[Model, Callable[[], Any]]


def sizes_path() -> Path:
    """Where sizes of earlier runs are kept: in $STAGELOAD_HOME, else in the user's cache folder."""
    home = os.environ.get("STAGELOAD_HOME")
    if home:
        return Path(home) / "model_sizes.json"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stageload" / "model_sizes.json"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "stageload" / "model_sizes.json"


def _sizes_path_or_none() -> Path:
    try:
        return sizes_path()
    except RuntimeError:  # the user has no home, not even in the password database
        return Path(os.devnull) / "model_sizes.json"


class _Sizes:
    """Of earlier runs, by program and model. A file that cannot be read or written is no error."""

    def __init__(self, path: Path, program: str) -> None:
        self._path = path
        self._program = program

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self._path.read_text())
            if isinstance(found, dict):
                return found
        return {}

    def get(self, model: str) -> int | None:
        of_program = self._read().get(self._program)
        size = of_program.get(model) if isinstance(of_program, dict) else None
        return size if isinstance(size, int) and size > 0 else None

    def put(self, model: str, size: int) -> None:
        if self.get(model) == size:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                sizes = self._read()
                if not isinstance(sizes.get(self._program), dict):
                    sizes[self._program] = {}
                sizes[self._program][model] = size
                self._write(sizes)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other program writes meanwhile; but for one that holds the lock for longer, as when it
        was suspended: it is not waited for."""
        with self._path.with_suffix(".lock").open("a") as lock:
            until = time.monotonic() + _LOCKED_WITHIN
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.01)
                except OSError:  # a file system without locks
                    break
            yield

    def _write(self, sizes: dict[str, Any]) -> None:
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".sizes")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(sizes, file, indent=1)
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


class _Loaded:
    """A model, and the lease that it is loaded under. Who drops this without having freed it gives
    the lease back as well, once nobody else has the model."""

    def __init__(self, lease: Lease | None, nbytes: int) -> None:
        self.module: Any = None
        self.lease = lease
        self.nbytes = nbytes
        self.freeing = False  # was begun, and interrupted when this is seen
        self._last = _LastOwner(lease) if lease is not None else None
        if self._last is not None:
            when_gone(self, self._last.ask)

    def take(self, module: Any) -> None:
        self.module = module
        if self._last is not None:
            self._last.parts = _weakly([module, *weights_in(module)])


class _LastOwner:
    """Who has a model, or the weights in it, when what has loaded it is gone."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.parts: list[weakref.ref[Any]] = []

    def ask(self) -> None:
        for weakly in self.parts:
            part = weakly()
            if part is not None:
                when_gone(part, self.ask)
                return
        self._lease._drop()


def _weakly(parts: Iterable[Any]) -> list[weakref.ref[Any]]:
    """Of some classes, such as dict, list and tuple, there are no weak references."""
    found = []
    for part in parts:
        with contextlib.suppress(TypeError):
            found.append(weakref.ref(part))
    return found


class StagedModels:
    """loaders: by the models' names. stages: the models that each stage needs, by its name.
    job: whose leases they are loaded under; none without.
    timeout: how long a load waits for room (for ever), before NoRoom.
    name: of the program, under which sizes are remembered; the job's by default.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        *,
        stages: Mapping[str, Sequence[str]],
        job: Job | None = None,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> None:
        self._models = {
            model: loader if isinstance(loader, Model) else Model(loader)
            for model, loader in loaders.items()
        }
        self._stages = {
            stage: [models] if isinstance(models, str) else list(models)
            for stage, models in stages.items()
        }
        for stage, models in self._stages.items():
            for model in models:
                if model not in self._models:
                    raise ValueError(f'stages: "{stage}" needs "{model}", which has no loader')
        self._job = job
        self._timeout = parse_timeout(timeout)
        program = name or (job.name if job else os.path.basename(sys.argv[0] or "python"))
        self._sizes = _Sizes(_sizes_path_or_none(), program)
        self._loads = ForkedLock()  # of who loads, taken before the other one
        self._lock = ForkedLock()
        self._loaded: dict[str, _Loaded] = {}
        self._before: set[str] = set()  # were loaded at some time
        self._entered: list[_Stage] = []  # and not left, the newest last

    @property
    def _stage(self) -> str | None:
        newest = self._entered[-1:]  # another thread may leave its own
        return newest[0].name if newest else None

    def __getitem__(self, name: str) -> Any:
        """The model, loaded if it is not. NoRoom, NeverFits and StopRequested as of Job.stage."""
        with self._lock:
            if self._has(name):
                return self._loaded[name].module
        with self._loads:
            return self._load(name)

    def __contains__(self, name: object) -> bool:
        """Whether it has a loader; `loaded` has those that are loaded."""
        return name in self._models

    def __iter__(self) -> Iterator[str]:
        """The names of all, loaded or not."""
        return iter(list(self._models))

    def _has(self, name: str) -> bool:
        """Under the lock. StageloadError where it is not and may not be loaded now."""
        if name not in self._models:
            raise KeyError(name)
        if name in self._loaded and self._loaded[name].freeing:
            with Together() as told:
                self._free(name, self._stage, told)
        if name in self._loaded:
            return True
        stage = self._stage
        if stage is not None and name not in self._stages[stage]:
            needed = ", ".join(self._stages[stage]) or "none"
            raise StageloadError(
                f'stage "{stage}" does not name "{name}", only: {needed}',
                code="FAILED_PRECONDITION",
                reason="WRONG_STAGE",
            )
        return False

    def stage(self, name: str) -> contextlib.AbstractContextManager[StagedModels]:
        """Frees what it does not need. What it loads stays until another stage frees it, so that a
        stage that is run again finds it there. Of stages that overlap, the one that was entered
        last and is not left yet counts. ValueError when release() refuses one of them that it could
        free later: then nothing is freed, and the stage before it goes on."""
        return _Stage(self, name)

    def _enter(self, stage: _Stage) -> None:
        name = stage.name
        with self._lock:
            if name not in self._stages:
                known = ", ".join(self._stages)
                raise ValueError(f'there is no stage "{name}", only: {known}')
            with Together() as told:
                unnamed = [model for model in self._loaded if model not in self._stages[name]]
                self._free_all(unnamed, told)
                if self._job is not None and not self._job.closed and not self._lease_tells(name):
                    self._job.new_stage(name)
            self._entered.append(stage)

    def _leave(self, stage: _Stage) -> None:
        """Without the lock, which who loads may have."""
        with contextlib.suppress(ValueError):  # it was not entered
            self._entered.remove(stage)

    def _free_all(self, names: Sequence[str], told: Together) -> None:
        """What cannot be freed is told before anything is."""
        for name in names:
            refused = self._refusal(name)
            if isinstance(refused, ValueError):
                raise refused
        for name in names:
            self._free(name, self._stage, told)

    def _lease_tells(self, stage: str) -> bool:
        """Whether the stage begins with a lease that has its name."""
        models = self._stages[stage]
        return len(models) == 1 and models[0] not in self._loaded and bool(self.size(models[0]))

    def _label(self, name: str) -> str:
        """Of the lease of a model: the stage, and the model where that has more than one."""
        stage = self._stage
        if stage is None:
            return name
        return stage if len(self._stages[stage]) == 1 else f"{stage}/{name}"

    @property
    def loaded(self) -> list[str]:
        return list(self._loaded)

    def size(self, name: str) -> int | None:
        """Bytes that will be declared for it; None while nobody knows."""
        model = self._models[name]
        if model.memory is not None:
            return parse_size(model.memory)
        if model.files is not None:
            return safetensors_size(model.files)
        return self._sizes.get(name)

    def free(self, name: str) -> None:
        with self._lock, Together() as told:
            if name in self._loaded:
                self._free(name, self._stage, told)

    def close(self) -> None:
        """Frees all of them. What release() refuses stays loaded, with its lease, and its error is
        raised when the others are freed."""
        with self._lock, Together() as told, contextlib.ExitStack() as frees:
            for name in list(self._loaded):
                frees.callback(self._free, name, self._stage, told)

    def __enter__(self) -> StagedModels:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self, name: str) -> Any:
        """Wherever it is interrupted, the model and its lease are both there, or neither is. The
        lock is not held while the lease is waited for, which may need what another thread frees."""
        with self._lock:
            if self._has(name):  # another thread has loaded it meanwhile
                return self._loaded[name].module
            label = self._label(name)
        lease = None
        size = self.size(name)
        if self._job is not None and size:
            lease = self._job.stage(label, memory=size, timeout=self._timeout)
        # What is not torch's cannot be measured, and what is declared for it is no measure.
        loaded = _Loaded(lease, size or 0)
        try:
            if lease is not None:
                lease.acquire()
            with self._lock:
                self._has(name)  # raises where another stage has begun meanwhile
                self._load_now(name, loaded)
                return loaded.module
        except BaseException:
            if self._loaded.get(name) is not loaded:
                loaded.module = None
                if lease is not None:
                    lease.release()
            raise

    def _load_now(self, name: str, loaded: _Loaded) -> None:
        """Under its lease and the lock."""
        begin, measured = time.monotonic(), 0
        with generators_kept():
            loaded.take(self._models[name].load())
        weights = weights_in(loaded.module)
        if weights and all(map(is_of_torch, weights)):
            loaded.nbytes = measured = torch_size(weights)
        took = time.monotonic() - begin
        self._loaded[name] = loaded
        kind = "reload" if name in self._before else "load"
        self._before.add(name)
        if measured:
            self._sizes.put(name, measured)
        note = "" if self._stage else "outside_stage"
        with Together() as told:
            tell(kind, name, loaded.nbytes, took, self._stage, told, note)

    def _free(self, name: str, stage: str | None, told: Together) -> None:
        """Afterwards it is forgotten and its lease given back, also when something else holds it;
        unless it could not be freed, or that was interrupted, and its memory is in use still."""
        loaded = self._loaded[name]
        refused = self._refusal(name)
        if isinstance(refused, ValueError):
            raise refused
        loaded.freeing = True
        try:
            if refused is None:
                self._release(name, stage, told)
            else:
                _drop(loaded, name, stage, told)
        except BaseException as error:
            # Where warnings are errors; or an interrupt, after its memory was given up.
            if isinstance(error, StillHeldWarning) or self._is_empty(name):
                self._forget(name, told)
            raise
        self._forget(name, told)

    def _refusal(self, name: str) -> TypeError | ValueError | None:
        return refusal(modules_of(self._loaded[name].module), name)

    def _release(self, name: str, stage: str | None, told: Together) -> None:
        loaded = self._loaded[name]
        begin = time.monotonic()
        stats = free(modules_of(loaded.module), name, stage, self._keep(name))
        nbytes, held = stats.nbytes, False
        if not is_module(loaded.module):
            others = [part for part in weights_in(loaded.module) if not is_module(part)]
            size = torch_size(part for part in others if is_of_torch(part))
            del others
            held = _let_go(loaded, but_modules=True)
            nbytes += 0 if held else size
        tell("release", name, nbytes, time.monotonic() - begin, stage, told)
        warn_of_held(name, stats, stacklevel=2)
        if held:
            _warn(name)

    def _is_empty(self, name: str) -> bool:
        model = self._loaded[name].module
        if model is None:
            return True
        weights = weights_in(model)
        if not weights or not all(is_module(part) for part in weights):
            return False
        return torch_size(weights, self._keep(name)) == 0 and all(map(is_released, weights))

    def _keep(self, name: str) -> list[Any]:
        """What is shared with the other models stays when this one is freed."""
        others = [other.module for key, other in self._loaded.items() if key != name]
        return [part for other in others for part in weights_in(other) if is_of_torch(part)]

    def _forget(self, name: str, told: Together) -> None:
        lease = self._loaded[name].lease
        try:
            if lease is not None:
                lease._begin_release(told)
        except BaseException:
            if lease is not None:
                lease._drop()
            raise
        finally:
            self._loaded.pop(name, None)


class _Stage(contextlib.ContextDecorator):
    def __init__(self, models: StagedModels, name: str) -> None:
        self._models = models
        self.name = name

    def __enter__(self) -> StagedModels:
        self._hold = Held(self, self._leave)
        self._models._enter(self)
        return self._models

    @gives_back
    def __exit__(self, *_: object) -> None:
        self._leave()
        self._hold.end()

    def _leave(self) -> None:
        self._models._leave(self)


def _drop(loaded: _Loaded, name: str, stage: str | None, told: Together) -> None:
    """For what release() is not made for."""
    begin = time.monotonic()
    held = _let_go(loaded, but_modules=False)
    tell("release", name, 0 if held else loaded.nbytes, time.monotonic() - begin, stage, told)
    if held:
        _warn(name)


def _let_go(loaded: _Loaded, but_modules: bool) -> bool:
    """Whether something else refers to the model, or to the weights in it; but_modules: only to
    those that are no modules, which were released."""
    parts = weights_in(loaded.module)
    if but_modules:
        parts = [part for part in parts if not is_module(part)]
    weakly = _weakly(parts if but_modules else [loaded.module, *parts])
    counted = not but_modules and loaded.module is not None and not _weakly([loaded.module])
    alone = [object()]
    model, loaded.module = [loaded.module], None
    del parts
    held = counted and sys.getrefcount(model[0]) > sys.getrefcount(alone[0])
    model.clear()
    gc.collect()
    empty_caches()
    return held or any(part() is not None for part in weakly)


def _warn(name: str) -> None:
    text = f'"{name}" stays in memory: something else refers to it'
    warnings.warn(text, StillHeldWarning, stacklevel=2)
