"""Imports that are killed several times: the amount of data that is read and sent again."""
import json
import os
import subprocess
import tempfile
import time
import unittest
import urllib.request

from support.cluster import wait_until
from support.node import TemporaryNode, binary_from_environment, die_with_parent

BINARY = binary_from_environment()
# A program that writes directories in the formats of Riak's engines. It is built with the main program.
WRITER = os.path.join(os.path.dirname(BINARY), "quoit-perf")
COPIES = 3
PARTITIONS = 8
LIMIT_SECONDS = 180
# Records a second of the imports that are killed: slow enough to kill them in the middle of a partition.
KILLED_RATE = 8000
# Most records in flight: the batches of four threads, and three times as many acknowledged out of order.
AGAIN_MAX = 4 * 4 * 1000
# Bytes that a process reads besides the data files: programs, /proc, answers of the node, and read-ahead.
OVERHEAD_BYTES = 8 << 20


class Killed(unittest.TestCase):
    """SIGKILL at several places of both passes, for each engine of Riak."""

    RECORDS = 24_000
    VALUE_BYTES = 300

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([WRITER, "import", "--only-write", cls.folder.name, "--value-bytes",
                        str(cls.VALUE_BYTES), "--records-max", str(cls.RECORDS)], check=True,
                       timeout=LIMIT_SECONDS, stdout=subprocess.DEVNULL)

    def start(self, engine, node, *options):
        source = os.path.join(self.folder.name, "%s-%d" % (engine, self.VALUE_BYTES))
        return subprocess.Popen([BINARY, "import", "run", source, "--to", node.url, "--format", "json",
                                *options],
                                cwd=node.folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent)

    def journal(self, node):
        """Returns the contents of the journal; None if there is no journal yet."""
        try:
            with open(os.path.join(node.folder.name, "quoit-import.journal"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def positions(self, node):
        """Returns (number of finished partitions, bytes before the position in the others) for both
        passes."""
        found = []
        for look in ("sent", "checked"):
            partitions = ((self.journal(node) or {}).get(look) or {}).get("partitions", {}).values()
            found.append((sum(1 for one in partitions if one["done"]),
                          sum(one["position"]["bytes"] for one in partitions if not one["done"])))
        return found

    def kill_when_the_position_moves(self, process, node, look, is_inside):
        """Kills the process when its journal has another position in this pass than at its start; with
        `is_inside`, only in the middle of a partition."""
        before = self.positions(node)[look]
        limit = time.monotonic() + LIMIT_SECONDS
        while process.poll() is None and time.monotonic() < limit:
            done, inside = self.positions(node)[look]
            if (inside or not is_inside) and (done, inside) != before:
                break
            time.sleep(0.005)
        self.assertIsNone(process.poll(), "look %d was done before it could be killed" % look)
        process.kill()
        process.communicate()

    def records_stored(self, node):
        """Returns the number of records that the node has stored, once no more are in flight."""
        counts = []
        def stands_still():
            with urllib.request.urlopen(node.url + "/stats", timeout=30) as answer:
                stats = json.load(answer)
            counts.append(stats["node_puts_total"])
            return stats["node_put_fsm_active"] == 0 and counts[-1:] == counts[-2:-1]
        wait_until(stands_still, "the last records of a killed import")
        return counts[-1]

    def bytes_read(self, process):
        """Returns the number of bytes read by a process that has ended but was not waited for."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with open("/proc/%d/io" % process.pid, encoding="ascii") as file:
            return int(dict(line.split(": ") for line in file)["rchar"])

    def bytes_left(self, reached, all_bytes, engine):
        """Returns the number of bytes that a second pass still has to read, according to the journal."""
        passes = 1 if engine == "leveldb" else 2
        left = passes * all_bytes
        for one in reached:
            # Positions in sorted tables count uncompressed entries; the blocks in the file are smaller.
            inside = one["position"]["bytes"] * (0.5 if engine == "leveldb" else 1)
            left -= passes * all_bytes // PARTITIONS if one["done"] else inside
        return left

    def check(self, engine):
        source = os.path.join(self.folder.name, "%s-%d" % (engine, self.VALUE_BYTES))
        all_bytes = sum(os.path.getsize(os.path.join(folder, name))
                        for folder, _, names in os.walk(source) for name in names)
        with TemporaryNode(BINARY, ["ring_size=8"]) as node:
            twice = 0
            for look, is_inside in ((0, True), (0, False), (1, False)):
                process = self.start(engine, node, "--rate", str(KILLED_RATE))
                self.kill_when_the_position_moves(process, node, look, is_inside)
                if look == 0:
                    again = self.records_stored(node) - self.journal(node)["tally"]["sent"] - twice
                    twice += again
                    print("%s: %d records are sent again after a kill, %.2f s at %d a second"
                          % (engine, again, again / KILLED_RATE, KILLED_RATE))
                    self.assertLessEqual(again, AGAIN_MAX)
            before = self.journal(node)
            process = self.start(engine, node)
            out = process.stdout.read()
            read = self.bytes_read(process)
            process.communicate()
            self.assertEqual(process.returncode, 0, out)
            report = json.loads(out)
            # Each copy is counted once, in the run whose work the journal kept.
            self.assertTrue(report["resumed"])
            # Copies in the first and last partitions are too far apart to be recognised as the same.
            sent = self.RECORDS + self.RECORDS * (COPIES - 1) // PARTITIONS
            self.assertEqual((report["read"], report["sent"]), (self.RECORDS * COPIES, sent))
            self.assertEqual(report["same_copies"], report["read"] - sent)
            self.assertEqual(report["verified"]["checked"], sent)
            self.assertEqual(report["verified"]["behind_count"], 0)
            self.assertEqual(report["buckets"][0]["stored"], self.RECORDS)
            # The import reads the data behind its position, and again the data that the index in memory
            # needs.
            left = self.bytes_left(before["checked"]["partitions"].values(), all_bytes, engine)
            self.assertLess(read, left + OVERHEAD_BYTES)
            left_over = [name for name in os.listdir(node.folder.name) if name.startswith("quoit-import")]
            self.assertEqual(left_over, [])

    def test_bitcask(self):
        self.check("bitcask")

    def test_leveldb(self):
        self.check("leveldb")

    def test_leveled(self):
        self.check("leveled")
