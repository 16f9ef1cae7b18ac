"""The clock that stands still while the machine sleeps: the daemon's `awake_ns`."""

from __future__ import annotations

import sys
import time

if sys.platform == "darwin":
    _CLOCK = time.CLOCK_UPTIME_RAW
else:
    _CLOCK = time.CLOCK_MONOTONIC


def awake_ns() -> int:
    """Nanoseconds since boot."""
    return time.clock_gettime_ns(_CLOCK)


def awake() -> float:
    return awake_ns() / 1e9
