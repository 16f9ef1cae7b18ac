"""Where the daemon is. It must come to the same answer as base/paths.cc."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

# sun_path has 104 bytes on macOS and 108 on Linux; one limit, so that a home works on each.
_LONGEST_SOCKET_PATH = 103


@dataclass(frozen=True)
class Paths:
    socket: str
    lock: str  # holds the daemon's pid; "" where nothing but the socket is known


class NoHome(ValueError):
    """Nothing says where a daemon would be."""


def _normal(path: str) -> str:
    return "/" + os.path.normpath(path).lstrip("/")


def _absolute(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name, "")
    if not value:
        return None
    if not value.startswith("/"):
        raise ValueError(f'{name}="{value}" is not an absolute path; begin it with /')
    return _normal(value)


def _home(environment: Mapping[str, str]) -> str:
    home = _absolute(environment, "HOME")
    if home is None:
        raise NoHome("neither STAGELOAD_HOME nor HOME is set; set one of them to an absolute path")
    return home


def _xdg(environment: Mapping[str, str], name: str) -> str | None:
    """A relative path in one of these is to be ignored (XDG Base Directory Specification)."""
    value = environment.get(name, "")
    return _normal(value) if value.startswith("/") else None


def _folders(environment: Mapping[str, str], platform: str) -> tuple[str, str]:
    """Of the state and of the socket."""
    home = _absolute(environment, "STAGELOAD_HOME")
    if home is not None:
        return home, home
    if platform == "darwin":
        user = _home(environment)
        state = os.path.join(user, "Library/Application Support/stageload")
        return state, os.path.join(user, ".stageload")
    base = _xdg(environment, "XDG_STATE_HOME") or os.path.join(_home(environment), ".local/state")
    state = os.path.join(base, "stageload")
    runtime = _xdg(environment, "XDG_RUNTIME_DIR")
    return state, os.path.join(runtime, "stageload") if runtime else os.path.join(state, "run")


def resolve(
    socket: str | None = None,
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
) -> Paths:
    """`socket` comes before $STAGELOAD_SOCKET, and either is enough without a home. NoHome;
    ValueError for a path that cannot be."""
    named = os.path.abspath(socket) if socket else _absolute(environment, "STAGELOAD_SOCKET")
    state = runtime = ""
    try:
        state, runtime = _folders(environment, platform)
    except NoHome:
        if named is None:
            raise
    chosen = named or os.path.join(runtime, "stageloadd.sock")
    for path in (state, chosen):
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"path {path!a} is not UTF-8; set another STAGELOAD_HOME or STAGELOAD_SOCKET"
            ) from None
    length = len(os.fsencode(chosen))
    if length > _LONGEST_SOCKET_PATH:
        raise ValueError(
            f'socket path "{chosen}" is {length} bytes long, the limit is {_LONGEST_SOCKET_PATH}; '
            "set a shorter STAGELOAD_HOME or STAGELOAD_SOCKET"
        )
    return Paths(chosen, os.path.join(state, "stageloadd.lock") if state else "")
