"""Tests of stores that can't be opened: the error names a command, and the command brings the node back."""
import glob
import json
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import ClusterCase  # noqa: E402
from support.node import binary_from_environment  # noqa: E402
from support.pb import Connection  # noqa: E402

COUNT = 200
KEYS = [b"k%d" % number for number in range(COUNT)]
INDEX = b"number_int"
# Number of kills of a salvage, each a little after its beginning.
KILLS = 5


def put_all(node):
    with Connection(node.pb) as pb:
        for number, key in enumerate(KEYS):
            indexes = [{"key": INDEX, "value": b"%d" % number}]
            content = {"value": b"v%d" % number, "indexes": indexes}
            pb.call("RpbPutReq", bucket=b"b", key=key, content=content, dw=1)


def streamed(node, message, **fields):
    """Returns all keys in the answer to a listing or a query."""
    found = set()
    with Connection(node.pb) as pb:
        pb.send(message, bucket=b"b", **fields)
        while True:
            part = pb.receive()
            found.update(part.get("keys", []))
            if part.get("done"):
                return found


def found(node, **options):
    """Returns the keys that can be read, that are listed, and that their index finds."""
    with Connection(node.pb) as pb:
        answers = [pb.call("RpbGetReq", bucket=b"b", key=key, **options) for key in KEYS]
    right = {key for number, (key, answer) in enumerate(zip(KEYS, answers))
             if [content["value"] for content in answer.get("content", [])] == [b"v%d" % number]}
    listed = streamed(node, "RpbListKeysReq")
    queried = streamed(node, "RpbIndexReq", index=INDEX, qtype=1, range_min=b"0",
                       range_max=b"%d" % COUNT, stream=True)
    return right, listed, queried


def remove(node, pattern):
    """Removes the files below the node's data directory that match a pattern."""
    paths = glob.glob(os.path.join(node.data_dir, pattern))
    for path in paths:
        os.unlink(path)
    return paths


class Salvage(ClusterCase):
    def refused(self, node):
        """Returns the command that the refusal of a start names."""
        node.launch()
        self.assertEqual(node.process.wait(30), 1, node.log_tail())
        named = re.findall("`quoit (admin engine [^`]*)`", node.log_tail())
        self.assertTrue(named, node.log_tail())
        return shlex.split(named[-1])

    def quoit(self, arguments, status=0):
        done = subprocess.run([binary_from_environment()] + arguments, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertNotIn("panicked", done.stdout)
        return done.stdout

    def test_a_node_of_a_cluster_is_filled_after_the_command_that_the_error_named(self):
        cluster = self.cluster(3, ("ring_size=8", "storage_backend=leveldb"))
        first, others = cluster[0], cluster.nodes[1:]
        put_all(first)
        self.assertEqual(first.stop(), 0)
        self.assertTrue(remove(first, "leveldb/lsm/keyspaces/*/current"))
        command = self.refused(first)
        self.assertEqual(command[:3], ["admin", "engine", "set-aside"])
        said = self.quoit(command)
        self.assertIn("leveldb.set-aside-", said)
        aside, = glob.glob(first.data_dir + "/leveldb.set-aside-*")
        self.assertTrue(os.path.exists(os.path.join(aside, "lsm", "version")), "nothing is removed")
        first.start()
        everything = (set(KEYS),) * 3
        wait_until(lambda: not first.json("status")["losses"].get("incomplete_copies"),
                   "the node to be filled")
        self.assertEqual(found(first), everything)
        # Each node also has all records by itself, since it has all partitions.
        for node in others:
            node.kill()
        wait_until(lambda: found(first, r=1, pr=0)[0] == set(KEYS), "all keys from the node itself")

    def test_a_node_alone_is_salvaged_by_the_command_that_the_error_named(self):
        for engine, pattern in (("leveldb", "leveldb/lsm/keyspaces/*/current"),
                                ("innostore", "innostore/ENGINE")):
            with self.subTest(engine):
                self.folder = os.path.join(self.folder, engine)
                os.makedirs(self.folder)
                node, = self.cluster(1, ("ring_size=8", "storage_backend=" + engine))
                put_all(node)
                self.assertEqual(node.stop(), 0)
                self.assertTrue(remove(node, pattern))
                command = self.refused(node)
                self.assertEqual(command[:3], ["admin", "engine", "salvage"])
                said = self.quoit(command)
                self.assertIn("%d records saved" % COUNT, said)
                node.start()
                self.assertEqual(found(node), (set(KEYS),) * 3)
                node.stop()

    def test_a_salvage_lists_what_it_can_not_read(self):
        node, = self.cluster(1, ("ring_size=8", "storage_backend=leveldb"))
        put_all(node)
        self.assertEqual(node.stop(), 0)
        journal, = glob.glob(os.path.join(node.data_dir, "leveldb/lsm/*.jnl"))
        with open(journal, "rb") as handle:
            used = len(handle.read().rstrip(b"\0"))
        os.truncate(journal, used // 2)
        remove(node, "leveldb/lsm/version")
        said = json.loads(self.quoit(self.refused(node) + ["--format", "json"]).splitlines()[-1])
        self.assertFalse(said["whole"])
        self.assertTrue(0 < said["records"] < COUNT, said)
        with open(said["list"], encoding="utf-8") as handle:
            self.assertIn("unread " + node.data_dir, handle.read())
        node.start()
        right, listed, queried = found(node)
        self.assertEqual(len(right), said["records"])
        self.assertEqual((listed, queried), (right, right))
        losses = node.json("status")["losses"]
        self.assertTrue(losses["possibly_incomplete_partitions"], losses)
        node.run("accept-losses")

    def test_a_node_alone_is_not_set_aside_unless_forced(self):
        node, = self.cluster(1, ("ring_size=8", "storage_backend=leveldb"))
        put_all(node)
        command = ["admin", "engine", "set-aside", "--data-dir", node.data_dir]
        self.assertIn("in use", self.quoit(command, status=1))
        self.assertEqual(node.stop(), 0)
        said = self.quoit(command, status=1)
        self.assertIn("quoit admin engine salvage --data-dir " + node.data_dir, said)
        self.assertFalse(glob.glob(node.data_dir + "/*set-aside*"))
        self.quoit(command + ["--force"])
        node.start()
        self.assertEqual(found(node), (set(),) * 3)
        node.stop()

    def test_one_of_several_engines_is_salvaged_and_the_others_stay_as_they_are(self):
        several = ("ring_size=8", "storage_backend=multi", "multi_backend.default=warm",
                   "multi_backend.warm.storage_backend=leveldb",
                   "multi_backend.cold.storage_backend=innostore")
        node, = self.cluster(1, several)
        put_all(node)
        node.run("bucket-type", "create", "cold", '{"props": {"backend": "cold"}}')
        node.run("bucket-type", "activate", "cold")
        with Connection(node.pb) as pb:
            for key in KEYS:
                pb.call("RpbPutReq", bucket=b"b", type=b"cold", key=key, content={"value": b"cold"}, dw=1)
        self.assertEqual(node.stop(), 0)
        self.assertTrue(remove(node, "multi/warm/lsm/keyspaces/*/current"))
        command = self.refused(node)
        self.assertEqual(command[-2:], ["--engine", "warm"])
        self.assertIn("%d records saved" % COUNT, self.quoit(command))
        node.start()
        self.assertEqual(found(node), (set(KEYS),) * 3)
        with Connection(node.pb) as pb:
            for key in KEYS:
                answer = pb.call("RpbGetReq", bucket=b"b", type=b"cold", key=key)
                self.assertEqual([each["value"] for each in answer["content"]], [b"cold"])

    def test_a_salvage_that_is_killed_is_begun_anew(self):
        node, = self.cluster(1, ("ring_size=8", "storage_backend=leveldb"))
        put_all(node)
        self.assertEqual(node.stop(), 0)
        self.assertTrue(remove(node, "leveldb/lsm/keyspaces/*/current"))
        command = self.refused(node)
        work = glob.escape(node.data_dir) + "/leveldb.*"
        for _ in range(KILLS):
            salvage = subprocess.Popen([binary_from_environment()] + command, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: glob.glob(work) or salvage.poll() is not None, "new data")
            salvage.kill()
            if salvage.wait() == 0:
                # The salvage was faster than the kill.
                break
            # No matter how far the salvage came, the same command continues.
            self.assertEqual(self.refused(node)[:3], ["admin", "engine", "salvage"])
        else:
            self.quoit(command)
        node.start()
        self.assertEqual(found(node), (set(KEYS),) * 3)
        self.assertEqual([os.path.basename(path)[:18] for path in glob.glob(work)],
                         ["leveldb.set-aside-"], "nothing else is left")

    def test_bitcask_needs_no_salvage(self):
        node, = self.cluster(1, ("ring_size=8",))
        put_all(node)
        self.assertEqual(node.stop(), 0)
        command = ["admin", "engine", "salvage", "--data-dir", node.data_dir]
        self.assertIn("reads around damage by itself", self.quoit(command, status=1))


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
