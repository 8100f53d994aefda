"""Tests of real clusters: nodes that die, stall, restart, come back changed or belong to another
cluster."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import shifted_clock, unittest_runner  # noqa: E402
from support.cluster import ClusterNode, wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, end, put_all, values  # noqa: E402
from support.node import binary_from_environment, copy_data  # noqa: E402
from support.pb import Connection, Refused  # noqa: E402

# Time limit of a request when a node is down or stalled. Debug builds run on busy machines.
PROMPT_SECONDS = 10
# Longer than the interval of any repeated log message. The longest is the minute over which repeated lines
# are counted.
LONGEST_INTERVAL_SECONDS = 70


class Together(ClusterCase):
    def test_five_nodes_are_one_store_and_say_so(self):
        cluster = self.cluster(5)
        put_all(cluster[0], KEYS, "v")
        for node in cluster:
            self.assertEqual(values(node, KEYS), [[b"v"]] * len(KEYS))
        page = cluster[3].run("member-status")
        self.assertIn("Valid:5 / Leaving:0 / Exiting:0 / Joining:0 / Down:0", page)
        status = cluster[4].json("cluster", "status")
        self.assertEqual([member["availability"] for member in status["members"]], ["up"] * 5)
        self.assertAlmostEqual(sum(each["ring_percent"] for each in status["members"]), 100, 0)
        self.assertIn("TRUE All nodes agree on the ring", cluster[1].run("ringready"))
        self.assertIn("No pending changes.", cluster[2].run("ring-status"))
        wait_until(lambda: "No transfers active" in cluster[2].run("transfers"),
                   "what is looked into after a change of layouts to be done")
        self.assertIn("There are no staged changes", cluster[0].run("cluster", "plan"))
        with urllib.request.urlopen(cluster[0].url + "/stats", timeout=10) as answer:
            stats = json.load(answer)
        names = sorted(node.name for node in cluster)
        self.assertEqual(stats["ring_members"], names)
        self.assertEqual(stats["connected_nodes"], names[1:])
        for name in names:
            self.assertIn("{'%s'," % name, stats["ring_ownership"])
        self.assertIn("riak_kv is up", cluster[0].run("wait-for-service", "riak_kv",
                                                      cluster[1].name))

    def test_clients_query_the_parts_of_a_bucket_from_the_nodes_that_hold_them(self):
        cluster = self.cluster(5)
        put_all(cluster[0], KEYS, "v")

        def keys_of(entry, bucket="b"):
            with Connection((entry["ip"].decode(), entry["port"])) as pb:
                answer = pb.call("RpbIndexReq", bucket=bucket, index="$key", qtype="range",
                                 range_min="", range_max="~", cover_context=entry["cover_context"])
            return [key.decode() for key in answer.get("keys", [])]

        with Connection(cluster[1].pb) as pb:
            plan = pb.call("RpbCoverageReq", bucket="b")["entries"]
            finer = pb.call("RpbCoverageReq", bucket="b", min_partitions=8)["entries"]
            replaced = pb.call("RpbCoverageReq", bucket="b", replace_cover=plan[0]["cover_context"],
                               unavailable_cover=[plan[0]["cover_context"]])["entries"]
        for entries in (plan, finer, replaced + plan[1:]):
            self.assertEqual(sorted(sum(map(keys_of, entries), [])), sorted(KEYS))
        self.assertEqual(len(finer), 8)
        self.assertLess(len(plan), 8)
        places = {(entry["ip"].decode(), entry["port"]) for entry in plan}
        self.assertLessEqual(places, {node.pb for node in cluster})
        self.assertNotIn((plan[0]["ip"], plan[0]["port"]),
                         {(entry["ip"], entry["port"]) for entry in replaced})
        with self.assertRaisesRegex(Refused, "invalid_cover_context"):
            keys_of(plan[0], bucket="another")
        with self.assertRaisesRegex(Refused, "invalid_cover_context"):
            keys_of(dict(plan[0], cover_context=b"garbage"))


class Failures(ClusterCase):
    def test_a_killed_node_costs_no_request(self):
        cluster = self.cluster(5)
        bench = self.bench(cluster, 6)
        self.let_it_run(bench)
        cluster[2].kill()
        self.assert_flawless(bench)
        wait_until(lambda: "down!" in cluster[0].run("cluster", "status"), "the death to be seen")

    def test_a_stalled_node_is_routed_around_and_catches_up(self):
        cluster = self.cluster(5)
        put_all(cluster[0], KEYS, "old")
        stalled = cluster[2]
        stalled.process.send_signal(signal.SIGSTOP)
        self.addCleanup(stalled.process.send_signal, signal.SIGCONT)
        others = [node for node in cluster if node is not stalled]
        for node in others:
            began = time.monotonic()
            put_all(node, KEYS, "new")
            self.assertEqual(values(node, KEYS), [[b"new"]] * len(KEYS))
            self.assertLess(time.monotonic() - began, PROMPT_SECONDS)
        stalled.process.send_signal(signal.SIGCONT)
        # The node waits until it has heard of the others: it neither refuses the read nor returns its old
        # values.
        self.assertEqual(values(stalled, KEYS), [[b"new"]] * len(KEYS))

    def test_a_read_that_all_primaries_have_to_answer_fails_while_one_is_silent(self):
        cluster = self.cluster(3)
        first, silent = cluster[0], cluster[2]
        put_all(first, ["k"], "v")
        host, port = first.url.rsplit("/", 1)[1].split(":")
        kept = http.client.HTTPConnection(host, int(port), timeout=PROMPT_SECONDS)
        self.addCleanup(kept.close)
        silent.process.send_signal(signal.SIGSTOP)
        self.addCleanup(silent.process.send_signal, signal.SIGCONT)
        os.waitpid(silent.process.pid, os.WUNTRACED)
        # The local copy becomes an answer before the others are heard. No byte of it may be sent.
        for _ in range(3):
            kept.request("GET", "/buckets/b/keys/k?pr=3&timeout=300")
            answer = kept.getresponse()
            self.assertEqual(answer.status, 503, answer.read())
            self.assertNotIn(b"v\n", answer.read())
        with Connection(first.pb) as pb:
            for _ in range(3):
                with self.assertRaisesRegex(Refused, "timeout|pr_val_unsatisfied"):
                    pb.get("b", "k", pr=3, timeout=300)
            self.assertEqual(pb.call("RpbPingReq"), {})

    def test_with_one_and_two_of_three_nodes_down_sloppy_quorums_go_on_and_strict_ones_fail(self):
        cluster = self.cluster(3)
        first = cluster[0]
        put_all(first, KEYS, "v0")
        for down, place in enumerate((1, 2), 1):
            cluster[place].kill()
            began = time.monotonic()
            put_all(first, KEYS, "v%d" % down)
            self.assertEqual(values(first, KEYS), [[b"v%d" % down]] * len(KEYS))
            with Connection(first.pb) as pb:
                up = 3 - down
                with self.assertRaisesRegex(Refused, "{pr_val_unsatisfied,3,%d}" % up):
                    pb.get("b", "k0", pr=3)
                with self.assertRaisesRegex(Refused, "{pw_val_unsatisfied,3,%d}" % up):
                    pb.put("b", "k0", "strict", pw=3)
            self.assertLess(time.monotonic() - began, PROMPT_SECONDS * 2)

    def test_a_rolling_restart_fails_no_request(self):
        cluster = self.cluster(5)
        bench = self.bench(cluster, 14)
        self.let_it_run(bench)
        for node in cluster:
            self.assertEqual(node.stop(), 0, node.log_tail())
            node.start()
            node.run("wait-for-service", "riak_kv", node.name)
            cluster.settle()
        self.assertIsNone(bench.poll(), "the restarts outlasted the run")
        self.assert_flawless(bench)


class Logs(ClusterCase):
    def lines(self, node):
        """Returns the warnings and errors of a node's log, without those of its own start."""
        return [line for line in node.log_tail(10_000).splitlines()
                if (" WARN " in line or " ERROR " in line) and "was empty" not in line]

    def test_a_dead_node_is_told_in_one_line_and_its_return_in_another(self):
        cluster = self.cluster(3)
        for node in cluster:
            self.assertEqual(self.lines(node), [], "joining is nothing unusual")
        alive, victim = list(cluster)[:2], cluster[2]
        victim.kill()

        def told(words):
            return lambda: all(words in node.log_tail(10_000) for node in alive)
        wait_until(told("a node is down"), "the death to be told")
        # Elections, reconnecting and replication go on meanwhile.
        for number in range(20):
            with Connection(alive[0].pb) as pb:
                pb.put("b", "k%d" % number, "v")
        alive[0].run("bucket-type", "create", "of-the-others", '{"props":{}}')
        victim.start()
        wait_until(told("a node is back"), "the return to be told")
        for node in alive:
            lines = [line for line in self.lines(node) if "max_connections" not in line]
            self.assertEqual(len(lines), 1, "\n".join(lines))
            self.assertIn(victim.name, lines[0])


    def test_a_node_that_stays_dead_costs_two_lines_of_each_other_log_and_none_later(self):
        # Exchanges and merge checks come every second here, instead of every 15 seconds and every three
        # minutes. All other repeated work comes at least once a minute, so within the time of the load.
        cluster = self.cluster(5, ["ring_size=8", "anti_entropy.trigger_interval=1s",
                                   "bitcask.merge_check_interval=1s"])
        alive, victim = list(cluster)[:4], cluster[4]
        put_all(alive[0], KEYS, "v")
        before = [self.line_count(node) for node in alive]
        victim.kill()
        wait_until(lambda: all("a node is down" in self.lines_after(node, count)
                               for node, count in zip(alive, before)), "the death to be told")
        # Elections, reconnecting, replication and exchanges go on meanwhile, and nodes keep hints for the
        # dead node.
        load = self.bench(alive, 30 + LONGEST_INTERVAL_SECONDS)
        self.let_it_run(load)
        alive[0].run("bucket-type", "create", "of-the-others", '{"props":{}}')
        wait_until(lambda: all("reap records wait" in node.log_tail(1000) for node in alive),
                   "the wait for the dead node to be told, which is the last news of it", seconds=30)
        told = [self.line_count(node) for node in alive]
        self.assert_flawless(load)
        logs = "\n".join(node.log_tail(30) for node in alive)
        self.assertEqual([self.line_count(node) for node in alive], told, logs)
        # So an hour does not add more lines than this.
        self.assertLess(sum(told) - sum(before), 20, logs)
        victim.start()
        wait_until(lambda: all("a node is back" in self.lines_after(node, count)
                               for node, count in zip(alive, before)), "the return to be told")
        for node, count in zip(alive, before):
            lines = [line for line in self.lines_after(node, count).splitlines() if victim.name in line]
            back = [line for line in lines if "a node is back" in line]
            self.assertEqual(len(back), 1, "\n".join(lines))

    def line_count(self, node):
        return len(node.log_tail(100_000).splitlines())

    def lines_after(self, node, count):
        return "\n".join(node.log_tail(100_000).splitlines()[count:])


class Strangers(ClusterCase):
    """Nodes and bytes that do not belong to the cluster are refused or healed, with a message that says
    why."""

    def test_a_cluster_of_another_ring_size_is_not_joined(self):
        cluster = self.cluster(2)
        other = cluster.add(settings=["ring_size=16"])
        said = self.refusal(other, "cluster", "join", cluster[0].record["node"])
        self.assertIn("ring size", said.replace("ring_size", "ring size"))
        self.assertIn("16", said)
        self.assertIn("8", said)
        self.assert_unharmed(cluster)

    def test_joins_that_cannot_be_are_refused_in_words(self):
        cluster = self.cluster(2)
        alone = cluster.add()
        self.refusal(alone, "cluster", "join", alone.record["node"])
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % closed.getsockname()[1]
            self.assertIn(address, self.refusal(alone, "cluster", "join", address))
        self.refusal(cluster[1], "cluster", "join", alone.record["node"])
        self.refusal(alone, "cluster", "leave")

    def test_garbage_on_the_port_for_nodes_harms_nobody(self):
        cluster = self.cluster(3)
        host, _, port = cluster[1].record["node"].rpartition(":")
        for garbage in (b"", b"\0\0\0\0", b"\xff" * 4096, b"GET / HTTP/1.1\r\n\r\n",
                        b"\0\0\0\x08" + b"\x01" * 8, os.urandom(1 << 16)):
            with socket.create_connection((host, int(port)), 10) as bad:
                try:
                    bad.sendall(garbage)
                    bad.shutdown(socket.SHUT_WR)
                    while bad.recv(65536):
                        pass
                except OSError:
                    pass
        put_all(cluster[0], KEYS, "v")
        self.assertEqual(values(cluster[1], KEYS), [[b"v"]] * len(KEYS))
        self.assert_unharmed(cluster)

    def test_a_node_that_lost_its_disk_is_told_and_comes_back_as_a_new_one(self):
        cluster = self.cluster(3)
        put_all(cluster[0], KEYS, "v")
        lost = cluster[2]
        lost.kill()
        shutil.rmtree(lost.data_dir)
        lost.start()
        said = self.refusal(lost, "cluster", "join", cluster[0].record["node"])
        self.assertIn(lost.name, said)
        self.assertEqual(values(cluster[0], KEYS), [[b"v"]] * len(KEYS))
        self.assert_unharmed(cluster)

    def test_a_removed_node_that_comes_back_is_refused(self):
        cluster = self.cluster(4)
        gone = cluster[3]
        gone.kill()
        cluster[0].run("cluster", "force-remove", gone.name)
        cluster.commit()
        gone.assert_refused(self, "was removed from the cluster")
        members = cluster[0].json("cluster", "status")["members"]
        self.assertNotIn(gone.name, [member["name"] for member in members])
        self.assert_unharmed(list(cluster)[:3])

    def test_a_node_restarted_with_an_old_disk_is_refused(self):
        cluster = self.cluster(3)
        node = cluster[2]
        node.stop()
        old = os.path.join(self.folder, "old")
        copy_data(node.data_dir, old)
        node.start()
        put_all(node, KEYS, "v")
        node.stop()
        shutil.rmtree(node.data_dir)
        os.rename(old, node.data_dir)
        node.assert_refused(self, "the data directory is an old copy")
        self.assertEqual(values(cluster[0], KEYS), [[b"v"]] * len(KEYS))

    def test_a_second_node_with_the_identity_of_another_is_refused(self):
        cluster = self.cluster(3)
        first = cluster[2]
        first.stop()
        twin = ClusterNode(self.folder, 33, cluster.settings)
        self.addCleanup(twin.__exit__)
        copy_data(first.data_dir, twin.data_dir)
        first.start()
        cluster.settle()
        twin.assert_refused(self, "is in use by a live node")
        put_all(first, KEYS, "v")
        self.assertEqual(values(cluster[0], KEYS), [[b"v"]] * len(KEYS))
        self.assert_unharmed(cluster)

    def test_a_node_whose_clock_is_an_hour_off_says_so_and_stops_and_comes_back_with_a_right_one(self):
        if shifted_clock.compiler() is None:
            self.skipTest("there is no C compiler (cc) on this machine to make a wrong clock with")
        cluster = self.cluster(3)
        wrong = cluster[2]
        for turn, (hours, words) in enumerate(((1, "the clock of %s is 3600" % wrong.name),
                                               (-1, "s ahead of that of %s" % wrong.name))):
            put_all(cluster[0], KEYS, "v%d" % turn)
            wrong.stop()
            wrong.environment = shifted_clock.environment(self.folder, hours * 3600)
            wrong.assert_refused(self, words)
            self.assertIn("this one stops", wrong.log_tail())
            for node in list(cluster)[:2]:
                self.assertEqual(values(node, KEYS), [[b"v%d" % turn]] * len(KEYS))
            wrong.environment = {}
            wrong.start()
            cluster.settle()
            self.assertEqual(values(wrong, KEYS, pr=3), [[b"v%d" % turn]] * len(KEYS))
        self.assert_unharmed(cluster)


class Changes(ClusterCase):
    def test_a_node_that_leaves_hands_its_data_over_and_stops(self):
        cluster = self.cluster(4)
        put_all(cluster[0], KEYS, "v")
        leaving = cluster[3]
        self.assertIn("Success: staged leave request for %s" % leaving.name,
                      leaving.run("cluster", "leave"))
        plan = cluster[0].run("cluster", "plan")
        self.assertRegex(plan, "leave +'%s'" % leaving.name)
        self.assertIn("Transfers resulting from cluster changes:", plan)
        self.assertRegex(plan, r"Data to be moved: about [\d.]+ .?B in (under )?[\d.]+ s")
        self.assertIn("Cluster changes committed", cluster[0].run("cluster", "commit"))
        self.assertEqual(leaving.process.wait(60), 0, leaving.log_tail())
        cluster.settle()
        for node in list(cluster)[:3]:
            self.assertEqual(values(node, KEYS), [[b"v"]] * len(KEYS))
        self.assertIn("Valid:3 ", cluster[0].run("member-status"))

    def test_a_commit_right_after_join_and_plan_waits_until_the_new_node_is_reachable(self):
        cluster = self.cluster(2)
        third = cluster.add()
        third.join(cluster[0])
        cluster[0].run("cluster", "plan")
        self.assertIn("Cluster changes committed", cluster[0].run("cluster", "commit"))
        cluster.settle()
        self.assertIn("Valid:3 ", cluster[0].run("member-status"))

    def test_a_commit_needs_the_plan_that_was_shown(self):
        cluster = self.cluster(2)
        third = cluster.add()
        third.join(cluster[0])
        self.assertIn("plan", self.refusal(cluster[0], "cluster", "commit"))
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "location", "rack-b", "--node", cluster[1].name)
        self.assertIn("plan", self.refusal(cluster[0], "cluster", "commit"))
        self.assertIn("Cleared staged cluster changes", cluster[0].run("cluster", "clear"))
        self.assertIn("There are no staged changes", cluster[0].run("cluster", "plan"))


class DevCluster(ClusterCase):
    def start(self, count):
        base, ready = os.path.join(self.folder, "base"), os.path.join(self.folder, "ready.json")
        process = subprocess.Popen(
            [binary_from_environment(), "dev-cluster", str(count), "--base-dir", base,
             "--ready-file", ready, "--set", "ring_size=8"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(end, process)
        wait_until(lambda: os.path.exists(ready) or process.poll() is not None, "the cluster")
        self.assertIsNone(process.poll(), process.stdout.read() if process.poll() else "")
        with open(ready, encoding="utf-8") as handle:
            return process, json.load(handle)["nodes"]

    def stop(self, process, records):
        process.terminate()
        said, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        for record in records:
            self.assertFalse(os.path.exists("/proc/%d" % record["pid"]), said)
        return said

    def test_a_development_cluster_starts_tells_of_deaths_stops_and_goes_on(self):
        process, records = self.start(3)
        with Connection(address(records[0]["pb"])) as pb:
            pb.put("b", "k", "v")
        with Connection(address(records[2]["pb"])) as pb:
            self.assertEqual(pb.get("b", "k"), [b"v"])
        os.kill(records[1]["pid"], signal.SIGKILL)
        wait_until(lambda: not os.path.exists("/proc/%d" % records[1]["pid"]), "the death")
        said = self.stop(process, records)
        for record in records:
            self.assertIn(record["pb"], said)
        self.assertIn("was killed by SIGKILL", said)
        process, again = self.start(3)
        with Connection(address(again[1]["pb"])) as pb:
            self.assertEqual(pb.get("b", "k"), [b"v"])
        self.stop(process, again)

    def test_members_beyond_the_number_that_was_asked_for_are_started_too(self):
        process, records = self.start(3)
        self.stop(process, records)
        process, records = self.start(2)
        names = [record["name"] for record in records]
        self.assertEqual(names, ["dev%d@127.0.0.1" % number for number in (1, 2, 3)])
        self.stop(process, records)

    def test_its_nodes_end_with_it_even_when_it_is_killed(self):
        process, records = self.start(2)
        process.kill()
        for record in records:
            wait_until(lambda: not os.path.exists("/proc/%d" % record["pid"]), "a node to end")


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
