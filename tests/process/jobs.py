"""Tests of MapReduce jobs with real processes: nodes that die during a job, and functions that try to
use all memory.

The data make a job long: while the client has read only the beginning of the answer, the job waits,
since most of its outputs do not fit into the buffers on the way. A job with few outputs takes its
time for each byte of its values.
"""
import http.client
import json
import os
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster_case import ClusterCase  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection, Refused  # noqa: E402

BUCKET = "jobs"
# A bucket whose records have one replica.
SINGLE = "single"
COUNT = 800
VALUE_BYTES = 40_000
NODES = 4
# More than a node reads without working for a job, and less than the first chunk of a job.
AT_WORK_BYTES = 10 * VALUE_BYTES
SETTINGS = ("ring_size=8", "mapreduce.javascript=on", "mapreduce.javascript.call_timeout=60s")
VALUES = {"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}}
SUM = {"reduce": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "reduce_sum"}}
# Inspects each character of a value, and returns one number.
LENGTHS = {"map": {"language": "javascript", "source": """function(object) {
    var data = object.values[0].data, count = 0;
    for (var at = 0; at < data.length; at++) { count += data.charCodeAt(at) > 0 ? 1 : 0; }
    return [count]; }"""}}


def key_of(number):
    return "k%05d" % number


def value_of(number):
    return key_of(number).ljust(VALUE_BYTES, ".")


EXPECTED = [value_of(number) for number in range(COUNT)]


def job(query, inputs=BUCKET):
    return json.dumps({"inputs": inputs, "query": query, "timeout": 120_000})


def listed():
    return [[BUCKET, key_of(number)] for number in range(COUNT)]


class JobsOfDyingNodes(ClusterCase):
    """Each test kills a node that works for a job with SIGKILL during the job, and starts it again."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.nodes = Cluster(folder.name, NODES, SETTINGS)
        cls.addClassCleanup(cls.nodes.__exit__)
        cls.nodes.__enter__()
        with Connection(cls.nodes[0].pb) as pb:
            for number in range(COUNT):
                pb.put(BUCKET, key_of(number), value_of(number), w="all", dw=0)
            cls.nodes[0].create_bucket_type(SINGLE, {"n_val": 1})
            for number in range(COUNT):
                pb.put(BUCKET, key_of(number), value_of(number), type=SINGLE, dw=0)

    def setUp(self):
        super().setUp()
        for node in self.nodes:
            if not node.is_running():
                node.start()
        self.nodes.settle()
        wait_until(lambda: all(self.sees_all(node) for node in self.nodes), "all nodes to be seen as up")
        self.read_before = [bytes_read(node) for node in self.nodes]

    def sees_all(self, node):
        members = node.json("cluster", "status")["members"]
        return all(member["availability"] == "up" for member in members)

    def post(self, node, document, chunked=False):
        connection = http.client.HTTPConnection(*node.http, timeout=120)
        self.addCleanup(connection.close)
        connection.request("POST", "/mapred" + ("?chunked=true" if chunked else ""), document,
                           {"Content-Type": "application/json"})
        return connection.getresponse()

    def kill_one_at_work(self):
        """Kills the node that has read most for the job of node 0. The job determines which node that
        is."""
        def read_since(place):
            return bytes_read(self.nodes[place]) - self.read_before[place]
        others = range(1, NODES)
        wait_until(lambda: max(map(read_since, others)) > AT_WORK_BYTES, "a node to work for the job")
        self.nodes[max(others, key=read_since)].kill()

    def assert_all(self, values):
        self.assertEqual(len(values), COUNT)
        self.assertEqual(sorted(values), EXPECTED)

    def pb_values(self, inputs):
        """Returns the outputs of a job over Protocol Buffers. A node dies after the first frame."""
        values, is_first = [], True
        with Connection(self.nodes[0].pb, timeout=120) as pb:
            pb.send("RpbMapRedReq", request=job([VALUES], inputs), content_type="application/json")
            while True:
                fields = pb.receive()
                if fields.get("response"):
                    values += json.loads(fields["response"])
                if fields.get("done"):
                    return values
                if is_first and values:
                    self.kill_one_at_work()
                    is_first = False

    def test_protocol_buffers_with_a_bucket(self):
        self.assert_all(self.pb_values(BUCKET))

    def test_protocol_buffers_with_listed_keys(self):
        self.assert_all(self.pb_values(listed()))

    def test_http_in_one_piece(self):
        answer = self.post(self.nodes[0], job([VALUES]))
        self.assertEqual(answer.status, 200)
        beginning = answer.read(1000)
        self.kill_one_at_work()
        self.assert_all(json.loads(beginning + answer.read()))

    def test_http_in_parts(self):
        answer = self.post(self.nodes[0], job([VALUES], listed()), chunked=True)
        self.assertEqual(answer.status, 200)
        beginning = answer.read(1000)
        self.kill_one_at_work()
        self.assert_all(values_of_parts(answer, beginning + answer.read()))

    def test_records_that_die_with_their_node_end_the_job_in_words(self):
        with self.assertRaises(Refused) as ended:
            self.pb_values([SINGLE, BUCKET])
        self.assertTrue(str(ended.exception))
        answer = self.post(self.nodes[0], job([VALUES], [SINGLE, BUCKET]))
        self.assertEqual(answer.status, 500)
        self.assertTrue(json.loads(answer.read())["error"])

    def test_functions_in_javascript_that_run_at_the_node(self):
        ended = []
        document = job([LENGTHS, SUM])
        client = threading.Thread(target=lambda: ended.append(self.post(self.nodes[0], document).read()))
        client.start()
        wait_until(lambda: self.read_count() > 0, "the job to read")
        self.kill_one_at_work()
        self.assertLess(self.read_count(), COUNT, "the node dies in the midst of the job")
        client.join()
        self.assertEqual(json.loads(ended[0]), [COUNT * VALUE_BYTES])

    def read_count(self):
        jobs = self.nodes[0].json("jobs")["jobs"]
        return jobs[0]["read_count"] if jobs else 0

    def test_a_dead_coordinator_leaves_no_answer_that_looks_whole(self):
        whole = self.post(self.nodes[3], job([VALUES]))
        parts = self.post(self.nodes[3], job([VALUES]), chunked=True)
        pb = Connection(self.nodes[3].pb, timeout=120)
        self.addCleanup(pb.wire.close)
        pb.send("RpbMapRedReq", request=job([VALUES]), content_type="application/json")
        beginnings = [whole.read(1000), parts.read(1000)]
        pb.receive()
        self.nodes[3].kill()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            self.fail("a whole answer of %d bytes" % len(beginnings[0] + whole.read()))
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            self.fail("a whole answer of %d bytes" % len(beginnings[1] + parts.read()))
        # Receiving frames fails once the connection has ended.
        with self.assertRaises(Exception) as ended:
            while not pb.receive().get("done"):
                pass
        self.assertNotIsInstance(ended.exception, (Refused, AssertionError))


def bytes_read(node):
    """Returns the number of bytes that a node's process has read from files, including records for jobs."""
    with open("/proc/%d/io" % node.process.pid, encoding="ascii") as handle:
        return int(handle.readline().split()[1])


def values_of_parts(answer, body):
    """Returns the outputs in the parts of a chunked answer."""
    boundary = answer.getheader("Content-Type").split("boundary=")[1].encode()
    parts = body.split(b"--" + boundary)
    assert parts[-1].startswith(b"--"), "the last part has its end"
    documents = [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in parts[1:-1]]
    return [value for document in documents for value in document["data"]]


HELD = "var held = []; while (true) { held.push(%s); }"
BOMBS = [
    "function(values) { %s }" % HELD % "new Array(1000).fill(held.length)",
    "function(values) { %s }" % HELD % "'x'.repeat(1 << 20) + held.length",
    "function(values) { %s }" % HELD % "new Uint8Array(1 << 20).fill(1)",
    # Outputs with little text and many values.
    "function(values) { return new Array(4 << 20).fill(0); }",
    "function(values) { var deep = []; for (var i = 0; i < 1e5; i++) deep.push([[[[i]]]]); return deep; }",
]


class MemoryBombs(unittest.TestCase):
    JOBS = 16
    LIMIT_MB = 64
    # Memory beside that of the functions: batches, answers, thread stacks, fragmentation. If only each job
    # were limited, the sixteen jobs would take a gigabyte.
    REST_MB = 128

    def test_the_functions_of_all_jobs_have_one_memory(self):
        settings = ["mapreduce.javascript=on", "mapreduce.javascript.maximum_memory=%dMB" % self.LIMIT_MB,
                    "mapreduce.javascript.jobs.maximum_memory=%dMB" % self.LIMIT_MB]
        with TemporaryNode(binary_from_environment(), settings) as node:
            with Connection(node.pb) as pb:
                pb.put("b", "k", "v")
            idle_kb = memory_kb(node, "VmRSS:")
            for source in BOMBS:
                self.assert_bounded(node, source, idle_kb)

    def assert_bounded(self, node, source, idle_kb):
        with open("/proc/%d/clear_refs" % node.process.pid, "w", encoding="ascii") as handle:
            handle.write("5")
        said = [None] * self.JOBS
        phase = {"language": "javascript", "source": source}
        document = json.dumps({"inputs": [["b", "k"]], "query": [{"map": phase}, {"reduce": phase}]})
        begins = threading.Barrier(self.JOBS)

        def run(place):
            begins.wait()
            with Connection(node.pb, timeout=120) as pb:
                try:
                    pb.send("RpbMapRedReq", request=document, content_type="application/json")
                    while not pb.receive().get("done"):
                        pass
                    said[place] = "done"
                except Refused as refused:
                    said[place] = str(refused)

        clients = [threading.Thread(target=run, args=(place,)) for place in range(self.JOBS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        grown_mb = (memory_kb(node, "VmHWM:") - idle_kb) / 1024
        self.assertIsNone(node.process.poll(), node.log_tail())
        for text in said:
            self.assertTrue(is_told(text), "%s: %s" % (source, text))
        self.assertLess(grown_mb, self.LIMIT_MB + self.REST_MB, "%s: %s" % (source, set(said)))


def is_told(text):
    """Tells if a job has ended with Riak's form of an error that names a limit. A job that could not
    begin has another form of error."""
    try:
        fault = json.loads(text)
    except ValueError:
        return "no runtime for scripts could be made: out of memory" in text
    return set(fault) >= {"phase", "error", "input", "type", "stack"} and "mapreduce." in fault["error"]


def memory_kb(node, name):
    with open("/proc/%d/status" % node.process.pid, encoding="ascii") as handle:
        for line in handle:
            if line.startswith(name):
                return int(line.split()[1])
    raise AssertionError("no figure %s" % name)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
