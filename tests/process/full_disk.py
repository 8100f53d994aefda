"""Nodes on full disks, killed and started again: they serve reads, refuse writes, and continue once
there is room.

Each disk is a small file system in memory that is mounted for this program only. If the machine does
not permit that, the program says so and tests nothing.
"""
import glob
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import mounting  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.filling import fill  # noqa: E402
from support.mounting import mount  # noqa: E402
from support.node import Node, binary_from_environment  # noqa: E402
from support.pb import Connection, Refused  # noqa: E402
from support.replicating import Clusters, consume, get, peers, repl, waiting  # noqa: E402

VALUE_BYTES = 100_000
# The space that the engine keeps free, some MiB for records, and the space kept for a start.
ORDERED_MEBIBYTES = 256 + 64
BITCASK_MEBIBYTES = 16 + 64
STARTS = 3
# Number of queued writes: more than fit into the last block of the journal.
QUEUED = 200
# Number of records of a salvaged store: they take less than half of the disk.
SALVAGED = 100


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.disk = os.path.join(self.folder, "disk")
        self.junk = os.path.join(self.disk, "junk")
        os.mkdir(self.disk)

    def on_small_disk(self, engine, mebibytes):
        mount("-t", "tmpfs", "-o", "size=%dm" % mebibytes, "none", self.disk)
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        settings = ["storage_backend=" + engine, "ring_size=8"]
        node = Node(binary_from_environment(), os.path.join(self.disk, "data"), settings)
        # The node's log must not fill the disk.
        node.folder_above = self.folder
        node.log_path = os.path.join(self.folder, "node.log")
        self.addCleanup(node.__exit__)
        node.start()
        return node

    def reads_and_goes_on(self, engine, mebibytes):
        node = self.on_small_disk(engine, mebibytes)
        wait_until(lambda: os.path.exists(os.path.join(node.data_dir, "RESERVE")), "room to be kept")
        written = self.write_until_refused(node)
        self.assertGreater(written, 20)
        self.assertTrue(disk_full(node))
        fill(self.junk)
        for _ in range(STARTS):
            node.kill()
            node.start()
            with Connection(node.pb) as pb:
                for number in range(written):
                    self.assertEqual(pb.get("b", "k%d" % number), [value(number)], number)
                with self.assertRaisesRegex(Refused, "disk full"):
                    pb.put("b", "refused", value(0))
        os.unlink(self.junk)
        # Engines may have rewritten their data since the disk was full.
        mount("-o", "remount,size=%dm" % (2 * mebibytes), self.disk)
        wait_until(lambda: is_accepted(node), "writes to go on when there is room")
        # A put that was not acknowledged may be there.
        self.assertEqual(self.listed(node) - {"refused", "k%d" % written},
                         {"k%d" % number for number in range(written)} | {"accepted"})
        self.assertFalse(disk_full(node))
        self.assertNotIn("panicked", node.log_tail(10_000))

    def write_until_refused(self, node):
        """Returns the number of acknowledged puts."""
        with Connection(node.pb) as pb:
            for number in range(10_000):
                try:
                    pb.put("b", "k%d" % number, value(number))
                except Refused as refused:
                    self.assertIn("disk full", str(refused))
                    return number
        return self.fail("a disk that is never full")

    def listed(self, node):
        with Connection(node.pb) as pb:
            pb.send("RpbListKeysReq", bucket="b")
            keys = set()
            while True:
                part = pb.receive()
                keys.update(key.decode() for key in part.get("keys", []))
                if part.get("done"):
                    return keys

    def test_bitcask(self):
        self.reads_and_goes_on("bitcask", BITCASK_MEBIBYTES)

    def test_leveldb(self):
        self.reads_and_goes_on("leveldb", ORDERED_MEBIBYTES)

    def test_leveled(self):
        self.reads_and_goes_on("leveled", ORDERED_MEBIBYTES)

    def test_innostore(self):
        self.reads_and_goes_on("innostore", ORDERED_MEBIBYTES)

    def test_source_queues_on_a_disk_of_their_own(self):
        mount("-t", "tmpfs", "-o", "size=2m", "none", self.disk)
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        clusters = Clusters(self.addCleanup)
        one = clusters.start("one", 1, settings=["replrtq_dataroot=" + self.disk])
        other = clusters.start("other", 1)
        put(one[0], 0)
        fill(self.junk)
        for number in range(1, QUEUED):
            put(one[0], number)
        self.assertIn("kept in memory alone", one[0].log_tail(1_000))
        for _ in range(STARTS):
            one[0].kill()
            one[0].start()
            put(one[0], QUEUED)
        # Entries that were only in memory are lost, and full-sync finds their records.
        consume(other, one)
        # On a full disk, the change lasts only as long as the process.
        said = repl(one[0], "fullsync", "set", "--peer", peers(other), fails=True)
        self.assertIn("the change lasts until the node is restarted", said)
        self.assertIn("repaired", repl(one[0], "fullsync", "run", "all"))
        wait_until(lambda: waiting(one) == 0, "all to be across")
        for number in range(QUEUED + 1):
            self.assertEqual(get(other[0], "b", "k%d" % number), [value(number)], number)
        os.unlink(self.junk)
        put(one[0], QUEUED + 1)
        one[0].kill()
        one[0].start()
        wait_until(lambda: get(other[0], "b", "k%d" % (QUEUED + 1)), "the queue to go on")

    def test_a_salvage_without_room_leaves_the_store_as_it_was(self):
        node = self.on_small_disk("leveldb", ORDERED_MEBIBYTES)
        with Connection(node.pb) as pb:
            for number in range(SALVAGED):
                pb.put("b", "k%d" % number, value(number))
        self.assertEqual(node.stop(), 0)
        for path in glob.glob(node.data_dir + "/leveldb/lsm/keyspaces/*/current"):
            os.unlink(path)
        before = contents(node.data_dir + "/leveldb")
        fill(self.junk)
        # Room for the control file, but for no record.
        os.truncate(self.junk, os.path.getsize(self.junk) - VALUE_BYTES)
        said = self.salvage(node, 1)
        self.assertIn("leveldb is as it was", said)
        self.assertRegex(said, "(?i)no space left|disk full|no room")
        self.assertEqual(contents(node.data_dir + "/leveldb"), before)
        os.unlink(self.junk)
        self.assertIn("%d records saved" % SALVAGED, self.salvage(node, 0))
        node.start()
        self.assertEqual(self.listed(node), {"k%d" % number for number in range(SALVAGED)})

    def salvage(self, node, status):
        command = [binary_from_environment(), "admin", "engine", "salvage", "--data-dir", node.data_dir]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout


def put(node, number):
    with Connection(node.pb) as pb:
        pb.put("b", "k%d" % number, value(number))


def contents(folder):
    """Returns the bytes of all files below a folder, by path."""
    found = {}
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)
            with open(path, "rb") as handle:
                found[path] = handle.read()
    return found


def value(number):
    # No engine can compress it.
    return random.Random(number).randbytes(VALUE_BYTES)


def disk_full(node):
    return node.json("status")["engine"]["disk_full"]


def is_accepted(node):
    with Connection(node.pb) as pb:
        try:
            pb.put("b", "accepted", "small")
            return True
        except Refused:
            return False


if __name__ == "__main__":
    sys.exit(mounting.run(sys.modules[__name__], __file__))
