"""Starts stageloadd where none answers, as stageloadctl does.

Blocks its thread; called by the library's own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import IO, Callable

from ._paths import Paths
from .errors import NoDaemon

# How long the winner of a start may take from its lock to its pid in the lock file.
_LOSER_WAITS = 0.5
_ANSWERS_WITHIN = 10.0

# Daemons that this process has started; so that none of them is waited for by a destructor.
_started: list[subprocess.Popen[bytes]] = []


def forbidden() -> bool:
    return os.environ.get("STAGELOAD_NO_AUTOSTART", "") not in ("", "0")


def _find() -> str:
    found = os.environ.get("STAGELOAD_DAEMON") or shutil.which("stageloadd")
    if found:
        return found
    raise NoDaemon(
        "no daemon, and no stageloadd to start: none is in PATH (set STAGELOAD_DAEMON to its path)"
    )


def _spawn(daemon: str, socket: str, words: IO[bytes]) -> subprocess.Popen[bytes]:
    # The library's thread blocks all signals, and a daemon must not inherit that.
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        return subprocess.Popen(
            [daemon, "--idle-exit", "10m", "--autostarted"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            cwd="/",
            env={**os.environ, "STAGELOAD_SOCKET": socket},
            start_new_session=True,
        )
    except OSError as error:
        raise NoDaemon(f"no daemon: start {daemon}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _another_holds(lock: str) -> bool:
    """Whether another daemon won the start."""
    try:
        with open(lock, encoding="ascii") as file:
            pid = int(file.read(32).strip())
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return pid > 0


def start(paths: Paths, answers: Callable[[str], bool]) -> None:
    """Returns when one listens; NoDaemon with what it said when none does."""
    _started[:] = [daemon for daemon in _started if daemon.poll() is None]
    # A file and not a pipe: a daemon that writes to stderr later must not be killed by our end.
    with tempfile.TemporaryFile() as words:
        daemon = _find()
        process = _spawn(daemon, paths.socket, words)
        _started.append(process)
        begin = time.monotonic()
        ended = None
        while time.monotonic() - begin < _ANSWERS_WITHIN:
            if answers(paths.socket):
                return
            if ended is None and process.poll() is not None:
                ended = time.monotonic()
            lost = ended is not None and time.monotonic() - ended > _LOSER_WAITS
            if lost and not _another_holds(paths.lock):
                break
            time.sleep(0.005)
        words.seek(0)
        said = "; ".join(words.read(4096).decode(errors="replace").split("\n")).strip("; ")
    if ended is None:
        what = f"does not answer at {paths.socket} after {_ANSWERS_WITHIN:.0f}s"
    else:
        code = process.returncode
        what = f"ended at its start with {f'code {code}' if code >= 0 else f'signal {-code}'}"
    raise NoDaemon(f"no daemon: {daemon} {what}{': ' + said if said else ''}")
