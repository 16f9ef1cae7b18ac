"""The trace format of docs/traces.md: writing lines, reading a file, and its figures.

The figures are those of `stageloadctl summary --json`, by the same rules.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import stat
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

from .errors import StageloadError

_MAX_LINE = 1 << 20
MOST_SECONDS = 1e10
MOST_BYTES = 1 << 60
_MOST_COUNTED = (1 << 63) - 1  # where the sums of the programs stand, too
# A gap longer than this, and than three of the recording's intervals, is worth a note.
_LONG_GAP = 2.0
_SECOND_END = 'there is a second "end": are these several recordings?'
# What a stage lets go of when it is entered begins to go at once, but for what is done on the way.
_IDLE_BEFORE_RELEASES = 1.0
# Where nothing says how long a release took, as in recordings of stageload 0.1.
_LONGEST_UNTIMED_RELEASES = 10.0


def to_millisecond(seconds: float) -> float:
    return math.floor(seconds * 1000 + 0.5) / 1000


def to_hundredth(level: float) -> float | int:
    """A whole number without a point, as a kernel's counter is."""
    rounded = math.floor(level * 100 + 0.5) / 100
    return int(rounded) if rounded == math.floor(rounded) else rounded


class _Line:
    """On its way into the file."""

    def __init__(self, text: bytes, last: bool) -> None:
        self.text = text
        self.last = last
        self.done = False
        self.error: Exception | None = None


class TraceWriter:
    """Each line is whole in the file when write() returns. From any thread, and from a signal's
    handler or a finalizer that interrupts write(): its line is written once that goes on."""

    def __init__(self, path: str, first: dict[str, Any]) -> None:
        """Empties the file for a recording that begins with that line, if it is one. StageloadError
        where another recording of this package writes it."""
        self.path = path
        self._lines: deque[_Line] = deque()  # that are to be written next, by who has the lock
        self._lock = threading.RLock()
        self._writing = False
        self._encode(first)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)
        self._cut = b""  # the rest of a line whose beginning is in the file
        try:
            if stat.S_ISREG(os.fstat(self._fd).st_mode):
                self._take_file()
            self.write(first)
        except BaseException:
            self.close()
            raise

    def _take_file(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StageloadError(
                f"record into {self.path}: another recording writes it now; end that one, or take "
                "another file",
                code="FAILED_PRECONDITION",
                reason="WRONG_STATE",
            ) from None
        except OSError:  # a file system without locks
            pass
        os.ftruncate(self._fd, 0)

    def write(self, line: dict[str, Any]) -> None:
        """ValueError for a line that no reader takes, and after the last one. OSError, as on a full
        disk; what was cut by it is completed before the next line."""
        added = self._add(line)
        with self._lock:
            self._write_all()
        self._write_others()
        _raise(added)

    def post(self, line: dict[str, Any], last: bool = False) -> Callable[[], bool]:
        """The same for who must not wait, as for a thread that was interrupted as it wrote: then
        that one writes it, too. Whether it was written, or could not be. The file is closed after
        the last one."""
        added = self._add(line, last)
        self._write_others()
        _raise(added)
        return lambda: added.done

    def _add(self, line: dict[str, Any], last: bool = False) -> _Line:
        added = _Line(self._encode(line), last)
        self._lines.append(added)
        return added

    def _write_others(self) -> None:
        """What was added meanwhile by who found the lock taken."""
        while self._lines and not self._writing and self._lock.acquire(blocking=False):
            try:
                self._write_all()
            finally:
                self._lock.release()

    def _write_all(self) -> None:
        if self._writing:  # this thread does, and was interrupted
            return
        self._writing = True
        try:
            while self._lines:
                line = self._lines.popleft()
                try:
                    self._write(line.text)
                except (OSError, ValueError) as error:
                    line.error = error
                line.done = True
                if line.last:
                    self.close()
        finally:
            self._writing = False

    def _write(self, new: bytes) -> None:
        if self._fd < 0:
            raise ValueError(f"{self.path}: the trace has ended")
        left = self._cut + new
        while left:
            try:
                written = os.write(self._fd, left)
            except OSError as error:
                # A line that was not begun is lost.
                begun = len(left) < len(new)
                self._cut = left if begun else left[: len(left) - len(new)]
                raise OSError(error.errno, error.strerror, self.path) from None
            left = left[written:]
        self._cut = b""

    def _encode(self, line: dict[str, Any]) -> bytes:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        new = text.encode("utf-8", "replace") + b"\n"
        if len(new) > _MAX_LINE + 1:
            raise ValueError(f"{self.path}: a line of {len(new)} bytes, and 1 MiB at most is read")
        return new

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # which a forked child would keep
            os.close(self._fd)
            self._fd = -1


def _raise(line: _Line) -> None:
    error, line.error = line.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # it and this frame would keep each other


@dataclass
class Trace:
    path: str
    start: dict[str, Any] | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)  # by t
    events: list[dict[str, Any]] = field(default_factory=list)  # by t
    errors: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False
    notes: list[str] = field(default_factory=list)


class _Wrong(Exception):
    """With a line."""


def _number(line: dict[str, Any], name: str, lowest: float, highest: float) -> None:
    value = line.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong(f'"{name}" is {value!r}: not a number')
    if not lowest <= value <= highest:
        raise _Wrong(f'"{name}" is {value!r}: not from {lowest:g} to {highest:g}')


def _sizes(line: dict[str, Any], *names: str) -> None:
    for name in names:
        _number(line, name, 0, MOST_BYTES)
        value = line.get(name)
        if isinstance(value, float):
            if value != math.floor(value):
                raise _Wrong(f'"{name}" is {value!r}: not a whole number of bytes')
            line[name] = int(value)


def _require(line: dict[str, Any], *names: str) -> None:
    for name in names:
        if line.get(name) is None:
            raise _Wrong(f'there is no "{name}"')


def _texts(line: dict[str, Any], *names: str) -> None:
    for name in names:
        value = line.get(name)
        if value is not None and not isinstance(value, str):
            raise _Wrong(f'"{name}" is {value!r}: not text')


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _add_line(text: str, trace: Trace) -> None:
    try:
        line = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"no JSON: a trace has one JSON object a line ({error})") from None
    if not isinstance(line, dict):
        raise _Wrong("no JSON object")
    _require(line, "type")
    _texts(line, "type")
    kind = line["type"]
    if kind == "start":
        if trace.start is not None:
            raise _Wrong('a second "start": this file holds more than one recording; split it')
        _texts(line, "utc")
        _number(line, "interval", 0, MOST_SECONDS)
        trace.start = line
    elif kind == "sample":
        _require(line, "t")
        _number(line, "t", 0, MOST_SECONDS)
        _sizes(line, "footprint", "swap_used", "available")
        _number(line, "level", 0, 100)
        trace.samples.append(line)
    elif kind == "event":
        _require(line, "t", "kind")
        _number(line, "t", -MOST_SECONDS, MOST_SECONDS)
        _texts(line, "kind", "stage", "name", "note")
        _sizes(line, "nbytes")
        _number(line, "seconds", 0, MOST_SECONDS)
        trace.events.append(line)
    elif kind == "error":
        _require(line, "t")
        _number(line, "t", -MOST_SECONDS, MOST_SECONDS)
        _texts(line, "error")
        trace.errors.append({"t": line["t"], "error": line.get("error") or ""})
    elif kind == "end":
        if trace.ended and _SECOND_END not in trace.notes:
            trace.notes.append(_SECOND_END)
        trace.ended = True


def _lines(path: str) -> Iterator[tuple[int, str, bool]]:
    """Number, text, and whether it is the last; blank ones are left out."""
    with open(path, "rb") as file:
        held: tuple[int, str] | None = None
        for number, raw in enumerate(file, 1):
            if len(raw) > _MAX_LINE + 1:
                raise StageloadError(f"{path}:{number}: longer than 1 MiB")
            # A file system may leave zeros where a machine that went down had not written yet.
            text = raw.decode("utf-8", "replace").rstrip("\n")
            if not text.strip():
                continue
            if held is not None:
                yield (*held, False)
            held = (number, text)
        if held is not None:
            yield (*held, True)


def _is_cut(text: str, trace: Trace) -> bool:
    """Whether the writer of the last line only did not get to its end."""
    text = text.rstrip("\0")
    if not text:
        return bool(trace.samples)
    return text.startswith("{") and not text.endswith("}")


def read_trace(path: str) -> Trace:
    """StageloadError with file and line for what is no trace; OSError for what cannot be read."""
    trace = Trace(path)
    number = 0
    for number, text, last in _lines(path):
        try:
            _add_line(text, trace)
        except _Wrong as wrong:
            if not last or not _is_cut(text, trace):
                raise StageloadError(f"{path}:{number}: {wrong}") from None
            trace.notes.append(f"line {number} is cut: left out")
    if not trace.samples:
        what = f"no sample in {number} lines" if number else "the file is empty"
        raise StageloadError(f"{path}: {what}")
    if not trace.ended:
        trace.notes.append('the trace ends without "end"')
    _note_order(trace)
    trace.samples.sort(key=lambda line: line["t"])
    trace.events.sort(key=lambda line: line["t"])
    _note_gaps(trace)
    for name in ("footprint", "swap_used", "level"):
        missing = sum(line.get(name) is None for line in trace.samples)
        if missing:
            trace.notes.append(f'{missing} of {len(trace.samples)} samples have no "{name}"')
    return trace


def format_span(seconds: float) -> str:
    if seconds < 10:
        text = f"{seconds:.1f}"
        return (text[:-2] if text.endswith(".0") else text) + "s"
    whole = int(seconds)
    minutes, hours = whole // 60, whole // 3600
    if minutes == 0:
        return f"{whole}s"
    if hours == 0:
        return f"{minutes}m{whole % 60:02}s"
    if hours < 24:
        return f"{hours}h{minutes % 60:02}m"
    return f"{hours // 24}d{hours % 24:02}h"


def longest_usual_gap(interval: float) -> float:
    return max(_LONG_GAP, 3 * interval)


def _note_order(trace: Trace) -> None:
    times = [sample["t"] for sample in trace.samples]  # in the file's order
    before = [one for one, following in zip(times, times[1:]) if following < one]
    if not before:
        return
    how_often = "" if len(before) == 1 else f"{len(before)} times, first "
    trace.notes.append(
        f"the time goes back {how_often}after t = {float(before[0])}: "
        "lines out of order, or several recordings?"
    )


def _note_gaps(trace: Trace) -> None:
    usual = longest_usual_gap((trace.start or {}).get("interval") or 0.0)
    gaps = 0
    longest = after = 0.0
    for before, sample in zip(trace.samples, trace.samples[1:]):
        gap = sample["t"] - before["t"]
        gaps += gap > usual
        if gap > longest:
            longest, after = gap, float(before["t"])
    if gaps == 0:
        return
    where = f"{format_span(longest)} after t = {after}"
    many = f"{gaps} gaps between samples, one of {where}"
    trace.notes.append(f"no sample for {where}" if gaps == 1 else many)


def _begin(events: list[dict[str, Any]], at: int) -> float:
    """Of a stage: behind the releases that entering it sets off. A later one is its own."""
    entered: float = events[at]["t"]
    begin, idle = entered, 0.0
    for event in events[at + 1 :]:
        if event["kind"] != "release":
            break
        t, seconds = event["t"], event.get("seconds")
        if seconds is not None:
            idle += max(t - seconds - begin, 0.0)
        untimed_late = seconds is None and t - entered > _LONGEST_UNTIMED_RELEASES
        if idle > _IDLE_BEFORE_RELEASES or untimed_late:
            break
        begin = t
    return begin


def _stages(trace: Trace) -> list[dict[str, Any]]:
    """In [begin, end) each; the last sample belongs to the stage that it ends."""
    begin = min(0.0, trace.samples[0]["t"])
    last = trace.samples[-1]["t"]
    bands: list[list[Any]] = []  # name, begin, end, peak
    for i, event in enumerate(trace.events):
        if event["kind"] != "stage":
            continue
        t, name = max(begin, _begin(trace.events, i)), event.get("stage") or ""
        if not bands and t > begin:
            bands.append(["setup", begin, begin, None])
        if not bands or bands[-1][0] != name:
            bands.append([name, t, t, None])
    if not bands:
        bands.append(["setup", begin, begin, None])
    for band, following in zip(bands, bands[1:]):
        band[2] = following[1]
    bands[-1][2] = max(bands[-1][1], last)
    at = 0
    for sample in trace.samples:
        t, footprint = sample["t"], sample.get("footprint")
        while (
            at + 1 < len(bands) and t >= bands[at][2] and not (t == last and bands[at][2] == last)
        ):
            at += 1
        for i, band in enumerate(bands[at:]):
            if i > 0 and t != band[2]:  # the last sample belongs to those that begin with it, too
                break
            if t >= band[1] and footprint is not None and (band[3] is None or footprint > band[3]):
                band[3] = footprint
    return [
        {"stage": name, "seconds": to_millisecond(end - begin), "peak_footprint": peak}
        for name, begin, end, peak in bands
    ]


def _sum(events: list[dict[str, Any]], counts: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    counted = [event for event in events if counts(event)]
    seconds = 0.0
    for event in counted:
        seconds += event.get("seconds") or 0.0
    return {
        "count": len(counted),
        "bytes": min(sum(event.get("nbytes") or 0 for event in counted), _MOST_COUNTED),
        "seconds": to_millisecond(seconds),
    }


def _true_peak(samples: list[dict[str, Any]]) -> int | None:
    """Over the samples that have both."""
    both = [
        (line["available"], line["swap_used"])
        for line in samples
        if line.get("available") is not None and line.get("swap_used") is not None
    ]
    if not both:
        return None
    first = both[0]
    peak: int = max((first[0] - available) + (swap - first[1]) for available, swap in both)
    return peak


def _is_load(event: dict[str, Any]) -> bool:
    return event["kind"] in ("load", "reload")


def _values(samples: list[dict[str, Any]], name: str) -> list[Any]:
    return [line[name] for line in samples if line.get(name) is not None]


def summarise(trace: Trace) -> dict[str, Any]:
    """What `stageloadctl summary --json` prints of it."""
    samples = trace.samples
    meta = {k: v for k, v in (trace.start or {}).items() if k != "type"}
    for name in ("utc", "interval"):
        if meta.get(name) in (None, ""):
            meta.pop(name, None)
    footprints, levels = _values(samples, "footprint"), _values(samples, "level")
    swaps, true_peak = _values(samples, "swap_used"), _true_peak(samples)
    swap = {"start": swaps[0], "peak": max(swaps), "end": swaps[-1]} if swaps else {}
    releases = _sum(trace.events, lambda event: event["kind"] == "release")
    outside = {
        event.get("name") or ""
        for event in trace.events
        if _is_load(event) and event.get("note") == "outside_stage"
    }
    summary: dict[str, Any] = {
        "meta": meta,
        "duration": to_millisecond(samples[-1]["t"] - samples[0]["t"]),
        "peak_footprint": max(footprints) if footprints else None,
        "swap": swap,
        "min_level": min(levels) if levels else None,
        "stages": _stages(trace),
        "loads": _sum(trace.events, _is_load),
        "releases": {"count": releases["count"], "bytes": releases["bytes"]},
        "outside_stage": sorted(outside),
        "errors": trace.errors,
    }
    if swap:
        summary["swap_growth"] = swap["peak"] - swap["start"]
    if true_peak is not None:
        summary["true_peak"] = true_peak
    summary["samples"] = len(samples)
    summary["ended"] = trace.ended
    summary["notes"] = trace.notes
    summary["trace"] = trace.path
    return summary
