"""Tests of a cluster of real processes that takes over all records or the bucket types of another
cluster."""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.pb import Connection, Refused  # noqa: E402
from support.replicating import Clusters, add, consume, counter, get, repl, status, waiting  # noqa: E402

COUNT = 60
MANY = 400


class Bootstrap(unittest.TestCase):
    """A cluster of three nodes, and one of two nodes that receives all its records."""

    def setUp(self):
        clusters = Clusters(self.addCleanup)
        self.one, self.other = clusters.start("one", 3, 16), clusters.start("other", 2, 8)
        self.one[0].create_bucket_type("counters", {"datatype": "counter"})
        self.one[0].create_bucket_type("sets", {"datatype": "set"})
        self.keys = ["k%d" % number for number in range(MANY)]
        with Connection(self.one[0].pb) as pb:
            for key in self.keys:
                pb.put("b", key, key.encode())
            for key in self.keys[:COUNT]:
                pb.call("RpbDelReq", bucket="b", key=key)
        for amount in (5, 37):
            add(self.one[1], "k", amount)
        self.members = ["m%d" % number for number in range(3000)]
        with Connection(self.one[0].pb) as pb:
            pb.call("DtUpdateReq", bucket="s", key="k", type="sets",
                    op={"set_op": {"adds": self.members}})

    def peers(self):
        return ["127.0.0.1:%d:pb" % node.pb[1] for node in self.one]

    def state(self):
        return [status(node)["bootstrap"] for node in self.other]

    def test_a_cluster_is_copied_whole_while_it_is_written_and_goes_on_after_a_death(self):
        consume(self.other, self.one)
        # The type of the counters is missing: their partition waits, and all others are copied.
        self.other[0].create_bucket_type("sets", {"datatype": "set"})
        repl(self.other[0], "bootstrap", "start", *self.peers())
        wait_until(lambda: any("bucket type counters does not exist" in (node["fault"] or "")
                               for node in self.state()), "the missing type to be told")
        self.assertIn("ATTENTION: bootstrap", repl(self.other[0], "status", "--all"))
        with Connection(self.one[0].pb) as pb:
            pb.put("b", "new", b"v")
            pb.call("RpbDelReq", bucket="b", key=self.keys[-1])
        for node in self.other:
            node.kill()
            node.start()
        self.assertIn("copying", [node["state"] for node in self.state()])
        self.other[0].create_bucket_type("counters", {"datatype": "counter"})
        self.assertIn("all is copied", repl(self.other[1], "bootstrap", "status", "--wait"))
        wait_until(lambda: waiting(self.one) == 0, "the writes meanwhile to be across")
        for node in self.other:
            with Connection(node.pb) as pb:
                there = [key for key in self.keys if pb.get("b", key) == [key.encode()]]
                self.assertEqual(there, self.keys[COUNT:-1], "at %s" % node.name)
                self.assertEqual(pb.get("b", "new"), [b"v"])
                fields = pb.call("DtFetchReq", bucket="s", key="k", type="sets")
            self.assertEqual(len(fields["value"]["set_value"]), len(self.members))
            self.assertEqual(counter(node, "k"), 42)
        repl(self.other[0], "fullsync", "set", "--peer", self.peers()[0])
        self.assertIn("in_sync", repl(self.other[0], "fullsync", "run", "all"))

    def test_mistakes_are_told(self):
        own = "127.0.0.1:%d:pb" % self.other[1].pb[1]
        said = repl(self.other[0], "bootstrap", "start", own, fails=True)
        self.assertIn("is a node of this cluster", said)
        self.assertIn("is not a peer", repl(self.other[0], "bootstrap", "start", "x", fails=True))
        self.assertIn("needs HOST:PORT:pb",
                      repl(self.other[0], "bootstrap", "start", "h:1:http", fails=True))
        self.assertIn("nothing_to_stop", repl(self.other[0], "bootstrap", "stop"))


class BucketTypes(unittest.TestCase):
    """Two clusters of one node, of which one takes over the other's bucket types."""

    def start(self, mode_of_other, mode_of_one="off"):
        clusters = Clusters(self.addCleanup)
        self.one = clusters.start("one", 1, settings=["repl.bucket_types=" + mode_of_one])
        self.other = clusters.start("other", 1, settings=["repl.bucket_types=" + mode_of_other])
        self.one[0].create_bucket_type("t", {"allow_mult": False, "old_vclock": 7, "n_val": 2})
        with Connection(self.one[0].pb) as pb:
            pb.call("RpbSetBucketReq", bucket="own", props={"old_vclock": 8, "n_val": 2})
            pb.put("b", "k", b"v", type="t")

    def props(self, node, bucket_type, bucket):
        with Connection(node.pb) as pb:
            props = pb.call("RpbGetBucketReq", type=bucket_type, bucket=bucket)["props"]
        return props["allow_mult"], props["old_vclock"], props["n_val"]

    def wait_for(self, bucket_type, bucket, props):
        wait_until(lambda: self.props(self.other[0], bucket_type, bucket) == props,
                   "the properties of %s/%s to be %r" % (bucket_type, bucket, props))

    def wait_for_object(self):
        def is_there():
            try:
                return get(self.other[0], "b", "k", type="t") == [b"v"]
            except Refused:
                return False
        wait_until(is_there, "the object to be across, with its bucket type")

    def change(self):
        """Changes properties in the first cluster. Waits until the later change of another bucket has
        arrived."""
        self.one[0].run("bucket-type", "update", "t", json.dumps({"props": {"old_vclock": 9, "n_val": 1}}))
        with Connection(self.one[0].pb) as pb:
            pb.call("RpbSetBucketReq", bucket="seen", props={"old_vclock": 10})
        wait_until(lambda: self.props(self.other[0], "default", "seen")[1] == 10, "it to be seen")

    def test_missing_types_and_properties_are_created_as_they_are_there(self):
        self.start("create")
        consume(self.other, self.one)
        self.wait_for_object()
        self.assertEqual(self.props(self.other[0], "t", "b"), (False, 7, 2))
        self.wait_for("default", "own", (False, 8, 2))
        self.change()
        self.assertEqual(self.props(self.other[0], "t", "b"), (False, 7, 2), "changes are not wanted")

    def test_changes_are_followed_but_of_the_number_of_replicas(self):
        self.start("follow")
        consume(self.other, self.one)
        self.wait_for_object()
        self.change()
        self.wait_for("t", "b", (False, 9, 2))

    def test_two_clusters_that_follow_each_other_are_told_so(self):
        self.start("follow", "follow")
        consume(self.other, self.one)
        consume(self.one, self.other)
        wait_until(lambda: "both clusters have repl.bucket_types = follow" in
                   repl(self.other[0], "status"), "the mistake to be told")
        self.wait_for_object()

    def test_without_the_setting_an_object_waits_for_its_type(self):
        self.start("off")
        consume(self.other, self.one)
        wait_until(lambda: "set repl.bucket_types = create" in repl(self.other[0], "status"),
                   "the remedy to be told")
        self.assertEqual(waiting(self.one), 1)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
