"""Records this process's memory, and what it does, into a file.

    with MemoryMeter("run.trace.jsonl") as meter:
        meter.stage("decode")
        ...
    print(meter.summary()["peak_footprint"])

The file is a trace as `stageloadctl record` writes it, and `summary`, `plot` and `simulate` read
it; each line is in the file as soon as it is written. The daemon samples the process and its
descendants from outside, so a program that holds the interpreter's lock leaves no gap.

Threads: all calls may be made from any thread, and from a signal's handler: a mark of one that has
interrupted the meter as it wrote is in the file as soon as that goes on. fork: as with Job.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import os
import stat
from typing import Any, Union

from ._clock import awake_ns
from ._connection import (
    CallFailed,
    Connection,
    Search,
    Stream,
    connect,
    is_gone,
    none_answers,
    options_for,
    to_public,
)
from ._exit import Held, gives_back, gives_back_async
from ._loop import library
from ._trace import (
    MOST_BYTES,
    MOST_SECONDS,
    TraceWriter,
    format_span,
    longest_usual_gap,
    read_trace,
    summarise,
    to_hundredth,
    to_millisecond,
)
from ._wire import telemetry_service_pb2 as telemetry
from .errors import Forked, NoDaemon, StageloadError
from .units import Duration, parse_duration, to_float, whole_bytes

#: A field of a trace's first line.
TraceField = Union[bool, int, float, str]

_SHORTEST, _LONGEST = 0.02, 3600.0
# A daemon that refuses to sample is not asked again at once.
_REFUSED_PAUSE = 5.0
_FIRST_SAMPLE_WITHIN = 5.0
_CATCHES_UP_WITHIN = 1.0
# Who was interrupted as it wrote a line writes the last one, too.
_WRITES_WITHIN = 1.0
_LONGEST_TEXT = 256
# What is no regular file and takes a trace all the same.
_NEVER_BLOCK = ("/dev/null", "/dev/full")


class MemoryMeter:
    """path: the file, which is made or emptied.
    interval: from one sample to the next, from 20 ms to 1 h.
    fields: more for the file's first line, such as {"model": "Qwen-Image"}.
    socket, autostart: as of Job.
    require: without a daemon there is nobody who samples, so NoDaemon is raised. With False the
        file has the program's own events only, until a daemon is there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        interval: Duration = 0.5,
        *,
        fields: dict[str, TraceField] | None = None,
        socket: str | None = None,
        autostart: bool = True,
        require: bool = True,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))  # wherever the program goes
        self._interval = parse_duration(interval)
        if not _SHORTEST <= self._interval <= _LONGEST:
            raise ValueError(f"a meter's interval is from 20ms to 1h, not {interval}")
        self._fields = dict(fields or {})
        _check_fields(self._fields)
        self._options = options_for(socket, autostart)
        self._connect = self._options
        self._require = require
        self._pid = os.getpid()
        self._writer: TraceWriter | None = None
        self._begin_ns = 0
        self._last_t = 0.0  # of the newest sample
        self._missing = ""  # why there are none since then
        self._started = False
        self._hold: Held | None = None
        self.closed = False
        # On the library's thread:
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Event | None = None
        self._end: asyncio.Event | None = None
        self._closing = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """One that was not started may be sent to another process, and is that one's."""
        self.__dict__.update(state)
        if not self._started:
            self._pid = os.getpid()

    # ---- Its life ----

    def start(self) -> MemoryMeter:
        """What entering the `with` does: makes the file, and waits for the first sample."""
        self._check_start()
        try:
            library().run(self._start())
            self._began()
        except BaseException:
            self._drop()
            raise
        return self

    async def start_async(self) -> MemoryMeter:
        self._check_start()
        try:
            await library().run_async(self._start())
            self._began()
        except BaseException:
            self._drop()
            raise
        return self

    def close(self) -> None:
        """Writes the last line. No sample comes after it. When it is interrupted, that happens all
        the same, unless it was before it began."""
        try:
            if self._may_close():
                self._hear_no_more()
                library().finish(self._close())
                self._ended()
        except BaseException:
            self._drop()
            raise

    async def close_async(self) -> None:
        try:
            if self._may_close():
                self._hear_no_more()
                await library().finish_async(self._close())
                self._ended()
        except BaseException:
            self._drop()
            raise

    def __enter__(self) -> MemoryMeter:
        self._check_not_started()
        self._hold = Held(self, self._drop)
        return self.start()

    @gives_back
    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> MemoryMeter:
        self._check_not_started()
        self._hold = Held(self, self._drop)
        return await self.start_async()

    @gives_back_async
    async def __aexit__(self, *_: object) -> None:
        await self.close_async()

    def _check_not_started(self) -> None:
        if self._in_child():
            raise Forked("this MemoryMeter")
        if self._started:
            raise StageloadError(
                "a MemoryMeter is started once", code="FAILED_PRECONDITION", reason="WRONG_STATE"
            )

    def _check_start(self) -> None:
        self._check_not_started()
        _check_file(self.path)
        self._started = True

    def _began(self) -> None:
        library().close_at_exit(id(self), self._close)
        _active.append(self)

    def _drop(self) -> None:
        """As close(), which is not waited for: what was interrupted goes on with nothing."""
        if self._started and not self._in_child():
            library().submit(self._close())
            self._hear_no_more()
            self._ended()

    def _hear_no_more(self) -> None:
        with contextlib.suppress(ValueError):
            _active.remove(self)

    def _ended(self) -> None:
        """Or it will, so nothing is lost any more wherever this is interrupted."""
        library().closed(id(self))
        if self._hold is not None:
            self._hold.end()

    def _may_close(self) -> bool:
        return self._started and not self.closed and not self._in_child()

    def _in_child(self) -> bool:
        return os.getpid() != self._pid

    # ---- What the program says ----

    def mark(self, note: str) -> None:
        """A note. In the file when it returns; OSError when it is not, as on a full disk."""
        self._event({"kind": "mark", "note": _filled("note", note)})

    def stage(self, name: str) -> None:
        """A new stage begins."""
        self._event({"kind": "stage", "stage": _filled("stage", name)})

    def load(
        self, name: str, nbytes: float, seconds: float, *, stage: str = "", note: str = ""
    ) -> None:
        """`name` was loaded: how many bytes, and how long it took."""
        self._event(_sized("load", name, nbytes, seconds, stage, note))

    def reload(
        self, name: str, nbytes: float, seconds: float, *, stage: str = "", note: str = ""
    ) -> None:
        self._event(_sized("reload", name, nbytes, seconds, stage, note))

    def release(
        self, name: str, nbytes: float, seconds: float, *, stage: str = "", note: str = ""
    ) -> None:
        self._event(_sized("release", name, nbytes, seconds, stage, note))

    def summary(self) -> dict[str, Any]:
        """The figures of the file so far, as `stageloadctl summary --json` has them."""
        if self._started and not self.closed and not self._in_child():
            library().finish(self._catch_up())
        return summarise(read_trace(self.path))

    # ---- The file ----

    def _begin_file(self) -> None:
        from . import __version__

        now = datetime.datetime.now(datetime.timezone.utc)
        line: dict[str, Any] = {
            "type": "start",
            "utc": now.isoformat(timespec="milliseconds"),
            "interval": self._interval,
            "stageload": __version__,
            "pid": os.getpid(),
        }
        line.update(self._fields)
        self._begin_ns = awake_ns()
        self._writer = TraceWriter(self.path, line)

    def _seconds(self) -> float:
        return (awake_ns() - self._begin_ns) / 1e9

    def _event(self, event: dict[str, Any], t: float | None = None) -> None:
        if self._in_child():
            raise Forked("this MemoryMeter")
        writer = self._writer
        if writer is None or self.closed:
            raise _not_running()
        line = {"type": "event", **event}
        line["t"] = to_millisecond(self._seconds() if t is None else t)
        # The library's thread waits for nobody who may wait for it.
        write = writer.post if library().is_current() else writer.write
        try:
            write(line)
        except ValueError:
            if self.closed:  # meanwhile
                raise _not_running() from None
            raise

    def _try_write(self, line: dict[str, Any]) -> None:
        """What cannot be written of the samples is left out: the disk may have room at the next."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.post(line)

    def _add(self, answer: telemetry.WatchProcessResponse) -> None:
        if self.closed:
            return
        sample = answer.sample if answer.HasField("sample") else None
        for event in answer.events:
            t = self._seconds() if sample is None else self._time_of(event, sample)
            self._try_write(_event_line(event, t))
        if answer.dropped > 0:
            note = f"{answer.dropped} samples were left out: this program was too slow"
            t = to_millisecond(self._last_t)
            self._try_write({"type": "event", "kind": "mark", "note": note, "t": t})
        if sample is not None:
            t = max((sample.awake_ns - self._begin_ns) / 1e9, 0.0)
            usual = longest_usual_gap(self._interval)
            if not self._missing and answer.dropped == 0 and t - self._last_t > usual:
                self._missing = "the daemon did not sample"
            self._note_gap(t)
            self._last_t = t
            self._try_write(_sample_line(sample, t))

    def _note_gap(self, until: float) -> None:
        """Why there were no samples until then, if there was anything."""
        if not self._missing:
            return
        note = f"no samples for {format_span(until - self._last_t)}: {self._missing}"
        self._missing = ""
        t = to_millisecond(self._last_t)
        self._try_write({"type": "event", "kind": "mark", "note": note, "t": t})

    def _time_of(self, event: telemetry.Event, sample: telemetry.ProcessSample) -> float:
        t = (sample.awake_ns - self._begin_ns) / 1e9
        before = (sample.time_ns - event.time_ns) / 1e9
        return max(min(t - before, t), self._last_t)

    # ---- On the library's thread ----

    async def _start(self) -> None:
        self._begun, self._end = asyncio.Event(), asyncio.Event()
        try:
            self._connection = await connect(self._connect)
        except (CallFailed, NoDaemon) as error:
            if self._require or not none_answers(error):
                raise to_public(error) from None
            self._missing = "no daemon answered"
        if self._end.is_set():  # given up meanwhile
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            return
        self._begin_file()
        sampled = self._connection is not None
        self._task = asyncio.get_running_loop().create_task(self._run())
        if sampled:
            # From the first sample on the daemon knows of the recording, and marks go into it.
            await _wait(self._begun, _FIRST_SAMPLE_WITHIN)

    async def _close(self) -> None:
        if self._end is None or self._closing:
            return
        self._closing = True
        await self._catch_up()
        self._end.set()
        if self._stream is not None:
            self._stream.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=1.0)
        elif self._connection is not None:  # its file could not be made
            await self._connection.close()
        self.closed = True
        if self._writer is None:
            return
        self._note_gap(self._seconds())
        with contextlib.suppress(OSError):
            written = self._writer.post({"type": "end"}, last=True)
            until = awake_ns() + round(_WRITES_WITHIN * 1e9)
            while not written():
                if awake_ns() > until:
                    return
                await asyncio.sleep(0.005)

    async def _catch_up(self) -> None:
        """Until what the daemon has sampled is in the file, which this thread could not write while
        the program held the interpreter's lock."""
        now, until = awake_ns(), awake_ns() + round(_CATCHES_UP_WITHIN * 1e9)
        while self._stream is not None and awake_ns() < until:
            behind = (now - self._begin_ns) / 1e9 - self._last_t
            if behind < self._interval + 0.05:
                return
            await asyncio.sleep(0.01)

    async def _run(self) -> None:
        try:
            await self._sample()
        finally:
            self._task = None  # else the two keep each other; as in Session._run

    async def _sample(self) -> None:
        assert self._end is not None
        search: Search | None = None
        while not self._end.is_set():
            if self._connection is None:
                search = search or Search(self._connect)
                try:
                    self._connection = await search.look()
                except (CallFailed, NoDaemon):
                    await _wait(self._end, search.pause)
                    continue
            search = None
            self._connect = self._options
            failed = await self._read_samples(self._connection)
            await self._connection.close()
            self._connection = None
            if self._end.is_set():
                return
            gone = failed is None or is_gone(failed)
            self._missing = "the daemon went away" if gone else str(failed)
            if failed is not None and failed.went_away:
                continue
            # One that leaves because it was told to is not started again.
            self._connect = self._connect.without_start()
            if failed is None or not is_gone(failed):
                await _wait(self._end, _REFUSED_PAUSE)

    async def _read_samples(self, connection: Connection) -> CallFailed | None:
        assert self._end is not None
        assert self._begun is not None
        request = telemetry.WatchProcessRequest(interval_ns=round(self._interval * 1e9))
        try:
            self._stream = Stream(connection.calls.watch_process, request)
            while not self._end.is_set():
                answer = await self._stream.read()
                if answer is None:
                    break
                self._add(answer)
                if answer.HasField("sample"):
                    self._begun.set()
        except CallFailed as error:
            return error
        finally:
            self._begun.set()
            self._stream = None
        return None


# Those of this process that are started and not closed.
_active: list[MemoryMeter] = []


def active_meters() -> list[MemoryMeter]:
    return [meter for meter in _active if not meter._in_child()]


async def _wait(event: asyncio.Event, timeout: float) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), timeout)


def _check_file(path: str) -> None:
    """One that can stand still, as a pipe that nobody reads, would hold up every Job as well."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # it is made, or refused with the system's words
        return
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or os.path.realpath(path) in _NEVER_BLOCK:
        return
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
    raise ValueError(f"{path} is {kind}; a trace is written to a regular file or to /dev/null")


def _not_running() -> StageloadError:
    return StageloadError(
        "the meter is not running", code="FAILED_PRECONDITION", reason="WRONG_STATE"
    )


def _check_fields(fields: dict[str, TraceField]) -> None:
    for name, value in fields.items():
        if name in ("type", "utc", "interval", "stageload", "pid"):
            raise ValueError(f'fields: "{name}" is a name of the format\'s own')
        if not isinstance(name, str) or not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"fields: {name!r} is {value!r}, neither a number nor text")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f'fields: "{name}" is {value}, which is no JSON number')


def _text(field: str, text: str) -> str:
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise ValueError(f"{field}: holds a control character")
    if len(text.encode()) > _LONGEST_TEXT:
        raise ValueError(f"{field}: longer than {_LONGEST_TEXT} bytes")
    return text


def _filled(field: str, text: str) -> str:
    if not text:
        raise ValueError(f"{field}: is empty")
    return _text(field, text)


def _sized(
    kind: str, name: str, nbytes: float, seconds: float, stage: str, note: str
) -> dict[str, Any]:
    nbytes = whole_bytes(nbytes)
    # As readers of the file do.
    if not 0 <= nbytes <= MOST_BYTES:
        shown = f"{to_float(nbytes):.0f} bytes"
        raise ValueError(f'{kind} of "{name}": {shown}, not from 0 to {MOST_BYTES} (1 EiB)')
    if not 0 <= seconds <= MOST_SECONDS:
        shown = f"{to_float(seconds):g} s"
        raise ValueError(f'{kind} of "{name}": {shown}, not from 0 to {MOST_SECONDS:g} s')
    event: dict[str, Any] = {"kind": kind}
    if stage:
        event["stage"] = _text("stage", stage)
    event.update(name=_text("name", name), nbytes=nbytes, seconds=to_millisecond(seconds))
    if note:
        event["note"] = _text("note", note)
    return event


def _sample_line(sample: telemetry.ProcessSample, t: float) -> dict[str, Any]:
    line: dict[str, Any] = {"type": "sample", "t": to_millisecond(t)}
    host = sample.host
    if sample.HasField("footprint_bytes"):
        line["footprint"] = sample.footprint_bytes
    if host.HasField("swap_used_bytes"):
        line["swap_used"] = host.swap_used_bytes
    if host.HasField("level_percent"):
        line["level"] = to_hundredth(host.level_percent)
    if host.HasField("available_bytes"):
        line["available"] = host.available_bytes
    if sample.HasField("swapped_bytes"):
        line["swapped"] = sample.swapped_bytes
    line["processes"] = sample.processes
    if sample.HasField("charge_bytes"):
        line["charge"] = sample.charge_bytes
    return line


def _event_line(event: telemetry.Event, t: float) -> dict[str, Any]:
    line: dict[str, Any] = {"type": "event"}
    if event.HasField("mark"):
        mark = event.mark
        line["kind"] = mark.kind
        for name in ("stage", "name"):
            if getattr(mark, name):
                line[name] = getattr(mark, name)
        if mark.HasField("nbytes"):
            line["nbytes"] = mark.nbytes
        if mark.HasField("seconds"):
            line["seconds"] = to_millisecond(mark.seconds)
        if mark.note:
            line["note"] = mark.note
    else:
        line.update(kind="mark", note=event.text or event.kind)
    line["t"] = to_millisecond(t)
    if not event.HasField("mark"):
        line["event"] = event.kind
    return line
