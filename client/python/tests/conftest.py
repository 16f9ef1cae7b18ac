"""The real daemon in a home of its own, and what tests need to look at it.

STAGELOAD_BIN names the folder with the programs; by default the release build of this checkout.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

PROJECT = Path(__file__).resolve().parents[3]
BIN = Path(os.environ.get("STAGELOAD_BIN", PROJECT / "build" / "release" / "bin"))

# A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def eventually(what: Callable[[], Any], within: float = 20.0) -> Any:
    """What it gives as soon as that is true."""
    end = time.monotonic() + within
    while True:
        result = what()
        if result:
            return result
        if time.monotonic() > end:
            pytest.fail(f"not within {within:.0f} s")
        time.sleep(0.01)


class Program:
    """Another Python process, whose output is read line by line."""

    def __init__(self, code: str, *arguments: str, stdin: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self, within: float = 60.0) -> str:
        """The next line of its output; fails when it has ended, or says nothing for so long."""
        assert self.process.stdout is not None
        over = threading.Timer(within, self.kill)
        over.start()
        try:
            text = self.process.stdout.readline()
        finally:
            over.cancel()
        if not text:
            assert self.process.stderr is not None
            pytest.fail(f"it ended: {self.process.stderr.read()}")
        return text.rstrip("\n")

    def end(self, within: float = 30.0) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=within)
        return self.process.returncode, out, err

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Daemon:
    """Of one test. `home` is $STAGELOAD_HOME of the test, too."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None
        self.programs: list[Program] = []

    @property
    def socket(self) -> Path:
        return self.home / "stageloadd.sock"

    def config(self, toml: str) -> None:
        (self.home / "config.toml").write_text(toml)

    def start(self) -> None:
        self.process = subprocess.Popen([BIN / "stageloadd"], stderr=subprocess.DEVNULL)
        eventually(lambda: self.ctl("daemon", "status", check=False).returncode == 0)

    def stop(self) -> None:
        """As a user who is done with it."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(20) == 0
        self.process = None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)
        self.process = None

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """It is there and does not answer, as on a machine deep in swap."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / "stageloadctl", *arguments],
            capture_output=True,
            text=True,
            check=check,
            env={**os.environ, "STAGELOAD_NO_AUTOSTART": "1"},
            timeout=60,
        )

    def frame(self) -> dict[str, Any]:
        """The newest, which may be half a second old."""
        frame: dict[str, Any] = json.loads(self.ctl("status", "--json").stdout)["frame"]
        return frame

    def clients(self) -> dict[str, Any]:
        """By name."""
        return {client["name"]: client for client in self.frame()["clients"]}

    def client(self, name: str) -> dict[str, Any]:
        """Empty before the frame that has it."""
        client: dict[str, Any] = self.clients().get(name, {})
        return client

    def waiting(self) -> list[Any]:
        waiting: list[Any] = self.frame()["waiting"]
        return waiting

    def leases(self, name: str) -> list[str]:
        """The stages that it holds."""
        return [lease["stage"] for lease in self.client(name).get("leases", [])]

    def run(self, code: str, *arguments: str, stdin: int | None = None) -> Program:
        program = Program(code, *arguments, stdin=stdin)
        self.programs.append(program)
        return program

    def end(self) -> None:
        for program in self.programs:
            program.kill()
        if self.process is not None and self.process.poll() is None:
            self.stop()
        # One that a client has started.
        with contextlib.suppress(OSError, ValueError):
            os.kill(
                int((self.home / "stageloadd.lock").read_text().splitlines()[0]), signal.SIGTERM
            )


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Short: the socket's path must fit into a sockaddr_un.
    folder = Path(tempfile.mkdtemp(prefix="sl.", dir="/tmp"))
    monkeypatch.setenv("STAGELOAD_HOME", str(folder))
    monkeypatch.setenv("STAGELOAD_NO_AUTOSTART", "1")
    monkeypatch.setenv("STAGELOAD_DAEMON", str(BIN / "stageloadd"))
    monkeypatch.delenv("STAGELOAD_SOCKET", raising=False)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def no_daemon(home: Path) -> Iterator[Daemon]:
    """One that is not started yet."""
    daemon = Daemon(home)
    yield daemon
    daemon.end()


@pytest.fixture
def daemon(no_daemon: Daemon) -> Daemon:
    no_daemon.start()
    return no_daemon
