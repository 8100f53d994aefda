"""Imports with unusual disks: into a node whose disk is full, and from a read-only medium."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

import bitcask_files  # noqa: E402
from support import mounting  # noqa: E402
from support.mounting import mount  # noqa: E402
from support.node import Node, TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection  # noqa: E402

BINARY = binary_from_environment()
VALUE_BYTES = 100_000
# The space that the engine keeps free for a start, and 64 MiB for records.
DISK_MEBIBYTES = 16 + 64
COUNT = 1_000


def value(number):
    # No engine can compress it.
    return random.Random(number).randbytes(VALUE_BYTES)


class Disks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = os.path.join(self.folder, "riak")
        self.disk = os.path.join(self.folder, "disk")
        os.mkdir(self.disk)

    def write_source(self, count):
        records = [bitcask_files.record(b"b", b"k%d" % number, bitcask_files.riak_object(value(number)))
                   for number in range(count)]
        return bitcask_files.write_partition(self.source, 0, records)

    def run_import(self, node, *options):
        return bitcask_files.run(BINARY, "import", "run", self.source, "--to", node.url, "--format", "json",
                                 "--journal", os.path.join(self.folder, "journal"), *options)

    def test_a_full_disk_ends_the_import_which_goes_on_when_there_is_room(self):
        mount("-t", "tmpfs", "-o", "size=%dm" % DISK_MEBIBYTES, "none", self.disk)
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        self.write_source(COUNT)
        node = Node(BINARY, os.path.join(self.disk, "data"), ["storage_backend=bitcask", "ring_size=8"])
        # The node's log must not fill the disk.
        node.folder_above = self.folder
        node.log_path = os.path.join(self.folder, "node.log")
        self.addCleanup(node.__exit__)
        node.start()
        status, out, words = self.run_import(node, "--patience", "2")
        self.assertEqual(status, 1, out)
        self.assertIn("disk full", words)
        self.assertIn("started again, it goes on", words)
        with open(os.path.join(self.folder, "journal"), encoding="utf-8") as file:
            acknowledged = json.load(file)["tally"]["sent"]
        self.assertTrue(0 < acknowledged < COUNT, acknowledged)
        mount("-o", "remount,size=%dm" % (4 * DISK_MEBIBYTES), self.disk)
        status, out, words = self.run_import(node)
        self.assertEqual(status, 0, out + words)
        report = json.loads(out)
        self.assertTrue(report["resumed"])
        self.assertEqual((report["sent"], report["verified"]["behind_count"]), (COUNT, 0), report)
        self.assertEqual(report["buckets"][0]["stored"], COUNT)
        with Connection(node.pb) as pb:
            for number in range(0, COUNT, 97):
                self.assertEqual(pb.get("b", "k%d" % number), [value(number)], number)

    def test_a_directory_on_a_read_only_medium_is_imported(self):
        self.write_source(20)
        mount("--bind", self.source, self.source)
        self.addCleanup(subprocess.run, ["umount", self.source], check=True)
        mount("-o", "remount,bind,ro", self.source)
        with self.assertRaises(OSError):
            open(os.path.join(self.source, "written"), "wb").close()
        with TemporaryNode(BINARY, ["ring_size=8"]) as node:
            status, out, words = self.run_import(node)
            self.assertEqual(status, 0, out + words)
            self.assertEqual(json.loads(out)["buckets"][0]["stored"], 20)
        status, out, words = bitcask_files.run(BINARY, "import", "inspect", self.source, "--format", "json")
        self.assertEqual(status, 0, out + words)


if __name__ == "__main__":
    sys.exit(mounting.run(sys.modules[__name__], __file__))
