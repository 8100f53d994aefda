"""Follows the tutorial of a cluster: runs its commands in order, with free ports in place of the page's
ports and with the process ids that the cluster prints.

A command that stays in the foreground (the cluster, nodes, the load) has a terminal of its own on the
page, and is a process of its own here.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from documentation.pages import ROOT, commands  # noqa: E402
from support.node import die_with_parent  # noqa: E402

PAGE = "docs/tutorial-cluster.md"
SECONDS = 180
# Operations a second. Transfers leave room for the load, but a debug build on a busy machine can't do much
# more.
RATE = 40
# Candidates for the first port. The page uses the ports 10007 to 10089.
PORTS = range(16000, 29000, 100)
PAGE_PORT = re.compile(r"127\.0\.0\.1:10(0\d\d)\b")
PAGE_PIDS = {"20413": "dev3", "20414": "dev4"}
FOREGROUND = ("target/release/quoit serve", "target/release/quoit bench")


class Terminal:
    """A command that stays in the foreground, and its output."""

    def __init__(self, text, folder, environment):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", "exec " + text], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent)

    def printed(self):
        self.log.seek(0)
        return self.log.read()

    def wait_for(self, words):
        wait_until(lambda: words in self.printed() or self.process.poll() is not None, words)
        if words not in self.printed():
            raise AssertionError("ended without %r:\n%s" % (words, self.printed()))

    def interrupt(self):
        """Ends the command as Ctrl-C does. Returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


def wait_until(condition, what):
    limit = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("waited %d s for %s" % (SECONDS, what))
        time.sleep(0.05)


def free_ports():
    """Returns the first of a hundred ports of which the ones that the page uses are free."""
    for base in random.sample(PORTS, len(PORTS)):
        try:
            for place in range(1, 9):
                for kind in (7, 8, 9):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", base + 10 * place + kind))
            return base
        except OSError:
            continue
    raise AssertionError("no free ports")


class Walk:
    """Acts as the reader of the page."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.base = free_ports()
        self.terminals = []
        self.cluster = None
        self.load = None
        self.environment = {**os.environ, "HOME": folder, "PROGRAM": binary}
        # The configuration of the load names the page's ports too.
        with open(os.path.join(ROOT, "crates/quoit-bench/configs/cluster.toml"), encoding="utf-8") as handle:
            config = handle.read().replace('["open_rate", 400]', '["open_rate", %d]' % RATE)
            config = re.sub(r"\b10(0\d\d)\b", lambda found: str(self.base + int(found[1])), config)
        with open(os.path.join(folder, "cluster.toml"), "w", encoding="utf-8") as handle:
            handle.write(config)

    def text(self, command):
        text = PAGE_PORT.sub(lambda found: "127.0.0.1:%d" % (self.base + int(found[1])), command)
        text = text.replace("crates/quoit-bench/configs/cluster.toml", "cluster.toml")
        return text.replace("target/release/quoit", '"$PROGRAM"')

    def start(self, text):
        terminal = Terminal(text, self.folder, self.environment)
        self.terminals.append(terminal)
        return terminal

    def run(self, command):
        """Runs a command that ends. Returns its output."""
        shell = ('admin() { "$PROGRAM" admin --url http://127.0.0.1:%d "$@"; }\n'
                 'curl() { command curl -sS --max-time 60 "$@"; }\n' % (self.base + 18))
        done = subprocess.run(["bash", "--noprofile", "--norc", "-c", shell + self.text(command)],
                              cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        if done.returncode:
            raise AssertionError("%s\nends with status %d and prints\n%s"
                                 % (command, done.returncode, done.stdout))
        return done.stdout

    def start_cluster(self):
        """Starts the command that `make cluster N=5 ARGS="--base-port ..."` runs after its build."""
        self.cluster = self.start('"$PROGRAM" dev-cluster 5 --base-port %d' % self.base)
        self.cluster.wait_for("serve as one cluster; Ctrl-C stops them")

    def pid_of(self, name):
        """Returns a process id from the table that the cluster prints."""
        row = re.search(r"^%s@127\.0\.0\.1 .*" % name, self.cluster.printed(), re.MULTILINE)
        return int(re.search(r" (\d+) +up ", row[0])[1])

    def kill(self, name):
        os.kill(self.pid_of(name), signal.SIGKILL)
        self.cluster.wait_for("%s@127.0.0.1 (pid %d)" % (name, self.pid_of(name)))

    def start_again(self):
        """Starts the dead nodes with the commands that the cluster printed."""
        found = re.findall(r"^start it again with: (.*)$", self.cluster.printed(), re.MULTILINE)
        for text in found:
            self.start(text)
        wait_until(lambda: "down!" not in self.run("admin cluster status"), "all nodes to be up")
        return len(found)

    def settle(self):
        """Waits until all nodes agree on the ring and no transfer is left."""
        told = []

        def is_settled():
            try:
                told[:] = [self.run("admin transfers")]
                self.run("admin ringready")
                return "waiting to handoff" not in told[0]
            except AssertionError as fault:
                told.append(str(fault))
                return False
        try:
            wait_until(is_settled, "all transfers to be done")
        except AssertionError as fault:
            raise AssertionError("%s\n%s" % (fault, "\n".join(told))) from None

    def members(self):
        return {member["name"].partition("@")[0]: member
                for member in json.loads(self.run("admin --format json cluster status"))["members"]}

    def close(self):
        # The cluster stops its own nodes.
        for terminal in reversed(self.terminals):
            if terminal is self.cluster and terminal.process.poll() is None:
                terminal.interrupt()
            terminal.close()


class Tutorial(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="quoit-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.walk = Walk(os.path.abspath(os.environ["TEST_BINARY"]), self.folder)
        self.addCleanup(self.walk.close)

    def step(self, text):
        """Does with a command what the page says. Returns its output, if it ends."""
        walk = self.walk
        if text.startswith("make cluster"):
            return walk.start_cluster()
        if text.startswith("alias admin="):
            self.assertEqual(text, "alias admin='target/release/quoit admin --url http://127.0.0.1:10018'")
            return None
        if text.startswith("kill -9 "):
            name = PAGE_PIDS[text.split()[-1]]
            if name == "dev3":
                walk.settle()
            return walk.kill(name)
        if text.startswith("target/release/quoit bench"):
            # On the page this comes after the dead nodes were started again.
            self.assertEqual(walk.start_again(), 1)
            walk.load = walk.start(walk.text(text))
            return walk.load.wait_for("op/s")
        if text.startswith("target/release/quoit serve"):
            walk.start(walk.text(text))
            url = "http://" + re.search(r"--http (\S+)", walk.text(text))[1]
            return wait_until(lambda: "OK" in self.answer(url + "/ping"), "the new node")
        if text == "admin cluster leave dev7@127.0.0.1":
            self.end_load()
        return walk.run(text)

    def answer(self, url):
        done = subprocess.run(["curl", "-s", url], stdout=subprocess.PIPE, text=True, timeout=SECONDS)
        return done.stdout

    def end_load(self):
        """Ends the load with Ctrl-C. The load then reads back everything that it has written."""
        walk = self.walk
        walk.settle()
        self.assertEqual(walk.load.interrupt(), 0, walk.load.printed())
        self.assertIn("written keys read back", walk.load.printed())
        self.assertNotIn("VERIFICATION FAILED", walk.load.printed())
        self.assertIn("dev8", walk.members())
        self.assertNotIn("dev3", walk.members())

    def test_every_step(self):
        printed = {}
        for command in commands(PAGE):
            printed[command.text] = self.step(command.text)
        self.assertIn("hello", printed["curl http://127.0.0.1:10058/buckets/b/keys/k"])
        self.assertIn("Valid:7 ", printed["admin member-status"], "as it was after the cluster had grown")
        wait_until(lambda: "dev7" not in self.walk.members(), "dev7 to have left")
        self.assertEqual(sorted(self.walk.members()), ["dev1", "dev2", "dev4", "dev5", "dev6", "dev8"])
        self.goes_on()

    def goes_on(self):
        """Runs the same command again, which starts the cluster with the members added by hand and with
        a new dev3."""
        walk = self.walk
        for terminal in list(walk.terminals):
            terminal.interrupt()
        walk.start_cluster()
        self.assertIn("7 nodes serve as one cluster", walk.cluster.printed())
        self.assertIn("dev3", walk.members())
        self.assertIn("still here", walk.run("curl http://127.0.0.1:10018/buckets/b/keys/k"))


if __name__ == "__main__":
    unittest.main()
