"""What the daemon refuses, refused at the call and in its words, also while there is no daemon.

So that what was said meanwhile can be said again to the next one. daemon/rpc/convert_fields.cc and
convert_session.cc and daemon/core/policy.cc are the daemon's side.
"""

from __future__ import annotations

import math
import re

from ._trace import MOST_BYTES, MOST_SECONDS
from ._wire import policy_pb2
from .errors import StageloadError
from .units import format_size, to_float

_LONGEST_WORD = 256
_LARGEST_PID = (1 << 31) - 1
MOST_GAUGES = 32
_GAUGE_NAME = re.compile(r"[A-Za-z0-9_.]{1,64}", re.ASCII)


def invalid(field: str, text: str) -> StageloadError:
    return StageloadError(f"{field}: {text}", code="INVALID_ARGUMENT", reason="INVALID_FIELD")


def check_word(field: str, word: str) -> str:
    """Of a word for people, which it gives back."""
    if not isinstance(word, str):
        raise TypeError(f"{field} is text, not {word!r}")
    try:
        size = len(word.encode())
    except UnicodeEncodeError:
        raise invalid(field, "is not UTF-8") from None
    if size > _LONGEST_WORD:
        raise invalid(field, f"{size} bytes, the limit is {_LONGEST_WORD}")
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in word):
        raise invalid(field, "holds a control character")
    return word


def check_filled(field: str, word: str, why: str) -> str:
    """Of a word that may not be empty, which it gives back."""
    if not check_word(field, word):
        raise invalid(field, f"is empty; {why}")
    return word


def check_mark_figures(nbytes: int, seconds: float) -> None:
    """As what reads recordings does."""
    if nbytes < 0:
        raise invalid("marks.nbytes", f"{to_float(nbytes):.0f} is negative")
    if nbytes > MOST_BYTES:
        raise invalid(
            "marks.nbytes",
            f"{to_float(nbytes):.0f} bytes ({format_size(nbytes)}) is more than any machine has: "
            f"{format_size(MOST_BYTES)} at most",
        )
    if not 0 <= seconds <= MOST_SECONDS:
        text = f"{to_float(seconds):g} s is not a time from 0 to {MOST_SECONDS:g} s"
        raise invalid("marks.seconds", text)


def check_priority(priority: int) -> int:
    if not -1000 <= priority <= 1000:
        raise invalid("policy.priority", f"{to_float(priority):.0f} is not from -1000 to 1000")
    return priority


def check_pid(pid: int) -> int:
    """Of one that a process can have, or 0 for this one."""
    if not 0 <= pid <= _LARGEST_PID:
        raise invalid("pid", f"{to_float(pid):.0f} is not a process id")
    return pid


def check_policy(policy: policy_pb2.Policy) -> None:
    """Of what its types allow."""
    for field in ("wait_free_percent", "kill_free_percent"):
        percent = getattr(policy, field)
        if not 0 <= percent <= 100:
            raise invalid(f"policy.{field}", f"{percent:g} is not a percentage from 0 to 100")


def check_gauges(gauges: dict[str, float]) -> dict[str, float]:
    """As numbers."""
    numbers = {name: to_float(value) for name, value in gauges.items()}
    for name, number in numbers.items():
        if _GAUGE_NAME.fullmatch(name) is None:
            raise invalid(
                "gauges.name",
                "must be 1 to 64 letters, digits, '_' or '.', such as \"mps_driver_bytes\"",
            )
        if not math.isfinite(number):
            raise invalid("gauges.value", f"{name} is {number}")
    return numbers


def check_gauge_count(names: set[str]) -> None:
    if len(names) > MOST_GAUGES:
        raise invalid("gauges", f"{len(names)}, a client has at most {MOST_GAUGES}")
