"""Sizes and durations as people write them, as stageloadctl takes and prints them."""

from __future__ import annotations

import math
import numbers
import operator
import re
from typing import SupportsIndex, Union

#: Bytes, also as numpy's integers, or text such as "13.3G", "512M", "1.5 GiB"; multiples are
#: binary.
Size = Union[SupportsIndex, str]
#: Seconds, or text such as "500ms", "90s", "30m", "1h30m".
Duration = Union[int, float, str]

_LARGEST = (1 << 63) - 1  # bytes and nanoseconds travel as int64
_LONGEST = 292 * 365.25 * 86400  # with room left for rounding
# As long as anybody waits; a deadline is a time of day in nanoseconds, into which that fits.
_FOR_EVER = 100 * 365.25 * 86400
_NUMBER = r"(\d*)(?:\.(\d+))?"
_SIZE = re.compile(_NUMBER + r"\s*(b|([kmgtp])(?:i?b)?)?", re.IGNORECASE | re.ASCII)
_PART = re.compile(_NUMBER + r"\s*(ms|[smhd])\s*", re.IGNORECASE | re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def parse_size(size: Size) -> int:
    """Bytes. ValueError names the text and shows a right one."""
    if isinstance(size, bool) or not isinstance(size, (str, SupportsIndex)):
        raise TypeError(f'a size is a whole number of bytes or text such as "8G", not {size!r}')
    if not isinstance(size, str):
        nbytes = operator.index(size)
    else:
        match = _SIZE.fullmatch(size.strip())
        if match is None or not (match[1] or match[2]) or (match[2] and not match[4]):
            raise ValueError(f'"{size}" is no size; write it like "8G", "512M" or "1.5GiB"')
        multiple = 1024 ** (1 + "kmgtp".index(match[4].lower())) if match[4] else 1
        nbytes = int(match[1] or 0) * multiple + int(multiple * float(f"0.{match[2] or 0}"))
    if not 0 <= nbytes <= _LARGEST:
        shown = size if isinstance(size, str) else f"{to_float(nbytes):g}"
        raise ValueError(f"a size is not negative and below 8 EiB: {shown}")
    return nbytes


def parse_duration(duration: Duration) -> float:
    """Seconds. ValueError names the text and shows a right one."""
    if isinstance(duration, bool) or not isinstance(duration, (numbers.Real, str)):
        raise TypeError(f'a duration is in seconds or text such as "30m", not {duration!r}')
    seconds = _seconds(duration) if isinstance(duration, str) else to_float(duration)
    if not (math.isfinite(seconds) and 0 <= seconds < _LONGEST):
        shown = duration if isinstance(duration, str) else f"{seconds:g}"
        raise ValueError(f"a duration is not negative and below 292 years: {shown}")
    return seconds


def parse_timeout(timeout: Duration | None) -> float | None:
    """None is for ever, and so is a century or more. A number below 0, as of a deadline that has
    passed, is 0."""
    if timeout is None:
        return None
    if isinstance(timeout, numbers.Real) and not isinstance(timeout, bool):
        if timeout < 0:
            return 0.0
        if timeout >= _FOR_EVER:
            return None
    elif isinstance(timeout, str) and _seconds(timeout) >= _FOR_EVER:
        return None
    return parse_duration(timeout)


def whole_bytes(nbytes: float) -> int:
    """Of a size that was computed, such as 16.3 * 2**30."""
    if isinstance(nbytes, (bool, str)) or not math.isfinite(to_float(nbytes)):
        shown = nbytes if isinstance(nbytes, (bool, str)) else to_float(nbytes)
        raise ValueError(f"a number of bytes, not {shown!r}")
    return round(nbytes)


def to_float(number: float) -> float:
    """Infinity for a whole number that no float can hold."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _seconds(text: str) -> float:
    wrong = ValueError(f'"{text}" is no duration; write it like "500ms", "90s" or "1h30m"')
    rest = text.strip()
    bare = re.fullmatch(_NUMBER, rest, re.ASCII)
    if bare is not None and (bare[1] or bare[2]):
        return float(rest)
    total, smallest = 0.0, math.inf
    while rest:
        match = _PART.match(rest)
        if match is None or not (match[1] or match[2]):
            raise wrong
        unit = _SECONDS[match[3].lower()]
        if unit >= smallest:  # "30m1h" and "1h1h" are slips of the finger
            raise wrong
        total += unit * float(f"{match[1] or 0}.{match[2] or 0}")
        smallest, rest = unit, rest[match.end() :]
    if smallest == math.inf:
        raise wrong
    return total


def format_size(nbytes: int) -> str:
    """Such as "13.3 GiB", "512 MiB", "9 B"; three significant places at most."""
    if -1024 < nbytes < 1024:
        return f"{nbytes} B"
    value, unit = to_float(abs(nbytes)) / 1024, 0
    # What would be rounded to 1024 of one unit is 1 of the next.
    while value >= 1023.5 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    text = f"{value:.{decimals}f}"
    if decimals:
        text = text.rstrip("0").rstrip(".")
    return f"{'-' if nbytes < 0 else ''}{text} {_UNITS[unit]}"
