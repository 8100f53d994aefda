"""Records that the second pass of an import finds missing: the next import handles only those."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import bitcask_files
from support.cluster import Cluster, wait_until
from support.node import binary_from_environment, die_with_parent

BINARY = binary_from_environment()
FIRST, SECOND = 300, 40


class Behind(unittest.TestCase):
    """A node loses a part of the imported records, as if it were restored from an older copy of its
    data."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.journal = os.path.join(self.folder, "journal")
        cluster = Cluster(self.folder, 1, ["ring_size=8"])
        self.addCleanup(cluster.__exit__)
        self.node = cluster.__enter__()[0]
        self.write("first", 0, range(FIRST))

    def write(self, name, partition, numbers):
        records = [bitcask_files.record(b"b", b"k%06d" % one, bitcask_files.riak_object(b"%d" % one))
                   for one in numbers]
        bitcask_files.write_partition(os.path.join(self.folder, name), partition, records)

    def start(self, *names, options=()):
        line = [BINARY, "import", "run", *(os.path.join(self.folder, name) for name in names), "--to",
                self.node.url, "--journal", self.journal, "--format", "json", *options]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)

    def run_to_end(self, *names):
        process = self.start(*names)
        out, words = process.communicate(timeout=120)
        return process.returncode, json.loads(out), words

    def sent(self):
        """Returns the number of records sent, and whether all are sent."""
        try:
            with open(self.journal, encoding="utf-8") as file:
                contents = json.load(file)
        except FileNotFoundError:
            return 0, False
        partitions = contents["sent"]["partitions"].values()
        return contents["tally"]["sent"], len(partitions) == 2 and all(one["done"] for one in partitions)

    def test_only_records_that_are_behind_are_sent_again(self):
        self.assertEqual(self.run_to_end("first")[0], 0)
        older = os.path.join(self.folder, "older")
        self.node.stop()
        shutil.copytree(self.node.data_dir, older)
        self.node.start()
        # The same records, and some more in another partition.
        self.write("all", 0, range(FIRST))
        self.write("all", 1, range(FIRST, FIRST + SECOND))
        process = self.start("all", options=["--rate", str(FIRST)])
        wait_until(lambda: self.sent() == (FIRST + SECOND, True), "all records to be sent")
        process.kill()
        process.communicate()
        self.node.stop()
        shutil.rmtree(self.node.data_dir)
        os.rename(older, self.node.data_dir)
        self.node.start()

        status, report, words = self.run_to_end("all")
        self.assertEqual(status, 1, words)
        self.assertIn("start the same import again", words)
        self.assertEqual(report["verified"]["behind_count"], SECOND)
        self.assertEqual(len(report["verified"]["behind"]), SECOND)
        status, report, words = self.run_to_end("all")
        self.assertEqual(status, 0, words)
        self.assertEqual(report["sent"], FIRST + 2 * SECOND, "those alone were sent again")
        self.assertEqual(report["verified"],
                         {"checked": FIRST + SECOND, "behind_count": 0, "behind": []})
        self.assertEqual(report["buckets"][0]["stored"], FIRST + SECOND)
        self.assertFalse(os.path.exists(self.journal))
