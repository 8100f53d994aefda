"""Runs every command of README and of the pages in `docs`, and compares the output with that on the
page. Each page has a node of its own, at the addresses that the page names.

A command that can't run in a test is listed in `NOT_HERE` with the reason. An entry that is not on
its page is an error, so that pages and list stay consistent. The names in such a command are checked:
make targets, chores and their options, files, tests.
"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from documentation import forms, tutorial  # noqa: E402
from documentation.pages import ROOT, commands, pages  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

BINARY = os.path.abspath(binary_from_environment())
SECONDS = 120
MARK = "----- end of a command, status "

BUILDS = "builds the program, which takes minutes; the test command does it before all tests"
FORM = "shows the form, with names for what the reader puts there"
HOURS = "takes minutes to hours, and a calm machine"
OTHERS = "is about several machines; tests/process/%s has it with a cluster"
CHORES = "is a check or chore of its own, mostly a part of the test command"
# Commands that are not run here, by their first words, with the reason. The names in them are checked.
NOT_HERE = {
    "README.md": {"make ": BUILDS},
    "docs/configuration.md": {
        "quoit config describe [KEY": FORM, "quoit config check FILE": FORM, "quoit config show [FILE": FORM},
    "docs/benchmark-agents.md": {
        "quoit bench agent": "is about several machines; tests/bench_agents/run.py has it with processes",
        "quoit bench FILE": "is about several machines; tests/bench_agents/run.py has it with processes"},
    "docs/benchmark-configuration.md": {
        "quoit bench convert get-put": FORM, "quoit bench check get-put": FORM},
    "docs/packaging.md": {
        "make package": BUILDS,
        "sudo dpkg": "changes the machine; tests/process/packages.py installs into a directory",
        "podman ": "needs podman and a build for packages; tests/process/packages.py reads the image"},
    "docs/move-from-riak.md": {
        "quoit import plan": OTHERS.replace("process", "import") % "live_move.py",
        "cargo xtask bench import": HOURS},
    "docs/replication.md": {
        "quoit repl rebase": "is about a queue that was cut off, which takes two clusters",
        "quoit repl bootstrap": OTHERS % "replication.py"},
    "docs/secure-a-cluster.md": {
        "quoit admin cluster token": OTHERS % "secured.py",
        "quoit admin cluster join": OTHERS % "secured.py"},
    "docs/operations.md": {
        "quoit admin cluster join 10.0.0.1": OTHERS % "cluster.py",
        "quoit admin cluster plan": OTHERS % "cluster.py",
        "quoit admin cluster commit": OTHERS % "cluster.py",
        "quoit admin engine": "is about a stopped node; tests/process/salvage.py has it",
        "quoit admin cluster recover": OTHERS % "cluster.py",
        "quoit admin cluster restore": OTHERS % "restore.py"},
    "docs/benchmarking.md": {
        "quoit serve &": FORM, "quoit bench CONFIG": FORM, "quoit bench check CONFIG": FORM,
        "quoit bench convert FILE": FORM, "quoit bench report DIR": FORM, "quoit bench report -1": FORM,
        "quoit bench pb://127.0.0.1:8087 --trace": FORM,
        "quoit bench crdt-growth": HOURS,
        "quoit bench compare DIR": FORM, "quoit bench compare OLD_CONFIG": FORM},
    "docs/development.md": {
        "make test": "runs this test", "CAMPAIGN_SCALE=": HOURS,
        "python3 tests/": CHORES, "PYTHONPATH=tests": CHORES,
        "cargo xtask ": CHORES, "cargo test": CHORES, "cargo build": BUILDS, "objcopy ": BUILDS,
        "strip ": BUILDS},
    "docs/benchmarks.md": {
        "cargo xtask bench": HOURS, "cargo build --profile dist": BUILDS, "valgrind ": HOURS,
        "callgrind_annotate": HOURS, "python3 benchmarks/": HOURS, "quoit bench campaign": HOURS},
}
# Pages that have a test of their own.
WALKED = {"docs/tutorial-cluster.md"}
# Parts of commands that are shortened.
SHORTER = {"-t 30s": "-t 1s", "--duration 30s": "--duration 1s", "--duration 60s": "--duration 1s"}
# Commands that a page requires to have been run.
BEFORE = {
    "docs/replication.md": [
        "quoit admin bucket-type create logs", "quoit admin bucket-type activate logs"],
    "docs/data-types.md": [
        "quoit admin bucket-type create people '{\"props\":{\"datatype\":\"map\"}}'",
        "quoit admin bucket-type activate people",
        "quoit map update people/profiles/ann profile_map.tags_set=+rust"],
}
BEFORE_LINE = {
    "quoit admin data-type guests/party/2031 --contains": "quoit set add guests/party/2031 ann",
}


def is_left_out(page, text):
    """Tells if a command is listed as not run."""
    return any(text.startswith(start) for start in NOT_HERE.get(page, ()))


class Shell:
    """Runs the commands of a page one after the other in one shell, which keeps variables."""

    def __init__(self, node, folder):
        self.node = node
        environment = {**os.environ, "QUOIT_URL": node.url, "PROGRAM": BINARY, "HOME": folder}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment)
        self.process.stdin.write('quoit() { timeout 60 "$PROGRAM" "$@"; }\n'
                                 'curl() { command curl -sS --max-time 60 "$@"; }\n')

    def run(self, text):
        """Runs a command. Returns its output and its status."""
        text = text.replace("127.0.0.1:8098", "%s:%d" % self.node.http)
        text = text.replace("127.0.0.1:8087", "%s:%d" % self.node.pb)
        text = text.replace("target/release/quoit", '"$PROGRAM"')
        text = text.replace("crates/", ROOT + "/crates/")
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        if text.startswith("quoit bench") and text.split()[2] not in ("capacity", "campaign"):
            text += " --target %s:%d" % (self.node.http if "http" in text else self.node.pb)
        # The shell reads the following commands from its standard input, so the command must not read it.
        self.process.stdin.write("{ %s\n} < /dev/null; status=$?; echo; echo '%s'$status\n"
                                 % (text, MARK))
        self.process.stdin.flush()
        output = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                return "".join(output), int(line[len(MARK):])
            output.append(line)
        raise AssertionError("the shell ended:\n" + "".join(output))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(SECONDS)


class Pages(unittest.TestCase):
    def run_page(self, page):
        with TemporaryNode(BINARY) as node:
            shell = Shell(node, node.folder.name)
            try:
                for text in BEFORE.get(page, ()):
                    self.run_command(shell, page, 0, text, None)
                for command in commands(page):
                    if is_left_out(page, command.text) or command.text.startswith("alias "):
                        continue
                    for start, before in BEFORE_LINE.items():
                        if command.text.startswith(start):
                            self.run_command(shell, page, 0, before, None)
                    self.run_command(shell, page, command.line, command.text, command)
            finally:
                shell.close()

    def run_command(self, shell, page, line, text, command):
        output, status = shell.run(text)
        told = "%s:%d: %s\nprints\n%s" % (page, line, text, output)
        self.assertEqual(status, 0, told)
        self.assertNotIn("<!DOCTYPE", output, told)
        if command is not None and command.prints:
            self.assertTrue(command.matches(output), told + "\nand not\n" + "\n".join(command.prints))

    def test_what_is_left_out_is_on_its_page_and_has_a_reason(self):
        for page, starts in NOT_HERE.items():
            if not os.path.exists(os.path.join(ROOT, page)):
                self.fail("there is no page %s" % page)
            texts = [command.text for command in commands(page)]
            for start, reason in starts.items():
                self.assertTrue(any(text.startswith(start) for text in texts),
                                "%s has no command that begins with %r" % (page, start))
                self.assertGreater(len(reason), 10, "%s: %s is left out without a reason" % (page, start))

    def test_what_is_left_out_names_what_there_is(self):
        for page in NOT_HERE:
            for command in commands(page):
                if is_left_out(page, command.text):
                    place = "%s:%d: %s" % (page, command.line, command.text)
                    for fault in forms.faults(command.text):
                        self.fail("%s: %s" % (place, fault))


def add_pages():
    for page in pages():
        if page in WALKED or not commands(page):
            continue
        name = "test_the_commands_of_" + os.path.basename(page)[:-3].replace("-", "_").lower()
        setattr(Pages, name, lambda self, page=page: self.run_page(page))


add_pages()
Tutorial = tutorial.Tutorial

if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
