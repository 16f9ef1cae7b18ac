"""The demonstration, on a machine that most likely has no MPS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Daemon


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stageload_client.demo_hidden_memory", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_it_prints_footprint_driver_level_and_swap_after_each_step(daemon: Daemon) -> None:
    result = run("--gib", "0.5")
    assert result.returncode == 0, result.stderr
    print(result.stdout)
    lines = result.stdout.splitlines()
    if "the same steps on the CPU" in lines[0]:
        lines = lines[1:]
    elif sys.platform != "darwin":
        pytest.fail(lines[0])
    assert lines[0].split() == ["step", "footprint", "driver", "level", "swap"]
    footprints = [float(re.findall(r"([\d.]+) GiB", line)[0]) for line in lines[1:]]
    assert len(footprints) == 5
    if sys.platform != "darwin":
        assert footprints[1] - footprints[0] > 0.45
        assert footprints[3] - footprints[4] > 0.45


def test_without_a_daemon_it_says_so(home: Path) -> None:
    result = run("--gib", "0.1")
    assert result.returncode == 69
    assert "no daemon answers at" in result.stderr


@pytest.mark.parametrize("gib", ["nan", "inf", "-inf", "0", "-1", "1e300"])
def test_a_size_that_cannot_be_is_refused(gib: str) -> None:
    result = run(f"--gib={gib}")
    assert result.returncode == 2
    assert "--gib: a number above 0" in result.stderr


def test_a_size_that_there_is_no_room_for_is_no_traceback(daemon: Daemon) -> None:
    result = run("--gib=9e8")
    assert result.returncode == 1
    assert result.stderr.startswith("demo_hidden_memory: take 9e+08 GiB: ")


@pytest.mark.parametrize("output", ["/dev/full", "head"])
def test_output_that_nobody_takes_is_no_traceback(daemon: Daemon, output: str) -> None:
    if output == "head":
        read, write = os.pipe()
        os.close(read)
    elif Path(output).exists():
        write = os.open(output, os.O_WRONLY)
    else:
        pytest.skip(f"no {output}")
    with os.fdopen(write, "wb") as file:
        result = subprocess.run(
            [sys.executable, "-m", "stageload_client.demo_hidden_memory", "--gib=0.01"],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    if output == "head":
        assert (result.returncode, result.stderr) == (0, "")
    else:
        assert result.returncode == 74
        assert result.stderr == "demo_hidden_memory: write the output: No space left on device\n"
