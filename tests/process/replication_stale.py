"""Tests of links between clusters of real processes that were behind for too long."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.replicating import Clusters, consume, repl, stale  # noqa: E402


class StaleLinks(unittest.TestCase):
    """Two clusters. A queue of the first is stale after a second without a confirmation."""

    def setUp(self):
        clusters = Clusters(self.addCleanup)
        self.one = clusters.start("one", 2, settings=["repl.retention=1s"])
        self.other = clusters.start("other", 1)
        consume(self.other, self.one)
        consume(self.one, self.other)
        self.peer = "127.0.0.1:%d:pb" % self.other[0].pb[1]

    def put(self, node, keys, value=b"v"):
        with Connection(node.pb) as pb:
            for key in keys:
                pb.put("b", key, value)

    def keys(self, node, keys):
        with Connection(node.pb) as pb:
            return [key for key in keys if pb.get("b", key)]

    def wait_for(self, node, keys, among):
        wait_until(lambda: self.keys(node, among) == keys, "%s to have %r" % (node.name, keys))

    def make_stale(self, key):
        """Has a queue of the first cluster, with a write in it, wait for longer than the retention."""
        repl(self.other[0], "sink", "suspend", "out", "--all")

        def is_stale():
            # A sink that already waits for entries takes some more.
            self.put(self.one[0], ["marker"])
            return stale(self.one)
        wait_until(is_stale, "the queue to be stale")
        # The queue stays stale with the default retention, with which no queue gets stale on a busy
        # machine.
        for node in self.one:
            node.kill()
            node.settings = [each for each in node.settings if "retention" not in each]
            node.start()
        self.one.settle()
        self.put(self.one[0], [key])

    def write_apart(self):
        """Writes one key to each cluster, without replicating it."""
        for cluster in (self.one, self.other):
            repl(cluster[0], "queue", "add", "out", "block_rtq", "--all")
        self.put(self.one[0], ["mine"])
        self.put(self.other[0], ["theirs"])
        for cluster in (self.one, self.other):
            repl(cluster[0], "queue", "add", "out", "any", "--all")

    def test_a_stale_link_goes_on_only_when_an_operator_says_which_cluster_is_right(self):
        among = ["both", "waits", "mine", "theirs", "later"]
        self.put(self.one[0], ["both"])
        self.wait_for(self.other[0], ["both"], among)
        self.write_apart()
        self.make_stale("waits")
        repl(self.one[0], "queue", "clear", "out", "--all")
        self.assertTrue(stale(self.one), "neither a restart nor clearing mends it")
        repl(self.other[0], "sink", "resume", "out", "--all")
        self.assertIn("ATTENTION: queue out is stale", repl(self.one[0], "status", "--all"))
        for node, peer in ((self.one[1], self.peer),
                           (self.other[0], "127.0.0.1:%d:pb" % self.one[1].pb[1])):
            repl(node, "fullsync", "set", "--peer", peer)
            self.assertIn("is stale", repl(node, "fullsync", "run", "all"))
        wait_until(lambda: "would be deleted: 0 records here, 1 there" in repl(
            self.one[1], "rebase", "out", "--from", "here", "--dry-run"), "the write to be old enough")
        self.assertEqual(self.keys(self.other[0], among), ["both", "theirs"], "it only counts")
        self.assertTrue(stale(self.one))
        said = repl(self.one[1], "rebase", "out", "--from", "here")
        self.assertIn("deleted: 0 records here, 1 there", said)
        self.assertFalse(stale(self.one))
        self.wait_for(self.other[0], ["both", "waits", "mine"], among)
        self.put(self.one[0], ["later"])
        self.wait_for(self.other[0], ["both", "waits", "mine", "later"], among)
        self.assertEqual(self.keys(self.one[1], among), ["both", "waits", "mine", "later"])

    def test_the_other_cluster_may_be_the_one_that_is_right(self):
        among = ["waits", "mine", "theirs"]
        self.write_apart()
        self.make_stale("waits")
        repl(self.other[0], "sink", "resume", "out", "--all")
        wait_until(lambda: "would be deleted: 2 records here" in repl(
            self.one[0], "rebase", "out", "--from", "there", "--peer", self.peer, "--dry-run"),
            "the writes to be old enough")
        said = repl(self.one[0], "rebase", "out", "--from", "there", "--peer", self.peer)
        self.assertIn("deleted: 2 records here, 0 there", said)
        self.wait_for(self.one[1], ["theirs"], among)
        self.assertEqual(self.keys(self.other[0], among), ["theirs"], "what waited is not sent")
        self.assertFalse(stale(self.one))

    def test_mistakes_are_told(self):
        node = self.one[0]
        self.assertIn("no queue has the name", repl(node, "rebase", "nothing", "--from", "here", fails=True))
        self.assertIn("there is no peer", repl(node, "rebase", "out", "--from", "here", fails=True))
        self.assertIn("here or there", repl(node, "rebase", "out", "--from", "b", fails=True))
        self.assertIn("--from", repl(node, "rebase", "out", fails=True))


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
