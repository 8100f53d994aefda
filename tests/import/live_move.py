"""The live move from Riak: runs every command of a plan, in order, between two clusters of real
processes. One of them plays Riak, and only Riak's messages are used with it."""
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

from recorded_queue import LiveQueue, PagesByReplication  # noqa: E402,F401
from recorded_riak import RecordedRiak  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection  # noqa: E402

BINARY = binary_from_environment()
COUNT = 40
KEEP = "[{riak_kv, [{delete_mode, keep}]}].\n"


def run(line):
    """Runs a command line of the plan. Returns its status and output."""
    words = shlex.split(line)
    assert words[0] == "quoit", line
    done = subprocess.run([BINARY] + words[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, text=True)
    return done.returncode, done.stdout, done.stderr


def values(cluster, bucket, key, **options):
    with Connection(cluster[0].pb) as pb:
        return sorted(pb.get(bucket, key, **options))


def write(cluster, bucket, keys, value, **options):
    with Connection(cluster[0].pb) as pb:
        for key in keys:
            known = pb.call("RpbGetReq", bucket=bucket, key=key, **options).get("vclock")
            pb.put(bucket, key, value, **dict(options, **({"vclock": known} if known else {})))


def delete(cluster, bucket, key, **options):
    with Connection(cluster[0].pb) as pb:
        pb.call("RpbDelReq", bucket=bucket, key=key, **options)


def counter(cluster, key):
    with Connection(cluster[0].pb) as pb:
        fields = pb.call("DtFetchReq", bucket="c", key=key, type="counters")
    return fields.get("value", {}).get("counter_value", 0)


def add(cluster, key, amount):
    with Connection(cluster[0].pb) as pb:
        pb.call("DtUpdateReq", bucket="c", key=key, type="counters",
                op={"counter_op": {"increment": amount}})


class LiveMove(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.conf = os.path.join(self.folder, "riak.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write("ring_size = 8\nreplrtq_srcqueue = q1_ttaaefs:block_rtq\n")

    def cluster(self, name, count, settings):
        home = os.path.join(self.folder, name)
        os.makedirs(home)
        made = Cluster(home, count, settings)
        self.addCleanup(made.__exit__)
        return made.__enter__()

    def keep_tombstones(self):
        with open(os.path.join(self.folder, "advanced.config"), "w", encoding="utf-8") as file:
            file.write(KEEP)

    def plan(self, riak, here, *options, conf=True):
        line = [BINARY, "import", "plan", riak[0].url, here[0].url, "--riak-pb", riak[0].record["pb"],
                "--here-pb", here[0].record["pb"], "--protocol", "http", "--format", "json"]
        if conf:
            line += ["--riak-conf", self.conf]
        done = subprocess.run(line + list(options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, text=True)
        return done.returncode, json.loads(done.stdout), done.stderr

    def step(self, plan, name):
        """Runs the commands of a step. Returns the output of the last one."""
        out = ""
        for line in next(step for step in plan["steps"] if step["step"] == name)["commands"]:
            status, out, words = run(line)
            self.assertEqual(status, 0, "%s\n%s%s" % (line, out, words))
        return out

    def set_up(self, cluster, plan, name, conf):
        """Writes the lines of a step into the configuration of all nodes, and restarts the nodes."""
        lines = next(step for step in plan["steps"] if step["step"] == name)[conf]
        for node in cluster:
            node.stop()
            node.settings += [line.replace(" = ", "=", 1) for line in lines]
            node.start()

    def full_sync(self, plan):
        """Repeats the step until both sides are in sync."""
        wait_until(lambda: "in_sync" in self.step(plan, "full-sync"), "full-sync to find nothing")

    def test_both_ways_with_the_way_back(self):
        self.keep_tombstones()
        riak = self.cluster("riak", 2, ["ring_size=8", "delete_mode=keep"])
        here = self.cluster("here", 2, ["ring_size=16", "delete_mode=keep"])
        riak[0].create_bucket_type("counters", {"datatype": "counter"})
        riak[0].create_bucket_type("sibs", {"allow_mult": True})
        old = ["old%d" % number for number in range(COUNT)]
        write(riak, "plain", old, b"from riak")
        with Connection(riak[0].pb) as pb:
            pb.put("typed", "two", b"a", type="sibs")
            pb.put("typed", "two", b"b", type="sibs")
        add(riak, "sum", 5)
        delete(riak, "plain", "old0")

        status, plan, words = self.plan(riak, here)
        self.assertEqual((status, plan["ready"], plan["direction"]), (0, True, "both ways"), words)
        names = [step["step"] for step in plan["steps"]]
        self.assertEqual(names, ["types", "riak", "queue", "sink", "bootstrap", "full-sync", "compare",
                                 "switch", "back", "end", "reap"])
        conf = next(step for step in plan["steps"] if step["step"] == "riak")["riak_conf"]
        self.assertIn("replrtq_srcqueue = q1_ttaaefs:block_rtq|quoit:any", conf)

        self.step(plan, "types")
        self.set_up(here, plan, "queue", "quoit_conf")
        self.step(plan, "queue")
        self.set_up(riak, plan, "riak", "riak_conf")
        self.step(plan, "sink")
        # Concurrent writes arrive in real time, and older records by the bootstrap.
        write(riak, "plain", ["during"], b"in between")
        self.step(plan, "bootstrap")
        for key in old[1:] + ["during"]:
            wait_until(lambda key=key: values(here, "plain", key), "%s to come" % key)
        self.assertEqual(values(here, "plain", "old0"), [])
        self.assertEqual(values(here, "typed", "two", type="sibs"), [b"a", b"b"])
        self.assertEqual(counter(here, "sum"), 5)
        self.full_sync(plan)
        self.step(plan, "compare")

        # The switch: clients write to both sides for a while, then only here.
        self.step(plan, "switch")
        write(here, "plain", old[:10], b"changed here")
        write(here, "plain", ["new"], b"only here at first")
        add(here, "sum", 7)
        delete(here, "plain", old[20])
        wait_until(lambda: values(riak, "plain", "new") == [b"only here at first"], "the way back")
        wait_until(lambda: counter(riak, "sum") == 12, "the counter to go back")
        wait_until(lambda: values(riak, "plain", old[20]) == [], "the delete to go back")
        self.assertEqual(values(riak, "plain", old[0]), [b"changed here"])
        # Going back loses nothing.
        self.full_sync(plan)
        self.step(plan, "back")

        self.step(plan, "end")
        tombstones = lambda: int(here[0].json("fold", "reap-tombs", "default/plain")["matches"])  # noqa: E731
        self.assertGreater(tombstones(), 0)
        self.step(plan, "reap")
        wait_until(lambda: tombstones() == 0, "the tombstones to be reaped")
        self.assertEqual(values(here, "plain", old[20]), [])

    def test_two_ways_are_refused_unless_tombstones_stay_on_both_sides(self):
        riak = self.cluster("riak", 1, ["ring_size=8"])
        here = self.cluster("here", 1, ["ring_size=8"])

        def bad(*options, **also):
            status, plan, words = self.plan(riak, here, *options, **also)
            self.assertEqual((status, plan["ready"], plan["steps"]), (1, False, []))
            self.assertIn("--one-way", words)
            return {check["what"] for check in plan["checks"]
                    if check["for_both_ways"] and check["verdict"] != "good"}
        own = {"the cluster's delete_mode"}
        unknown = {"Riak's delete_mode", "Riak's repl_reap", "expiry of Riak's engines"}
        self.assertEqual(bad(conf=False), own | unknown)
        self.assertEqual(bad(), own | {"Riak's delete_mode"})
        self.keep_tombstones()
        self.assertEqual(bad(), own)
        for line, what in (("bitcask.expiry = 1d", "expiry of Riak's engines"),
                           ("repl_reap = enabled", "Riak's repl_reap")):
            with open(self.conf, encoding="utf-8") as file:
                before = file.read()
            with open(self.conf, "a", encoding="utf-8") as file:
                file.write(line + "\n")
            self.assertEqual(bad(), own | {what})
            with open(self.conf, "w", encoding="utf-8") as file:
                file.write(before)
        # Settings of the cluster by which records expire: its own, those of types, and those of single
        # buckets.
        write(riak, "plain", ["a"], b"1")
        request = urllib.request.Request(here[0].url + "/buckets/plain/props", method="PUT",
                                         headers={"Content-Type": "application/json"},
                                         data=b'{"props": {"ttl": 60}}')
        urllib.request.urlopen(request, timeout=30).close()
        self.assertEqual(bad(), own | {"expiry in the cluster"})
        here[0].stop()
        here[0].settings += ["delete_mode=keep", "repl_reap=enabled", "bitcask.expiry=1d"]
        here[0].start()
        self.assertEqual(bad(), {"the cluster's repl_reap", "expiry in the cluster"})

    def test_one_way_names_nothing_that_writes_to_riak(self):
        riak = self.cluster("riak", 1, ["ring_size=8"])
        here = self.cluster("here", 1, ["ring_size=8"])
        write(riak, "plain", ["a", "b"], b"1")
        status, plan, words = self.plan(riak, here, "--one-way")
        self.assertEqual((status, plan["direction"]), (0, "one way"), words)
        text = json.dumps(plan["steps"])
        self.assertNotIn("enablesink", text)
        self.assertNotIn("queue add", text)
        self.set_up(riak, plan, "riak", "riak_conf")
        for name in ("types", "sink", "bootstrap"):
            self.step(plan, name)
        wait_until(lambda: values(here, "plain", "b") == [b"1"], "b to come")
        # A key that only the cluster has is listed, and is not sent to Riak.
        write(here, "plain", ["mine"], b"2")
        self.step(plan, "full-sync")
        compare = next(step for step in plan["steps"] if step["step"] == "compare")["commands"][0]
        status, out, _ = run(compare + " --format json")
        self.assertEqual(status, 1)
        bucket = next(one for one in json.loads(out)["buckets"] if one["bucket"] == "plain")
        self.assertEqual((bucket["only_here"], bucket["only_riak"]), (["mine"], []))
        self.assertEqual(values(riak, "plain", "mine"), [])

    def test_the_bootstrap_lists_where_riak_does_not_fold(self):
        queue = "replrtq_srcqueue=quoit:any"
        riak = self.cluster("riak", 1, ["ring_size=8", "replrtq_enablesrc=enabled", queue])
        here = self.cluster("here", 1, ["ring_size=8"])
        write(riak, "listed", ["k%d" % number for number in range(300)], b"1")
        bootstrap = "quoit import bootstrap %s --riak-pb %s --by listing --format json" \
            % (riak[0].url, riak[0].record["pb"])
        status, out, words = run("quoit repl --url %s sink add quoit %s:http"
                                 % (here[0].url, riak[0].record["http"]))
        self.assertEqual(status, 0, out + words)
        status, out, words = run(bootstrap + " --only default/listed")
        self.assertEqual(status, 0, out + words)
        self.assertEqual(json.loads(out)["buckets"],
                         [{"bucket": "default/listed", "by": "listing", "queued": 300}])
        wait_until(lambda: values(here, "listed", "k299") == [b"1"], "the last key to come")
        status, _, words = run(bootstrap + " --queue other")
        self.assertEqual(status, 1)
        self.assertIn("Riak has no queue other", words)

    def test_a_recorded_riak_is_planned_with(self):
        self.keep_tombstones()
        with TemporaryNode(BINARY, ["ring_size=8", "delete_mode=keep"]) as here, RecordedRiak() as riak:
            line = ["quoit", "import", "plan", "http://" + riak.http, here.url, "--riak-pb", riak.pb,
                    "--here-pb", here.record["pb"], "--riak-conf", self.conf, "--format", "json"]
            status, out, words = run(" ".join(line))
            self.assertEqual(status, 0, out + words)
            plan = json.loads(out)
            verdicts = {check["what"]: check["verdict"] for check in plan["checks"]}
            self.assertEqual(verdicts["Riak's version"], "good")
            self.assertEqual(verdicts["Riak's queue quoit"], "to do")
            self.assertEqual(verdicts["Riak's folds (tictacaae_active)"], "to do")
            sink = next(step for step in plan["steps"] if step["step"] == "sink")["commands"][0]
            self.assertIn("sink add quoit 127.0.0.1:8087:pb", sink)
            bootstrap = next(step for step in plan["steps"] if step["step"] == "bootstrap")["commands"][0]
            self.assertIn("--type default", bootstrap)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
