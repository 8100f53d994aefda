"""Tests of transfers between real nodes: shown, slowed, stopped, interrupted."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, put_all, values  # noqa: E402
from support.filling import fill  # noqa: E402

# A rate at which transfers last long enough to be observed.
SLOW = "4KB"


class Operators(ClusterCase):
    def growing(self):
        """Returns three nodes, and a fourth that has just joined and receives its data slowly."""
        cluster = self.cluster(3)
        put_all(cluster[0], KEYS, "v" * 1000)
        fourth = cluster.add()
        fourth.join(cluster[0])
        wait_until(cluster.joining_are_up, "the fourth to be reached")
        self.assertIn("Setting transfer rate to %s across the cluster" % SLOW,
                      cluster[1].run("transfer-rate", SLOW))
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")
        return cluster

    def test_transfers_are_seen_from_any_node_and_stopped_and_let_go_on(self):
        cluster = self.growing()
        fourth = cluster[3]
        page = []

        def moves():
            page[:] = [fourth.run("transfers")]
            return "===> %s" % fourth.name in page[0]
        wait_until(moves, "a transfer to be on its way")
        self.assertRegex(page[0], r"test\d@127.0.0.1 waiting to handoff \d+ partitions")
        self.assertRegex(page[0], r"rate: [\d.]+ .?B/s, left: ")
        self.assertRegex(page[0], r"\|#* *\| [\d.]+%")
        self.assertRegex(cluster[1].run("handoff", "summary"), r"test\d@127.0.0.1 +\d / \d")
        self.assertIn(fourth.name, cluster[1].run("handoff", "details", "-a"))

        said = cluster[2].run("handoff", "disable", "both", "--all")
        self.assertEqual(said.count(" off"), 2 * 4, said)
        wait_until(lambda: "No ongoing transfers" in cluster[0].run("handoff", "details", "-a"),
                   "the transfers to stop")
        before = fourth.json("transfers")["bytes_total"]
        cluster[0].run("transfer-rate", "0")
        self.assertIn("unlimited", cluster[3].run("transfer-rate"))
        self.assertEqual(fourth.json("transfers")["bytes_total"], before)

        cluster[3].run("handoff", "enable", "both", "--all")
        cluster.settle()
        wait_until(lambda: "No transfers active" in cluster[1].run("transfers"),
                   "what is looked into after a change of layouts to be done")
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[b"v" * 1000]] * len(KEYS))

    def test_limits_are_set_for_one_node_or_all_and_told_by_any(self):
        cluster = self.cluster(3)
        first, second, third = cluster
        self.assertIn("Set transfer limit for %s to 7" % second.name,
                      first.run("transfer-limit", second.name, "7"))
        limits = {each["node"]: each["limit"] for each in third.json("transfer-limit")["nodes"]}
        self.assertEqual(limits, {first.name: 2, second.name: 7, third.name: 2})
        self.assertIn("Setting transfer limit to 4 across the cluster",
                      first.run("transfer-limit", "4"))
        third.kill()
        page = second.run("transfer-limit")
        self.assertRegex(page, r"4 +%s" % first.name)
        wait_until(lambda: "offline      %s" % third.name in first.run("transfer-limit"),
                   "the silence to be told")
        self.assertIn("does not answer", self.refusal(first, "transfer-limit", third.name, "3"))
        self.assertIn("from 1 to 1000", self.refusal(first, "transfer-limit", "0"))
        self.assertIn("%s does not have" % third.name, first.run("transfers"))

    def test_older_forms_change_the_cluster_at_once_but_only_with_f(self):
        cluster = self.cluster(3)
        fourth = cluster.add()
        self.assertIn("-f", self.refusal(fourth, "join", cluster[0].record["node"]))
        self.assertIn("committed", fourth.run("join", "-f", cluster[0].record["node"]))
        cluster.settle()
        self.assertIn("Valid:4 ", cluster[1].run("member-status"))
        put_all(fourth, KEYS, "v")
        self.assertIn("-f", self.refusal(fourth, "leave"))
        self.assertIn("committed", fourth.run("leave", "-f"))
        self.assertEqual(fourth.process.wait(60), 0, fourth.log_tail())
        self.assertEqual(values(cluster[0], KEYS), [[b"v"]] * len(KEYS))
        cluster[2].kill()
        self.assertIn("committed", cluster[0].run("force-remove", "-f", cluster[2].name))
        wait_until(lambda: "Valid:2 " in cluster[0].run("member-status"), "two to be left")
        self.assertEqual(values(cluster[0], KEYS), [[b"v"]] * len(KEYS))


class Interrupted(ClusterCase):
    def test_nodes_killed_again_and_again_while_data_moves_lose_nothing(self):
        cluster = self.cluster(3, ("ring_size=8", "transfer_rate=6KB"))
        keys = ["k%d" % number for number in range(300)]
        put_all(cluster[0], keys, "v" * 500)
        fourth = cluster.add()
        fourth.join(cluster[0])
        wait_until(cluster.joining_are_up, "the fourth to be reached")
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")
        interrupted = 0
        # Senders, the receiver, and both again, each in the middle of a transfer.
        for victim in (cluster[1], fourth, cluster[2], fourth, cluster[0]):
            before = bytes_moved(cluster)
            wait_until(lambda: bytes_moved(cluster) != before or not pending(cluster[0]),
                       "something to be moved")
            interrupted += bool(pending(cluster[0]))
            victim.kill()
            victim.start()
        self.assertGreaterEqual(interrupted, 2)
        for node in cluster:
            node.run("wait-for-service", "riak_kv", node.name)
        cluster[0].run("transfer-rate", "0")
        cluster.settle()
        for node in cluster:
            self.assertEqual(values(node, keys, pr=3), [[b"v" * 500]] * len(keys))
        self.assert_unharmed(cluster)


class FullDisk(ClusterCase):
    def setUp(self):
        super().setUp()
        if subprocess.run(SMALL_DISK + ["true", self.folder], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this machine lets nobody mount a small disk in a namespace of its own")

    def test_a_node_whose_disk_is_full_costs_no_write_and_has_them_all_when_there_is_room(self):
        cluster = self.cluster(3)
        full = cluster.new()
        os.mkdir(full.data_dir)
        full.prefix = SMALL_DISK + ["exec", full.data_dir]
        full.start()
        cluster.join(full)
        put_all(cluster[0], KEYS, "before")
        # The disk is visible only inside the node's mount namespace.
        junk = "/proc/%d/root%s/junk" % (full.process.pid, full.data_dir)
        fill(junk)
        for turn in range(4):
            for node in list(cluster)[:3]:
                put_all(node, KEYS, ("%d" % turn) * 50000)
        now = [[b"3" * 50000]] * len(KEYS)
        for node in cluster:
            self.assertEqual(values(node, KEYS), now, node.name)
        self.assertIn("disk full", full.log_tail(1000))
        os.unlink(junk)
        cluster.settle()
        for node in cluster:
            self.assertEqual(values(node, KEYS, pr=3), now, node.name)
        self.assert_unharmed(cluster)


# Runs the words after the first two. The first one is `exec`, or another word to mount only; the second one
# is the mount point of the disk.
SMALL_DISK = ["unshare", "-rm", "sh", "-c",
              'mount -t tmpfs -o size=48m none "$1" && if [ "$0" = exec ]; then shift; exec "$@"; fi']


def bytes_moved(cluster):
    """Returns the number of bytes that all nodes have transferred, each since its start."""
    return cluster[0].json("transfers")["bytes_total"]


def pending(node):
    return node.json("ring-status")["pending"]


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
