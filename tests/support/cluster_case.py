"""Common parts of tests of clusters: a folder, its nodes, and a verified load."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

from support.cluster import Cluster, wait_until
from support.node import binary_from_environment
from support.pb import Connection

# Checks every value that is read, and at the end that every acknowledged write is there.
BENCH = """{mode, {rate, 50}}. {concurrent, 6}. {driver, riakc_pb}. {report_interval, 1}.
{operations, [{get, 4}, {put, 4}, {delete, 1}]}. {key_generator, {int_to_bin_bigendian,
{uniform_int, 500}}}. {value_generator, {fixed_bin, 200}}. {verify, true}.
{riakc_pb_ips, [%s]}. {riakc_pb_replies, 2}. {riakc_pb_dw, 0}. {pb_timeout_general, 20000}.
"""
# Most seconds by which a run may outlast its planned length, for slow tests.
BENCH_SECONDS_MORE = 300
KEYS = ["k%d" % number for number in range(40)]


class ClusterCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def cluster(self, count, settings=("ring_size=8",), flags=(), binary=None):
        cluster = Cluster(self.folder, count, settings, flags, binary)
        self.addCleanup(cluster.__exit__)
        return cluster.__enter__()

    def token_file(self, node, *arguments):
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(node.run("cluster", "token", *arguments))
        return path

    def join_with(self, node, other, path):
        return node.admin("cluster", "join", other.record["node"], "--token-file", path)

    def closed(self, count, settings=("ring_size=8",)):
        """Returns a cluster whose nodes require certificates of each other, and join by a token."""
        cluster = self.cluster(1, (*settings, "internode.tls=required"))
        wait_until(lambda: links(cluster[0])["authorities"], "the first node to have an authority")
        path = self.token_file(cluster[0], "--nodes", str(count - 1))
        for _ in range(count - 1):
            joined = self.join_with(cluster.add(), cluster[0], path)
            self.assertEqual(joined.returncode, 0, joined.stdout)
        cluster.commit()
        return cluster

    def bench(self, cluster, seconds):
        """Starts a verified run on all nodes. It goes on for that long, and until `assert_flawless` ends
        it."""
        ports = ", ".join('{"127.0.0.1", %d}' % node.pb[1] for node in cluster)
        config = os.path.join(self.folder, "verified.config")
        with open(config, "w", encoding="utf-8") as handle:
            handle.write(BENCH % ports)
        bench = subprocess.Popen(
            [binary_from_environment(), "bench", config, "-d", self.folder, "-n", "run",
             "--duration", "%ds" % (seconds + BENCH_SECONDS_MORE)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(end, bench)
        bench.until = time.monotonic() + seconds
        return bench

    def assert_flawless(self, bench):
        """Ends the run, which must succeed: nothing lost, nothing stale, no request refused or timed
        out."""
        try:
            said, _ = bench.communicate(timeout=max(0, bench.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            bench.send_signal(signal.SIGINT)
            said, _ = bench.communicate(timeout=120)
        errors = os.path.join(self.folder, "run", "errors.csv")
        with open(errors, encoding="utf-8") as handle:
            failed = handle.readlines()[1:]
        self.assertEqual((bench.returncode, failed), (0, []), said)

    def let_it_run(self, bench):
        """Waits until the run has written its first row of results."""
        summary = os.path.join(self.folder, "run", "summary.csv")
        wait_until(lambda: bench.poll() is not None or rows(summary) > 2, "the run to begin")
        self.assertIsNone(bench.poll())

    def refusal(self, node, *arguments):
        """Returns the message of an administration command that must fail."""
        done = node.admin(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout

    def assert_unharmed(self, cluster):
        for node in cluster:
            self.assertIsNone(node.process.poll(), node.log_tail())
            self.assertNotIn("panicked", node.log_tail(1000))


def links(node):
    """Returns how the node's connections to others are secured."""
    return node.json("cluster", "tls")


def are_closed(cluster):
    """Tells if all members hold certificates of one authority and are connected by TLS."""
    for node in cluster:
        shown = links(node)
        if len(shown["authorities"]) != 1 or len(shown["members"]) != len(list(cluster)):
            return False
        issuing = shown["authorities"][0]["id"]
        if any(member["authority"] != issuing or member["plain"] for member in shown["members"]):
            return False
    return True


def end(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


def put_all(node, keys, value):
    with Connection(node.pb) as pb:
        for key in keys:
            pb.put("b", key, value)


def values(node, keys, **options):
    with Connection(node.pb) as pb:
        return [pb.get("b", key, **options) for key in keys]


def stat(node, name):
    with urllib.request.urlopen(node.url + "/stats", timeout=10) as answer:
        return json.load(answer)[name]


def stats(cluster, name):
    return [stat(node, name) for node in cluster if node.is_running()]


def rows(path):
    try:
        with open(path, encoding="utf-8") as handle:
            return len(handle.readlines())
    except FileNotFoundError:
        return 0
