"""Tests of real clusters with flapping links, hanging disks, and clients that race for one version."""
import collections
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import preload, unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, stats, values  # noqa: E402
from support.hanging_disk import HangingDisk  # noqa: E402
from support.links import Links  # noqa: E402
from support.pb import Connection, Refused, replay  # noqa: E402

WITHOUT_COMPILER = "no C compiler (cc) on this machine, so %s was not tested"
RACE_SECONDS = 8
RACED_KEYS = ["k%d" % number for number in range(4)]
RACERS = 9
# Longer than a tombstone of these tests stays if nothing prevents its reaping.
PAST_REAPING_SECONDS = 5
FLAP_SECONDS = 12
FLAPPED_WRITERS = 10
# A put that is answered within this time, while no connection is cut, was not forwarded to a second node,
# and has certainly one event (docs/decisions/0032). The value of another put may be there twice, and
# outlive a delete.
SWIFT_SECONDS = 0.04
# Time within which a link that is to be cut is certainly cut.
CUTTING_SECONDS = 0.1


class Client:
    """A client that changes to another node when one does not answer."""

    def __init__(self, cluster, number):
        self.cluster = cluster
        self.random = random.Random(number)
        self.pb = None

    def call(self, message, **fields):
        """Returns the answer; None if the outcome is unknown."""
        try:
            if self.pb is None:
                self.pb = Connection(self.random.choice(self.cluster.nodes).pb, 10)
            return self.pb.call(message, **fields)
        except Refused:
            raise
        except (replay.UnreadableAnswer, OSError):
            self.leave()
            return None

    def leave(self):
        """Closes the connection, so that the next call may go to any node."""
        if self.pb is not None:
            self.pb.wire.close()
            self.pb = None


def run_all(clients, seconds):
    """Starts the clients' threads, which end after that many seconds. Returns the threads."""
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=client.run, args=(end,)) for client in clients]
    for thread in threads:
        thread.start()
    return threads


class Racer(Client):
    """Writes conditionally on the version that it has just read."""

    def __init__(self, cluster, number):
        super().__init__(cluster, number)
        self.name = number
        # The acknowledged writes: (key, values that the write was based on).
        self.acknowledged = []
        self.refused = 0

    def run(self, end):
        count = 0
        while time.monotonic() < end:
            count += 1
            try:
                self.write(self.random.choice(RACED_KEYS), "%d-%d" % (self.name, count))
            except Refused as refusal:
                self.refused += "modified" in str(refusal) or "match_found" in str(refusal)
            if count % 20 == 0:
                self.leave()
        self.leave()

    def write(self, key, value):
        read = self.call("RpbGetReq", type="strict", bucket="b", key=key)
        if read is None:
            return
        based_on = tuple(sorted(content["value"] for content in read.get("content", [])))
        condition = {"if_none_match": True}
        if based_on:
            condition = {"if_not_modified": True, "vclock": read["vclock"]}
        answer = self.call("RpbPutReq", type="strict", bucket="b", key=key,
                           content={"value": value}, **condition)
        if answer is not None:
            self.acknowledged.append((key, based_on))


class Conditions(ClusterCase):
    def test_of_writes_on_one_version_one_is_acknowledged_while_nodes_die(self):
        cluster = self.cluster(3)
        cluster[0].create_bucket_type("strict", {"conditional_put_mode": "require_token",
                                                 "allow_mult": True})
        racers = [Racer(cluster, number) for number in range(RACERS)]
        threads = run_all(racers, RACE_SECONDS)
        for node in (cluster[2], cluster[1]):
            time.sleep(RACE_SECONDS / 8)
            node.kill()
            time.sleep(RACE_SECONDS / 8)
            node.start()
        for thread in threads:
            thread.join()
        counts = collections.Counter(each for racer in racers for each in racer.acknowledged)
        self.assertEqual([each for each, count in counts.items() if count > 1], [])
        self.assertGreater(len(counts), 50, "versions were written")
        self.assertGreater(sum(racer.refused for racer in racers), 20, "writers met")
        self.assert_unharmed(cluster)


class Disks(ClusterCase):
    @unittest_runner.unittest.skipUnless(preload.compiler(), WITHOUT_COMPILER % "a hanging disk")
    def test_deleted_keys_do_not_return_from_a_disk_that_hung_until_its_power_failed(self):
        cluster = self.cluster(0, ("ring_size=8", "delete_mode=200"))
        first, _, third = (cluster.new() for _ in range(3))
        disk = HangingDisk(self.folder, third)
        for node in cluster:
            node.start()
        cluster.join(*cluster.nodes[1:])
        with Connection(first.pb) as pb:
            for key in KEYS:
                pb.put("b", key, "v", dw=3)
        disk.hang()
        with Connection(first.pb) as pb:
            for key in KEYS:
                pb.call("RpbDelReq", bucket="b", key=key, dw=2)
        time.sleep(PAST_REAPING_SECONDS)
        self.assertEqual(values(first, KEYS), [[]] * len(KEYS))
        disk.lose_power()
        third.start()
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[]] * len(KEYS))
        wait_until(lambda: stats(cluster, "quoit_keys") == [0] * 3, "all to be reaped")
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[]] * len(KEYS))
        self.assert_unharmed(cluster)


def living(read):
    """Returns the values of an answer that are not tombstones."""
    return [content["value"] for content in read.get("content", []) if content["value"]]


class Writer(Client):
    """Puts values to keys of its own without reading them, and deletes values that it has read."""

    def __init__(self, cluster, number):
        super().__init__(cluster, number)
        self.keys = ["w%d-%d" % (number, key) for key in range(5)]
        # By key, the values that must be there, and those that a delete has removed.
        self.kept = {key: set() for key in self.keys}
        self.deleted = {key: set() for key in self.keys}
        self.puts = 0
        # By value, the begin and end of each put of this client that was answered quickly.
        self.swift = {}

    def run(self, end):
        while time.monotonic() < end:
            key = self.random.choice(self.keys)
            try:
                if self.random.random() < 0.15:
                    self.delete(key)
                else:
                    self.put(key)
            except Refused:
                pass
            if self.random.random() < 0.05:
                self.leave()
        self.leave()

    def put(self, key):
        self.puts += 1
        value = b"%d" % self.puts
        began = time.monotonic()
        answer = self.call("RpbPutReq", type="siblings", bucket="b", key=key,
                           content={"value": value})
        ended = time.monotonic()
        if answer is not None:
            self.kept[key].add(value)
            if ended - began < SWIFT_SECONDS:
                self.swift[value] = (began, ended)

    def delete(self, key):
        read = self.call("RpbGetReq", type="siblings", bucket="b", key=key)
        if not read or "vclock" not in read:
            return
        seen = set(living(read))
        # Without an answer to the delete, the values may or may not be there.
        self.kept[key] -= seen
        answer = self.call("RpbDelReq", type="siblings", bucket="b", key=key, vclock=read["vclock"])
        if answer is not None:
            self.deleted[key] |= seen


class Flapping(ClusterCase):
    @unittest_runner.unittest.skipUnless(preload.compiler(), WITHOUT_COMPILER % "a flapping link")
    def test_links_that_flap_lose_no_write_double_none_and_undo_no_delete(self):
        cluster = self.cluster(0, ("ring_size=8", "delete_mode=200"))
        nodes = [cluster.new() for _ in range(5)]
        links = Links(self.folder, nodes)
        self.addCleanup(links.stop)
        for node in nodes:
            node.start()
        cluster.join(*nodes[1:])
        nodes[0].create_bucket_type("siblings", {"allow_mult": True})
        writers = [Writer(cluster, number) for number in range(FLAPPED_WRITERS)]
        threads = run_all(writers, FLAP_SECONDS)
        self.flap(links, threads)
        for thread in threads:
            thread.join()
        cluster.settle()
        for node in nodes:
            wait_until(lambda: "hints for" not in node.run("transfers"), "no hint to be left")
        swift_count = 0
        for writer in writers:
            once = {value for value, (began, ended) in writer.swift.items()
                    if not any(began - CUTTING_SECONDS < cut < ended for cut in links.cut_at)}
            swift_count += len(once)
            for key in writer.keys:
                self.assert_right(nodes, key, writer.kept[key], writer.deleted[key] & once, once)
        self.assertGreater(swift_count, 500, "enough could be looked at")
        self.assert_unharmed(cluster)

    def flap(self, links, threads):
        """Cuts and stalls links for a moment each, as long as a thread runs."""
        chance = random.Random(1)
        between = list(links.between.values())
        while any(thread.is_alive() for thread in threads):
            some = chance.sample(between, 3)
            for link in some:
                chance.choice((links.cut, links.stall))(link)
            time.sleep(chance.uniform(0.02, 0.6))
            for link in some:
                links.mend(link)
            time.sleep(chance.uniform(0, 0.2))

    def assert_right(self, nodes, key, kept, deleted, once):
        """Checks the values of a key on all nodes: values that must be there, values that must be gone,
        and values that must not be there twice."""
        for node in nodes:
            with Connection(node.pb) as pb:
                there = living(pb.call("RpbGetReq", type="siblings", bucket="b", key=key, r=3))
            counts = collections.Counter(there)
            doubled = [value for value, count in counts.items() if count > 1 and value in once]
            self.assertEqual(doubled, [], "%s has values under two events" % key)
            self.assertEqual(kept - set(there), set(), "%s has lost writes" % key)
            self.assertEqual(deleted & set(there), set(), "%s has values back" % key)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
