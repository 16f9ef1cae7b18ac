"""Sizes and durations as people write them, as stageloadctl takes and prints them."""

from __future__ import annotations

import math
import re
from typing import Union

#: Bytes, or text such as "13.3G", "512M", "1.5 GiB"; multiples are binary.
Size = Union[int, str]
#: Seconds, or text such as "500ms", "90s", "30m", "1h30m".
Duration = Union[int, float, str]

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_size(size: Size) -> int:
    """Bytes. ValueError names the text and shows a right one."""
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise TypeError(f'a size is a whole number of bytes or text such as "8G", not {size!r}')
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"a size is not negative: {size}")
        return size
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise ValueError(f'"{size}" is no size; write it like "8G", "512M" or "1.5GiB"')
    return math.floor(float(match[1]) * 1024.0 ** _POWERS[match[2].lower()])


def parse_duration(duration: Duration) -> float:
    """Seconds. ValueError names the text and shows a right one."""
    if isinstance(duration, bool) or not isinstance(duration, (int, float, str)):
        raise TypeError(f'a duration is in seconds or text such as "30m", not {duration!r}')
    if isinstance(duration, str):
        text = duration.strip()
        if _PART.sub("", text) == "" and text:
            return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        try:
            duration = float(text)
        except ValueError:
            message = f'"{duration}" is no duration; write it like "500ms", "90s" or "1h30m"'
            raise ValueError(message) from None
    if not (duration >= 0 and math.isfinite(duration)):
        raise ValueError(f"a duration is finite and not negative: {duration}")
    return float(duration)


def format_size(nbytes: float) -> str:
    """ "13.3 GiB", "512 MiB", "9 B"."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1000 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.3g} {unit}"
