"""Tests of large sets between clusters of real processes: the clusters send changes, not whole sets."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.replicating import Clusters, consume, repl, status, waiting  # noqa: E402

MEMBERS = [b"member %d" % number for number in range(5000)]
# Less than the stored size of a set with all members.
SET_BYTES = 60_000
CHANGES = 40


class Deltas(unittest.TestCase):
    """Clusters of five and two nodes, linked in both directions. Some nodes of the first are not
    replicas of a set."""

    @classmethod
    def setUpClass(cls):
        clusters = Clusters(cls.addClassCleanup)
        cls.one, cls.other = clusters.start("one", 5, 16), clusters.start("other", 2, 8)
        for made in (cls.one, cls.other):
            made[0].create_bucket_type("sets", {"datatype": "set"})
        consume(cls.one, cls.other)
        consume(cls.other, cls.one)

    def update(self, node, key, **changes):
        with Connection(node.pb) as pb:
            pb.call("DtUpdateReq", bucket="b", key=key, type="sets", op={"set_op": changes})

    def remove(self, node, key, members, seen_at=None):
        """Removes the elements that a reader of a node has seen."""
        with Connection((seen_at or node).pb) as pb:
            context = pb.call("DtFetchReq", bucket="b", key=key, type="sets")["context"]
        with Connection(node.pb) as pb:
            pb.call("DtUpdateReq", bucket="b", key=key, type="sets", context=context,
                    op={"set_op": {"removes": members}})

    def members(self, node, key):
        with Connection(node.pb) as pb:
            fields = pb.call("DtFetchReq", bucket="b", key=key, type="sets")
        return set(fields.get("value", {}).get("set_value", []))

    def settle(self, key, members):
        """Waits until all nodes have these members, and no entry waits in a queue."""
        for node in self.one.nodes + self.other.nodes:
            wait_until(lambda node=node: self.members(node, key) == members,
                       "%d members at %s" % (len(members), node.name))
        wait_until(lambda: waiting(self.one) == waiting(self.other) == 0, "all to be across")

    def sent_bytes(self):
        """Returns the number of bytes that the queues of both clusters have sent."""
        queues = [queue for node in self.one.nodes + self.other.nodes
                  for queue in status(node)["source"]["queues"] if queue["name"] == "out"]
        return sum(queue["consumed_bytes_total"] for queue in queues)

    def test_a_change_of_a_large_set_costs_the_same_as_of_a_small_one(self):
        self.update(self.one[0], "cost", adds=MEMBERS)
        self.settle("cost", set(MEMBERS))
        before, added = self.sent_bytes(), set()
        # All nodes coordinate, even those without a copy. At first none of them has made an event.
        for number in range(CHANGES):
            nodes = self.one.nodes if number % 2 else self.other.nodes
            member = b"added %d" % number
            self.update(nodes[number // 2 % len(nodes)], "cost", adds=[member])
            added.add(member)
        self.remove(self.other[0], "cost", MEMBERS[:10])
        self.settle("cost", set(MEMBERS[10:]) | added)
        # A whole object is sent if deltas of other nodes are late, and after the set was split into pages.
        self.assertLess(self.sent_bytes() - before, CHANGES * SET_BYTES // 8)

    def test_concurrent_changes_deletes_and_new_sets_are_exact(self):
        self.update(self.one[1], "both", adds=MEMBERS)
        self.settle("both", set(MEMBERS))
        for cluster in (self.one, self.other):
            repl(cluster[0], "sink", "suspend", "out", "--all")
        self.remove(self.one[0], "both", MEMBERS[:100])
        self.update(self.other[0], "both", adds=MEMBERS[50:60] + [b"other"])
        self.update(self.one[2], "both", adds=[b"one"])
        for cluster in (self.one, self.other):
            repl(cluster[0], "sink", "resume", "out", "--all")
        self.settle("both", set(MEMBERS[50:60] + MEMBERS[100:] + [b"one", b"other"]))
        with Connection(self.other[1].pb) as pb:
            pb.call("RpbDelReq", bucket="b", key="both", type="sets")
        self.settle("both", set())
        self.update(self.one[3], "both", adds=[b"again"])
        self.settle("both", {b"again"})
        self.update(self.other[0], "both", adds=MEMBERS)
        self.settle("both", set(MEMBERS) | {b"again"})

    def test_a_set_of_100_000_is_changed_in_both_clusters_at_once(self):
        many = [b"%06d" % number for number in range(100_000)]
        self.update(self.one[0], "many", adds=many)
        self.settle("many", set(many))
        before = self.sent_bytes()
        repl(self.other[0], "sink", "suspend", "out", "--all")
        added = [b"late %d" % number for number in range(4)]
        for member in added:
            self.update(self.one[2], "many", adds=[member])
        # A reader of one cluster removes elements in the other one, to which they may not have come yet.
        self.remove(self.other[1], "many", added[:2] + many[:2], seen_at=self.one[1])
        repl(self.other[0], "sink", "resume", "out", "--all")
        self.settle("many", set(many[2:] + added[2:]))
        self.assertLess(self.sent_bytes() - before, 100_000)

    def test_a_cluster_that_lacks_a_change_gets_the_set(self):
        self.update(self.other[0], "gap", adds=MEMBERS)
        self.settle("gap", set(MEMBERS))
        # A node with a copy makes both changes, so that the later one shows that a change is missing.
        repl(self.other[0], "queue", "suspend", "out")
        self.update(self.other[0], "gap", adds=[b"dropped"])
        repl(self.other[0], "queue", "resume", "out")
        self.assertNotIn(b"dropped", self.members(self.one[0], "gap"))
        self.update(self.other[0], "gap", adds=[b"later"])
        self.settle("gap", set(MEMBERS) | {b"dropped", b"later"})

    def test_changes_outlast_sigkill_of_source_and_sink(self):
        self.update(self.one[0], "killed", adds=MEMBERS)
        self.settle("killed", set(MEMBERS))
        repl(self.other[0], "sink", "suspend", "out", "--all")
        added = [b"queued %d" % number for number in range(CHANGES)]
        for member in added:
            self.update(self.one[0], "killed", adds=[member])
        before = self.sent_bytes()
        self.one[0].kill()
        self.one[0].start()
        repl(self.other[0], "sink", "resume", "out", "--all")
        self.other[1].kill()
        self.other[1].start()
        self.settle("killed", set(MEMBERS + added))
        self.assertLess(self.sent_bytes() - before, CHANGES * SET_BYTES // 8)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
