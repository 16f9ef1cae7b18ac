#!/usr/bin/env python3
"""What `daemon install --dry-run` prints, read by others than us: the LaunchAgent as XML against the
keys of launchd.plist(5), the units by systemd-analyze verify where there is one.

usage: service_files_test.py STAGELOADCTL STAGELOADD
"""
import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

CTL, DAEMON = sys.argv[1], sys.argv[2]

# The keys of launchd.plist(5) that an agent of a user may have, and the type of each. Those that are
# no good in ours are not here: EnableTransactions and EnablePressuredExit would have an idle daemon
# killed, LowPriorityIO, Nice and LegacyTimers change what jobs inherit.
KEYS = {
    "Label": str,
    "Program": str,
    "ProgramArguments": [str],
    "EnvironmentVariables": {str: str},
    "LimitLoadToSessionType": [str],
    "RunAtLoad": bool,
    "KeepAlive": bool,
    "ProcessType": str,
    "AbandonProcessGroup": bool,
    "ExitTimeOut": int,
    "ThrottleInterval": int,
    "SoftResourceLimits": {str: int},
    "HardResourceLimits": {str: int},
    "Umask": int,
    "WorkingDirectory": str,
    "StandardInPath": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "Sockets": {str: dict},
}
SOCKET_KEYS = {"SockPathName": str, "SockPathMode": int, "SockType": str, "SockPassive": bool,
               "SockFamily": str}
LIMITS = {"Core", "CPU", "Data", "FileSize", "MemoryLock", "NumberOfFiles", "NumberOfProcesses",
          "ResidentSetSize", "Stack"}
SESSIONS = {"Aqua", "Background", "LoginWindow", "StandardIO", "System"}

# Everything that a path may hold and XML, a unit or a shell might take amiss.
AWKWARD = "It's a <home> & \"more\" %h $HOME 100% \\x ü {{SOCKET}}"


def is_of(value, kind):
    if isinstance(kind, list):
        return isinstance(value, list) and all(is_of(each, kind[0]) for each in value)
    if isinstance(kind, dict):
        (of_key, of_value), = kind.items()
        return isinstance(value, dict) and all(
            is_of(k, of_key) and is_of(v, of_value) for k, v in value.items())
    # A bool is an int to Python and is none to launchd.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def complaints(plist):
    """What launchd.plist(5) would say against it."""
    found = []
    for key, value in plist.items():
        if key not in KEYS:
            found.append(f"{key} is no key")
        elif not is_of(value, KEYS[key]):
            found.append(f"{key} is {value!r}")
    for name, socket in plist.get("Sockets", {}).items():
        for key, value in socket.items():
            if key not in SOCKET_KEYS or not is_of(value, SOCKET_KEYS[key]):
                found.append(f"Sockets/{name}/{key} is {value!r}")
    for key in set(plist.get("SoftResourceLimits", {})) - LIMITS:
        found.append(f"SoftResourceLimits/{key} is no limit")
    for each in set(plist.get("LimitLoadToSessionType", [])) - SESSIONS:
        found.append(f"{each} is no session")
    for key in ("Label", "ProgramArguments"):
        if key not in plist:
            found.append(f"{key} is missing")
    return found


def install(platform, home, *more, **variables):
    environment = {"PATH": os.environ["PATH"], "HOME": home, "STAGELOAD_DAEMON": DAEMON,
                   **variables}
    return subprocess.run([CTL, "daemon", "install", "--dry-run", "--platform", platform, *more],
                          env=environment, capture_output=True, text=True)


def texts(platform, home, **variables):
    """By path."""
    shown = install(platform, home, "--json", **variables)
    assert shown.returncode == 0, shown.stderr
    return {file["path"]: file["text"] for file in json.loads(shown.stdout)["files"]}


class LaunchAgent(unittest.TestCase):
    def agent(self, home, **variables):
        (path, text), = texts("macos", home, **variables).items()
        self.assertEqual(path, f"{home}/Library/LaunchAgents/dev.stageload.stageloadd.plist")
        return plistlib.loads(text.encode())

    def test_has_only_keys_of_the_manual_with_their_types(self):
        self.assertEqual(complaints(self.agent("/Users/x")), [])

    def test_the_check_itself_finds_what_is_wrong(self):
        good = self.agent("/Users/x")
        for wrong in ({"KeepAlives": True}, {"KeepAlive": 1}, {"ExitTimeOut": "30"},
                      {"ExitTimeOut": True}, {"ProgramArguments": ["a", 1]},
                      {"Sockets": {"Listeners": {"SockPathMode": "384"}}},
                      {"Sockets": {"Listeners": {"SockPath": "/x"}}},
                      {"SoftResourceLimits": {"NumberOfFile": 1}},
                      {"LimitLoadToSessionType": ["Console"]}):
            self.assertNotEqual(complaints({**good, **wrong}), [], wrong)
        del good["Label"]
        self.assertEqual(complaints(good), ["Label is missing"])

    def test_says_what_the_daemon_needs(self):
        agent = self.agent("/Users/x")
        self.assertEqual(agent["Label"], "dev.stageload.stageloadd")
        self.assertEqual(agent["ProgramArguments"], [DAEMON, "--service"])
        self.assertIs(agent["RunAtLoad"], True)
        self.assertIs(agent["KeepAlive"], True)
        self.assertIs(agent["AbandonProcessGroup"], True)
        self.assertEqual(agent["ProcessType"], "Interactive")
        # The daemon ends within 2 s; a job's grace time is not its affair but may be asked for.
        self.assertGreaterEqual(agent["ExitTimeOut"], 10)
        self.assertLess(agent["ThrottleInterval"], 15)  # connection.cc, kVersionTimeout
        self.assertEqual(agent["SoftResourceLimits"], {"NumberOfFiles": 8192})
        self.assertEqual(agent["Umask"], 0o077)
        self.assertEqual(agent["LimitLoadToSessionType"], ["Aqua", "Background"])
        self.assertEqual(agent["Sockets"], {"Listeners": {
            "SockPathName": "/Users/x/.stageload/stageloadd.sock", "SockPathMode": 0o600}})

    def test_keeps_paths_that_xml_would_take_amiss(self):
        home = f"/Users/{AWKWARD}"
        agent = self.agent(home, STAGELOAD_SOCKET="/tmp/a & b/<s>.sock")
        self.assertEqual(complaints(agent), [])
        self.assertEqual(agent["Sockets"]["Listeners"]["SockPathName"], "/tmp/a & b/<s>.sock")
        self.assertEqual(agent["StandardErrorPath"],
                         f"{home}/Library/Logs/stageload/stageloadd.stderr")
        # It must find the same socket and the same home as its clients.
        self.assertEqual(agent["EnvironmentVariables"]["STAGELOAD_SOCKET"], "/tmp/a & b/<s>.sock")
        self.assertEqual(self.agent("/Users/x", STAGELOAD_HOME="/a & b")["EnvironmentVariables"]
                         ["STAGELOAD_HOME"], "/a & b")

    def test_is_printed_whole_with_its_path_and_the_commands(self):
        home = "/Users/a & b"
        out = install("macos", home).stdout
        self.assertIn(f"would write {home}/Library/LaunchAgents/dev.stageload.stageloadd.plist:\n",
                      out)
        text = re.search(r"<\?xml.*</plist>", out, re.S).group(0)
        self.assertEqual(complaints(plistlib.loads(text.encode())), [])
        xml.etree.ElementTree.fromstring(text)
        self.assertIn(f"launchctl bootstrap gui/{os.geteuid()} '{home}/Library", out)

    def test_a_control_character_is_refused(self):
        refused = install("macos", "/Users/a\nb")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("control character", refused.stderr)

    def test_what_is_no_character_of_xml_is_refused(self):
        for none in ("\ufffe", "\uffff"):
            refused = install("macos", f"/Users/a{none}b")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("U+FFFE or U+FFFF", refused.stderr)
        self.assertEqual(install("macos", "/Users/a\ufffdb").returncode, 0)


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sl-units.")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, daemon_folder="bin", **variables):
        """Into a folder, with a daemon that is there."""
        global DAEMON
        real, DAEMON = DAEMON, os.path.join(self.folder, daemon_folder, "stageloadd")
        self.addCleanup(globals().__setitem__, "DAEMON", real)
        os.makedirs(os.path.dirname(DAEMON), exist_ok=True)
        os.path.lexists(DAEMON) or os.symlink(real, DAEMON)
        paths = []
        for path, text in texts("linux", self.folder, **variables).items():
            self.assertEqual(os.path.dirname(path), self.folder + "/.config/systemd/user")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
            paths.append(path)
        return sorted(paths)

    def verify(self, paths):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        environment = {**os.environ, "XDG_RUNTIME_DIR": self.folder}
        return subprocess.run(["systemd-analyze", "--user", "--man=no", "verify", *paths],
                              env=environment, capture_output=True, text=True)

    def test_are_taken_without_a_complaint(self):
        verified = self.verify(self.write(XDG_RUNTIME_DIR="/run/user/1000"))
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_are_taken_with_paths_that_a_unit_would_take_amiss(self):
        # A program may have no quote or backslash in its path, to systemd.
        awkward = "a <b> & %h $HOME 100% ü {{SOCKET}}"
        paths = self.write(awkward, STAGELOAD_HOME=f"/home/{AWKWARD}",
                           STAGELOAD_SOCKET="/tmp/a b%/s")
        verified = self.verify(paths)
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_a_daemon_that_systemd_cannot_execute_is_refused(self):
        for path in ("/it's/stageloadd", '/a "b"/stageloadd', "/a\\b/stageloadd"):
            refused = install("linux", self.folder, STAGELOAD_DAEMON=path)
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn("has a quote or a backslash", refused.stderr)

    def test_a_socket_that_systemd_would_take_for_another_is_refused(self):
        for path, why in (("/tmp/a\\", "ends with a backslash"), ("/tmp/a ", "ends with a blank"),
                          (b"/tmp/\xff/s", "is not UTF-8")):
            refused = install("linux", self.folder, STAGELOAD_SOCKET=path)
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn(why, refused.stderr)
        self.assertEqual(install("linux", self.folder, STAGELOAD_SOCKET="/tmp/a\\b c").returncode, 0)

    def test_a_home_that_is_no_text_is_refused(self):
        for platform in ("linux", "macos"):
            refused = install(platform, self.folder, STAGELOAD_HOME=b"/tmp/\xff")
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn("is not UTF-8", refused.stderr)

    def test_the_check_itself_finds_a_daemon_that_is_not_there(self):
        paths = self.write()
        os.remove(DAEMON)
        self.assertNotEqual(self.verify(paths).returncode, 0)

    def test_say_what_the_daemon_needs(self):
        service, socket = self.write(XDG_RUNTIME_DIR="/run/user/1000")
        with open(service) as file:
            lines = file.read().splitlines()
        for line in ("KillMode=process", "Restart=always", "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'", "OOMPolicy=continue", "TimeoutStopSec=30",
                     "LimitNOFILE=8192:524288", "StartLimitIntervalSec=0",
                     "Requires=stageloadd.socket"):
            self.assertIn(line, lines)
        with open(socket) as file:
            lines = file.read().splitlines()
        for line in ("ListenStream=/run/user/1000/stageload/stageloadd.sock", "SocketMode=0600",
                     "DirectoryMode=0700", "RemoveOnStop=yes"):
            self.assertIn(line, lines)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
