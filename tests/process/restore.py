"""Tests of clusters that are restored from copies of their nodes' data, made at different times."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import ClusterCase, are_closed  # noqa: E402
from support.node import copy_data  # noqa: E402
from support.pb import Connection  # noqa: E402

# Nodes require certificates of each other; the copies hold older ones.
CLOSED = "internode.tls=required"
OLD = [b"old %d" % number for number in range(100)]
# Written to the second of several engines.
COLD = [b"cold %d" % number for number in range(20)]
# Written between the copies, so that the first copy lacks them.
LATER = [b"later %d" % number for number in range(100)]
# Written after all copies.
LOST = [b"lost %d" % number for number in range(20)]


def put_all(node, keys, value, **options):
    with Connection(node.pb) as pb:
        for key in keys:
            pb.put(b"b", key, value, **options)


def values(node, keys, **options):
    with Connection(node.pb) as pb:
        return [pb.get(b"b", key, **options) for key in keys]


def set_n_val(node, n_val):
    node.run("bucket-type", "update", "t", '{"props": {"n_val": %d}}' % n_val)


class Restore(ClusterCase):
    def copy_of(self, node):
        """Returns a copy of a node's data, made while the node was stopped."""
        self.assertEqual(node.stop(), 0)
        copy = os.path.join(self.folder, "copy of " + node.name)
        copy_data(node.data_dir, copy)
        node.start()
        return copy

    def put_back(self, node, copy):
        shutil.rmtree(node.data_dir)
        copy_data(copy, node.data_dir)

    def restore(self, node, *options):
        """Returns the output of the command about the data of a stopped node."""
        return node.run("cluster", "restore", "--data-dir", node.data_dir, *options)

    def looked_at(self, node):
        return node.json("cluster", "restore", "--data-dir", node.data_dir)

    def copied(self, *settings):
        """Returns a stopped cluster whose nodes have copies of different times as their data."""
        settings = ("ring_size=8", "delete_mode=200", *settings)
        cluster = self.closed(3, settings) if CLOSED in settings else self.cluster(3, settings)
        first, second, third = cluster
        first.create_bucket_type("t", {"n_val": 2})
        put_all(first, OLD, b"1", w=3)
        if "storage_backend=multi" in settings:
            first.create_bucket_type("cold", {"backend": "cold"})
            put_all(first, COLD, b"1", w=3, type=b"cold")
        copies = [self.copy_of(first)]
        cluster.settle()
        set_n_val(second, 1)
        put_all(second, LATER, b"1", w=3)
        put_all(second, OLD[:10], b"2", w=3)
        copies.append(self.copy_of(second))
        copies.append(self.copy_of(third))
        cluster.settle()
        set_n_val(second, 3)
        put_all(third, LOST, b"1", w=3)
        for node in cluster:
            self.assertEqual(node.stop(), 0)
        shutil.copytree(third.data_dir, third.data_dir + " of the former epoch")
        for node, copy in zip(cluster, copies):
            self.put_back(node, copy)
        return cluster

    def restored(self, cluster):
        """Prepares all copies and starts the nodes. Returns the identity of the epoch."""
        begins = max(cluster, key=lambda node: self.looked_at(node)["revision"])
        self.assertIsNot(begins, cluster[0], "its copy is the oldest")
        epoch = begins.json("cluster", "restore", "--data-dir", begins.data_dir, "--begin")["epoch"]
        for node in cluster:
            if node is not begins:
                self.assertIn(epoch, self.restore(node, "--epoch", epoch))
        again = begins.admin("cluster", "restore", "--data-dir", begins.data_dir, "--epoch", epoch)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("start the node", again.stdout)
        ready_paths = [node.launch() for node in cluster]
        for node, ready_path in zip(cluster, ready_paths):
            node.record = node.wait_until_ready(ready_path)
        cluster.settle()
        return epoch

    def check(self, engine, *settings):
        cluster = self.copied("storage_backend=" + engine, *settings)
        first, second, third = cluster
        self.restored(cluster)
        if CLOSED in settings:
            wait_until(lambda: are_closed(cluster), "all connections to have TLS")
        for node in cluster:
            wait_until(lambda node=node: not node.json("status")["losses"]["incomplete_copies"],
                       "the copies to be merged")
        for node in cluster:
            self.assertEqual(values(node, OLD[:10]), [[b"2"]] * 10)
            self.assertEqual(values(node, OLD[10:]), [[b"1"]] * 90)
            self.assertEqual(values(node, LATER), [[b"1"]] * len(LATER))
            self.assertEqual(values(node, LOST), [[]] * len(LOST))
            if engine == "multi":
                self.assertEqual(values(node, COLD, type=b"cold"), [[b"1"]] * len(COLD))
        told = first.json("status")["losses"]["possibly_incomplete_partitions"]
        self.assertEqual(len(told), 8, "nobody knows what is missing")
        first.run("accept-losses")
        for node in cluster:
            wait_until(lambda node=node: not node.json("status")["losses"][
                "possibly_incomplete_partitions"], "all to know that losses are accepted")
        props = first.json("bucket-type", "status", "t")["props"]
        self.assertEqual(props["n_val"], 1, "as of the latest copy")
        set_n_val(first, 3)
        put_all(third, OLD + LOST, b"3", w=3)
        with Connection(second.pb) as pb:
            for key in LATER:
                pb.call("RpbDelReq", bucket=b"b", key=key)
        for node in cluster:
            self.assertEqual(values(node, OLD + LOST), [[b"3"]] * 120, "no sibling of a forgotten event")
            self.assertEqual(values(node, LATER), [[]] * len(LATER))
        # Data of the former epoch count as those of another cluster.
        self.assertEqual(third.stop(), 0)
        self.put_back(third, third.data_dir + " of the former epoch")
        third.start()
        wait_until(lambda: "another cluster" in first.log_tail(200) + third.log_tail(200),
                   "the node to be refused")
        status = first.json("cluster", "status")["members"]
        up = {member["name"]: member["availability"] for member in status}
        self.assertNotEqual(up[third.name], "up")
        self.assertEqual(values(second, OLD[:1]), [[b"3"]])

    def test_bitcask_is_restored_from_copies_of_different_times(self):
        self.check("bitcask")

    def test_leveldb_is_restored_from_copies_of_different_times(self):
        self.check("leveldb")

    def test_innostore_is_restored_from_copies_of_different_times(self):
        self.check("innostore")

    def test_leveled_is_restored_from_copies_of_different_times(self):
        self.check("leveled")

    def test_several_engines_are_restored_from_copies_of_different_times(self):
        self.check("multi", "multi_backend.default=warm", "multi_backend.warm.storage_backend=bitcask",
                   "multi_backend.cold.storage_backend=leveldb")

    def test_a_closed_cluster_is_restored_and_stays_closed(self):
        self.check("bitcask", CLOSED)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
