#!/usr/bin/env python3
"""docs/json.md against what the programs print: every command that has --json is run with it against
a real daemon in a home of its own. What appears must be on the page, with its type; what is on the
page must appear, or, where it is of the API, must stand in proto/ with the same type.

usage: json_docs_test.py STAGELOADCTL TREE
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CTL = ""
TREE = ""
WAIT_S = 60

# Where the API calls a message otherwise than the page, which has no word for request and answer.
MESSAGES = {"Daemon": "GetVersionResponse", "JobChange": "WatchJobsResponse",
            "LogPiece": "ReadLogsResponse", "Sample": "WatchTelemetryResponse",
            "Profiles": "ListProfilesResponse", "Config": "GetConfigResponse",
            "ConfigReload": "ReloadConfigResponse"}
# In the output and not in the API.
ADDED = {("LogPiece", "data_base64"), ("Config", "running"), ("Job", "stage"), ("Job", "leases"),
         ("Job", "waiting_leases"), ("Job", "gauges")}
# May be left out of a request and is filled in by the daemon.
FILLED_IN = {("Policy", "wait_free_percent"), ("Policy", "swap_budget_bytes"),
             ("Policy", "kill_free_percent"), ("Policy", "priority"), ("Policy", "grace_ns")}
# Not to be seen here: what takes a daemon that hangs, an installed service, a Mac, swap, or a machine that cannot be read.
UNSEEN = {("DaemonStatus", "error"), ("DaemonStatus", "program_change"),
          ("Service", "loaded"), ("Service", "where"), ("Service", "condition"), ("Service", "error"),
          ("Machine", "swap_enabled"), ("Probe", "errors"), ("SwapArea", "path"),
          ("SwapArea", "kind"), ("SwapArea", "size_bytes"), ("ProbeHost", "pageable_internal_bytes"),
          ("ProbeHost", "gpu_wired_limit_bytes")}


def rows(text):
    """The cells of each row of the tables in it, without their headings."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(("| field", "| command", "| type")):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


class Page:
    def __init__(self, text):
        commands, rest = text.split("\n## Commands\n")[1].split("\n## ", 1)
        rest, words = rest.split("\n## Words\n")
        self.commands = {}  # "submit --array N": (form, type)
        for title, form, kind in rows(commands):
            self.commands[title.replace("`", "")] = (form, kind)
        self.objects = {}  # "Job": {"id": ("int", sometimes)}
        for section in rest.split("\n### ")[1:]:
            name, body = section.split("\n", 1)
            self.objects[name] = {cells[0].strip("`"): (cells[1], cells[2] == "sometimes")
                                  for cells in rows(body.split("\n## ")[0])}
        self.words = {name: re.findall(r"`(\w+)`", cell) for name, cell in rows(words)}


class Comparison:
    """Collects what does not fit, and which fields of which objects were there."""

    def __init__(self, page):
        self.page = page
        self.complaints = []
        self.seen = set()

    def complain(self, where, what):
        self.complaints.append(f"{where}: {what}")

    def check(self, value, kind, where):
        if kind.endswith(" or null"):
            if value is not None:
                self.check(value, kind[:-len(" or null")], where)
        elif kind.endswith("[]"):
            if not isinstance(value, list):
                return self.complain(where, f"{value!r} is no array")
            for each in value:
                self.check(each, kind[:-2], where + "[]")
        elif kind in self.page.objects:
            self.check_object(value, kind, where)
        elif kind in self.page.words:
            if value not in self.page.words[kind]:
                self.complain(where, f"{value!r} is no word of {kind}")
        else:
            types = {"int": int, "number": (int, float), "string": str, "bool": bool, "object": dict}
            if kind not in types:
                self.complain(where, f"the page does not say what {kind} is")
            # A bool is an int to Python.
            elif not isinstance(value, types[kind]) or isinstance(value, bool) != (kind == "bool"):
                self.complain(where, f"{value!r} is no {kind}")

    def check_object(self, value, kind, where):
        if not isinstance(value, dict):
            return self.complain(where, f"{value!r} is no {kind}")
        fields = self.page.objects[kind]
        for name, each in value.items():
            self.seen.add((kind, name))
            if name not in fields:
                self.complain(where, f"{kind} has no {name} on the page")
            else:
                self.check(each, fields[name][0], f"{where}.{name}")
        # As the page says, of a job that was forgotten only the id is told.
        left_out = {"kind", "policy", "state"} if where.endswith("(deleted).job") else set()
        for name, (_, sometimes) in fields.items():
            if name not in value and not sometimes and name not in left_out:
                self.complain(where, f"{kind} is without {name}")


def messages_of_the_api():
    """By name, {"id": ("int", "optional")}; and the words of each enum."""
    messages, enums = {}, {}
    scalars = {"int32": "int", "int64": "int", "uint32": "int", "uint64": "int", "double": "number",
               "float": "number", "string": "string", "bytes": "string", "bool": "bool"}
    folder = os.path.join(TREE, "proto", "stageload", "v1")
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding="utf-8") as proto:
            text = re.sub(r"//.*", "", proto.read())
        for what, name, body in re.findall(r"(message|enum) (\w+) \{(.*?)\}", text, re.S):
            if what == "enum":
                words = re.findall(r"(\w+) = \d+;", body)
                prefix = words[0][:-len("UNSPECIFIED")]
                enums[name] = [word[len(prefix):] for word in words[1:]]
                continue
            messages[name] = {}
            for label, kind, field in re.findall(
                    r"(?:(optional|repeated) )?([\w.]+) (\w+) = \d+;", body):
                array = "[]" if label == "repeated" else ""
                messages[name][field] = (scalars.get(kind, kind) + array, label)
    return messages, enums


class Home:
    """A folder with a daemon of its own."""

    def __init__(self):
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="sl-json."))
        keep = {name: value for name, value in os.environ.items()
                if not name.startswith("STAGELOAD_")}
        self.environment = {**keep, "STAGELOAD_HOME": self.path, "HOME": self.path,
                            "PATH": os.path.dirname(CTL) + ":" + os.environ["PATH"]}

    def ctl(self, *arguments, codes=(0,)):
        done = subprocess.run([CTL, *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=WAIT_S)
        if done.returncode not in codes:
            raise AssertionError(f"{arguments} exited with {done.returncode}: {done.stderr}")
        return done.stdout

    def json(self, *arguments, codes=(0,)):
        ours = arguments.index("--") if "--" in arguments else len(arguments)
        return json.loads(self.ctl(*arguments[:ours], "--json", *arguments[ours:], codes=codes))

    def lines(self, *arguments):
        return [json.loads(line) for line in self.ctl(*arguments, "--json").splitlines()]

    def stream(self, arguments, last, then=lambda: None):
        """Hands each line to `last` until that is true; `then` is called after the first."""
        with subprocess.Popen([CTL, *arguments, "--json"], env=self.environment,
                              stdout=subprocess.PIPE, text=True) as process:
            too_late = threading.Timer(WAIT_S, process.kill)
            too_late.start()
            try:
                for number, line in enumerate(process.stdout):
                    if last(json.loads(line)):
                        return
                    if number == 0:
                        then()
            finally:
                too_late.cancel()
                process.terminate()
        raise AssertionError(f"{arguments} has ended")

    def submit(self, *arguments):
        return self.ctl("submit", "--wait-free", "0", *arguments).strip()

    def show(self, job):
        return self.json("show", job)

    def until(self, job, condition):
        deadline = time.monotonic() + WAIT_S
        while not condition(shown := self.show(job)):
            if time.monotonic() > deadline:
                raise AssertionError(f"has not come about: {shown}")
            time.sleep(0.05)
        return shown

    def remove(self):
        subprocess.run([CTL, "--no-autostart", "hold", "--queue"], env=self.environment,
                       capture_output=True, timeout=WAIT_S)
        left = subprocess.run([CTL, "--no-autostart", "queue", "--json"], env=self.environment,
                              capture_output=True, text=True, timeout=WAIT_S)
        if left.returncode == 0:
            ids = [str(job["id"]) for job in json.loads(left.stdout)["jobs"]]
            for what in ("cancel", "wait") if ids else ():
                subprocess.run([CTL, "--no-autostart", what, *ids], env=self.environment,
                               capture_output=True, timeout=WAIT_S)
        self.ctl("daemon", "stop", codes=(0, 69))
        shutil.rmtree(self.path)


TRACE = """\
{"type":"start","utc":"2026-01-02T03:04:05.678+00:00","interval":0.5,"pid":4711}
{"type":"sample","t":0.0,"footprint":1000,"swap_used":0,"level":81.5,"available":30000000000}
{"type":"event","kind":"stage","stage":"decode","t":0.4}
{"type":"event","kind":"load","name":"vae","nbytes":500,"seconds":0.4,"note":"outside_stage","t":0.5}
{"type":"sample","t":1.0,"footprint":9000,"swap_used":7000000000,"level":40,"available":20000000000}
{"type":"event","kind":"release","name":"vae","nbytes":500,"t":1.2}
{"type":"error","t":1.3,"error":"OSError: no such process"}
{"type":"sample","t":1.5,"footprint":9000,"swap_used":9000000000,"level":30,"available":19000000000}
{"type":"end"}
"""


def waiting(home, told):
    """Jobs that wait, and what is done to those."""
    job = home.json("submit", "--hold", "--name", "a", "--memory", "1M", "--wait-free", "0",
                    "--swap-limit", "1T", "--start-timeout", "1h", "--time", "1h", "--begin", "+1h",
                    "--busy", "no such program", "--quiet-for", "1s", "--group", "g", "--requeue",
                    "--", "true")
    told("submit", job)
    first = str(job["id"])
    told("submit", home.json("submit", "--after", first, "--", "true"))
    array = home.json("submit", "--array", "2", "--hold", "--", "true")
    told("submit --array N", array)
    told("update", home.json("update", first, "--priority", "5"))
    told("explain", home.json("explain", first))
    told("hold --queue", home.json("hold", "--queue", "--reason", "a test"))
    told("queue", home.json("queue"))
    told("status", home.json("status"))
    told("hold", home.json("hold", first))
    told("release", home.json("release", first))
    told("release --queue", home.json("release", "--queue"))
    return [first, *(str(each["id"]) for each in array["jobs"])]


def running(home, told):
    """One that runs, with bytes that are no UTF-8 and a mark."""
    script = r"echo out; echo err >&2; printf '\377\n'; stageloadctl mark --stage s; exec sleep 600"
    job = home.submit("--memory", "1M", "--", "sh", "-c", script)
    told("show", home.until(job, lambda shown: "footprint_bytes" in shown))
    home.stream(("watch", "--since", "0"), lambda sample: told("watch", sample) or any(
        event["kind"] == "stage" for event in sample["frame"]["events"]))
    told("status", home.json("status"))
    told("suspend", home.json("suspend", job))
    told("resume", home.json("resume", job))
    for event in home.lines("history"):
        told("history", event)
    for piece in home.lines("logs", job):
        told("logs", piece)
    told("cancel", home.json("cancel", job))
    told("show", home.until(job, lambda shown: shown["state"] == "CANCELLED"))


def ended(home, told):
    """One that fails and is tried again, and one that is stopped for low memory."""
    job = home.submit("--name", "b", "--", "sh", "-c", "exit 3")
    told("wait", home.json("wait", job, codes=(3,)))
    told("show", home.show(job))
    told("retry", home.json("retry", job))
    # No machine has all of its memory available.
    stopped = home.submit("--kill-free", "100", "--", "sleep", "600")
    told("wait", home.json("wait", stopped, codes=(3,)))
    told("profile", home.json("profile"))
    told("queue", home.json("queue", "--all"))


def watched(home, told, held):
    """The queue's changes: a job that ends and is forgotten."""
    def forget():
        home.ctl("cancel", held)
        home.ctl("wait", held, codes=(1,))
        home.ctl("clear", held)

    home.stream(("queue", "--watch"),
                lambda change: told("queue --watch", change) or change["deleted"], forget)


def recorded(home, told):
    traces = []
    for name, text in (("one", TRACE), ("two", TRACE.split("\n", 1)[1].rsplit("\n", 2)[0])):
        traces.append(os.path.join(home.path, f"{name}.jsonl"))
        with open(traces[-1], "w", encoding="utf-8") as trace:
            trace.write(text)
    told("summary", home.json("summary", traces[0]))
    told("summary of several traces", home.json("summary", *traces))
    told("simulate", home.json("simulate", *traces, "--swap-limit", "100G"))


def run_all(told):
    home = Home()
    try:
        # Without a daemon.
        told("daemon status", home.json("daemon", "status", codes=(69,)))
        told("version", home.json("version"))
        told("config show", home.json("config", "show"))
        told("doctor", home.json("doctor", codes=(0, 1)))
        for platform in ("macos", "linux"):
            for what in ("install", "uninstall"):
                told(f"daemon {what} --dry-run",
                     home.json("daemon", what, "--dry-run", "--platform", platform))
        recorded(home, told)
        home.ctl("daemon", "start")
        with open(os.path.join(home.path, "config.toml"), "w", encoding="utf-8") as config:
            config.write("max_sessions = 900\n")
        told("config reload", home.json("config", "reload"))
        told("config show", home.json("config", "show"))
        held = waiting(home, told)
        running(home, told)
        ended(home, told)
        watched(home, told, held[-1])
        told("version", home.json("version"))
        told("daemon status", home.json("daemon", "status"))
        told("doctor", home.json("doctor", codes=(0, 1)))
    finally:
        home.remove()


def read_page():
    with open(os.path.join(TREE, "docs", "json.md"), encoding="utf-8") as page:
        return Page(page.read())


class ThePage(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.page = read_page()
        cls.found = Comparison(cls.page)
        cls.ran = set()

        def told(title, value):
            cls.ran.add(title)
            if title not in cls.page.commands:
                return cls.found.complain(title, "is not on the page")
            where = title + ("(deleted)" if title == "queue --watch" and value["deleted"] else "")
            cls.found.check(value, cls.page.commands[title][1], where)

        run_all(told)

    def test_has_every_field_that_is_printed_with_its_type(self):
        self.assertEqual(sorted(set(self.found.complaints)), [])

    def test_names_no_field_that_is_never_printed(self):
        messages, _ = messages_of_the_api()
        never = {(name, field) for name, fields in self.page.objects.items() for field in fields
                 if MESSAGES.get(name, name) not in messages}
        self.assertEqual(sorted(never - self.found.seen - UNSEEN), [])

    def test_names_no_command_that_was_not_run(self):
        self.assertEqual(sorted(set(self.page.commands) - self.ran), [])

    def test_has_every_command_that_takes_json(self):
        def commands(*path):
            shown = subprocess.run([CTL, *path, "--help"], capture_output=True, text=True).stdout
            # In capitals from CLI11 2.6 on.
            parts = re.split(r"\nSubcommands:\s*\n", shown, maxsplit=1, flags=re.IGNORECASE)
            if len(parts) == 2:
                below = parts[1].split("\n\n")[0]
                return [each for name in re.findall(r"^  (\S+)", below, re.M)
                        for each in commands(*path, name)]
            return [" ".join(path)] if "--json" in shown else []

        on_page = {re.split(r" --| of ", title)[0] for title in self.page.commands}
        self.assertEqual(sorted(commands()), sorted(on_page))

    def test_says_of_the_api_what_the_api_says(self):
        messages, enums = messages_of_the_api()
        self.assertEqual({name: enums[name] for name in self.page.words}, self.page.words)
        for name, fields in self.page.objects.items():
            message = messages.get(MESSAGES.get(name, name))
            if message is None:
                continue
            own = {field: MESSAGES.get(kind, kind) for field, (kind, _) in fields.items()
                   if (name, field) not in ADDED}
            of_api = {field: kind for field, (kind, _) in message.items()
                      if field != "next_page_token"}
            self.assertEqual(own, of_api, name)
            for field, (_, label) in message.items():
                if label == "optional" and (name, field) not in FILLED_IN:
                    self.assertTrue(fields[field][1], f"{name}.{field} may be missing, by the API")


class TheCheckItself(unittest.TestCase):
    """It can fail."""

    PAGE = Page("""
## Commands
| command | prints | of |
|---|---|---|
| `a` | one document | Thing |

## Things

### Thing
| field | type | there | is |
|---|---|---|---|
| `id` | int | | |
| `word` | Word | sometimes | |
| `more` | Thing[] | | |

## Words

| type | words |
|---|---|
| Word | `GO` `STOP` |
""")

    def complaints(self, value):
        found = Comparison(self.PAGE)
        found.check(value, "Thing", "a")
        return found.complaints

    def test_is_content_with_what_fits(self):
        self.assertEqual(self.complaints({"id": 1, "word": "GO", "more": [{"id": 2, "more": []}]}), [])

    def test_finds_what_is_wrong(self):
        wrong = ({"more": []}, {"id": 1.5, "more": []}, {"id": True, "more": []}, {"id": 1, "more": {}},
                 {"id": 1, "more": [], "other": 1}, {"id": 1, "more": [], "word": "GONE"},
                 {"id": 1, "more": [{"id": "2", "more": []}]}, [])
        for value in wrong:
            self.assertEqual(len(self.complaints(value)), 1, value)


if __name__ == "__main__":
    TREE = os.path.realpath(sys.argv.pop(2))
    CTL = os.path.realpath(sys.argv.pop(1))
    unittest.main(verbosity=2)
