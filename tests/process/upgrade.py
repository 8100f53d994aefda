"""A cluster of an older build is upgraded node by node: `cargo xtask soak --upgrade-from REVISION`.

TEST_BINARY names the program under test, TEST_OLDER_BINARY the program that the cluster runs at
first.
"""
import json
import os
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, put_all, values  # noqa: E402
from support.node import NodeError, binary_from_environment  # noqa: E402

# Longer than the upgrade takes.
LOAD_SECONDS = 40


class FromAnOlderBuild(ClusterCase):
    def test_nodes_are_upgraded_one_by_one_under_load_and_nothing_is_lost(self):
        cluster = self.cluster(5, binary=os.environ["TEST_OLDER_BINARY"])
        put_all(cluster[0], KEYS, "older")
        added = ["%s-%d" % (age, turn) for age in ("older", "mixed") for turn in range(300)]
        knew_sets = self.knows_sets(cluster[0])
        if knew_sets:
            self.add(cluster[0], added[:300])
        bench = self.bench(cluster, LOAD_SECONDS)
        self.let_it_run(bench)
        for done, node in enumerate(cluster):
            self.assertEqual(node.stop(), 0, node.log_tail())
            node.binary = binary_from_environment()
            node.start()
            node.run("wait-for-service", "riak_kv", node.name)
            cluster.settle()
            if knew_sets:
                # The requests go to nodes of both builds in turn.
                for asked, each in zip(list(cluster) * 12, added[300 + done * 60:360 + done * 60]):
                    self.add(asked, [each])
        self.assertIsNone(bench.poll(), "the upgrade outlasted the run")
        wait_until(lambda: len(self.versions(cluster[4])) == 1, "the upgrade to be known")
        newest = self.versions(cluster[4])
        if not knew_sets:
            cluster[0].create_bucket_type("sets", {"datatype": "set"})
            self.add(cluster[0], added)
        self.assert_flawless(bench)
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[b"older"]] * len(KEYS))
            self.assertEqual(self.elements(node), sorted(added))
        self.assert_unharmed(cluster)
        print("all members speak versions %d to %d now; data types before: %s"
              % (*newest.pop(), "yes" if knew_sets else "no"))

    def knows_sets(self, node):
        try:
            node.create_bucket_type("sets", {"datatype": "set"})
            return True
        except NodeError:
            return False

    def versions(self, node):
        """Returns the versions of the internode protocol that the members speak, as a node knows them."""
        members = node.json("member-status")["members"]
        return {tuple(member["protocol_versions"]) for member in members}

    def add(self, node, elements):
        body = json.dumps({"add_all": elements}).encode()
        request = urllib.request.Request(self.resource(node), body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            self.assertIn(answer.status, (200, 204))

    def elements(self, node):
        with urllib.request.urlopen(self.resource(node), timeout=20) as answer:
            return sorted(json.load(answer)["value"])

    def resource(self, node):
        return node.url + "/types/sets/buckets/b/datatypes/k"


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
