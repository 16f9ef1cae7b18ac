"""Freed modules, and models by stages, with a real torch."""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib
import io
import json
import pickle
import random
import struct
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import Daemon, eventually

torch: Any = pytest.importorskip("torch")

from stageload_client import (  # noqa: E402
    Job,
    MemoryMeter,
    Model,
    NoRoom,
    ReleasedModuleError,
    ReleaseStats,
    StagedModels,
    StageloadError,
    StillHeldWarning,
    StopRequested,
    is_released,
    module_size,
    on_call,
    release,
    safetensors_size,
    staged,
    watch_pipeline,
)
from stageload_client._loop import library  # noqa: E402
from stageload_client.staged import sizes_path  # noqa: E402

nn: Any = torch.nn
prune: Any = importlib.import_module("torch.nn.utils.prune")
HAS_COMPILE = hasattr(torch, "compile")


def weak_storages(module: Any) -> list[Any]:
    from torch.multiprocessing.reductions import StorageWeakRef

    tensors = [*module.parameters(), *module.buffers()]
    return [
        StorageWeakRef(t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage())
        for t in tensors
    ]


def block(size: int = 64) -> Any:
    return nn.Sequential(nn.Linear(size, size), nn.BatchNorm1d(size), nn.Linear(size, size))


MEASURE = """
import json, sys, time
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from stageload_client import MemoryMeter, Job, module_size, release

def blocks():  # some tensors are mapped by malloc, and some lie in its heap
    big = [torch.nn.Linear(4096, 4096) for _ in range(6)]
    small = [torch.nn.Linear(256, 256) for _ in range(300)]
    return torch.nn.Sequential(*big, *small)

with MemoryMeter(sys.argv[1], interval=0.05) as meter:
    torch.rand(8, 8) @ torch.rand(8, 8)
    model = blocks()
    weak = [StorageWeakRef(p.untyped_storage() if hasattr(p, "untyped_storage") else p.storage())
            for p in model.parameters()]
    size = module_size(model)
    time.sleep(0.5)
    meter.mark("loaded")
    stats = release(model, name="blocks")
    dead = all(w.expired() for w in weak)
    meter.mark("released")
    time.sleep(0.5)
print(json.dumps([size, stats.nbytes, len(weak), dead]))
"""


def test_after_release_the_storages_are_dead_and_the_footprint_falls_by_the_modules_size(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Within 5 %, as the daemon measures it from outside."""
    path = tmp_path / "run.jsonl"
    program = daemon.run(MEASURE, str(path))
    size, nbytes, storages, dead = json.loads(program.line())
    assert program.end()[0] == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = {line.get("note"): line["t"] for line in lines if line["type"] == "event"}
    samples = [(line["t"], line["footprint"]) for line in lines if line["type"] == "sample"]
    before = [footprint for t, footprint in samples if t <= at["loaded"]][-1]
    after = [footprint for t, footprint in samples if t > at["released"]][-1]
    fall = before - after
    print(
        f"{storages} storages of {size / 2**20:.1f} MiB, all dead: {dead}; the footprint fell from "
        f"{before / 2**20:.1f} to {after / 2**20:.1f} MiB, by {100 * fall / size:.2f} % of them"
    )
    assert dead
    assert nbytes == size
    assert abs(fall - size) <= 0.05 * size
    events = [line for line in lines if line.get("kind") == "release"]
    assert [(line["name"], line["nbytes"]) for line in events] == [("blocks", size)]


def test_every_parameter_and_buffer_goes_to_meta_and_its_storage_dies() -> None:
    model = block()
    weak = weak_storages(model)
    stats = release(model)
    assert stats == ReleaseStats(nbytes=2 * (64 * 64 + 64) * 4 + 4 * 64 * 4 + 8, kept=0)
    assert all(w.expired() for w in weak)
    assert all(t.device.type == "meta" for t in [*model.parameters(), *model.buffers()])
    assert not any(p.requires_grad is False for p in model.parameters())


def test_a_released_module_raises_with_its_name_and_stage() -> None:
    model = nn.Sequential(block(), nn.ReLU())
    release(model, name="unet", stage="denoise")
    with pytest.raises(ReleasedModuleError, match='"unet" was released at the end of stage "den'):
        model(torch.rand(4, 64))
    with pytest.raises(ReleasedModuleError) as raised:
        model[0][2](torch.rand(4, 64))
    assert (raised.value.name, raised.value.stage) == ("unet.0.2", "denoise")
    assert model[1](torch.ones(1)).item() == 1  # it had nothing to lose
    assert is_released(model)


def test_storage_that_is_shared_is_counted_once_and_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(100, 50)
            self.head = nn.Linear(50, 100, bias=False)
            self.head.weight = self.embed.weight
            flat = torch.zeros(1000)
            self.a = nn.Parameter(flat[:400])
            self.b = nn.Parameter(flat[400:])

    model = Tied()
    assert module_size(model) == 4 * (100 * 50 + 1000)
    stats = release(model)
    assert stats == ReleaseStats(4 * (100 * 50 + 1000), 0)
    assert model.head.weight is model.embed.weight


def test_storage_that_is_shared_with_keep_is_left_alone() -> None:
    encoder, decoder = block(), block()
    decoder[0].weight = encoder[0].weight
    view = encoder[2].weight[:3]
    stats = release(decoder, keep=[encoder])
    assert stats.kept == 64 * 64 * 4
    assert decoder[0].weight is encoder[0].weight
    assert decoder[0].weight.device.type == "cpu"
    assert decoder[0].bias.device.type == "meta"
    encoder(torch.rand(4, 64))
    with pytest.raises(ReleasedModuleError):
        decoder(torch.rand(4, 64))
    # A tensor keeps the whole of its storage.
    with pytest.warns(StillHeldWarning):  # the decoder has the other
        stats = release(encoder, keep=(view,))
    assert stats.kept == 64 * 64 * 4
    assert encoder[2].weight.device.type == "cpu"


def test_a_part_that_is_kept_goes_on_working() -> None:
    model = nn.ModuleDict({"a": block(), "b": block()})
    release(model, keep=model["b"])
    model["b"](torch.rand(4, 64))
    with pytest.raises(ReleasedModuleError):
        model["a"](torch.rand(4, 64))


def test_released_twice_or_in_parts_frees_what_is_left() -> None:
    model = nn.Sequential(block(), block())
    whole = module_size(model)
    first = release(model[0], name="first", stage="encode")
    second = release(model, name="both")
    assert first.nbytes * 2 == whole
    assert second.nbytes * 2 == whole
    with pytest.raises(
        ReleasedModuleError, match=r'"first.2" was released at the end of stage "en'
    ):
        model[0][2](torch.rand(4, 64))
    assert release(model, name="both") == ReleaseStats(0, 0)
    with pytest.raises(ReleasedModuleError, match='"both'):
        model(torch.rand(4, 64))


def test_a_module_on_meta_has_nothing_to_free() -> None:
    model = nn.Sequential(nn.Linear(100, 100, device="meta"), nn.Linear(100, 100))
    x = torch.rand(1, 100, device="meta")
    assert release(model[0], name="m") == ReleaseStats(0, 0)
    assert not is_released(model[0])
    assert model[0](x).shape == (1, 100)  # as one that nobody has released
    release(model)
    assert model[0](x).shape == (1, 100)
    with pytest.raises(ReleasedModuleError, match='"Sequential" was'):
        model(x)


def test_what_something_else_refers_to_is_told_and_not_counted_as_freed() -> None:
    model = block()
    mine = model[0].weight
    with pytest.warns(StillHeldWarning, match="16 KiB of .* stay in memory"):
        stats = release(model)
    assert stats.held == mine.numel() * 4
    optimizer = torch.optim.SGD((other := block()).parameters(), lr=0.1)
    with pytest.warns(StillHeldWarning):
        assert release(other).held > 0
    assert optimizer


def test_gradients_go_too() -> None:
    model = nn.Linear(64, 64)
    model(torch.rand(4, 64)).sum().backward()
    weak = weak_storages(model)
    assert release(model).nbytes == 2 * (64 * 64 + 64) * 4
    assert all(w.expired() for w in weak)


def test_parametrizations_and_weight_norm_are_released() -> None:
    class Symmetric(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

    model = nn.Linear(64, 64)
    torch.nn.utils.parametrize.register_parametrization(model, "weight", Symmetric())
    weak = weak_storages(model)
    assert release(model).nbytes == (64 * 64 + 64) * 4
    assert all(w.expired() for w in weak)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        normed = torch.nn.utils.weight_norm(nn.Linear(64, 64))
    normed(torch.rand(1, 64))
    assert release(normed).held == 0  # the weight that it computes is a plain attribute
    with pytest.raises(ReleasedModuleError):
        normed(torch.rand(1, 64))


def test_a_plain_tensor_attribute_is_released() -> None:
    model = nn.Linear(4, 4)
    model.cache = torch.zeros(1000)
    assert release(model).nbytes == 4 * (16 + 4 + 1000)
    assert model.cache.device.type == "meta"


def test_hooks_are_not_in_the_way() -> None:
    model = block()
    seen: list[Any] = []
    model.register_forward_hook(lambda *_: seen.append("after"))
    release(model)
    with pytest.raises(ReleasedModuleError):
        model(torch.rand(4, 64))
    assert seen == []


def test_what_cannot_be_released_is_refused_clearly() -> None:
    with pytest.raises(TypeError, match="not list"):
        release([])
    with pytest.raises(TypeError, match="TorchScript"):
        release(torch.jit.script(nn.Linear(2, 2)))
    hooked = block()
    hooked[2]._hf_hook = object()
    with pytest.raises(ValueError, match=r'"net.2" has a hook of accelerate'):
        release(hooked, name="net")
    assert hooked[0].weight.device.type == "cpu"
    dynamic: Any = torch.ao.quantization.quantize_dynamic
    quantized = nn.Sequential(
        nn.Linear(4, 4), dynamic(nn.ModuleList([nn.Linear(4, 4), nn.LSTM(4, 4)]))
    )
    with pytest.raises(TypeError, match=r'"net.1.0._packed_params" is quantized, and its packed'):
        release(quantized, name="net")
    with pytest.raises(TypeError, match="is quantized"):
        release(quantized[1][1])
    assert quantized[0].weight.device.type == "cpu"
    for wrong in ({"name": 5}, {"stage": b"x"}, {"keep": 5}):
        intact: Any = block()
        with pytest.raises(TypeError):
            release(intact, **wrong)
        intact(torch.rand(4, 64))
    with pytest.raises(TypeError, match="keep: modules and tensors"):
        release(block(), keep=["vae"])


@pytest.mark.parametrize("kind", ["nested", "mkldnn"])
def test_a_tensor_out_of_reach_is_refused_before_anything_is_freed(kind: str) -> None:
    if kind == "nested":
        nested = getattr(torch, "nested", None)
        make = getattr(nested, "nested_tensor", None) or getattr(torch, "nested_tensor", None)
        if make is None:
            pytest.skip("this torch has no nested tensors")
        tensor = make([torch.zeros(2), torch.zeros(3)])
    else:
        tensor = torch.zeros(4, 4).to_mkldnn()
    inner = nn.Linear(4, 4)
    inner.register_buffer("odd", tensor, persistent=False)
    model = nn.Sequential(nn.Linear(4, 4), inner)
    with pytest.raises(TypeError, match=r'"Sequential\.1\.odd" is a .*out of reach'):
        release(model)
    assert not is_released(model)
    assert model[0](torch.zeros(1, 4)).shape == (1, 4)
    del inner, model[1].odd
    release(model)
    assert is_released(model)


def test_a_lazy_module_is_left_lazy() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(3))
    assert release(model).nbytes == 4 * 20


def test_loaded_again_it_works_again() -> None:
    model, state = block(), {k: v.clone() for k, v in block().state_dict().items()}
    release(model)
    model.to_empty(device="cpu")
    model.load_state_dict(state)
    assert not is_released(model)
    model(torch.rand(4, 64))
    assert "forward" not in model.__dict__
    assert "forward" not in model[0].__dict__


class Rotary(nn.Module):  # type: ignore[misc]
    """With a buffer that no state dict has, and a plain tensor, as positions of text encoders."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("frequencies", torch.arange(4.0) + 1, persistent=False)
        self.register_buffer("steps", torch.ones(4))
        self.scale = torch.tensor([1.0, 2, 3, 4])

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.frequencies * self.scale * self.steps


def load_again(model: Any, state: dict[str, Any], assign: bool) -> None:
    if not assign:
        model.to_empty(device="cpu")
        model.load_state_dict(state)
    elif HAS_COMPILE:
        model.load_state_dict(state, assign=True)
    else:  # what `assign` does, before torch 2.1
        for path, owner in model.named_modules():
            for key in [*owner._parameters, *owner._buffers]:
                tensor = state.get(f"{path}.{key}".lstrip("."))
                if tensor is not None:
                    setattr(
                        owner, key, nn.Parameter(tensor) if key in owner._parameters else tensor
                    )


@pytest.mark.parametrize("assign", [False, True])
def test_what_no_state_dict_has_is_named_until_it_is_set_again(assign: bool) -> None:
    model = nn.Sequential(Rotary(), nn.Linear(4, 4))
    state, x = copy.deepcopy(model.state_dict()), torch.rand(1, 4)
    expected = model(x).detach()
    release(model, name="encoder", stage="encode")
    with pytest.raises(ReleasedModuleError, match="its weights are gone; load it again"):
        model(x)
    load_again(model, state, assign)
    gone = '"encoder" was released at the end of stage "encode": {}: gone, and in no state dict'
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ReleasedModuleError, match=gone.format("0.frequencies, 0.scale")) as no:
            one(x)
        assert no.value.missing == ("0.frequencies", "0.scale")
        assert is_released(one)
        one[0].scale = torch.tensor([1.0, 2, 3, 4])
        with pytest.raises(ReleasedModuleError, match=gone.format("0.frequencies")):
            one(x)
        if assign:
            one[0].frequencies = torch.arange(4.0) + 1
        else:
            one[0].frequencies.copy_(torch.arange(4.0) + 1)
        for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), one):
            assert torch.equal(again(x), expected)
            assert type(again[0].frequencies) is torch.Tensor
            assert not is_released(again)


@pytest.mark.parametrize("assign", [False, True])
def test_weights_that_hooks_make_of_others_come_back_with_these(assign: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        models = [
            nn.utils.weight_norm(nn.Linear(8, 8)),
            nn.utils.spectral_norm(nn.Linear(8, 8)).eval(),
            prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.3),
            nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)).eval(),
        ]
    x = torch.rand(1, 8)
    for model in models:
        with torch.no_grad():
            expected = model(x)
            state = copy.deepcopy(model.state_dict())
            assert release(model).held == 0
            with pytest.raises(ReleasedModuleError):
                model(x)
            load_again(model, state, assign)
            assert torch.equal(model(x), expected)
            assert not is_released(model)


@pytest.mark.parametrize("assign", [False, True])
def test_recurrent_layers_are_freed_although_they_list_their_weights(assign: bool) -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        model, x = kind(64, 64, num_layers=2), torch.rand(1, 1, 64)
        model.pair = (model.weight_ih_l0, 1)
        model.by_name = {"first": model.weight_ih_l0, 2: 2}
        expected = model(x)[0].detach()
        state, size = copy.deepcopy(model.state_dict()), module_size(model)
        weak = weak_storages(model)
        assert release(model) == ReleaseStats(size, 0)
        assert all(w.expired() for w in weak)
        assert model.pair[0] is model.by_name["first"] is model.weight_ih_l0
        assert (model.pair[1], model.by_name[2]) == (1, 2)
        with pytest.raises(ReleasedModuleError):
            model(x)
        load_again(model, state, assign)
        assert torch.equal(model(x)[0], expected)


def test_sparse_tensors_are_counted_and_kept() -> None:
    dense = torch.eye(1000)
    for sparse, size in (
        (dense.to_sparse(), 1000 * (4 + 2 * 8)),
        (dense.to_sparse_csr(), 1000 * (4 + 8) + 1001 * 8),
    ):
        model = nn.Linear(4, 4)
        model.register_buffer("adjacency", sparse.clone())
        assert module_size(model) == size + 4 * 20
        assert release(model, keep=[model.adjacency]) == ReleaseStats(4 * 20, size)
        assert model.adjacency.device.type == "cpu"
        held = model.adjacency
        with pytest.warns(StillHeldWarning):
            assert release(model) == ReleaseStats(0, 0, size)
        assert held.device.type == "cpu"
        model.adjacency = sparse.clone()
        assert release(model) == ReleaseStats(size, 0)


@pytest.mark.skipif(not HAS_COMPILE, reason="this torch has no torch.compile")
def test_a_compiled_module_is_released() -> None:
    for compile_in_place in (False, True):
        model = block()
        model.eval()
        compiled: Any = model
        if compile_in_place:
            model.compile(backend="eager")
        else:
            compiled = torch.compile(model, backend="eager")
        compiled(torch.rand(4, 64))
        weak = weak_storages(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error", StillHeldWarning)
            assert release(compiled, name="net").held == 0
        assert all(w.expired() for w in weak)
        for use in (compiled, model):
            with pytest.raises(ReleasedModuleError, match='"net"'):
                use(torch.rand(4, 64))


def test_in_workers_of_a_data_loader_nothing_is_in_the_way(daemon: Daemon) -> None:
    """They are forked from a process that has a job."""
    data = [torch.full((3,), float(i)) for i in range(20)]
    with Job("train") as job, job.stage("epoch", memory="1M"):
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
        for _ in range(2):
            assert sum(float(batch.sum()) for batch in loader) == 3 * sum(range(20))
            assert job.report(batches=5)


# ---- StagedModels ----


def linear(seen: list[str] | None = None, name: str = "") -> Callable[[], Any]:
    def load() -> Any:
        if seen is not None:
            seen.append(name)
        return nn.Linear(256, 256)

    return load


SIZE = 4 * (256 * 256 + 256)


def test_models_are_loaded_on_first_access_and_freed_when_a_stage_does_not_need_them(
    home: Path,
) -> None:
    seen: list[str] = []
    models = StagedModels(
        {name: linear(seen, name) for name in ("encoder", "transformer", "vae")},
        stages={"encode": ["encoder"], "denoise": ["transformer", "vae"], "decode": "vae"},
    )
    with models:
        with models.stage("encode"):
            assert models.loaded == []
            encoder = models["encoder"]
            assert models["encoder"] is encoder
            with pytest.raises(StageloadError, match='stage "encode" does not name "vae"'):
                models["vae"]
        with models.stage("denoise"):
            with pytest.raises(ReleasedModuleError, match='"encoder" was released'):
                encoder(torch.rand(1, 256))
            vae = models["vae"]
            transformer = models["transformer"]
        with models.stage("decode"):
            assert models["vae"] is vae  # needed still
            assert is_released(transformer)
            assert models.loaded == ["vae"]
        assert seen == ["encoder", "vae", "transformer"]
        assert list(models) == ["encoder", "transformer", "vae"]
        assert "encoder" in models
        assert "unet" not in models
    assert models.loaded == []
    with pytest.raises(ValueError, match='there is no stage "dream"'), models.stage("dream"):
        pass
    with pytest.raises(ValueError, match='"x" needs "y", which has no loader'):
        StagedModels({}, stages={"x": ["y"]})


def test_of_stages_that_overlap_the_newest_that_is_not_left_counts(home: Path) -> None:
    models = StagedModels({"a": linear(), "b": linear()}, stages={"x": ["a"], "y": ["b"]})

    def steps() -> Generator[None, None, None]:
        with models.stage("x"):
            yield

    first, second = steps(), steps()
    next(first)
    with models.stage("y"):
        first.close()
        with pytest.raises(StageloadError, match='stage "y" does not name "a"'):
            models["a"]
        models["b"]
        next(second)
        with pytest.raises(StageloadError, match='stage "x" does not name "b"'):
            models["b"]
    models["a"]
    with pytest.raises(StageloadError, match='stage "x" does not name "b"'):
        models["b"]
    second.close()
    models["b"]  # outside of all


def test_a_model_is_loaded_under_a_lease_of_its_size(no_daemon: Daemon, tmp_path: Path) -> None:
    no_daemon.config('memory_pool = "400M"\n')
    no_daemon.start()
    file = tmp_path / "weights.safetensors"
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [40, 200 << 20]},
        }
    ).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    assert safetensors_size(file) == 200 << 20
    assert safetensors_size(tmp_path) == 200 << 20
    with Job("render") as job:
        models = StagedModels(
            {
                "encoder": Model(linear(), files=file),
                "transformer": Model(linear(), memory="300M"),
                "vae": linear(),
            },
            stages={"encode": ["encoder"], "denoise": ["transformer"], "all": ["encoder", "vae"]},
            job=job,
            timeout=5,
        )
        with models.stage("encode"):
            models["encoder"]
            eventually(lambda: no_daemon.leases("render") == ["encode"])
            lease = no_daemon.client("render")["leases"][0]
            assert lease["memory_bytes"] == 200 << 20
        with models.stage("denoise"):
            models["transformer"]
            eventually(lambda: no_daemon.leases("render") == ["denoise"])
        with models.stage("all"):
            models["vae"]  # nobody knows its size yet
            models["encoder"]
            eventually(lambda: no_daemon.leases("render") == ["all/encoder"])
            assert models.size("vae") == SIZE
            models.free("vae")
            models["vae"]
            eventually(lambda: no_daemon.leases("render") == ["all/encoder", "all/vae"])
        models.close()
        eventually(lambda: no_daemon.leases("render") == [])
    # The next run knows it.
    assert json.loads(sizes_path().read_text())["render"]["vae"] == SIZE
    with Job("other") as job:
        again = StagedModels({"vae": linear()}, stages={}, job=job, name="render")
        assert again.size("vae") == SIZE
        again["vae"]
        eventually(lambda: no_daemon.leases("other") == ["vae"])
        again.close()


def test_without_room_nothing_is_loaded_and_nothing_is_held(no_daemon: Daemon) -> None:
    no_daemon.config('memory_pool = "150M"\n')
    no_daemon.start()
    holder = no_daemon.run("""
import time
from stageload_client import Job
with Job("holder") as job, job.stage("holds", memory="100M"):
    print("holds")
    time.sleep(600)
""")
    assert holder.line() == "holds"
    seen: list[str] = []
    with Job("render") as job:
        models = StagedModels(
            {"vae": Model(linear(seen, "vae"), memory="100M")},
            stages={"decode": ["vae"]},
            job=job,
            timeout=0.3,
        )
        with models.stage("decode"), pytest.raises(NoRoom):
            models["vae"]
    assert seen == []
    assert models.loaded == []


def test_a_load_that_fails_gives_its_lease_back(daemon: Daemon) -> None:
    def fails() -> Any:
        raise OSError("no such file")

    with Job("render") as job:
        models = StagedModels({"vae": Model(fails, memory="10M")}, stages={}, job=job)
        with pytest.raises(OSError, match="no such file"):
            models["vae"]
        eventually(lambda: "render" in daemon.clients() and daemon.leases("render") == [])


def test_a_load_that_waits_for_its_lease_holds_up_nobody_who_frees(no_daemon: Daemon) -> None:
    no_daemon.config('memory_pool = "150M"\n')
    no_daemon.start()
    loaded: list[Any] = []
    waits = threading.Event()
    with (
        ThreadPoolExecutor(1) as first,
        ThreadPoolExecutor(1) as second,
        Job("render", on_wait=lambda _: waits.set()) as job,
    ):
        models = StagedModels(
            {name: Model(linear(loaded, name), memory="100M") for name in "abc"},
            stages={"first": ["a", "b"], "second": ["c"]},
            job=job,
        )

        def load(name: str, thread: ThreadPoolExecutor) -> Any:
            """In one that has no lease, or it would be let in at once."""
            waits.clear()
            loading = thread.submit(models.__getitem__, name)
            assert waits.wait(20)
            return loading

        with models.stage("first"):
            models["a"]
            twice = [load("b", first), second.submit(models.__getitem__, "b")]
            models.free("a")
            assert twice[0].result(20) is twice[1].result(20)
            late = load("a", second)
            with models.stage("second"):
                with pytest.raises(StageloadError, match='stage "second" does not name "a"'):
                    late.result(20)
                models["c"]
                eventually(lambda: no_daemon.leases("render") == ["second"])
        late = load("a", second)
        models.close()
        late.result(20)
        assert loaded == ["a", "b", "c", "a"]
        assert models.loaded == ["a"]
        models.close()


@pytest.mark.parametrize("moment", ["acquired", "loaded", "measured", "remembered", "told"])
def test_a_load_that_is_interrupted_keeps_the_model_and_its_lease_or_neither(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupts(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def load() -> Any:
        if moment == "loaded":
            interrupts()
        return nn.Linear(256, 256)

    kept = moment in ("remembered", "told")
    with Job("render") as job:
        models = StagedModels({"a": Model(load, memory="30M")}, stages={"s": ["a"]}, job=job)
        with monkeypatch.context() as patched:
            if moment == "acquired":
                patched.setattr(job, "_tell_gauges", interrupts)
            elif moment == "measured":
                patched.setattr(staged, "torch_size", interrupts)
            elif moment == "remembered":
                patched.setattr(models._sizes, "put", interrupts)
            elif moment == "told":
                patched.setattr(staged, "tell", interrupts)
            with pytest.raises(KeyboardInterrupt), models.stage("s"):
                models["a"]
        assert models.loaded == (["a"] if kept else [])
        assert job.current_stage == ("s" if kept else None)
        eventually(lambda: daemon.client("render"))
        eventually(lambda: daemon.leases("render") == (["s"] if kept else []))
        with monkeypatch.context() as patched:
            patched.setattr(job, "_tell_gauges", interrupts)
            if kept:  # a free that is interrupted as the lease goes back
                with pytest.raises(KeyboardInterrupt):
                    models.close()
        assert models.loaded == []
        eventually(lambda: daemon.leases("render") == [])


FORKED = """
import os, signal, threading, torch
from stageload_client import Job, Model, StagedModels, watch_pipeline

loads, go_on = threading.Semaphore(0), threading.Event()

class Slow(torch.nn.Module):
    def forward(self, x):
        return x

class Pipe:
    transformer = Slow()

def load():
    loads.release()
    go_on.wait()
    return torch.nn.Linear(2, 2)

def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # where it hangs
        child()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

with Job("render", require=True) as job:
    models = StagedModels({"a": Model(load, memory="1M"), "b": Slow}, stages={}, job=job)
    watched = watch_pipeline(Pipe(), job)

    def holds():
        with watched._lock:
            models["a"]

    thread = threading.Thread(target=holds)
    thread.start()
    loads.acquire()
    fork(lambda: (models["b"], models.close(), watched.close()))
    go_on.set()
    thread.join()
    with models._lock:
        pid = os.fork()
    if pid == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    models.close()
"""


def test_a_child_that_is_forked_while_a_thread_loads_may_close_what_it_has(daemon: Daemon) -> None:
    program = daemon.run(FORKED)
    assert program.end(within=60) == (0, "7\n7\n", "")


CLOSED_THERE = """
import threading
from stageload_client import Job, StagedModels, StageloadError
from stageload_client._loop import library

loads, go_on = threading.Event(), threading.Event()

def load():
    loads.set()
    go_on.wait()
    return object()

async def close():
    models.close()

with Job("render", require=True) as job:
    models = StagedModels({"a": load}, stages={}, job=job)
    thread = threading.Thread(target=lambda: models["a"])
    thread.start()
    loads.wait()
    try:
        library().run(close())
    except StageloadError as error:
        print(error.reason)
    go_on.set()
    thread.join()
    library().run(close())
    print(models.loaded)
"""


def test_what_the_librarys_thread_would_wait_for_is_refused(daemon: Daemon) -> None:
    program = daemon.run(CLOSED_THERE)
    assert program.end() == (0, "WRONG_THREAD\n[]\n", "")


def test_random_generators_stand_after_a_load_where_they_stood(home: Path) -> None:
    def draws() -> Any:
        torch.rand(5)
        random.random()
        return nn.Linear(8, 8)

    def after(load: bool) -> tuple[float, float]:
        torch.manual_seed(1)
        random.seed(1)
        if load:
            StagedModels({"m": draws}, stages={})["m"]
        return float(torch.rand(1)), random.random()

    assert after(load=True) == after(load=False)


def test_loads_and_releases_are_in_the_recording(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Job("render") as job, MemoryMeter(path, interval=0.05) as meter:
        models = StagedModels(
            {"vae": Model(linear(), memory=SIZE)}, stages={"decode": ["vae"]}, job=job
        )
        models["vae"]
        models.close()
        with models.stage("decode"):
            models["vae"]
        models.close()
        eventually(lambda: path.read_text().count('"release"') == 2)
    summary = meter.summary()
    assert summary["loads"]["count"] == 2
    assert summary["loads"]["bytes"] == 2 * SIZE
    assert summary["releases"] == {"count": 2, "bytes": 2 * SIZE}
    assert summary["outside_stage"] == ["vae"]
    assert "decode" in [stage["stage"] for stage in summary["stages"]]


WITHOUT_TORCH = """
import sys, warnings
sys.modules["torch"] = None  # as where there is none
from stageload_client import Job, Model, StagedModels, StillHeldWarning

class Llm(dict):  # as a module of MLX, whose modules() is not torch's
    def modules(self):
        return [self]

with Job("mlx", require=True) as job:
    models = StagedModels(
        {"llm": Model(Llm, memory="30M"), "vae": Model(Llm, memory="20M"), "object": object},
        stages={"chat": ["llm"], "draw": ["vae", "object"]},
        job=job,
    )
    with models:
        with models.stage("chat"):
            held = models["llm"]
            print("chat", flush=True)
            input()
        with warnings.catch_warnings(record=True) as warned, models.stage("draw"):
            warnings.simplefilter("always")
            models["vae"], models["object"]
            print("draw", models.loaded, flush=True)
            input()
        del held
        with models.stage("chat"):
            models["llm"]
    print([str(warning.message) for warning in warned], models.loaded)
    input()
"""


def test_without_torch_models_are_let_go_of_and_leases_come_back(daemon: Daemon) -> None:
    program = daemon.run(WITHOUT_TORCH, stdin=subprocess.PIPE)

    def go_on() -> None:
        assert program.process.stdin is not None
        program.process.stdin.write("\n")
        program.process.stdin.flush()

    assert program.line() == "chat"
    eventually(lambda: daemon.leases("mlx") == ["chat"])
    go_on()
    assert program.line() == "draw ['vae', 'object']"
    eventually(lambda: daemon.leases("mlx") == ["draw/vae"])
    go_on()
    assert program.line() == "['\"llm\" stays in memory: something else refers to it'] []"
    eventually(lambda: daemon.leases("mlx") == [])
    go_on()
    assert program.end()[0] == 0


class Bundle:
    """No module of torch, though it has something of that name."""

    modules = ("a", "b")


def test_what_release_is_not_made_for_is_let_go_of(daemon: Daemon) -> None:
    def script() -> Any:
        return torch.jit.script(nn.Linear(8, 8))

    with Job("render") as job:
        models = StagedModels(
            {"bundle": Model(Bundle, memory="30M"), "script": Model(script, memory="20M")},
            stages={"both": ["bundle", "script"], "none": []},
            job=job,
        )
        with models.stage("both"):
            gone = [weakref.ref(models["bundle"]), weakref.ref(models["script"])]
            eventually(lambda: len(daemon.leases("render")) == 2)
        with models.stage("none"):
            assert models.loaded == []
            assert [one() for one in gone] == [None, None]
            eventually(lambda: daemon.leases("render") == [])


def test_modules_in_a_tuple_or_dict_are_released_too(daemon: Daemon) -> None:
    def tied() -> Any:
        encoder, decoder = nn.Linear(256, 256), nn.Linear(256, 256)
        decoder.weight = encoder.weight
        return {"parts": [encoder, decoder], "table": torch.zeros(256)}

    with Job("render") as job, warnings.catch_warnings():
        warnings.simplefilter("error")
        models = StagedModels(
            {
                "llm": Model(lambda: (Bundle(), nn.Linear(256, 256)), memory="30M"),
                "tied": Model(tied, memory="20M"),
            },
            stages={"all": ["llm", "tied"], "none": []},
            job=job,
        )
        with models.stage("all"):
            tokenizer, model = models["llm"]
            parts = models["tied"]["parts"]
            eventually(lambda: len(daemon.leases("render")) == 2)
        with models.stage("none"):
            assert tokenizer.modules == ("a", "b")
            for module, name in ((model, "llm.0"), (parts[0], "tied.0"), (parts[1], "tied.1")):
                with pytest.raises(ReleasedModuleError, match=f'"{name}" was released'):
                    module(torch.rand(1, 256))
            eventually(lambda: daemon.leases("render") == [])
    again = StagedModels({"llm": Bundle, "tied": Bundle}, stages={}, name="render")
    assert (again.size("llm"), again.size("tied")) == (SIZE, SIZE + 2 * 4 * 256)


class WithSlots:
    __slots__ = ("weight",)


@pytest.mark.parametrize("holds", ["nothing", "all", "weight"])
@pytest.mark.parametrize("kind", ["dict", "slots", "with a module"])
def test_what_is_held_of_a_model_without_weak_references_is_told(
    home: Path, kind: str, holds: str
) -> None:
    def load() -> Any:
        if kind == "slots":
            return WithSlots()
        return {"w": torch.zeros(9), **({"m": nn.Linear(2, 2)} if "module" in kind else {})}

    models = StagedModels({"a": load}, stages={})
    mine = models["a"]
    if holds == "nothing" or (holds == "weight" and kind == "slots"):
        mine = None
    elif holds == "weight":
        mine = mine["w"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        models.close()
    said = [str(warning.message) for warning in warned]
    told = ['"a" stays in memory: something else refers to it'] if mine is not None else []
    assert said == told
    assert models.loaded == []


def test_of_what_cannot_be_measured_no_size_is_remembered(home: Path) -> None:
    models = StagedModels(
        {"bundle": Model(Bundle, memory="50M"), "linear": Model(linear(), memory="50M")},
        stages={},
        name="render",
    )
    models["bundle"], models["linear"]
    again = StagedModels({"bundle": Bundle, "linear": linear()}, stages={}, name="render")
    assert (again.size("bundle"), again.size("linear")) == (None, SIZE)


def test_without_any_home_sizes_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("STAGELOAD_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    models = StagedModels({"a": linear()}, stages={}, name="render")
    assert models["a"] is models["a"]
    assert models.size("a") is None


def hooked() -> Any:
    model = nn.Linear(256, 256)
    model._hf_hook = object()
    return model


def test_a_stage_that_cannot_be_entered_leaves_everything_as_it_was(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Job("render") as job:
        models = StagedModels(
            {"a": Model(linear(), memory="30M"), "hooked": Model(hooked, memory="20M")},
            stages={"first": ["a", "hooked"], "second": [], "third": ["a"]},
            job=job,
        )
        with models.stage("first"):
            a, other = models["a"], models["hooked"]
            with pytest.raises(ValueError, match='"hooked" has a hook'), models.stage("second"):
                pass
            assert models["a"] is a
            assert models["hooked"] is other
            a(torch.rand(1, 256))
            with pytest.raises(ValueError, match='"hooked" has a hook'):
                models.free("hooked")
            eventually(lambda: sorted(daemon.leases("render")) == ["first/a", "first/hooked"])
            with pytest.raises(ValueError, match='"hooked" has a hook'):
                models.close()
            assert models.loaded == ["hooked"]
            eventually(lambda: daemon.leases("render") == ["first/hooked"])
            del other._hf_hook
            a = models["a"]

            def stops(_: str) -> bool:
                raise StopRequested("CANCELLED", "enough")

            with monkeypatch.context() as patched:
                patched.setattr(job, "new_stage", stops)
                with pytest.raises(StopRequested), models.stage("third"):
                    pass
            assert models["a"] is a
            assert models.loaded == ["a"]
            with models.stage("second"):
                assert models.loaded == []
            eventually(lambda: daemon.leases("render") == [])


def test_a_free_that_is_interrupted_is_done_before_the_model_is_used(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Job("render") as job:
        models = StagedModels({"a": Model(linear(), memory="30M")}, stages={"s": ["a"]}, job=job)
        with models.stage("s"):
            a = models["a"]

            def interrupted(*_: Any) -> None:
                raise KeyboardInterrupt

            with monkeypatch.context() as patched:
                patched.setattr(sys.modules["stageload_client.release"], "_guard", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    models.free("a")
            eventually(lambda: daemon.leases("render") == ["s"])
            assert models.loaded == ["a"]
            assert models["a"] is not a
            models["a"](torch.rand(1, 256))
            mine = models["a"].weight
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(StillHeldWarning):
                    models.free("a")
            assert mine.numel() == 256 * 256
            assert models.loaded == []
            eventually(lambda: daemon.leases("render") == [])


def test_a_free_that_is_interrupted_when_the_memory_is_gone_gives_the_lease_back(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with Job("render") as job:
        for load in (linear(), Bundle):
            models = StagedModels({"a": Model(load, memory="30M")}, stages={}, job=job)
            models["a"]
            eventually(lambda: daemon.leases("render") == ["a"])
            with monkeypatch.context() as patched:
                patched.setattr(gc, "collect", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    models.close()
            assert models.loaded == []
            eventually(lambda: daemon.leases("render") == [])


def test_a_daemon_that_does_not_answer_holds_up_a_stage_once_and_not_for_each_model(
    daemon: Daemon, tmp_path: Path
) -> None:
    names = ["a", "b", "c", "d"]
    with Job("render") as job, MemoryMeter(tmp_path / "run.jsonl", interval=0.05) as meter:
        models = StagedModels(
            {name: Model(linear(), memory="30M") for name in names},
            stages={"all": names, "none": []},
            job=job,
        )
        with models.stage("all"):
            for name in names:
                models[name]
        eventually(lambda: len(daemon.leases("render")) == 4)
        with daemon.hung():
            begin = time.monotonic()
            with models.stage("none"):
                took = time.monotonic() - begin
        assert models.loaded == []
        assert took < 5
        eventually(lambda: daemon.leases("render") == [])
        # A daemon may hear later what it did not answer.
        eventually(lambda: meter.summary()["releases"]["count"] >= 4)


def test_models_that_nobody_has_any_more_give_their_leases_back(daemon: Daemon) -> None:
    def load(job: Job, label: str, loader: Callable[[], Any]) -> Any:
        models = StagedModels({label: Model(loader, memory="30M")}, stages={}, job=job)
        model = models[label]
        eventually(lambda: label in daemon.leases("render"))
        return model

    with Job("render") as job:
        kept = load(job, "kept", linear())
        load(job, "module", linear())
        load(job, "object", Bundle)
        load(job, "list", list)  # of which there are no weak references
        weights = load(job, "weights", lambda: {"a": torch.zeros(9), "b": [torch.zeros(9)]})
        gc.collect()
        eventually(lambda: daemon.leases("render") == ["kept", "weights"])
        inside = weights.pop("b")
        del weights
        gc.collect()
        library().run(asyncio.sleep(0.1))
        assert job.current_stage == "weights"
        del inside
        gc.collect()
        eventually(lambda: daemon.leases("render") == ["kept"])
        assert job.current_stage == "kept"
        kept(torch.rand(1, 256))
        del kept
        gc.collect()
        eventually(lambda: daemon.leases("render") == [])
        assert job.current_stage is None


# ---- Pipelines of others ----


class Vae(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def decode(self, latents: Any, again: int = 1) -> Any:
        return self.decode(latents, again - 1) if again else self.layer(latents)

    def forward(self, x: Any) -> Any:
        return self.decode(x)


class Pipeline:
    """As diffusers' are."""

    def __init__(self) -> None:
        self.text_encoder = nn.Linear(8, 8)
        self.text_encoder_2 = None
        self.transformer = nn.Linear(8, 8)
        self.vae = Vae()
        self.seen: list[Any] = []

    def __call__(self, job: Job, steps: int = 3) -> Any:
        x = torch.rand(1, 8)
        for _ in range(2):
            x = self.text_encoder(x)
        self.seen.append(job.current_stage)
        for _ in range(steps):
            x = self.transformer(x)
            self.seen.append(job.current_stage)
        image = self.vae.decode(x)
        self.seen.append(job.current_stage)
        return image


def stages_of(path: Path) -> list[str]:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [e["stage"] for e in events if e["type"] == "event" and e["kind"] == "stage"]


def test_watch_pipeline_makes_encoders_denoiser_and_decode_stages(
    daemon: Daemon, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    pipe = Pipeline()
    untouched = dict(vars(pipe.transformer))
    with MemoryMeter(path, interval=0.05), Job("render") as job:
        with watch_pipeline(pipe, job, memory={"decode": "30M"}) as watched:
            assert watched.stages == ["text encoder", "denoise", "decode"]
            in_decode: list[list[str]] = []
            pipe.vae.layer.register_forward_hook(
                lambda *_: in_decode.append(eventually(lambda: daemon.leases("render")))
            )
            pipe(job)
            pipe(job)
            assert pipe.seen == ["text encoder", "denoise", "denoise", "denoise", None] * 2
            assert in_decode == [["decode"], ["decode"]]
        assert vars(pipe.transformer) == untouched
        assert "decode" not in vars(pipe.vae)
        eventually(lambda: len(stages_of(path)) == 6)
    assert stages_of(path) == ["text encoder", "denoise", "decode"] * 2
    with Job("other") as job, pytest.raises(ValueError, match="use on_call"):
        watch_pipeline(object(), job)


def test_a_stage_of_a_pipeline_ends_with_what_its_part_raises_and_with_a_run_without_decode(
    daemon: Daemon,
) -> None:
    class Latent(Pipeline):
        def maybe_free_model_hooks(self) -> str:
            seen.append(job.current_stage)
            return "freed"

        def __call__(self, job: Job, steps: int = 3) -> Any:
            x = self.transformer(torch.rand(1, steps))
            return x, self.maybe_free_model_hooks()

    def granted() -> None:
        seen.append(job.current_stage)
        with job.stage("next", memory="1M"):
            eventually(lambda: daemon.leases("render") == ["next"])

    seen: list[str | None] = []
    pipe = Latent()
    with Job("render") as job:
        watched = watch_pipeline(pipe, job, memory={"denoise": "30M"})
        with pytest.raises(RuntimeError, match="shapes"):
            pipe(job, steps=5)
        granted()
        assert pipe(job, steps=8)[1] == "freed"
        granted()
        assert seen == [None, "denoise", None]
        pipe.transformer(torch.rand(1, 8))
        eventually(lambda: daemon.leases("render") == ["denoise"])
        watched.close()
        with watch_pipeline(pipe, job), watch_pipeline(pipe, job, memory={"denoise": "30M"}):
            pipe(job, steps=8)
            granted()
        assert "maybe_free_model_hooks" not in vars(pipe)
        eventually(lambda: daemon.leases("render") == [])


def test_a_copy_of_a_watched_module_computes_with_its_own_weights_and_is_not_watched(
    daemon: Daemon,
) -> None:
    pipe, x = Pipeline(), torch.ones(1, 8)
    doubled = pipe.text_encoder
    own = doubled.forward
    doubled.forward = lambda x: 2 * own(x)  # of the instance, as those of accelerate and others
    with Job("render") as job:
        with watch_pipeline(pipe, job):
            stored = io.BytesIO()
            torch.save([pipe.vae, pipe.transformer], stored)
            stored.seek(0)
            options = {"weights_only": False} if HAS_COMPILE else {}
            copies = [
                [copy.deepcopy(pipe.vae), copy.deepcopy(pipe.transformer)],
                pickle.loads(pickle.dumps([pipe.vae, pipe.transformer])),
                torch.load(stored, **options),
            ]
            assert torch.equal(copy.deepcopy(doubled)(x), doubled(x))
            alone = copy.deepcopy(pipe.transformer.forward)
            assert alone.__self__ is not pipe.transformer
        watched: list[tuple[Any, str]] = [(pipe.vae, "decode"), (pipe.transformer, "forward")]
        for made in copies:
            for one, (module, method) in zip(made, watched):
                assert torch.equal(getattr(one, method)(x), getattr(module, method)(x))
                with torch.no_grad():
                    for parameter in one.parameters():
                        parameter.zero_()
                assert not getattr(one, method)(x).any()
                assert getattr(module, method)(x).any()
                assert job.current_stage is None


def test_on_call_makes_each_call_a_stage_and_gives_its_lease_back(daemon: Daemon) -> None:
    pipe = Pipeline()
    with Job("render") as job:
        with on_call(pipe, "vae.decode", "decode", job, memory="10M"):
            assert pipe.vae.decode.__name__ == "decode"
            pipe.vae.decode(torch.rand(1, 8), again=3)
            assert job.current_stage is None
            with pytest.raises(TypeError):
                pipe.vae.decode()  # type: ignore[call-arg]
            assert job.current_stage is None
        eventually(lambda: "render" in daemon.clients() and daemon.leases("render") == [])
    gc.collect()


def stages_begun(job: Job, run: Callable[[Job], Any]) -> list[str]:
    stage, begun = job.stage, []

    def seen(name: str, *arguments: Any, **named: Any) -> Any:
        begun.append(name)
        return stage(name, *arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "stage", seen)
        run(job)
    return begun


def test_watches_may_be_closed_in_any_order(daemon: Daemon) -> None:
    for first_opened_first_closed in (True, False):
        pipe = Pipeline()
        untouched = dict(vars(pipe.transformer)), dict(vars(pipe.vae))
        with Job("render") as job:
            watches = [watch_pipeline(pipe, job), on_call(pipe.transformer, "forward", "step", job)]
            begun = stages_begun(job, pipe)
            assert begun == ["text encoder", "step", "denoise", "step", "step", "decode"]
            assert pipe.seen == ["text encoder", "denoise", "denoise", "denoise", None]
            for watched in watches if first_opened_first_closed else watches[::-1]:
                watched.close()
            pipe.seen.clear()
            pipe(job)
            assert pipe.seen == [None] * 5
        assert (dict(vars(pipe.transformer)), dict(vars(pipe.vae))) == untouched


def test_a_module_that_is_released_while_it_is_watched_is_not_watched_after_the_end(
    daemon: Daemon,
) -> None:
    pipe = Pipeline()
    with Job("render") as job:
        with watch_pipeline(pipe, job):
            release(pipe.transformer)
        pipe.transformer.to_empty(device="cpu")
        pipe.transformer(torch.rand(1, 8))
        assert job.current_stage is None


def weights_again(module: Any) -> None:
    module.to_empty(device="cpu")
    module.load_state_dict(nn.Linear(8, 8).state_dict())


@pytest.mark.parametrize("again", [False, True], ids=["released once", "released again meanwhile"])
def test_a_module_that_was_released_before_it_is_watched_is_watched_when_it_has_its_weights_again(
    daemon: Daemon, again: bool
) -> None:
    pipe = Pipeline()
    untouched = dict(vars(pipe.transformer))
    release(pipe.transformer)
    with Job("render") as job:
        with watch_pipeline(pipe, job):
            with pytest.raises(ReleasedModuleError):
                pipe(job)
            if again:
                release(pipe.transformer)
            weights_again(pipe.transformer)
            for _ in range(2):
                pipe.seen.clear()
                pipe(job)
                assert pipe.seen == ["text encoder", "denoise", "denoise", "denoise", None]
            release(pipe.transformer)
            with pytest.raises(ReleasedModuleError):
                pipe.transformer(torch.rand(1, 8))
            weights_again(pipe.transformer)
            pipe.seen.clear()
            pipe(job)
            assert pipe.seen[1:4] == ["denoise"] * 3
        pipe.transformer(torch.rand(1, 8))
        assert job.current_stage is None
        assert {key: type(value) for key, value in vars(pipe.transformer).items()} == {
            key: type(value) for key, value in untouched.items()
        }


class Slots:
    __slots__ = ("decode",)

    def __init__(self) -> None:
        self.decode = lambda: 1


class Streaming:
    """Methods whose bodies run after they have returned, calling themselves."""

    text = "no method"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.seen: list[Any] = []

    async def chat(self, go_on: Callable[[], Awaitable[Any]], again: int = 1) -> str:
        self.seen.append(self.job.current_stage)
        await go_on()
        return await self.chat(go_on, again - 1) if again else "done"

    def tokens(self, again: int = 1) -> Generator[Any, str, str]:
        got = None
        try:
            got = yield self.job.current_stage
        except KeyError as error:
            yield f"caught {error}"
        if again:
            yield from self.tokens(again - 1)
        return f"got {got}"

    async def asynchronous(self) -> AsyncIterator[int]:
        yield 1


def test_what_cannot_be_watched_is_refused_at_once(daemon: Daemon) -> None:
    pipe = Pipeline()
    with Job("render") as job:
        streaming = Streaming(job)
        for target, method, words in (
            (pipe, "__call__", 'Pipeline.__call__ would never be seen.*such as "forward"'),
            (streaming, "text", "Streaming.text is not called: it is of type str"),
            (streaming, "asynchronous", "is an asynchronous generator"),
            (Slots(), "decode", "Slots.decode cannot be watched: a Slots has fixed slots"),
        ):
            with pytest.raises(ValueError, match=words):
                on_call(target, method, "stage", job)
        for wrong in ({"memory": "13X"}, {"memory": 0}, {"timeout": "soon"}):
            with pytest.raises(ValueError, match=r"is no size|above 0|is no duration"):
                on_call(pipe, "vae.decode", "decode", job, **wrong)
        with pytest.raises(ValueError, match="is no size"):
            watch_pipeline(pipe, job, memory={"decode": "13X"})
        setattr(pipe.vae, "decode", streaming.chat)  # noqa: B010
        with pytest.raises(ValueError, match=r"Vae.decode is no ordinary method; use on_call"):
            watch_pipeline(pipe, job)
        assert "forward" not in vars(pipe.transformer)
        assert pipe.vae.decode == streaming.chat


def test_a_class_is_watched_by_any_of_its_methods(daemon: Daemon) -> None:
    own = Pipeline.__call__
    with Job("render") as job:
        with on_call(Pipeline, "__call__", "whole", job):
            pipe = Pipeline()
            pipe(job)
            assert pipe.seen == ["whole"] * 5
            assert job.current_stage is None
        assert Pipeline.__call__ is own


def test_the_stage_of_a_coroutine_lasts_until_it_has_been_awaited(daemon: Daemon) -> None:
    async def use(job: Job, streaming: Streaming) -> None:
        go_on = asyncio.Event()
        with on_call(streaming, "chat", "chat", job, memory="9M", timeout=5):
            both = [asyncio.ensure_future(streaming.chat(go_on.wait)) for _ in range(2)]
            held = ["chat", "chat"]
            await asyncio.to_thread(eventually, lambda: daemon.leases("llm") == held)
            go_on.set()
            assert [await one for one in both] == ["done", "done"]
            assert streaming.seen == ["chat"] * 4
            assert job.current_stage is None
            go_on.clear()
            cancelled = asyncio.ensure_future(streaming.chat(go_on.wait))
            await asyncio.to_thread(eventually, lambda: len(streaming.seen) == 5)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            assert job.current_stage is None
        go_on.set()
        await streaming.chat(go_on.wait)
        assert streaming.seen[-1] is None

    with Job("llm") as job:
        asyncio.run(use(job, Streaming(job)))
        eventually(lambda: "llm" in daemon.clients() and daemon.leases("llm") == [])


class Decorated:
    """Its methods are plain functions that return what does the work."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def chat(self, again: int = 1) -> Awaitable[Any]:
        async def run() -> Any:
            await asyncio.sleep(0)
            if again:
                await self.chat(again - 1)
            return [lease.stage for lease in self.job._stages]

        return run()

    def tokens(self) -> Generator[Any, None, None]:
        return (self.job.current_stage for _ in range(2))

    def stream(self) -> AsyncIterator[Any]:
        async def run() -> AsyncIterator[Any]:
            yield 1

        return run()


def test_the_stage_of_a_plain_method_lasts_as_long_as_the_coroutine_or_generator_it_returns(
    daemon: Daemon,
) -> None:
    async def use(plain: Decorated) -> None:
        for _ in range(2):
            assert await plain.chat() == ["chat"]
        for held in await asyncio.gather(plain.chat(), plain.chat()):
            assert set(held) == {"chat"}
        assert plain.job.current_stage is None

    with Job("llm") as job:
        plain = Decorated(job)
        with on_call(plain, "chat", "chat", job, memory="9M", timeout=5):
            asyncio.run(use(plain))
        with on_call(plain, "tokens", "tokens", job, memory="9M", timeout=5):
            assert list(plain.tokens()) == ["tokens", "tokens"]
            assert list(plain.tokens()) == ["tokens", "tokens"]
            assert job.current_stage is None
        asynchronous = pytest.raises(ValueError, match="returned an asynchronous generator")
        with on_call(plain, "stream", "stream", job), asynchronous:
            plain.stream()
        assert list(plain.tokens()) == [None, None]


def test_the_stage_of_a_generator_lasts_from_its_first_value_to_its_end(daemon: Daemon) -> None:
    with Job("llm") as job:
        streaming = Streaming(job)
        with on_call(streaming, "tokens", "tokens", job, memory="9M", timeout=5):
            assert list(streaming.tokens()) == ["tokens", "tokens"]
            assert job.current_stage is None
            tokens = streaming.tokens()
            assert job.current_stage is None
            next(tokens)
            eventually(lambda: daemon.leases("llm") == ["tokens"])
            # While its caller has a value, another is not a part of it.
            other = streaming.tokens()
            next(other)
            eventually(lambda: daemon.leases("llm") == ["tokens", "tokens"])
            other.close()
            eventually(lambda: daemon.leases("llm") == ["tokens"])
            assert tokens.throw(KeyError("x")) == "caught 'x'"
            next(tokens)
            with pytest.raises(StopIteration, match="got None"):
                next(tokens)
            assert job.current_stage is None
            answered = streaming.tokens(again=0)
            next(answered)
            with pytest.raises(StopIteration, match="got yes"):
                answered.send("yes")
        assert list(streaming.tokens()) == [None, None]
        eventually(lambda: daemon.leases("llm") == [])
