"""Tests of replication between clusters of real processes: in both directions, through deaths, and
full-sync."""
import asyncio
import os
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.links import Link  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.replicating import (  # noqa: E402
    Clusters, SOURCE, add, consume, counter, get, repl, status, waiting)

COUNT = 60
MANY = 400


class Relays:
    """A relay to each node of a cluster, which can be cut."""

    def __init__(self, cluster):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.links = [Link(node.pb[1]) for node in cluster]
        for link in self.links:
            asyncio.run_coroutine_threadsafe(link.serve(), self.loop).result(10)

    def peers(self):
        return "|".join("127.0.0.1:%d:pb" % link.port for link in self.links)

    def each(self, change):
        async def run():
            for link in self.links:
                change(link)
        asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)

    def close(self):
        self.each(Link.cut)
        self.loop.call_soon_threadsafe(self.loop.stop)


class Replication(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        clusters = Clusters(cls.addClassCleanup)
        # The clusters have different sizes and numbers of partitions.
        cls.one, cls.other = clusters.start("one", 3, 8), clusters.start("other", 2, 16)
        for made in (cls.one, cls.other):
            made[0].create_bucket_type("counters", {"datatype": "counter"})
        consume(cls.one, cls.other)
        consume(cls.other, cls.one)

    def pair(self):
        return self.one, self.other

    def settle(self):
        """Waits until all writes have arrived."""
        for cluster in self.pair():
            for node in cluster:
                if not node.is_running():
                    node.start()
            cluster.settle()
        wait_until(lambda: not any(waiting(cluster) for cluster in self.pair()), "all to be across")

    def write(self, node, bucket, keys, value, **options):
        with Connection(node.pb) as pb:
            for key in keys:
                pb.put(bucket, key, value, **options)

    def assert_there(self, node, bucket, keys, value):
        with Connection(node.pb) as pb:
            for key in keys:
                wait_until(lambda key=key: pb.get(bucket, key) == [value],
                           "%s to be %r" % (key, value))

    def test_writes_and_deletes_go_both_ways(self):
        keys = ["b%d" % number for number in range(COUNT)]
        self.write(self.one[1], "from one", keys, b"1")
        self.write(self.other[1], "from other", keys, b"2")
        self.assert_there(self.other[0], "from one", keys, b"1")
        self.assert_there(self.one[0], "from other", keys, b"2")
        with Connection(self.other[0].pb) as pb:
            for key in keys:
                pb.call("RpbDelReq", bucket="from one", key=key)
        with Connection(self.one[2].pb) as pb:
            for key in keys:
                wait_until(lambda key=key: pb.get("from one", key) == [], "%s to be gone" % key)
        self.settle()

    def test_concurrent_writes_are_siblings_on_both_sides_and_counters_exact(self):
        for cluster in self.pair():
            repl(cluster[0], "sink", "suspend", "out", "--all")
            with Connection(cluster[0].pb) as pb:
                pb.call("RpbSetBucketReq", bucket="siblings", props={"allow_mult": True})
        self.write(self.one[0], "siblings", ["k"], b"one")
        self.write(self.other[0], "siblings", ["k"], b"other")
        add(self.one[1], "k", 5)
        add(self.other[1], "k", 37)
        for cluster in self.pair():
            repl(cluster[0], "sink", "resume", "out", "--all")
        for cluster in self.pair():
            for node in cluster:
                wait_until(lambda node=node: get(node, "siblings", "k") == [b"one", b"other"],
                           "both values at %s" % node.name)
                wait_until(lambda node=node: counter(node, "k") == 42, "the sum at %s" % node.name)
        self.settle()

    def test_a_queue_outlasts_sigkill_of_its_process(self):
        repl(self.other[0], "sink", "suspend", "out", "--all")
        keys = ["q%d" % number for number in range(MANY)]
        self.write(self.one[1], "queued", keys, b"v")
        self.one[1].kill()
        self.one[1].start()
        repl(self.other[0], "sink", "resume", "out", "--all")
        self.assert_there(self.other[1], "queued", keys, b"v")
        self.assertIsNone(status(self.one[0])["full_sync"]["last"], "without full-sync")
        self.settle()

    def test_nothing_is_lost_when_a_sink_is_killed(self):
        keys = ["s%d" % number for number in range(MANY)]
        self.write(self.one[0], "killed", keys[:MANY // 2], b"v")
        self.other[1].kill()
        self.write(self.one[2], "killed", keys[MANY // 2:], b"v")
        self.other[1].start()
        self.assert_there(self.other[1], "killed", keys, b"v")
        self.settle()

    def test_nothing_is_lost_while_the_link_is_cut(self):
        relays = Relays(self.one)
        self.addCleanup(relays.close)
        repl(self.other[0], "sink", "add", "out", relays.peers(), "--all")
        self.addCleanup(consume, self.other, self.one)
        keys = ["l%d" % number for number in range(MANY)]
        self.write(self.one[0], "cut", keys[:COUNT], b"v")
        self.assert_there(self.other[0], "cut", keys[:COUNT], b"v")
        relays.each(Link.cut)
        self.write(self.one[1], "cut", keys[COUNT:], b"v")
        wait_until(lambda: "ATTENTION" in repl(self.other[0], "status"), "the fault to be told")
        self.assertGreater(waiting(self.one), 0)
        relays.each(Link.mend)
        self.assert_there(self.other[1], "cut", keys, b"v")
        self.settle()

    def test_full_sync_repairs_what_differs_in_both_directions(self):
        self.settle()
        for cluster in self.pair():
            repl(cluster[0], "queue", "add", "out", "block_rtq", "--all")
        mine, theirs = ["m%d" % n for n in range(COUNT)], ["t%d" % n for n in range(COUNT)]
        self.write(self.one[0], "missed", mine, b"mine")
        self.write(self.other[0], "missed", theirs, b"theirs")
        repl(self.one[0], "fullsync", "set", "--peer", "127.0.0.1:%d:pb" % self.other[0].pb[1])
        said = repl(self.one[0], "fullsync", "run", "all")
        self.assertIn("repaired", said)
        self.assert_there(self.other[1], "missed", mine, b"mine")
        self.assert_there(self.one[2], "missed", theirs, b"theirs")
        self.settle()
        self.assertIn("in_sync", repl(self.one[0], "fullsync", "run", "all"))
        report = status(self.one[0])["full_sync"]["last"]
        self.assertEqual((report["compared_count"], report["fault"]), (0, None))
        for cluster in self.pair():
            repl(cluster[0], "queue", "add", "out", "any", "--all")

    def test_objects_go_on_to_further_clusters_and_do_not_return(self):
        with Cluster(tempfile.mkdtemp(dir=os.path.dirname(self.one.folder)), 1,
                     SOURCE + ["ring_size=8"]) as third:
            # A ring: one, other, third, and back.
            consume(third, self.other)
            consume(self.one, third)
            self.addCleanup(consume, self.one, self.other)
            keys = ["f%d" % number for number in range(COUNT)]
            self.write(self.one[0], "forwarded", keys, b"v")
            self.assert_there(third[0], "forwarded", keys, b"v")
            clusters = (self.one, self.other, third)
            wait_until(lambda: not any(waiting(cluster) for cluster in (self.other, third)),
                       "the queues to be empty")
            stored = [sum(peer["stored"] for node in cluster for sink in status(node)["sinks"]
                          for peer in sink["peers"]) for cluster in clusters]
            self.assertEqual(stored[0], 0, "they do not come back to where they were written")

    def test_queues_and_trees_are_asked_for_in_riaks_words_over_http(self):
        addresses = ["127.0.0.1:%d:http" % node.http[1] for node in self.one]
        repl(self.one[0], "queue", "add", "riak", "bucketname.asked", "--all")
        with Cluster(tempfile.mkdtemp(dir=os.path.dirname(self.one.folder)), 1,
                     SOURCE + ["ring_size=8"]) as third:
            repl(third[0], "sink", "add", "riak", "|".join(addresses), "--workers", "4")
            keys = ["h%d" % number for number in range(COUNT)]
            self.write(self.one[1], "asked", keys, b"v")
            self.assert_there(third[0], "asked", keys, b"v")
            self.assertEqual(status(third[0])["sinks"][0]["peers"][0]["kind"], "riak")
            repl(third[0], "fullsync", "set", "--peer", addresses[0])
            repl(third[0], "fullsync", "run", "all")
            report = status(third[0])["full_sync"]["last"]
            self.assertIsNone(report["fault"])
            self.assertEqual(report["buckets"].get("default/asked", 0), 0, "these are equal")
        repl(self.one[0], "queue", "remove", "riak", "--all")

    def test_mistakes_are_told_and_old_words_answered(self):
        node = self.one[0]
        self.assertIn("wanted any, block_rtq", repl(node, "queue", "add", "x", "bucket.b", fails=True))
        self.assertIn("no queue has the name", repl(node, "queue", "clear", "nothing", fails=True))
        self.assertIn("is not a peer", repl(node, "sink", "add", "x", "host", fails=True))
        self.assertIn("sink add", repl(node, "connect", "10.0.0.1:9080", fails=True))
        self.assertIn("queue add", repl(node, "realtime", "enable", "other", fails=True))
        self.assertIn("fullsync run", repl(node, "fullsync", "start", "other", fails=True))
        own = "127.0.0.1:%d:pb" % self.one[1].pb[1]
        repl(node, "sink", "add", "mistaken", own)
        wait_until(lambda: "is a node of this cluster" in repl(node, "status"), "the fault to be told")
        repl(node, "sink", "remove", "mistaken")

    def test_clients_can_move_when_all_is_across(self):
        keys = ["p%d" % number for number in range(COUNT)]
        self.write(self.one[0], "promoted", keys, b"v")
        self.assertIn("all is across", repl(self.other[0], "promote", "--timeout", "30"))
        self.assert_there(self.other[0], "promoted", keys, b"v")


class Links(unittest.TestCase):
    def test_changes_for_all_nodes_reach_those_that_were_away_or_join_later(self):
        with tempfile.TemporaryDirectory(prefix="quoit-test-") as folder, \
                Cluster(folder, 2, SOURCE + ["ring_size=8"]) as cluster:
            cluster[1].kill()
            said = repl(cluster[0], "queue", "add", "late", "bucketname.b", "--all", fails=True)
            self.assertIn("it takes over the change when it is back", said)
            repl(cluster[0], "queue", "suspend", "late", "--all", fails=True)
            repl(cluster[0], "queue", "remove", "out", "--all", fails=True)
            repl(cluster[0], "sink", "add", "in", "127.0.0.1:1:pb", "--all", fails=True)
            repl(cluster[0], "queue", "add", "mine")
            self.assertIn("wanted any, block_rtq",
                          repl(cluster[0], "queue", "add", "wrong", "x", "--all", fails=True))
            cluster[1].start()
            third = cluster.add()
            cluster.join(third)
            for node in (cluster[1], third):
                def queues(node=node):
                    return [(queue["name"], queue["filter"], queue["suspended"])
                            for queue in status(node)["source"]["queues"]]
                wait_until(lambda queues=queues: queues() == [("late", "bucketname.b", True)],
                           "%s to know the queues" % node.name)
                wait_until(lambda node=node: [sink["queue"] for sink in status(node)["sinks"]] == ["in"],
                           "%s to know the sink" % node.name)
            # The last command wins, no matter which node received it.
            repl(third, "queue", "resume", "late", "--all")
            self.assertFalse(status(cluster[0])["source"]["queues"][0]["suspended"])


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
