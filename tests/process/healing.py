"""Tests of the data that a node gets back after it was down, and of deleted data that must not come
back."""
import http.client
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, put_all, stat, stats, values  # noqa: E402
from support.node import NodeError  # noqa: E402
from support.pb import Connection  # noqa: E402

COUNT = 1000
# Longer than a tombstone of these tests stays if nothing prevents its reaping.
PAST_REAPING_SECONDS = 5
# Longest time until all tombstones are reaped, on a machine that is busy with other tests.
REAPED_SECONDS = 180
# Time for which a node is down under load. `cargo xtask bench away` uses a minute.
AWAY_SECONDS = 10


def compared(nodes, name):
    """Returns the sum of a figure of anti-entropy over several nodes."""
    return sum(node.json("aae-status")[name] for node in nodes)


def delete_all(node, keys):
    with Connection(node.pb) as pb:
        for key in keys:
            pb.call("RpbDelReq", bucket="b", key=key)


def overwrite(node, keys, life_seconds):
    """Replaces values by others that expire, as a client does that has read the old ones."""
    connection = http.client.HTTPConnection(*node.http, timeout=30)
    for key in keys:
        path = "/buckets/b/keys/%s" % key
        connection.request("GET", path)
        read = connection.getresponse()
        read.read()
        headers = {"Content-Type": "text/plain", "X-Quoit-Ttl": str(life_seconds),
                   "X-Riak-Vclock": read.headers["X-Riak-Vclock"]}
        connection.request("PUT", path, "new", headers)
        written = connection.getresponse()
        written.read()
        assert written.status == 204, written.status
    connection.close()


class Healing(ClusterCase):
    def test_what_an_expired_value_has_replaced_does_not_return(self):
        cluster = self.cluster(3)
        first, _, third = cluster
        put_all(first, KEYS, "old")
        wait_until(lambda: stats(cluster, "quoit_keys") == [len(KEYS)] * 3, "all to have all")
        third.kill()
        overwrite(first, KEYS, life_seconds=2)
        wait_until(lambda: values(first, KEYS) == [[]] * len(KEYS), "the new values to expire")
        third.start()
        cluster.settle()
        # A majority never returns a value that only a minority has kept.
        for node in cluster:
            self.assertEqual(values(node, KEYS, r=2), [[]] * len(KEYS))
        for node in cluster:
            wait_until(lambda: values(node, KEYS, r=1) == [[]] * len(KEYS), "no old value to be left")
        # A new value has no siblings.
        put_all(first, KEYS, "again")
        self.assertEqual(values(third, KEYS, r=3), [[b"again"]] * len(KEYS))

    def test_what_a_node_has_missed_reaches_it_without_a_read(self):
        # Only hints can bring the values: there are no fallbacks, reads or exchanges.
        cluster = self.cluster(3, ("ring_size=8", "anti_entropy=passive"))
        first, _, third = cluster
        third.kill()
        wait_until(lambda: "down!" in first.run("cluster", "status"), "the death to be seen")
        put_all(first, KEYS, "v")
        self.assertIn("hints for %s: %d records" % (third.name, len(KEYS)),
                      first.run("transfers"))
        third.start()
        wait_until(lambda: stat(third, "quoit_keys") == len(KEYS), "the third to have all")
        wait_until(lambda: "hints for" not in first.run("transfers"), "no hint to be left")
        self.assertEqual(values(third, KEYS, r=1), [[b"v"]] * len(KEYS))

    def test_hints_outlast_the_death_of_their_holder(self):
        cluster = self.cluster(3, ("ring_size=8", "anti_entropy=passive"))
        first, second, third = cluster
        third.kill()
        wait_until(lambda: "down!" in first.run("cluster", "status"), "the death to be seen")
        put_all(first, KEYS, "v")
        hints = os.path.join(first.data_dir, "hints", "HINTS")
        # The file has a header and one line per hint, each of 32 bytes.
        wait_until(lambda: os.path.exists(hints) and
                   os.path.getsize(hints) == 32 * (len(KEYS) + 1), "hints to be on disk")
        first.kill()
        second.kill()
        for node in (third, first, second):
            node.start()
        wait_until(lambda: stat(third, "quoit_keys") == len(KEYS), "the third to have all")

    def test_a_node_that_was_away_under_load_leaves_nothing_to_anti_entropy(self):
        # Exchanges begin only after all hints are delivered. On a slow machine the first exchange would
        # otherwise run during the delivery, and repair records that hints were about to bring.
        cluster = self.cluster(5, ("ring_size=8", "anti_entropy=passive"))
        others, away = cluster.nodes[:4], cluster[4]
        bench = self.bench(others, AWAY_SECONDS + 6)
        self.let_it_run(bench)
        away.stop()
        time.sleep(AWAY_SECONDS)
        kept = cluster[0].run("transfers")
        self.assertRegex(kept, "hints for %s: [1-9]|waiting to handoff" % away.name)
        away.start()
        self.assertIsNone(bench.poll(), "the return was under load, too")
        self.assert_flawless(bench)
        for node in cluster:
            wait_until(lambda: "hints for" not in node.run("transfers"), "no hint to be left")
        cluster.settle()
        for node in cluster:
            node.stop()
        for node in cluster:
            node.settings = ["ring_size=8", "anti_entropy=active"]
            node.start()
        cluster.settle()
        in_sync = compared(cluster, "in_sync_total")
        asked = time.monotonic()
        for node in cluster:
            node.run("aae-exchange")

        def is_compared(node):
            since = time.monotonic() - asked
            agos = [each["all_ago_secs"] for each in node.json("aae-status")["partitions"]]
            return all(ago is not None and ago < since for ago in agos)
        for node in cluster:
            wait_until(lambda: is_compared(node), "all copies to be compared")
        self.assertGreater(compared(cluster, "in_sync_total"), in_sync)
        self.assertEqual(compared(cluster, "keys_repaired_total"), 0)
        self.assert_unharmed(cluster)

    def test_deleted_keys_do_not_return_from_a_node_that_lost_files(self):
        cluster = self.cluster(3, ("ring_size=8", "delete_mode=200"))
        first, _, third = cluster
        put_all(first, KEYS, "v")
        wait_until(lambda: stats(cluster, "quoit_keys") == [len(KEYS)] * 3, "all to have all")
        # The following writes go to segments of their own.
        third.stop()
        third.start()
        store = os.path.join(third.data_dir, "bitcask")
        before = set(os.listdir(store))
        delete_all(first, KEYS)
        wait_until(lambda: stats(cluster, "quoit_keys") == [0] * 3, "all to be reaped")
        third.stop()
        lost = [name for name in os.listdir(store)
                if name.endswith((".log", ".keys")) and name not in before]
        self.assertTrue(lost)
        for name in lost:
            os.remove(os.path.join(store, name))
        third.start()

        def is_whole(node):
            return not node.json("status")["losses"]["incomplete_copies"]
        for node in cluster:
            wait_until(lambda: is_whole(node), "all copies to be whole again")
        for node in cluster:
            node.run("aae-exchange")
        time.sleep(PAST_REAPING_SECONDS)
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[]] * len(KEYS))
        self.assertEqual(stats(cluster, "quoit_keys"), [0] * 3)
        told = first.json("status")["losses"]["possibly_incomplete_partitions"]
        self.assertEqual(told, [], "two copies were whole")

    def test_a_node_alone_that_lost_files_says_so_until_that_is_accepted(self):
        node = self.cluster(1, ("ring_size=8",))[0]
        put_all(node, KEYS, "v")
        node.stop()
        store = os.path.join(node.data_dir, "bitcask")
        for name in os.listdir(store):
            if name.endswith(".log"):
                os.remove(os.path.join(store, name))
        node.start()
        self.assertIn("possibly incomplete : 8 partitions", node.run("status"))
        node.stop()
        node.start()
        self.assertIn("possibly incomplete", node.run("status"))
        node.run("accept-losses")
        self.assertNotIn("possibly incomplete", node.run("status"))
        node.kill()
        node.start()
        self.assertNotIn("possibly incomplete", node.run("status"))

    def test_deleted_keys_do_not_return_with_a_node_that_was_away(self):
        cluster = self.cluster(3, ("ring_size=8", "delete_mode=200"))
        first, second, third = cluster
        keys = ["k%d" % number for number in range(COUNT)]
        put_all(first, keys, "v")
        wait_until(lambda: stats(cluster, "quoit_keys") == [COUNT] * 3, "all to have all")
        # Without obstacles, tombstones are reaped soon.
        put_all(first, ["other"], "v")
        delete_all(first, ["other"])
        wait_until(lambda: stats(cluster, "quoit_keys") == [COUNT] * 3, "a tombstone to be reaped")
        third.kill()
        delete_all(second, keys)
        time.sleep(PAST_REAPING_SECONDS)
        self.assertEqual(stats(cluster, "quoit_tombstones"), [COUNT] * 2)
        third.start()
        for node in cluster:
            self.assertEqual(values(node, keys), [[]] * COUNT)
        wait_until(lambda: stats(cluster, "quoit_keys") == [0] * 3, "all tombstones to be reaped")
        for node in cluster:
            self.assertEqual(values(node, keys), [[]] * COUNT)
        self.assert_unharmed(cluster)

    def test_deleted_keys_do_not_return_with_former_replicas_of_a_bucket_type(self):
        cluster = self.cluster(5, ("ring_size=8", "delete_mode=200", "anti_entropy=passive"))
        first, second = cluster.nodes[:2]
        first.create_bucket_type("t", {"n_val": 5})
        keys = ["k%d" % number for number in range(100)]
        with Connection(first.pb) as pb:
            for key in keys:
                pb.call("RpbPutReq", type="t", bucket="b", key=key, content={"value": "v"}, w=5)
        first.run("bucket-type", "update", "t", '{"props": {"n_val": 3}}')
        with Connection(second.pb) as pb:
            for key in keys:
                pb.call("RpbDelReq", type="t", bucket="b", key=key)
        wait_until(lambda: stats(cluster, "quoit_keys") == [0] * 5, "all to be gone everywhere")
        for node in cluster:
            node.stop()
        for node in cluster:
            node.start()
        cluster.settle()
        time.sleep(PAST_REAPING_SECONDS)
        self.assertEqual(stats(cluster, "quoit_keys"), [0] * 5)
        for node in cluster:
            with Connection(node.pb) as pb:
                for key in keys:
                    got = pb.call("RpbGetReq", type="t", bucket="b", key=key)
                    self.assertEqual(got.get("content", []), [], key)
        self.assert_unharmed(cluster)

    def test_deleted_keys_do_not_return_under_load_while_the_layout_changes(self):
        cluster = self.cluster(3, ("ring_size=8", "delete_mode=200"))
        first, second, third = cluster
        keys = ["k%d" % number for number in range(COUNT)]
        put_all(first, keys, "v")
        third.kill()
        bench = self.bench((first, second), 25)
        self.let_it_run(bench)
        delete_all(second, keys)
        fourth = cluster.add()
        fourth.join(first)
        wait_until(cluster.joining_are_up, "the fourth to be reached")
        first.run("cluster", "plan")
        first.run("cluster", "commit")
        time.sleep(PAST_REAPING_SECONDS)
        third.start()
        for node in cluster:
            self.assertEqual(values(node, keys), [[]] * COUNT)
        self.assertIsNone(bench.poll(), "the changes outlasted the run")
        self.assert_flawless(bench)
        cluster.settle()
        self.wait_until_reaped(cluster)
        for node in cluster:
            self.assertEqual(values(node, keys), [[]] * COUNT)
        self.assert_unharmed(cluster)

    def wait_until_reaped(self, cluster):
        """Waits until no node has tombstones. A tombstone on which the primaries do not agree is checked
        again every ten seconds."""
        left = []

        def is_reaped():
            left[:] = stats(cluster, "quoit_tombstones")
            return not any(left)

        try:
            wait_until(is_reaped, "no tombstone to be left", seconds=REAPED_SECONDS)
        except NodeError as error:
            said = " ".join(node.run("transfers") for node in cluster).split()
            raise NodeError("%s: the nodes have %s, and say: %s" %
                            (error, left, " ".join(said))) from error


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
