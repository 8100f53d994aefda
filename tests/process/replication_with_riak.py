"""Tests of replication in Riak's messages: two clusters that fetch from each other as Riak nodes do,
over HTTP."""
import json
import os
import re
import sys
import tempfile
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.replicating import add, counter, get, repl, status  # noqa: E402

COUNT = 40
SETTINGS = ["delete_mode=keep", "repl_reap=enabled", "replrtq_enablesrc=enabled",
            "replrtq_srcqueue=out:any|repair:block_rtq", "ttaaefs_queuename=repair",
            "ttaaefs_queuename_peer=repair", "ttaaefs_maxresults=1024"]


def peer(cluster):
    """Returns the address of a cluster's first node in the form of a Riak peer."""
    return cluster[0].url[len("http://"):] + ":http"


class ReplicationWithRiak(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)

        def cluster(name, ring_size):
            home = os.path.join(folder.name, name)
            os.makedirs(home)
            made = Cluster(home, 1, SETTINGS + ["ring_size=%d" % ring_size])
            cls.addClassCleanup(made.__exit__)
            return made.__enter__()
        cls.one, cls.other = cluster("one", 8), cluster("other", 16)
        for sink, source in ((cls.one, cls.other), (cls.other, cls.one)):
            for queue in ("out", "repair"):
                repl(sink[0], "sink", "add", queue, peer(source), "--workers", "2")

    def write(self, cluster, bucket, keys, value, **options):
        with Connection(cluster[0].pb) as pb:
            for key in keys:
                pb.put(bucket, key, value, **options)

    def assert_there(self, cluster, bucket, keys, value):
        for key in keys:
            wait_until(lambda key=key: get(cluster[0], bucket, key) == value,
                       "%s to be %r" % (key, value))

    def test_1_writes_deletes_and_siblings_go_both_ways(self):
        keys = ["k%d" % number for number in range(COUNT)]
        self.write(self.one, "from one", keys, b"1")
        self.write(self.other, "from other", keys, b"2")
        self.assert_there(self.other, "from one", keys, [b"1"])
        self.assert_there(self.one, "from other", keys, [b"2"])
        with Connection(self.other[0].pb) as pb:
            for key in keys:
                pb.call("RpbDelReq", bucket="from one", key=key)
        self.assert_there(self.one, "from one", keys, [])

    def test_2_a_missing_bucket_type_holds_an_entry_visibly_and_loses_nothing(self):
        self.one[0].create_bucket_type("counters", {"datatype": "counter"})
        add(self.one[0], "sum", 5)

        def said():
            sinks = status(self.other[0])["sinks"]
            faults = [each["fault"] for sink in sinks for each in sink["peers"] if each["fault"]]
            return any("create and activate the bucket type" in fault for fault in faults)
        wait_until(said, "the missing bucket type to be told")
        self.other[0].create_bucket_type("counters", {"datatype": "counter"})
        wait_until(lambda: counter(self.other[0], "sum") == 5, "the counter to come")
        add(self.other[0], "sum", 37)
        add(self.one[0], "sum", 100)
        for cluster in (self.one, self.other):
            wait_until(lambda cluster=cluster: counter(cluster[0], "sum") == 142, "the sum")

    def test_3_full_sync_by_trees_repairs_both_sides(self):
        for cluster in (self.one, self.other):
            repl(cluster[0], "queue", "add", "out", "block_rtq")
        mine, theirs = ["m%d" % n for n in range(COUNT)], ["t%d" % n for n in range(COUNT)]
        self.write(self.one, "missed", mine, b"mine")
        self.write(self.other, "missed", theirs, b"theirs")
        repl(self.one[0], "fullsync", "set", "--peer", peer(self.other))
        self.assertIn("repaired", repl(self.one[0], "fullsync", "run", "all"))
        self.assert_there(self.other, "missed", mine, [b"mine"])
        self.assert_there(self.one, "missed", theirs, [b"theirs"])
        self.assertIn("in_sync", repl(self.one[0], "fullsync", "run", "all"))
        report = status(self.one[0])["full_sync"]["last"]
        self.assertEqual((report["compared_count"], report["fault"]), (0, None))

    def test_4_folds_over_all_buckets_find_the_same_in_both_clusters(self):
        self.write(self.one, "folded", ["k1", "k2"], b"v")
        self.one[0].create_bucket_type("plain", {"allow_mult": False})
        self.other[0].create_bucket_type("plain", {"allow_mult": False})
        self.write(self.one, "folded", ["k3"], b"v", type="plain")
        queued = self.one[0].run("fold", "repl-keys", "--all-buckets", "--queue", "repair")
        self.assertIn("repl_keys plain folded", queued)
        wait_until(lambda: get(self.other[0], "folded", "k3", type="plain") == [b"v"], "k3 to come")
        self.assert_there(self.other, "folded", ["k1", "k2"], [b"v"])

        def trees():
            return [json.loads(cluster[0].run("fold", "merge-tree", "--all-buckets", "--format", "json"))
                    for cluster in (self.one, self.other)]
        wait_until(lambda: len({tree["root"] for tree in trees()}) == 1, "both trees to be equal")
        self.assertGreater(len(trees()[0]["leaves"]), 3)
        clocks = [self.one[0].run("fold", "fetch-clocks", *which, "--format", "json").count("vclock")
                  for which in (["--all-buckets"], ["folded"], ["plain/folded"])]
        self.assertEqual(clocks[1:], [2, 1])
        self.assertGreater(clocks[0], 3)

    def test_5_what_was_hashed_for_trees_outlasts_a_restart(self):
        node = self.one[0]
        node.create_bucket_type("two", {"n_val": 2})
        keys = ["h%d" % number for number in range(COUNT)]
        self.write(self.one, "hashed", keys, b"1", type="two")

        def root():
            with urllib.request.urlopen(node.url + "/cachedtrees/nvals/2/root", timeout=60) as answer:
                return answer.read()

        def read_count():
            with urllib.request.urlopen(node.url + "/metrics", timeout=60) as answer:
                found = re.search(rb"^quoit_riak_tree_records_read_total (\d+)$", answer.read(), re.MULTILINE)
            return int(found.group(1))
        node.stop()
        node.start()
        before = root()
        self.assertEqual(read_count(), COUNT)
        node.stop()
        node.start()
        self.assertEqual((root(), read_count()), (before, 0))
        self.write(self.one, "hashed", keys[:3], b"2", type="two")
        self.assertNotEqual(root(), before)
        self.assertEqual(read_count(), 3)
        after = root()
        node.kill()
        node.start()
        self.assertEqual(root(), after)
        self.assertLessEqual(read_count(), 3)

    def test_6_the_other_side_of_full_sync_outlasts_a_restart(self):
        self.one[0].stop()
        self.one[0].start()
        self.assertRegex(repl(self.one[0], "fullsync", "run", "all"), "in_sync|repaired")


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
