"""Starts stageloadd where none answers, as stageloadctl does.

Blocks its thread; called by the library's own.
"""

from __future__ import annotations

import os
import select
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

# A shell between, which ends at once: the daemon must be no child of a program that waits for all
# of its children. A shell has what it leaves behind ignore two signals; not every one undoes that.
_BETWEEN = '(trap - INT QUIT; exec "$@") &'


def forbidden() -> bool:
    return os.environ.get("STAGELOAD_NO_AUTOSTART", "") not in ("", "0")


def _find() -> str:
    found = os.environ.get("STAGELOAD_DAEMON") or shutil.which("stageloadd")
    if found:
        return found
    raise NoDaemon(
        "no daemon, and no stageloadd to start: none is in PATH (set STAGELOAD_DAEMON to its path)"
    )


def _spawn(daemon: str, socket: str, words: IO[bytes]) -> int:
    """The end of a pipe to read from, which is at its end when the daemon has ended."""
    try:
        if "/" in daemon:
            os.stat(os.path.join("/", daemon))
    except OSError as error:
        raise NoDaemon(f"no daemon: start {daemon}: {error.strerror}") from error
    lives, held = os.pipe()
    # The library's thread blocks all signals, and a daemon must not inherit that.
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        subprocess.run(
            ["/bin/sh", "-c", _BETWEEN, "sh", daemon, "--idle-exit", "10m", "--autostarted"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            cwd="/",
            env={**os.environ, "STAGELOAD_SOCKET": socket},
            start_new_session=True,
            pass_fds=(held,),
        )
        return lives
    except OSError as error:
        os.close(lives)
        raise NoDaemon(f"no daemon: start {daemon}: {error.strerror}") from error
    finally:
        os.close(held)
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


def _has_ended(lives: int) -> bool:
    poll = select.poll()
    poll.register(lives, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(0))


def _await(paths: Paths, answers: Callable[[str], bool], lives: int) -> bool:
    """Whether a daemon answers, this one or another one that won the start."""
    begin, ended = time.monotonic(), None
    while time.monotonic() - begin < _ANSWERS_WITHIN:
        if answers(paths.socket):
            return True
        if ended is None and _has_ended(lives):
            ended = time.monotonic()
        lost = ended is not None and time.monotonic() - ended > _LOSER_WAITS
        if lost and not _another_holds(paths.lock):
            break
        time.sleep(0.005)
    return False


def start(paths: Paths, answers: Callable[[str], bool]) -> None:
    """Returns when one listens; NoDaemon with what it said when none does."""
    try:
        _start(paths, answers)
    except OSError as error:  # nowhere to write, or no more files
        raise NoDaemon(f"no daemon: start one: {error.strerror or error}") from error


def _start(paths: Paths, answers: Callable[[str], bool]) -> None:
    # A file and not a pipe: a daemon that writes to stderr later must not be killed by our end.
    with tempfile.TemporaryFile() as words:
        daemon = _find()
        lives = _spawn(daemon, paths.socket, words)
        try:
            if _await(paths, answers, lives):
                return
            ended = _has_ended(lives)
        finally:
            os.close(lives)
        words.seek(0)
        said = "; ".join(words.read(4096).decode(errors="replace").split("\n")).strip("; ")
    what = f"does not answer at {paths.socket} after {_ANSWERS_WITHIN:.0f}s"
    if ended:
        what = "ended at its start"
    raise NoDaemon(f"no daemon: {daemon} {what}{': ' + said if said else ''}")
