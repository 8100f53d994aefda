"""Tests of change feeds with real processes: each write at least once, in order by key, through deaths."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

BUCKET = "b"
KEYS = ["k%d" % number for number in range(5)]
ROUNDS = 40


def quoit(url, *arguments, fails=False):
    """Runs a command. Returns its output."""
    done = subprocess.run([binary_from_environment()] + list(arguments) + ["--url", url],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=90, text=True)
    if (done.returncode != 0) != fails:
        raise AssertionError("%s: %s%s" % (" ".join(arguments), done.stdout, done.stderr))
    return done.stderr if fails else done.stdout


def enable(url):
    assert "has a change feed" in quoit(url, "changes", "enable", BUCKET)


def request(url, method, path, body=None, headers=()):
    """Returns status, headers and body of an answer."""
    asked = urllib.request.Request(url + path, data=body, method=method, headers=dict(headers))
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read()


def write(url, key, value, context=None):
    """Writes a key. Returns the context of the record afterwards."""
    headers = {"Content-Type": "text/plain"}
    if context:
        headers["X-Riak-Vclock"] = context
    path = "/buckets/%s/keys/%s?returnbody=true" % (BUCKET, key)
    status, headers, body = request(url, "PUT", path, value.encode(), headers)
    if status != 200:
        raise AssertionError("PUT %s: %d %s" % (key, status, body))
    return headers["X-Riak-Vclock"]


def changes(url, *arguments):
    """Returns the changes and the position behind them."""
    lines = [json.loads(line) for line in quoit(url, "changes", BUCKET, *arguments).splitlines()]
    assert lines[-1]["kind"] == "position", lines[-1]
    return lines[:-1], lines[-1]


def feed(url, **parameters):
    """Returns the answer to a request for changes."""
    query = "&".join("%s=%s" % pair for pair in parameters.items())
    return request(url, "GET", "/buckets/%s/changes?%s" % (BUCKET, query))


def shown(told):
    return [(change["kind"], change["key"]) for change in told]


class Follower:
    """Runs `quoit changes --follow`, and reads its lines as they come."""

    def __init__(self, urls, since):
        self.lines = []
        self.process = subprocess.Popen(
            [binary_from_environment(), "changes", BUCKET, "--follow", "--since", since, "--url",
             ",".join(urls)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            # A killed reader may leave an incomplete line.
            if line.endswith("\n"):
                self.lines.append(json.loads(line))

    def kill(self):
        """Kills the reader. Returns the position of its last line."""
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        return self.lines[-1]["position"] if self.lines else "oldest"


class OneNode(unittest.TestCase):
    def test_writes_and_deletes_are_told_with_filters_and_resumed(self):
        with TemporaryNode(binary_from_environment()) as node:
            url = node.url
            self.assertIn("no change feed", quoit(url, "changes", BUCKET, fails=True))
            self.assertEqual(feed(url)[0], 404)
            write(url, "before", "is not told")
            enable(url)
            self.assertIn("already", quoit(url, "changes", "enable", BUCKET))
            contexts = [write(url, key, "v") for key in ("a1", "a2", "b1")]
            self.assertEqual(request(url, "DELETE", "/buckets/b/keys/a1")[0], 204)
            request(url, "PUT", "/buckets/other/keys/x", b"v", {"Content-Type": "text/plain"})
            told, end = changes(url)
            self.assertEqual(shown(told),
                             [("put", "a1"), ("put", "a2"), ("put", "b1"), ("delete", "a1")])
            self.assertEqual([change["context"] for change in told[:3]], contexts)
            self.assertEqual(shown(changes(url, "--prefix", "a", "--kind", "put")[0]),
                             [("put", "a1"), ("put", "a2")])
            self.assertEqual(shown(changes(url, "--since", told[1]["position"])[0]),
                             [("put", "b1"), ("delete", "a1")])
            self.assertEqual(changes(url, "--since", end["position"])[0], [])
            self.assertEqual(changes(url, "--since", "now")[0], [])
            figures = node.json("status")["change_feeds"]
            self.assertEqual(figures["changes"], 4)
            self.assertGreater(figures["bytes"], 100)
            metrics = request(url, "GET", "/metrics")[2].decode()
            self.assertIn("quoit_change_feed_changes_total 4", metrics)

    def test_each_kind_of_record_is_told_and_what_nobody_wrote_is_not(self):
        with TemporaryNode(binary_from_environment()) as node:
            url = node.url
            types = {"once": {"write_once": True}, "counters": {"datatype": "counter"},
                     "sets": {"datatype": "set"}, "maps": {"datatype": "map"}, "logs": {"datatype": "hll"},
                     "growing": {"datatype": "gset"}, "short": {"ttl": 1}}
            for name, props in types.items():
                node.create_bucket_type(name, props)
                quoit(url, "changes", "enable", "%s/%s" % (name, BUCKET))
            for _ in range(2):
                self.send(url, "PUT", "once", "keys/k", "v")
            self.send(url, "POST", "counters", "datatypes/k", "1")
            # Large sets are stored in pages.
            for elements in (["a"], ["%06d" % number + "." * 50 for number in range(20_000)], ["b"]):
                self.send(url, "POST", "sets", "datatypes/k", json.dumps({"add_all": elements}))
            self.send(url, "DELETE", "sets", "keys/k")
            self.send(url, "POST", "maps", "datatypes/k", '{"update": {"a_register": "x"}}')
            self.send(url, "POST", "logs", "datatypes/k", '{"add": "x"}')
            self.send(url, "POST", "growing", "datatypes/k", '{"add": "x"}')
            self.send(url, "PUT", "short", "keys/k", "v")
            path = "/types/short/buckets/%s/keys/k" % BUCKET
            wait_until(lambda: request(url, "GET", path)[0] == 404, "the record to expire")
            expected = {"once": ["put", "put"], "sets": ["put", "put", "put", "delete"]}
            for name in types:
                lines = quoit(url, "changes", "%s/%s" % (name, BUCKET)).splitlines()
                told = [json.loads(line) for line in lines[:-1]]
                kinds = expected.get(name, ["put"])
                self.assertEqual([(line["kind"], line["key"]) for line in told],
                                 [(kind, "k") for kind in kinds], name)
                has_contexts = {"context" in line for line in told}
                self.assertEqual(has_contexts, {name in ("once", "short")}, name)

    def send(self, url, method, bucket_type, path, body=""):
        headers = {"Content-Type": "text/plain" if path.startswith("keys") else "application/json"}
        path = "/types/%s/buckets/%s/%s" % (bucket_type, BUCKET, path)
        status, _, answer = request(url, method, path, body.encode(), headers)
        self.assertEqual(status, 204, answer)

    def test_bad_positions_and_gaps_are_told(self):
        with TemporaryNode(binary_from_environment()) as node:
            url = node.url
            enable(url)
            write(url, "a", "v")
            end = changes(url)[1]["position"]
            status, _, body = feed(url, since="nonsense!")
            self.assertEqual((status, json.loads(body)["error"]), (400, "position"))
            quoit(url, "changes", "disable", BUCKET)
            write(url, "b", "is not told")
            # A number of its own for the period: `changes enable` takes the second, which may still be the
            # same.
            request(url, "PUT", "/buckets/b/props", b'{"props":{"change_feed":7}}',
                    {"Content-Type": "application/json"})
            write(url, "c", "v")
            status, _, body = feed(url, since=end)
            gap = json.loads(body)
            self.assertEqual((status, gap["error"]), (410, "gap"))
            self.assertIn("was off", gap["message"])
            self.assertIn("--since", quoit(url, "changes", BUCKET, "--since", end, fails=True))
            self.assertEqual(shown(changes(url, "--since", gap["resume"])[0]), [("put", "c")])

    def test_nothing_is_lost_when_node_and_reader_are_killed(self):
        with TemporaryNode(binary_from_environment()) as node:
            enable(node.url)
            follower = Follower([node.url], "oldest")
            written = {key: [] for key in KEYS}
            for number in range(10):
                for key in KEYS:
                    written[key].append(write(node.url, key, str(number)))
            wait_until(lambda: len(follower.lines) >= 20, "changes to be told")
            position = follower.kill()
            lines = follower.lines
            node.kill()
            node.start()
            for key in KEYS:
                written[key].append(write(node.url, key, "last"))
            lines += changes(node.url, "--since", position)[0]
            for key in KEYS:
                told = [line["context"] for line in lines if line["key"] == key]
                self.assertEqual(told, written[key], "once each, in order")


class ThreeNodes(unittest.TestCase):
    def test_each_write_is_told_in_order_while_nodes_and_readers_are_killed(self):
        with tempfile.TemporaryDirectory() as folder, Cluster(folder, 3, ["ring_size=8"]) as cluster:
            enable(cluster[0].url)
            for node in cluster:
                wait_until(lambda node=node: feed(node.url)[0] == 200, "the feed to be known")
            urls = [cluster[0].url, cluster[1].url]
            follower = Follower(urls, "oldest")
            written = {key: [] for key in KEYS}
            self.rounds(cluster, 0, written, [0, 1, 2])
            wait_until(lambda: len(follower.lines) >= 3, "changes to be told")
            # One node dies while it has changes to deliver, and the reader dies with it.
            cluster[2].kill()
            position = follower.kill()
            lines = follower.lines
            follower = Follower(urls, position)
            self.rounds(cluster, 1, written, [0, 1])
            # The node that serves the reader dies. The reader continues at the other one.
            wait_until(lambda: len(follower.lines) >= 3, "changes to be told")
            cluster[0].kill()
            cluster[2].start()
            wait_until(lambda: self.is_written(cluster, written), "the cluster to take writes")
            cluster[0].start()
            self.rounds(cluster, 2, written, [0, 1, 2])

            def is_told():
                told = lines + follower.lines
                contexts = {line.get("context") for line in told}
                return all(context in contexts for key in KEYS for context in written[key])
            wait_until(is_told, "all writes to be told", 60)
            follower.kill()
            self.check(lines + follower.lines, written)

    def rounds(self, cluster, number, written, nodes):
        """Writes each key many times, each time at another node."""
        for step in range(ROUNDS // 4):
            for place, key in enumerate(KEYS):
                node = cluster[nodes[(step + place) % len(nodes)]]
                context = written[key][-1] if written[key] else None
                written[key].append(write(node.url, key, "%d-%d" % (number, step), context))

    def is_written(self, cluster, written):
        try:
            key = KEYS[0]
            written[key].append(write(cluster[1].url, key, "between", written[key][-1]))
            return True
        except AssertionError:
            return False

    def check(self, lines, written):
        """Checks that the first deliveries of a key's changes come in the order of its writes."""
        for key in KEYS:
            places = {context: place for place, context in enumerate(written[key])}
            in_order = [places[line["context"]] for line in lines
                        if line["key"] == key and line["kind"] == "put"
                        and line["context"] in places]
            first_told = sorted(set(in_order), key=in_order.index)
            self.assertEqual(first_told, sorted(first_told), key)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
