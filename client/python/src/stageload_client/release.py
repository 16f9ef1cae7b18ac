"""Frees a torch module's memory at once, and makes its later use an error that says so.

    stats = release(pipe.text_encoder, name="text_encoder", stage="encode")

`module.to("cpu")` frees nothing where CPU and GPU share one memory, and `del module` frees only
what nobody else refers to. release() puts every parameter, buffer and plain tensor attribute of the
module and its submodules on torch's meta device, so that their memory goes even while the module
object lives on in a pipeline; then it collects garbage and has the allocators give back what they
cache.

Threads: nobody may use the module meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from ._loop import Together
from .errors import ReleasedModuleError
from .job import active_job
from .meter import active_meters
from .units import format_size

if TYPE_CHECKING:
    import torch

#: What keeps its memory: modules, tensors.
Keep = Union["torch.nn.Module", "torch.Tensor"]

# Of a module's tensors, those that are neither parameters nor buffers.
_PLAIN = "__dict__"
# Of a sparse tensor, by its layout; what has no such parts is strided.
_SPARSE_PARTS = (
    ("sparse_coo", ("_indices", "_values")),
    ("sparse_csr", ("crow_indices", "col_indices", "values")),
    ("sparse_csc", ("ccol_indices", "row_indices", "values")),
    ("sparse_bsr", ("crow_indices", "col_indices", "values")),
    ("sparse_bsc", ("ccol_indices", "row_indices", "values")),
)
# The attribute of a released module that says so.
_RELEASED = "_stageload_released"


class StillHeldWarning(RuntimeWarning):
    """Something else refers to tensors of a module that was released."""


@dataclass(frozen=True)
class ReleaseStats:
    """Bytes of storages, each counted once."""

    nbytes: int  #: freed
    kept: int  #: left alone, since they are shared with `keep`
    held: int = 0  #: not freed, since something else refers to them: an optimizer, a graph, a list


def release(
    module: torch.nn.Module,
    *,
    name: str | None = None,
    stage: str | None = None,
    keep: Iterable[Keep] = (),
    empty_cache: bool = True,
) -> ReleaseStats:
    """name: of the module, in errors and in the trace; its class's by default.
    stage: at whose end it is released, for the same.
    keep: modules and tensors whose storages are left alone, also where `module` shares them.
    empty_cache: have the allocators of MPS, CUDA, MLX and C give back what they cache.

    Tied parameters stay tied; what is released or on meta already is left as it is. Loading weights
    again (`load_state_dict(..., assign=True)`, or `to_empty` and `load_state_dict`) makes the
    module usable again, once what no state dict has is set again, too: non-persistent buffers and
    plain tensor attributes, which the error names until then. TypeError for what is no module, or
    has weights out of Python's reach (TorchScript, quantize_dynamic, nested tensors, those of
    MKL-DNN); ValueError for a module under an accelerate hook, which would bring its weights back.
    """
    for what, text in (("name", name), ("stage", stage)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{what}: text, not {type(text).__name__}")
    name = name or type(getattr(module, "_orig_mod", module)).__name__
    refused = refusal(module, name)
    if refused is not None:
        raise refused
    begin = time.monotonic()
    stats = free(module, name, stage, keep, empty_cache)
    with Together() as told:
        tell("release", name, stats.nbytes, time.monotonic() - begin, stage, told)
    warn_of_held(name, stats, stacklevel=3)
    return stats


def free(
    module: Any, name: str, stage: str | None, keep: Iterable[Keep], empty_cache: bool = True
) -> ReleaseStats:
    """release() of what it does not refuse, without a word."""
    compiled = _is_compiled(module)
    storages, kept = _strip(module, name, stage, _storages_of_all(keep))
    gc.collect()
    held = _alive(storages)
    if held and compiled:
        # Graphs of earlier releases of torch refer to the parameters that they were made with.
        sys.modules["torch._dynamo"].reset()
        gc.collect()
        held = _alive(storages)
    if empty_cache:
        empty_caches()
    return ReleaseStats(sum(size for _, size in storages) - held, kept, held)


def warn_of_held(name: str, stats: ReleaseStats, stacklevel: int) -> None:
    if stats.held:
        total = format_size(stats.nbytes + stats.held)
        warnings.warn(
            f'"{name}": {format_size(stats.held)} of {total} stay in memory: '
            "something else refers to them, such as an optimizer, a hook, a variable, or the graph "
            "of a result (which torch.no_grad() does without)",
            StillHeldWarning,
            stacklevel=stacklevel,
        )


def is_released(module: torch.nn.Module) -> bool:
    return _RELEASED in module.__dict__ and any(True for _ in _missing(module))


def module_size(module: torch.nn.Module, keep: Iterable[Keep] = ()) -> int:
    """Bytes of all that release() would free, each storage counted once."""
    return torch_size([module], keep)


def torch_size(weights: Iterable[Keep], keep: Iterable[Keep] = ()) -> int:
    """The same of several, and of tensors."""
    kept = _storages_of_all(keep)
    sizes: dict[int, int] = {}
    for one in weights:
        for tensor in _tensors_in(one):
            for storage in _storages(tensor):
                if storage._cdata not in kept:
                    sizes[storage._cdata] = _nbytes(storage)
    return sum(sizes.values())


def weights_in(model: Any) -> list[Any]:
    """Modules and tensors of torch, and arrays of others: the model itself, or what is in a dict,
    list or tuple, at any depth."""
    found, left, seen = [], [model], set()
    for part in left:  # which grows meanwhile
        if id(part) in seen:
            continue
        seen.add(id(part))
        if is_of_torch(part) or hasattr(type(part), "nbytes"):
            found.append(part)
        elif isinstance(part, dict):
            left += dict.values(part)
        elif isinstance(part, (list, tuple)):
            left += part
    return found


def modules_of(model: Any) -> Any:
    """What release() can free of it: itself, or the modules in it as one. None where there are
    none."""
    if is_module(model):
        return model
    modules = [part for part in weights_in(model) if is_module(part)]
    return sys.modules["torch"].nn.ModuleList(modules) if modules else None


# ---- What a module holds ----


def _place(owner: Any, place: str) -> dict[str, Any]:
    """One of the dictionaries that a module has tensors in."""
    found: dict[str, Any] = owner.__dict__ if place == _PLAIN else owner.__dict__[place]
    return found


def _tensors_of(owner: Any) -> list[tuple[str, str, torch.Tensor]]:
    """Of this module alone: the place, the key and the tensor."""
    import torch

    found = []
    for place in ("_parameters", "_buffers", _PLAIN):
        for key, value in _place(owner, place).items():
            if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value):
                found.append((place, key, value))
    return found


def _storages(tensor: Any) -> list[Any]:
    """Untyped ones that hold memory. A tensor of tensors (quantized, sparse) has several."""
    import torch

    parts = []
    if tensor.is_leaf and tensor.grad is not None:
        parts += _storages(tensor.grad)
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for inner in names:
            parts += _storages(getattr(tensor, inner))
        return parts
    if tensor.device.type == "meta":
        return parts
    for layout, inner_parts in _SPARSE_PARTS:
        if tensor.layout is getattr(torch, layout, None):
            for inner in inner_parts:
                parts += _storages(getattr(tensor.detach(), inner)())
            return parts
    if tensor.layout is not torch.strided:
        return parts
    if hasattr(tensor, "untyped_storage"):
        parts.append(tensor.untyped_storage())
    else:  # before torch 2.0
        parts.append(tensor.storage().untyped())
    return parts


def _nbytes(storage: Any) -> int:
    return int(storage.nbytes())


def _storages_of_all(keep: Iterable[Keep]) -> set[int]:
    import torch

    kept: set[int] = set()
    for one in [keep] if isinstance(keep, (torch.nn.Module, torch.Tensor)) else keep:
        if not is_of_torch(one):
            raise TypeError(f"keep: modules and tensors, not {type(one).__name__}")
        kept.update(storage._cdata for tensor in _tensors_in(one) for storage in _storages(tensor))
    return kept


def _tensors_in(one: Any) -> list[torch.Tensor]:
    if not is_module(one):
        return [one]
    return [tensor for owner in one.modules() for _, _, tensor in _tensors_of(owner)]


# ---- What is refused ----


def is_module(model: Any) -> bool:
    """Of torch, which is not imported for it: MLX has no need of that, and modules of its own."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def is_of_torch(part: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(part, (torch.nn.Module, torch.Tensor))


def refusal(module: Any, name: str) -> TypeError | ValueError | None:
    """Why release() would not take it. A TypeError is for good, a ValueError can be mended."""
    if not is_module(module):
        return TypeError(f"release() is for a torch.nn.Module, not {type(module).__name__}")
    import torch

    for path, owner in module.named_modules():
        where = f"{name}.{path}" if path else name
        if isinstance(owner, torch.jit.ScriptModule):
            return TypeError(
                f'"{where}" is a TorchScript module, whose weights are out of reach; drop the last '
                "reference to it instead"
            )
        if _has_packed_weights(owner):
            return TypeError(
                f'"{where}" is quantized, and its packed weights are out of reach; drop the last '
                "reference to it instead"
            )
        for _, key, tensor in _tensors_of(owner):
            kind = _out_of_reach(tensor)
            if kind:
                return TypeError(
                    f'"{where}.{key}" is {kind}, whose memory is out of reach; drop the last '
                    "reference to it instead"
                )
        if hasattr(owner, "_hf_hook"):
            return ValueError(
                f'"{where}" has a hook of accelerate that moves its weights; first call '
                "accelerate.hooks.remove_hook_from_module(module, recurse=True), or do not offload"
            )
    return None


def _out_of_reach(tensor: Any) -> str:
    """What it is, where it has no storages, or no like on meta."""
    import torch

    if getattr(tensor, "is_nested", False):
        return "a nested tensor"
    known = [torch.strided, *(getattr(torch, layout, None) for layout, _ in _SPARSE_PARTS)]
    return "" if tensor.layout in known else f"a tensor of layout {tensor.layout}"


def _has_packed_weights(owner: Any) -> bool:
    """As quantize_dynamic makes them: objects of C++ that are no tensors."""
    import torch

    return ".quantized." in type(owner).__module__ and any(
        isinstance(value, torch._C.ScriptObject) for value in owner.__dict__.values()
    )


def _is_compiled(module: Any) -> bool:
    if "torch._dynamo" not in sys.modules:
        return False
    return any(
        hasattr(owner, "_orig_mod") or owner.__dict__.get("_compiled_call_impl") is not None
        for owner in module.modules()
    )


# ---- The release itself ----


def _strip(
    module: Any, name: str, stage: str | None, keep: set[int]
) -> tuple[list[tuple[Any, int]], int]:
    """Weak references to the storages that should go, with sizes; and the bytes that are kept.
    No reference to a tensor outlives this call."""
    from torch.multiprocessing.reductions import StorageWeakRef

    replaced: dict[int, Any] = {}  # by id, so that what is tied stays so
    old: list[Any] = []  # as long as ids are compared
    gone: dict[int, tuple[Any, int]] = {}
    kept: dict[int, int] = {}
    lost: dict[int, list[tuple[str, str]]] = {}  # by the id of the module
    try:
        for owner in module.modules():
            for place, key, tensor in _tensors_of(owner):
                storages = _storages(tensor)
                if any(storage._cdata in keep for storage in storages):
                    kept.update((s._cdata, _nbytes(s)) for s in storages if s._cdata in keep)
                    continue
                if tensor.device.type == "meta":
                    continue  # released already, or never loaded
                lost.setdefault(id(owner), []).append((place, key))
                for storage in storages:
                    gone[storage._cdata] = (StorageWeakRef(storage), _nbytes(storage))
                if id(tensor) not in replaced:
                    old.append(tensor)
                    unsaved = place == "_buffers" and key in owner._non_persistent_buffers_set
                    replaced[id(tensor)] = _on_meta(tensor, unsaved)
                _place(owner, place)[key] = replaced[id(tensor)]
        for owner in module.modules():
            _replace_in_lists(owner, replaced)
    finally:  # also of one that is interrupted here, calls say that it is released
        _guard(module, name, stage, lost)
    return list(gone.values()), sum(kept.values())


def _replace_in_lists(owner: Any, replaced: dict[int, Any]) -> None:
    """A module's own lists of its tensors, such as _flat_weights of an LSTM."""
    for key, value in list(owner.__dict__.items()):
        if type(value) is dict:
            for inner in [inner for inner, tensor in value.items() if id(tensor) in replaced]:
                value[inner] = replaced[id(value[inner])]
        elif type(value) in (list, tuple) and any(id(tensor) in replaced for tensor in value):
            inside = [replaced.get(id(tensor), tensor) for tensor in value]
            if type(value) is list:
                value[:] = inside
            else:
                owner.__dict__[key] = tuple(inside)


def _on_meta(tensor: Any, unsaved: bool) -> Any:
    import torch

    from ._placeholder import placeholder

    if unsaved:
        return placeholder(tuple(tensor.shape), tensor.dtype)
    empty = torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def _alive(storages: list[tuple[Any, int]]) -> int:
    return sum(size for weak, size in storages if not weak.expired())


# ---- Calls of what was released ----


def _guard(
    module: Any, name: str, stage: str | None, lost: dict[int, list[tuple[str, str]]]
) -> None:
    """The module, and each below it that has lost something now, raises from here on."""
    for path, owner in module.named_modules():
        if not any(id(part) in lost for part in owner.modules()):
            continue
        before = owner.__dict__.get(_RELEASED)
        if before:
            before.handle.remove()
        forward = owner.__dict__.get("forward")
        if before and forward is before:
            forward = before.forward
        mine = list(dict.fromkeys((before.lost if before else []) + lost.get(id(owner), [])))
        # Of a compiled module, the one that was compiled.
        shown = [part for part in path.split(".") if part not in ("", "_orig_mod")]
        whole = ".".join([name, *shown])
        owner.__dict__[_RELEASED] = _Released(owner, whole, stage, forward, mine)
        owner.__dict__["forward"] = owner.__dict__[_RELEASED]
        if owner.__dict__.get("_compiled_call_impl") is not None:
            owner.__dict__["_compiled_call_impl"] = None


def _missing(module: Any) -> Iterator[tuple[str, bool]]:
    """What release() has taken and nobody has brought back: its name, and whether a state dict
    would have it."""
    import torch

    from ._placeholder import Placeholder

    for path, owner in module.named_modules():
        released = owner.__dict__.get(_RELEASED)
        for place, key in released.lost if released else []:
            tensor = _place(owner, place).get(key)
            if not isinstance(tensor, torch.Tensor) or (place == _PLAIN and _made(owner, key)):
                continue
            unfilled = isinstance(tensor, Placeholder) and not tensor.filled()
            if tensor.device.type == "meta" or unfilled:
                saved = place == "_parameters" or (
                    place == "_buffers" and key not in owner._non_persistent_buffers_set
                )
                yield (f"{path}.{key}" if path else key), saved


def _made(owner: Any, key: str) -> bool:
    """Whether a hook makes it from parameters before each call, as the older weight_norm and
    spectral_norm do, and pruning."""
    return any(
        key in (getattr(hook, "name", None), getattr(hook, "_tensor_name", None))
        for hook in owner._forward_pre_hooks.values()
    )


class _Released:
    """Stands where the module's forward was, and before all hooks, which may need the weights."""

    def __init__(
        self,
        owner: Any,
        name: str,
        stage: str | None,
        forward: Any,
        lost: list[tuple[str, str]],
    ) -> None:
        self.owner = owner
        self.name = name
        self.stage = stage
        self.forward = forward  # of the instance, where it had one of its own
        self.lost = lost  # places and keys, of this module alone
        self.handle = owner.register_forward_pre_hook(self.before_call)
        owner._forward_pre_hooks.move_to_end(self.handle.id, last=False)

    def before_call(self, *_: Any) -> None:
        missing = list(_missing(self.owner))
        if any(saved for _, saved in missing):
            raise ReleasedModuleError(self.name, self.stage)
        if missing:
            raise ReleasedModuleError(self.name, self.stage, [name for name, _ in missing])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.before_call()
        self.undo()
        self._step_aside()
        forward = self.forward
        if forward is None:
            of_class = inspect.getattr_static(type(self.owner), "forward")
            forward = of_class.__get__(self.owner, type(self.owner))
        return forward(*arguments, **named)

    def undo(self) -> None:
        """Its weights have been loaded again."""
        from ._placeholder import Placeholder

        for part in self.owner.modules():
            mine = part.__dict__.pop(_RELEASED, None)
            if mine is None:
                continue
            for key, tensor in part._buffers.items():
                if isinstance(tensor, Placeholder):
                    part._buffers[key] = tensor.plain()
            mine.handle.remove()
            mine._step_aside()

    def _step_aside(self) -> None:
        """Unless something else was put over it, such as a watch, which goes on to call this."""
        if self.owner.__dict__.get("forward") is not self:
            return
        if self.forward is None:
            del self.owner.__dict__["forward"]
        else:
            self.owner.__dict__["forward"] = self.forward


# ---- Allocators ----


def empty_caches() -> None:
    """Has every allocator of the process give back what it holds without need."""
    torch = sys.modules.get("torch")
    if torch is not None:
        mps = getattr(torch.backends, "mps", None)
        if mps is not None and mps.is_available() and hasattr(torch, "mps"):
            torch.mps.synchronize()
            torch.mps.empty_cache()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    mlx: Any = sys.modules.get("mlx.core")
    if mlx is not None and hasattr(mlx, "clear_cache"):
        mlx.clear_cache()
    with contextlib.suppress(OSError, AttributeError):
        c = ctypes.CDLL(None)
        if sys.platform == "darwin":
            c.malloc_zone_pressure_relief.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
            c.malloc_zone_pressure_relief(None, 0)
        else:
            c.malloc_trim(0)  # glibc keeps what is freed below some 32 MiB


def tell(
    kind: str,
    name: str,
    nbytes: int,
    seconds: float,
    stage: str | None,
    told: Together,
    note: str = "",
) -> None:
    """A load or a release, to the job of this process, which tells recordings, too; else to its
    meters. That nobody hears it is no error of who loads. It is heard once `told` is over."""

    def to_meters() -> None:
        for meter in active_meters():
            with contextlib.suppress(Exception):
                write = {"load": meter.load, "reload": meter.reload, "release": meter.release}[kind]
                write(name, nbytes, seconds, stage=stage or "", note=note)

    job = active_job()
    if job is not None:
        with contextlib.suppress(Exception):
            job._begin_mark(told, kind, name, nbytes, seconds, stage, note, to_meters)
            return
    to_meters()


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Random generators go on afterwards where they were: a model that is built draws from them,
    and when it is loaded must not change what comes out."""
    import random

    python = random.getstate()
    numpy: Any = sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None else None
    torch: Any = sys.modules.get("torch")
    with _torch_generators_kept(torch) if torch is not None else contextlib.nullcontext():
        try:
            yield
        finally:
            random.setstate(python)
            if drawn is not None:
                numpy.random.set_state(drawn)


@contextlib.contextmanager
def _torch_generators_kept(torch: Any) -> Iterator[None]:
    cpu = torch.random.get_rng_state()
    mps_backend = getattr(torch.backends, "mps", None)
    mps: Any = getattr(torch, "mps", None)
    on_mps = mps is not None and mps_backend is not None and mps_backend.is_available()
    mps_state = mps.get_rng_state() if on_mps else None
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    cuda_states = torch.cuda.get_rng_state_all() if on_cuda else None
    try:
        yield
    finally:
        torch.random.set_rng_state(cpu)
        if mps_state is not None:
            mps.set_rng_state(mps_state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)
