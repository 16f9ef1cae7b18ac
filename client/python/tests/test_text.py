"""What is read and where the daemon is found, as by base: paths.cc, socket_file.cc, text.cc."""

from __future__ import annotations

import copy
import os
import pickle
import socket
from fractions import Fraction
from pathlib import Path
from typing import Any, Callable

import pytest

from stageload_client import (
    Blocker,
    Forked,
    Job,
    MemoryMeter,
    NeverFits,
    NoDaemon,
    NoRoom,
    ReleasedModuleError,
    StageloadError,
    StopRequested,
    _connection,
    _paths,
)
from stageload_client._checks import check_gauges, check_mark_figures
from stageload_client.units import (
    format_size,
    parse_duration,
    parse_size,
    parse_timeout,
    whole_bytes,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("9B", 9),
        ("300 KB", 300 * KIB),
        ("512m", 512 * MIB),
        ("8gib", 8 * GIB),
        ("1.5GiB", 1536 * MIB),
        (".5G", 512 * MIB),
        (" 8 G ", 8 * GIB),
        ("0.1K", 102),
        ("1.0001M", 1048680),
        ("9007199254740993", 9007199254740993),
        ("8191P", 8191 << 50),
        (17, 17),
    ],
)
def test_sizes_are_read_in_binary_multiples(text: Any, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "G", "-1", "1.5", "8 apples", "8GG", "1.G", "8192P", "٣G", -1]
)
def test_what_is_no_size_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)
    for wrong in (1.5, None, True, [8]):
        with pytest.raises(TypeError, match="8G"):
            parse_size(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("90s", 90),
        ("1.5h", 5400),
        ("1h30m", 5400),
        ("2d", 172800),
        ("7", 7),
        (0.25, 0.25),
        ("1H 5M", 3900),
        (".5s", 0.5),
        ("0", 0),
    ],
)
def test_durations_are_read(text: Any, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1h1h", "30m1h", "1x", "1e3", -1, float("nan")])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_sizes_are_printed_with_three_places() -> None:
    for nbytes, text in (
        (9, "9 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (100 * MIB, "100 MiB"),
        (int(13.3 * GIB), "13.3 GiB"),
        (1000 * MIB, "1000 MiB"),
        (1024 * MIB - 1, "1 GiB"),
        (-1536 * MIB, "-1.5 GiB"),
    ):
        assert format_size(nbytes) == text


@pytest.mark.parametrize(
    ("platform", "environment", "socket", "lock"),
    [
        ("linux", {"STAGELOAD_HOME": "//h//x/./"}, "/h/x/stageloadd.sock", "/h/x/stageloadd.lock"),
        (
            "linux",
            {"HOME": "/u"},
            "/u/.local/state/stageload/run/stageloadd.sock",
            "/u/.local/state/stageload/stageloadd.lock",
        ),
        (
            "linux",
            {"HOME": "/u", "XDG_RUNTIME_DIR": "/run/1", "XDG_STATE_HOME": "relative"},
            "/run/1/stageload/stageloadd.sock",
            "/u/.local/state/stageload/stageloadd.lock",
        ),
        (
            "darwin",
            {"HOME": "/Users/u", "XDG_RUNTIME_DIR": "/run/1"},
            "/Users/u/.stageload/stageloadd.sock",
            "/Users/u/Library/Application Support/stageload/stageloadd.lock",
        ),
        (
            "linux",
            {"STAGELOAD_HOME": "/h", "STAGELOAD_SOCKET": "/s/d.sock"},
            "/s/d.sock",
            "/h/stageloadd.lock",
        ),
        ("linux", {"STAGELOAD_SOCKET": "/s/d.sock"}, "/s/d.sock", ""),
        ("darwin", {"STAGELOAD_SOCKET": "/s/d.sock"}, "/s/d.sock", ""),
    ],
)
def test_the_daemon_is_looked_for_where_it_is(
    platform: str, environment: dict[str, str], socket: str, lock: str
) -> None:
    assert _paths.resolve(None, environment, platform) == _paths.Paths(socket, lock)


def test_paths_that_cannot_be_are_refused() -> None:
    for environment, wrong in (
        ({"STAGELOAD_HOME": "relative"}, "not an absolute path"),
        ({}, "neither STAGELOAD_HOME nor HOME"),
        ({"STAGELOAD_HOME": "/" + "x" * 100}, "the limit is 103"),
    ):
        with pytest.raises(ValueError, match=wrong):
            _paths.resolve(None, environment, "linux")
    assert _paths.resolve("/a/b", {"STAGELOAD_HOME": "/h"}, "linux").socket == "/a/b"
    assert _paths.resolve("/a/b", {}, "linux").socket == "/a/b"


def test_a_socket_that_lives_and_refuses_connections_is_somebody(tmp_path: Any) -> None:
    # As one whose queue is full on macOS; where there is none to listen, Linux refuses alike.
    path = os.path.join(tmp_path, "s")
    with socket.socket(socket.AF_UNIX) as lives:
        lives.bind(path)
        assert _connection.listens(path)
    assert not _connection.listens(path)


@pytest.mark.parametrize(
    "error",
    [
        NoRoom("no", stage="s", memory=5, blockers=(Blocker("LEVEL", 1, 2, "t", None),)),
        NeverFits("never"),
        NoDaemon("none"),
        Forked("this Job"),
        StageloadError("m", code="ABORTED", reason="WRONG_STATE"),
        StopRequested("CANCELLED", "text", 1.5),
        ReleasedModuleError("text_encoder", "encode"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_from_another_process_as_it_was(error: BaseException) -> None:
    """A pool of multiprocessing waits for ever for one that cannot be read."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args) == (str(error), error.args)
        assert again.__dict__ == error.__dict__


class Int64:
    """As numpy's, which is no int."""

    def __index__(self) -> int:
        return 4096


def test_numbers_of_other_libraries_are_taken() -> None:
    assert parse_size(Int64()) == 4096
    assert parse_duration(Fraction(3, 2)) == 1.5  # type: ignore[arg-type]
    numpy = pytest.importorskip("numpy")
    assert parse_size(numpy.int64(5)) == 5
    assert parse_duration(numpy.float32(0.5)) == 0.5


def test_a_timeout_may_be_for_ever() -> None:
    assert parse_timeout(None) is None
    assert parse_timeout(float("inf")) is None
    assert parse_timeout("90s") == 90
    assert parse_timeout(-0.1) == parse_timeout(float("-inf")) == 0
    assert parse_timeout("36500d") == 36500 * 86400
    for endless in ("36526d", "100000d", 2**63 / 1e9, 1e18, "106653d1h"):
        assert parse_timeout(endless) is None
    with pytest.raises(ValueError, match="duration"):
        parse_timeout(float("nan"))


def test_a_size_that_was_computed_is_rounded() -> None:
    assert whole_bytes(16.3 * 2**30) == 17501991731
    for wrong in (float("nan"), float("inf"), "8G", True):
        with pytest.raises(ValueError, match="number of bytes"):
            whole_bytes(wrong)  # type: ignore[arg-type]


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises((ValueError, StageloadError)) as raised:
        call(*arguments, **named)
    return str(raised.value)


@pytest.mark.parametrize("huge", [10**400, 10**5000], ids=["400 digits", "5000 digits"])
def test_numbers_that_no_field_can_hold_are_refused(tmp_path: Path, huge: int) -> None:
    meter = MemoryMeter(tmp_path / "run.jsonl")
    assert refusal(parse_size, huge).endswith("below 8 EiB: inf")
    assert refusal(parse_duration, -huge).endswith("below 292 years: -inf")
    assert parse_timeout(huge) is None
    assert refusal(whole_bytes, huge) == "a number of bytes, not inf"
    assert refusal(check_gauges, {"x": huge}) == "gauges.value: x is inf"
    assert refusal(check_mark_figures, 0, huge).startswith("marks.seconds: inf s is not")
    assert refusal(meter.load, "x", 1, huge) == 'load of "x": inf s, not from 0 to 1e+10 s'
    assert refusal(Job, wait_free=huge).startswith("policy.wait_free_percent: inf is not")
    assert refusal(Job, priority=huge) == "policy.priority: inf is not from -1000 to 1000"
    assert refusal(Job, pid=huge) == "pid: inf is not a process id"
    assert refusal(Job, pid=1 << 31) == "pid: 2147483648 is not a process id"
