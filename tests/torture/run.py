#!/usr/bin/env python3
"""Damages the files of nodes, and checks the nodes' answers afterwards.

Each trial copies the data of a stopped node, or of a cluster of three, damages one file, starts the node or
the cluster, and checks these promises:

- No answer has wrong bytes, and no listing or index query looks complete when it is not.
- A single node loses at most the damaged records and reports it, or it refuses to start with a reason.
- A cluster loses nothing, and heals the damaged node within a minute in which the other nodes run.
- If the refusal of a start names a command, the node starts after this command, and again later.

    tests/torture/run.py --engine leveldb --seeds 0..50
    tests/torture/run.py --engine bitcask --seeds 7 --file SECONDARY --nodes 3

The same seed makes the same trial. `cargo xtask torture` builds the program and runs this.
"""
import argparse
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

import records  # noqa: E402
from damage import KINDS, Damage  # noqa: E402
from records import COUNT, Answers, UnexcusedFault  # noqa: E402
from support.cluster import Cluster  # noqa: E402
from support.node import NodeError, copy_data  # noqa: E402
from support.pb import replay  # noqa: E402

ENGINES = ("bitcask", "leveldb", "leveled", "innostore")
SETTINGS = ["ring_size=8", "bitcask.max_file_size=256KB", "leveldb.write_buffer_size_max=1MB",
            "anti_entropy.trigger_interval=1s"]
# Most records that one flipped bit may cost: those that were written together.
LOST_BY_FLIP_MAX = 4
# Most records that are lost when a flipped bit is salvaged: a block of a table, or a batch of a journal.
LOST_BY_SALVAGE_MAX = 40
WHOLE_SECONDS = 60
LOOK_SECONDS = 2


class StoppedData:
    """Data of stopped nodes, from which trials start and which they restore."""

    def __init__(self, folder, engine, node_count, stop):
        self.stop = stop
        self.kept = os.path.join(folder, "kept")
        self.used = os.path.join(folder, "used")
        os.makedirs(self.used)
        self.cluster = Cluster(self.used, node_count, SETTINGS + ["storage_backend=" + engine])
        with self.cluster:
            records.write(self.cluster[0])
            for node in self.cluster:
                node.kill() if stop == "kill" else node.stop()
        copy_data(self.used, self.kept)

    def restore(self):
        for name in os.listdir(self.kept):
            shutil.rmtree(os.path.join(self.used, name))
            copy_data(os.path.join(self.kept, name), os.path.join(self.used, name))


class Trial:
    def __init__(self, stopped_data, seed, arguments):
        self.stopped_data = stopped_data
        self.cluster = stopped_data.cluster
        self.node = stopped_data.cluster[0]
        self.random = random.Random(seed)
        stopped_data.restore()
        self.shows_log = arguments.log
        self.damage = Damage(self.random, self.node.data_dir, arguments.kind, arguments.file).apply()

    def run(self):
        """Runs the trial. Returns its result in words; raises `UnexcusedFault`."""
        try:
            said = self.run_with_one_node() if len(self.cluster.nodes) == 1 else self.run_with_three_nodes()
        finally:
            self.cluster.__exit__()
            log = self.node.log_tail(100_000)
            if self.shows_log:
                print(log)
        if "panicked" in log:
            raise UnexcusedFault("a panic: " + next(line for line in log.splitlines() if "panicked" in line))
        return said

    def run_with_one_node(self):
        refusal, remedy = self.start()
        if refusal:
            return refusal
        answers = Answers(self.node)
        answers.check()
        lost = len(answers.missing | answers.older)
        if lost and not self.is_told():
            raise UnexcusedFault("records are lost and nothing says so: " + answers.summary())
        # A salvage recovers or loses whole blocks of records.
        if self.damage.kind == "flip" and lost > (LOST_BY_SALVAGE_MAX if remedy else LOST_BY_FLIP_MAX):
            raise UnexcusedFault("one bit costs %d records: %s%s" % (lost, answers.summary(), remedy))
        return answers.summary() + remedy

    def start(self):
        """Starts the node. If it refuses to start and names a command, runs the command and starts it
        again. Returns the refusal, if it is final, and the command that was run, both as text."""
        try:
            self.node.start()
            return "", ""
        except NodeError as error:
            refusal = str(error)
        if self.node.data_dir not in refusal:
            raise UnexcusedFault("a refusal that names no file: " + refusal)
        named = re.findall("`quoit (admin engine (?:set-aside|salvage) [^`]*)`", refusal)
        if not named:
            return "refused: " + refusal.strip().splitlines()[-1][:200], ""
        done = subprocess.run([self.node.binary] + shlex.split(named[-1]), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if done.returncode:
            raise UnexcusedFault(
                "%s fails: %s; it was named by: %s" % (named[-1], done.stdout, refusal[-600:]))
        if self.shows_log:
            print(done.stdout)
        try:
            self.node.start()
        except NodeError as error:
            raise UnexcusedFault("after %s: %s" % (named[-1], error)) from error
        return "", "; after " + named[-1].split(" ")[2]

    def is_told(self):
        status = self.node.json("status")
        return status["losses"] or status["engine"]["corrupt_record_count"] > 0

    def run_with_three_nodes(self):
        for node in self.cluster.nodes[1:]:
            node.start()
        began = time.monotonic()
        refusal, remedy = self.start()
        if refusal:
            return refusal
        while True:
            together = Answers(self.node)
            together.check()
            if together.missing or together.older:
                raise UnexcusedFault("lost in the cluster: " + together.summary())
            stopped = time.monotonic()
            alone = self.alone()
            # No node can heal another while it is stopped, so this time does not count.
            began += time.monotonic() - stopped
            took = time.monotonic() - began
            if together.is_whole() and alone.is_whole():
                return "whole after %.0f s%s" % (took, remedy)
            if took > WHOLE_SECONDS:
                raise UnexcusedFault("not whole after %.0f s: %s; alone %s"
                                     % (took, together.summary(), alone.summary()))
            time.sleep(LOOK_SECONDS)

    def alone(self):
        """Returns the answers of the damaged node alone. The others are stopped meanwhile."""
        for node in self.cluster.nodes[1:]:
            node.process.send_signal(signal.SIGSTOP)
        try:
            return Answers(self.node, r=1, timeout=1_000)
        finally:
            for node in self.cluster.nodes[1:]:
                node.process.send_signal(signal.SIGCONT)


def seeds(text):
    first, _, end = text.partition("..")
    return range(int(first), int(end) if end else int(first) + 1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, help="this one alone [default: each]")
    parser.add_argument("--seeds", type=seeds, default=seeds("0..4"), help="FIRST..END or one [0..4]")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="nodes of the cluster [1]")
    parser.add_argument("--stop", choices=("order", "kill"), help="how the nodes stopped [default: both]")
    parser.add_argument("--kind", choices=KINDS, help="of damage [default: drawn]")
    parser.add_argument("--file", help="a part of the file's path in the data directory [default: any]")
    parser.add_argument("--log", action="store_true", help="print what the damaged node has logged")
    arguments = parser.parse_args()
    passed = failed = 0
    for engine in [arguments.engine] if arguments.engine else ENGINES:
        for stop in [arguments.stop] if arguments.stop else ("order", "kill"):
            with tempfile.TemporaryDirectory(prefix="quoit-test-") as folder:
                stopped_data = StoppedData(folder, engine, arguments.nodes, stop)
                for seed in arguments.seeds:
                    trial = Trial(stopped_data, seed, arguments)
                    name = "%s, stop by %s, seed %d, %s" % (engine, stop, seed, trial.damage.text)
                    try:
                        print("pass %s: %s" % (name, trial.run()), flush=True)
                        passed += 1
                    except (UnexcusedFault, NodeError, replay.UnreadableAnswer, OSError) as trouble:
                        print("FAIL %s: %s" % (name, str(trouble)[-600:]), flush=True)
                        failed += 1
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
