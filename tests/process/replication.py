"""Tests of replication between clusters of real processes: both ways, through deaths, and full-sync."""
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.links import Link  # noqa: E402
from support.node import binary_from_environment  # noqa: E402
from support.pb import Connection, Refused  # noqa: E402

COUNT = 60
MANY = 400
SOURCE = ["replrtq_enablesrc=enabled", "replrtq_srcqueue=out:any", "ttaaefs_queuename=out",
          "ttaaefs_queuename_peer=out"]


def repl(node, *arguments, fails=False):
    """What `quoit repl` prints."""
    done = subprocess.run([binary_from_environment(), "repl", "--url", node.url] + list(arguments),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=90, text=True)
    if (done.returncode != 0) != fails:
        raise AssertionError("repl %s: %s" % (" ".join(arguments), done.stdout))
    return done.stdout


def status(node):
    """Figures of a node's replication."""
    with urllib.request.urlopen(node.url + "/admin/v1/repl", timeout=10) as answer:
        return json.load(answer)["result"]


def waiting(cluster):
    """Entries of the queue that are not confirmed, of all nodes that run."""
    queues = [queue for node in cluster if node.is_running()
              for queue in status(node)["source"]["queues"] if queue["name"] == "out"]
    return sum(queue["real_time"] + queue["full_sync"] + queue["unconfirmed"] for queue in queues)


def peers(cluster):
    return "|".join("127.0.0.1:%d:pb" % node.pb[1] for node in cluster)


def consume(sink, source):
    """Has all nodes of a cluster consume the queue of all nodes of another."""
    repl(sink[0], "sink", "add", "out", peers(source), "--workers", "8", "--all")


def get(node, bucket, key, **options):
    with Connection(node.pb) as pb:
        return sorted(pb.get(bucket, key, **options))


def counter(node, key):
    with Connection(node.pb) as pb:
        fields = pb.call("DtFetchReq", bucket="c", key=key, type="counters")
    return fields.get("value", {}).get("counter_value", 0)


def add(node, key, amount):
    with Connection(node.pb) as pb:
        pb.call("DtUpdateReq", bucket="c", key=key, type="counters",
                op={"counter_op": {"increment": amount}})


def stale(cluster):
    """Whether any node of a cluster has a stale queue."""
    return any(queue["stale"] for node in cluster for queue in status(node)["source"]["queues"])


class Relays:
    """A way to each node of a cluster that can be cut."""

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
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)

        def cluster(name, count, ring_size):
            home = os.path.join(folder.name, name)
            os.makedirs(home)
            made = Cluster(home, count, SOURCE + ["ring_size=%d" % ring_size])
            cls.addClassCleanup(made.__exit__)
            return made.__enter__()
        # Other sizes and other numbers of partitions.
        cls.one, cls.other = cluster("one", 3, 8), cluster("other", 2, 16)
        for made in (cls.one, cls.other):
            made[0].create_bucket_type("counters", {"datatype": "counter"})
        consume(cls.one, cls.other)
        consume(cls.other, cls.one)

    def pair(self):
        return self.one, self.other

    def settle(self):
        """Waits until nothing is on its way."""
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
        self.assertIn("is no peer", repl(node, "sink", "add", "x", "host", fails=True))
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


class Bootstrap(unittest.TestCase):
    """A cluster of three nodes, and one of two that is given all that it has."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)

        def cluster(name, count, ring_size):
            home = os.path.join(folder.name, name)
            os.makedirs(home)
            made = Cluster(home, count, SOURCE + ["ring_size=%d" % ring_size])
            self.addCleanup(made.__exit__)
            return made.__enter__()
        self.one, self.other = cluster("one", 3, 16), cluster("other", 2, 8)
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
        self.assertIn("is no peer", repl(self.other[0], "bootstrap", "start", "x", fails=True))
        self.assertIn("needs HOST:PORT:pb",
                      repl(self.other[0], "bootstrap", "start", "h:1:http", fails=True))
        self.assertIn("nothing_to_stop", repl(self.other[0], "bootstrap", "stop"))


class BucketTypes(unittest.TestCase):
    """Two nodes that are clusters of their own, of which one takes over the other's bucket types."""

    def start(self, mode_of_other, mode_of_one="off"):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)

        def cluster(name, mode):
            home = os.path.join(folder.name, name)
            os.makedirs(home)
            made = Cluster(home, 1, SOURCE + ["ring_size=8", "repl.bucket_types=" + mode])
            self.addCleanup(made.__exit__)
            return made.__enter__()
        self.one, self.other = cluster("one", mode_of_one), cluster("other", mode_of_other)
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
        """Changes properties in the first cluster, and waits until those of another bucket are seen."""
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
            # The last command wins, whichever node is given it.
            repl(third, "queue", "resume", "late", "--all")
            self.assertFalse(status(cluster[0])["source"]["queues"][0]["suspended"])


class StaleLinks(unittest.TestCase):
    """Two clusters. Queues of one are stale when a second has passed without a confirmation."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)

        def cluster(name, count):
            home = os.path.join(folder.name, name)
            os.makedirs(home)
            settings = ["repl.retention=1s"] if name == "one" else []
            made = Cluster(home, count, SOURCE + settings + ["ring_size=8"])
            self.addCleanup(made.__exit__)
            return made.__enter__()
        self.one, self.other = cluster("one", 2), cluster("other", 1)
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
        """Has a queue of the first cluster wait for longer than it may be behind, and a write in it."""
        repl(self.other[0], "sink", "suspend", "out", "--all")

        def is_stale():
            # A sink that waits for entries already takes some more.
            self.put(self.one[0], ["marker"])
            return stale(self.one)
        wait_until(is_stale, "the queue to be stale")
        # It stays so with another setting, by which no queue gets stale on a machine that is busy.
        for node in self.one:
            node.kill()
            node.settings = [each for each in node.settings if "retention" not in each]
            node.start()
        self.one.settle()
        self.put(self.one[0], [key])

    def write_apart(self):
        """Writes keys to one cluster each, of which the other one is not told."""
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
