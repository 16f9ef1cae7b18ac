"""What is remembered of models' sizes, by more than one program and on a full disk."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stageload_client import staged


def test_programs_beside_each_other_lose_none_of_each_others_sizes(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from stageload_client.staged import _Sizes
sizes = _Sizes(Path(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
for number in range(1, 41):
    sizes.put(f"m{number}", number)
"""
    file = tmp_path / "model_sizes.json"
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(file), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in "abc"
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()
    assert [program.wait(60) for program in programs] == [0, 0, 0]
    of_one = {f"m{number}": number for number in range(1, 41)}
    assert json.loads(file.read_text()) == dict.fromkeys("abc", of_one)


def test_a_program_that_stands_still_with_the_lock_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_LOCKED_WITHIN", 0.1)
    sizes = staged._Sizes(tmp_path / "model_sizes.json", "render")
    with (tmp_path / "model_sizes.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        begin = time.monotonic()
        sizes.put("vae", 5)
        assert time.monotonic() - begin < 10
    assert sizes.get("vae") == 5


def test_a_size_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    sizes = staged._Sizes(tmp_path / "model_sizes.json", "render")
    monkeypatch.setattr(os, "replace", full)
    sizes.put("vae", 5)
    assert sizes.get("vae") is None
    assert [path.name for path in tmp_path.iterdir()] == ["model_sizes.lock"]


@pytest.mark.parametrize(
    "header",
    [b'{"a": {"data_offsets": [40, 0]}}', b'{"a": {"data_offsets": [-4, 0]}}', b"[" * 200_000],
)
def test_what_is_no_safetensors_file_is_a_value_error(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match="no safetensors file"):
        staged.safetensors_size(file)


def test_a_wrong_argument_is_refused_when_it_is_given(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no size"):
        staged.Model(dict, memory="8 apples")
    with pytest.raises(ValueError, match="no duration"):
        staged.StagedModels({}, stages={}, timeout="soon")
