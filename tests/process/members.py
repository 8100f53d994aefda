"""Tests of members of real clusters that die while they join or leave, or come back with another
identity."""
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import shifted_clock, unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, put_all, values  # noqa: E402
from support.pb import Connection, Refused, replay  # noqa: E402


def members(node):
    """Returns the members that a node knows, by name."""
    with urllib.request.urlopen(node.url + "/admin/v1/cluster", timeout=10) as answer:
        return {member["name"]: member for member in json.load(answer)["members"]}


class Dying(ClusterCase):
    def exiting(self):
        """Returns four nodes, the last of which died after it had handed over its data."""
        cluster = self.cluster(4)
        put_all(cluster[0], KEYS, "v")
        leaving = cluster[3]
        leaving.run("cluster", "leave")
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")

        def exits():
            member = members(cluster[0])[leaving.name]
            return member["status"] == "exiting" and member["ring_percent"] == 0
        wait_until(exits, "the node to have handed over its data")
        leaving.kill()
        return cluster

    def growing(self, cluster):
        """Returns a fifth node, whose joining is committed."""
        fifth = cluster.add()
        fifth.join(cluster[0])
        wait_until(cluster.joining_are_up, "the fifth to be reached")
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")
        return fifth

    def test_a_member_that_died_while_exiting_is_marked_as_down_and_goes_when_it_is_back(self):
        cluster = self.exiting()
        dead, fifth = cluster[3], self.growing(cluster)
        page = cluster[0].run("ring-status")
        self.assertIn("unreachable: %s" % dead.name, page)
        self.assertIn("quoit admin down NODE", page)
        self.assertIn("marked as down", cluster[0].run("down", dead.name))
        wait_until(lambda: "No pending changes" in cluster[0].run("ring-status"),
                   "the change to be done without the dead member")
        self.assertIn("down, exiting", cluster[0].run("cluster", "status"))
        self.assertGreater(members(cluster[0])[fifth.name]["ring_percent"], 0)
        self.assertEqual(values(fifth, KEYS, pr=3), [[b"v"]] * len(KEYS))
        # The node learns that it has left, and exits with status 0.
        dead.launch()
        self.assertEqual(dead.process.wait(60), 0, dead.log_tail())
        wait_until(lambda: dead.name not in members(cluster[0]), "the member to be gone")

    def test_a_member_that_died_while_exiting_can_be_removed_by_force(self):
        cluster = self.exiting()
        dead, fifth = cluster[3], self.growing(cluster)
        cluster[0].run("cluster", "force-remove", dead.name)
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")
        wait_until(lambda: "No pending changes" in cluster[0].run("ring-status"),
                   "the change to be done without the dead member")
        self.assertNotIn(dead.name, members(cluster[0]))
        self.assertEqual(values(fifth, KEYS, pr=3), [[b"v"]] * len(KEYS))
        self.assert_unharmed([node for node in cluster if node is not dead])


class Wiped(ClusterCase):
    def wipe(self, node):
        """Kills a node and deletes its data."""
        node.kill()
        shutil.rmtree(node.data_dir)

    def seeds(self, cluster):
        return "cluster.seeds=" + ",".join(node.record["node"] for node in cluster)

    def test_a_member_that_lost_its_data_waits_with_seeds_and_is_replaced(self):
        cluster = self.cluster(3)
        put_all(cluster[0], KEYS, "v")
        first, second, wiped = cluster
        wiped.settings.append(self.seeds(cluster))
        wiped.stop()
        wiped.start()
        self.assertEqual(values(wiped, KEYS), [[b"v"]] * len(KEYS), "a start with its data")
        self.wipe(wiped)
        ready_path = wiped.launch()
        wait_until(lambda: "with another identity" in wiped.log_tail(100),
                   "the node to say what it lacks")
        self.assertIn("does not serve clients", wiped.log_tail(100))
        self.assertFalse(os.path.exists(ready_path))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(wiped.url + "/ping", timeout=10)
        self.assertEqual(refused.exception.code, 503)
        self.assertIn("has a member %s" % wiped.name, refused.exception.read().decode())
        with Connection(wiped.pb) as pb, self.assertRaisesRegex(Refused, "does not serve clients"):
            pb.put("b", "lost", "w")
        put_all(first, ["meanwhile"], "w")
        self.assertEqual(values(second, ["lost", "meanwhile"]), [[], [b"w"]])
        self.assertIn("start this one with another --name",
                      self.refusal(wiped, "cluster", "join", first.record["node"]))
        # The other nodes notice the change, and log it once.
        told = "the address of that node has changed, or it has lost its data"
        for other in (first, second):
            wait_until(lambda: told in other.log_tail(1000), "the others to know")
        lines = [line for line in first.log_tail(10000).splitlines() if told in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("down!", first.run("cluster", "status"))
        self.assertFalse(os.path.exists(ready_path), "it serves by itself")

        wiped.kill()
        fourth = cluster.new([self.seeds(cluster), "ring_size=8"])
        fourth.launch()
        fourth.record = {name: fourth.flags[fourth.flags.index("--" + name) + 1]
                         for name in ("pb", "http", "node")}
        wait_until(lambda: "cluster join" in fourth.log_tail(100), "the new node to wait")
        fourth.join(first)
        wait_until(lambda: os.path.exists(os.path.join(fourth.folder_above, "ready.json")),
                   "the new node to serve")
        first.run("cluster", "force-replace", wiped.name, fourth.name)
        cluster.commit()
        self.assertEqual(values(fourth, KEYS, pr=3), [[b"v"]] * len(KEYS))
        self.assertEqual(values(fourth, ["meanwhile"], pr=3), [[b"w"]])

    def test_without_seeds_a_node_with_an_empty_directory_says_what_it_is(self):
        cluster = self.cluster(3)
        put_all(cluster[0], KEYS, "v")
        wiped = cluster[2]
        self.wipe(wiped)
        wiped.start()
        self.assertEqual(values(wiped, KEYS), [[]] * len(KEYS), "it serves alone")
        put_all(wiped, ["astray"], "w")
        self.assertEqual(values(cluster[0], ["astray", *KEYS]), [[], *[[b"v"]] * len(KEYS)])
        warnings = [line for line in wiped.log_tail(10000).splitlines()
                    if "is a new node now" in line]
        self.assertEqual(len(warnings), 2, "its first start, and the one without its data")
        self.assertIn(" WARN ", warnings[1])
        self.assertIn("force-replace %s NEW-NAME" % wiped.name, warnings[1])
        wiped.stop()
        wiped.start()
        self.assertEqual(wiped.log_tail(10000).count("is a new node now"), 2)


class Clocks(ClusterCase):
    def setUp(self):
        super().setUp()
        if shifted_clock.compiler() is None:
            self.skipTest("there is no C compiler (cc) on this machine to make a wrong clock with")

    def acknowledged(self, node):
        """Returns the number of puts that a node acknowledges until it ends."""
        count = 0
        while node.is_running():
            try:
                with Connection(node.pb, timeout=2) as pb:
                    pb.put("b", "wrong%d" % count, "w", type="last")
                    count += 1
            except (OSError, Refused, replay.UnreadableAnswer):
                time.sleep(0.01)
        return count

    def test_a_node_with_a_wrong_clock_acknowledges_nothing_before_it_stops(self):
        cluster = self.cluster(3)
        cluster[0].create_bucket_type("last", {"last_write_wins": True, "allow_mult": False,
                                                "dvv_enabled": False})
        wrong = cluster[2]
        wait_until(lambda: "last is active" in wrong.admin("bucket-type", "status", "last").stdout,
                   "it to know the type")
        for hours in (1, -1):
            wrong.stop()
            wrong.environment = shifted_clock.environment(self.folder, hours * 3600)
            wrong.launch()
            self.assertEqual(self.acknowledged(wrong), 0, wrong.log_tail())
            self.assertEqual(wrong.process.returncode, 1, wrong.log_tail())
            self.assertIn("does not serve clients: its clock differs from", wrong.log_tail(100))
        wrong.environment = {}
        wrong.start()
        with Connection(wrong.pb) as pb:
            pb.put("b", "k", "right", type="last")
        with Connection(cluster[0].pb) as pb:
            self.assertEqual(pb.get("b", "k", type="last", r=3), [b"right"])

    def test_a_node_that_no_other_answers_serves_after_a_moment_and_says_so(self):
        cluster = self.cluster(2)
        for node in cluster:
            node.stop()
        cluster[0].start()
        put_all(cluster[0], ["k"], "v")
        self.assertIn("no other member has reported its time", cluster[0].log_tail(100))
        self.assertNotIn("behind what it was", cluster[0].log_tail(100))
        cluster[0].stop()
        cluster[0].environment = shifted_clock.environment(self.folder, -3600)
        cluster[0].start()
        self.assertIn("s behind what it was when this node ran last", cluster[0].log_tail(100))


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
