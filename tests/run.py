#!/usr/bin/env python3
"""Every check of the repository, in order, with one closing line: `N passed, N failed`.

    tests/run.py              everything (this is `make test`)
    tests/run.py PART...      only these parts
    tests/run.py --list       the names of the parts

Format and build come first, one after the other. The other parts run in four parallel lanes: two
lanes, at a lower priority, for parts that keep the processors busy, and two for tests of real
processes, which mostly wait. Then each line of output begins with the name of its part.

The checks need only Rust and Python 3.8 or later, and Node.js for the tests of its client. The first
run installs the libraries of the client tests into `.test-env`.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import typing

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

from support import client_libraries  # noqa: E402


class Count:
    """The passed and failed checks of one part."""

    def __init__(self, passed=0, failed=0, note=""):
        self.passed = passed
        self.failed = failed
        self.note = note


class Result(typing.NamedTuple):
    """The outcome of one part."""
    name: str
    count: Count
    seconds: float
    processor_seconds: float
    failures: typing.List[str]


class Lane(threading.local):
    """State of the thread that runs a part: the prefix of the part's output lines, words to put before
    each of its commands, the processor time of its programs, and failures found in their output."""
    prefix = ""
    before = ()
    processor_seconds = 0.0
    failures = ()


LANE = Lane()


def say(text):
    """Prints lines for the part that this thread runs."""
    # Each line is written with its end in one call, so that lines of two lanes do not mix.
    for line in text.splitlines() or [""]:
        sys.stdout.write("%s%s\n" % (LANE.prefix, line))
    sys.stdout.flush()


# Lines that name a failed check or the reason of a failure, in the formats of the programs that the parts
# run.
FAILURE = r"^(FAIL|ERROR:)|^test .* FAILED$|panicked at |^(\w+\.)*\w*(Error|Exception|Timeout)\b|^error"
# Number of lines of a failed part that the summary repeats.
REPEATED_LINES = 30
CARGO = os.environ.get("CARGO", "cargo")
PYTHON = sys.executable


def stream(command, env=None, on_line=None, hide=None):
    """Runs a command and shows its output, except for lines that match `hide`. Returns the exit status."""
    process = subprocess.Popen([*LANE.before, *command], cwd=ROOT, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=dict(os.environ, **(env or {})))
    for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip("\n")
        if re.search(FAILURE, line):
            LANE.failures.append(line[:500])
        if not hide or not re.search(hide, line):
            say(line)
        if on_line:
            on_line(line)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    LANE.processor_seconds += used.ru_utime + used.ru_stime
    return process.returncode


def one_check(command):
    """Runs a command as one check, which passes or fails."""
    status = stream(command)
    return Count(passed=1) if status == 0 else Count(failed=1)


def counting(command, pattern, env=None, hide=None):
    """Runs a command whose output contains counts: the groups `passed` and `failed` of each match."""
    count = Count()

    def read(line):
        if line.startswith("skipped: "):
            count.note = line.strip()
        found = re.search(pattern, line)
        if found:
            count.passed += int(found.group("passed"))
            count.failed += int(found.group("failed"))

    status = stream(command, env, read, hide)
    if status != 0 and count.failed == 0:
        count.failed = 1
        count.note = "ended with status %d" % status
    elif count.passed + count.failed == 0 and not count.note:
        count.failed = 1
        count.note = "ran nothing"
    return count


# Compiler flags of the simulator, as in `cargo xtask soak`. They let the seed decide the runtime's random
# choices too, and compile the planted faults in. All other builds use the same flags, so that nothing is
# compiled twice.
SIMULATOR_FLAGS = "--cfg tokio_unstable --cfg planted_faults"

# Everything except the benchmarks, which clippy compiles.
BUILD = [CARGO, "build", "--workspace", "--lib", "--bins", "--tests", "--examples"]


def built(name):
    """Returns the path of a program of the workspace. One build makes all programs and the Rust tests."""
    with built.lock:
        if not built.done and stream(BUILD + ["--quiet"]) != 0:
            raise Impossible("the workspace does not build")
        built.done = True
    found = subprocess.run([CARGO, "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT,
                           stdout=subprocess.PIPE, check=True)
    return os.path.join(json.loads(found.stdout)["target_directory"], "debug", name)


built.done = False
built.lock = threading.Lock()


class Impossible(Exception):
    """A part can't run. The text says why, and what to do."""


# ---------------------------------------------------------------------------------- the parts

def part_format():
    return one_check([CARGO, "fmt", "--all", "--check"])


def part_clippy():
    return one_check([CARGO, "clippy", "--workspace", "--all-targets", "--quiet", "--",
                      "-D", "warnings"])


def part_build():
    count = one_check(BUILD)
    built.done = count.failed == 0
    return count


def part_tidy():
    # The same as `cargo xtask tidy`, but through cargo its dependencies would be built again.
    return one_check([built("xtask"), "tidy"])


CARGO_TEST_LINE = r"^test result: \S+ (?P<passed>\d+) passed; (?P<failed>\d+) failed"
# Progress output of the Rust tests without information. Each crate and test file has one such block.
CARGO_TEST_PROGRESS = r"^$|^running \d+ test|^\.+( \d+/\d+)?$|^test result: ok|^all doctests ran"
CLOSING_LINE = r"^(?P<passed>\d+) passed, (?P<failed>\d+) failed$"


def part_rust():
    built("quoit")
    return counting([CARGO, "test", "--workspace", "--no-fail-fast", "--quiet"], CARGO_TEST_LINE,
                    hide=CARGO_TEST_PROGRESS)


def with_nodes(*programs, arguments=()):
    """Makes a part of test programs, named by their path below `tests`, that start nodes of their own."""
    def part():
        return total(counting([PYTHON, os.path.join(HERE, program)] + list(arguments),
                              CLOSING_LINE, {"TEST_BINARY": built("quoit")})
                     for program in programs)
    return part


def total(counts):
    """Adds the counts of all programs of a part."""
    counts = list(counts)
    return Count(sum(each.passed for each in counts), sum(each.failed for each in counts),
                 next((each.note for each in counts if each.note), ""))


def part_torture():
    trials = [PYTHON, os.path.join(HERE, "torture", "run.py")]
    environment = {"TEST_BINARY": built("quoit")}
    alone = counting(trials + ["--seeds", "0..5"], CLOSING_LINE, environment)
    together = counting(trials + ["--seeds", "0..2", "--nodes", "3"], CLOSING_LINE, environment)
    return total([alone, together])


def part_python_client():
    python = client_libraries.python_environment(ROOT)
    environment = {"TEST_BINARY": built("quoit"), "PYTHONWARNINGS": "ignore::SyntaxWarning"}
    folder = os.path.join(HERE, "python_client")
    plain = counting([python, os.path.join(folder, "run.py")], CLOSING_LINE, environment)
    secured = counting([python, os.path.join(folder, "security.py")], CLOSING_LINE, environment)
    return total([plain, secured])


def part_node_client():
    modules = client_libraries.node_modules(ROOT)
    if modules is None:
        say("skipped: there is no node or npm on this machine, so the Node.js client was not "
              "tested; install Node.js to test it")
        return Count(note="skipped: no node or npm on this machine")
    return total(counting([PYTHON, os.path.join(HERE, "node_client", name)], CLOSING_LINE,
                           {"TEST_BINARY": built("quoit"), "NODE_PATH": modules})
                 for name in ("run.py", "security.py"))


def part_simulation():
    return counting([built("quoit-sim"), "check"], CLOSING_LINE)


def part_fuzz():
    return counting([built("quoit-fuzz")], CLOSING_LINE)


# Parts that the other parts need, in this order.
FIRST = [
    ("format", "rustfmt", part_format),
    ("build", "everything that the tests run", part_build),
    ("tidy", "rules of the code", part_tidy),
]

# Parts that keep processors busy, in two lanes. Neither of the lanes can use two processors all the time.
BUSY = [
    [
        # Clippy comes second: before, it would delay the tests of the crates, which can start right after
        # the build.
        ("simulation", "clusters in simulated worlds, hundreds of seeds", part_simulation),
        ("clippy", "lints, every warning an error", part_clippy),
    ],
    [
        ("rust", "unit, property and crash tests of the crates", part_rust),
        ("fuzz", "fuzz targets: kept inputs and random mutations", part_fuzz),
    ],
]

# Parts that start one node after the other, and mostly wait for the nodes.
NODES = [
    ("process", "tests of the real process", with_nodes("process/run.py")),
    ("documentation", "the commands of README and of the pages, as they are written",
     with_nodes("documentation/run.py")),
    ("mistakes", "a hundred mistakes, and what each is told", with_nodes("process/mistakes.py")),
    ("packages", "packages: made, installed, started", with_nodes("process/packages.py")),
    ("salvage", "stores that can't be opened, and the commands that their errors name",
     with_nodes("process/salvage.py")),
    ("import", "moves from Riak: recorded directories, kills, damage, Riak's own commands",
     with_nodes("import/run.py")),
    ("live-move", "the plan of a live move from Riak, carried out command by command",
     with_nodes("import/live_move.py")),
    ("import-disks", "imports into a node whose disk is full, and from a read-only medium",
     with_nodes("import/disks.py")),
    ("full-disk", "nodes without room on their disks, killed and started again",
     with_nodes("process/full_disk.py")),
    ("torture", "files of stopped nodes that are flipped, cut, removed, exchanged", part_torture),
    ("security", "recorded cases of users, rights and TLS, held with one node",
     with_nodes("security/run.py")),
    ("bench-report", "what a benchmark leaves, and its report in a browser",
     with_nodes("bench_report/run.py")),
    ("bench-agents", "agents of a benchmark: shares, trust, kills on both sides",
     with_nodes("bench_agents/run.py")),
    ("campaigns", "published experiments at a tiny scale, whole, killed, resumed",
     with_nodes("campaigns/run.py")),
    ("golden", "recorded conversations with Riak, held with one node", with_nodes("golden/run.py")),
    ("golden-3", "the same, held with a cluster of three nodes",
     with_nodes("golden/run.py", arguments=["--nodes", "3"])),
    ("golden-5", "the same, held with a cluster of five nodes",
     with_nodes("golden/run.py", arguments=["--nodes", "5"])),
    ("python-client", "Riak's client for Python", part_python_client),
    ("node-client", "Riak's client for Node.js", part_node_client),
]

# Parts that start clusters and measure times.
CLUSTERS = [
    ("cluster", "real processes as a cluster, killed, stalled, restarted",
     with_nodes("process/cluster.py")),
    ("failover", "loads and jobs whose nodes die, over both protocols; functions that want all memory",
     with_nodes("process/failover.py", "process/jobs.py")),
    ("moving", "data that moves between real processes: seen, stopped, interrupted",
     with_nodes("process/moving.py")),
    ("members", "members that die on their way, or come back as somebody else",
     with_nodes("process/members.py")),
    ("secured", "TLS between real nodes: tokens, rotation, removal, a cluster closed under load",
     with_nodes("process/secured.py", "process/secured_clients.py")),
    ("healing", "what comes back to real nodes that were away, and what must not",
     with_nodes("process/healing.py")),
    ("restore", "clusters that go on with copies of their nodes' data, of different times",
     with_nodes("process/restore.py")),
    ("changes", "change feeds of real nodes, which die, as their readers do",
     with_nodes("process/changes.py")),
    ("replication", "two and three clusters of real processes that replicate",
     with_nodes("process/replication.py", "process/replication_copies.py",
                "process/replication_deltas.py",
                "process/replication_stale.py", "process/replication_faults.py")),
    ("replication-with-riak", "clusters that replicate in Riak's messages",
     with_nodes("process/replication_with_riak.py")),
    ("faults", "links that flap, disks that hang, and races for one version",
     with_nodes("process/faults.py")),
    ("hostile", "clients that send what does not end and do not read answers",
     with_nodes("process/hostile.py")),
    ("split", "a cluster whose network is cut in two, and joined again",
     with_nodes("process/split.py")),
]

PARTS = FIRST + sum(BUSY, []) + NODES + CLUSTERS


def run(name, about, part):
    say("=== %s: %s" % (name, about))
    began = time.monotonic()
    LANE.processor_seconds = 0.0
    LANE.failures = []
    try:
        count = part()
    except (Impossible, client_libraries.Unavailable) as error:
        say("cannot run: %s" % error)
        count = Count(failed=1, note=str(error).splitlines()[0])
    seconds = time.monotonic() - began
    say("--- %s: %d passed, %d failed, %.0f s" % (name, count.passed, count.failed, seconds))
    return Result(name, count, seconds, LANE.processor_seconds, LANE.failures)


def run_lanes(lanes):
    """Runs the lanes in parallel, and the parts of each lane in order. Returns their results."""
    results = {}

    def run_lane(lane):
        gives_way = len(lanes) > 1 and lane[0] in sum(BUSY, []) and shutil.which("nice")
        LANE.before = ("nice", "-n", "5") if gives_way else ()
        for part in lane:
            LANE.prefix = "%s | " % part[0] if len(lanes) > 1 else ""
            results[part[0]] = run(*part)

    threads = [threading.Thread(target=run_lane, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = [part[0] for lane in lanes for part in lane if part[0] not in results]
    if lost:
        sys.exit("the lane of these parts broke down: %s" % ", ".join(lost))
    return [results[part[0]] for lane in lanes for part in lane]


def summarize(results, seconds):
    """Prints the table and the closing line. Returns the exit status."""
    print("\n=== summary: seconds that each part took, and of processors; the longest last")
    for each in sorted(results, key=lambda each: each.seconds):
        note = "  (%s)" % each.count.note if each.count.note else ""
        print("%-21s %5d passed  %3d failed  %4.0f s  %4.0f s%s"
              % (each.name, each.count.passed, each.count.failed, each.seconds,
                 each.processor_seconds, note))
    for each in results:
        if each.count.failed:
            print("\n=== %s failed:" % each.name)
            print("\n".join(each.failures[-REPEATED_LINES:] or ["(nothing printed looks like a failure)"]))
    print("all together %.0f s" % seconds)
    passed = sum(each.count.passed for each in results)
    failed = sum(each.count.failed for each in results)
    print("%d passed, %d failed" % (passed, failed), flush=True)
    return 0 if failed == 0 and passed > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these parts")
    parser.add_argument("--list", action="store_true", help="print the names of the parts")
    args = parser.parse_args()
    if args.list:
        for name, about, _ in PARTS:
            print("%-21s %s" % (name, about))
        return 0
    unknown = set(args.parts) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error("no such part: %s (see --list)" % ", ".join(sorted(unknown)))
    if not shutil.which(CARGO):
        sys.exit("cargo is not there; install Rust (https://rustup.rs)")
    if os.environ.get("CI"):
        # Incremental compilation would write gigabytes for a next build that never comes, and debug
        # information would serve a debugger that nobody starts: the message of a panic has its position.
        os.environ.setdefault("CARGO_INCREMENTAL", "0")
        os.environ.setdefault("CARGO_PROFILE_DEV_DEBUG", "false")
    os.environ["RUSTFLAGS"] = " ".join([os.environ.get("RUSTFLAGS", ""), SIMULATOR_FLAGS]).strip()
    began = time.monotonic()
    first, *lanes = ([part for part in parts if not args.parts or part[0] in args.parts]
                     for parts in (FIRST, *BUSY, NODES, CLUSTERS))
    results = [run(*part) for part in first]
    lanes = [lane for lane in lanes if lane]
    if lanes:
        results += run_lanes(lanes)
    return summarize(results, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
