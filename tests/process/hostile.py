"""Tests of a real node whose clients send requests without an end, or do not read the answers.

Each test has a well-behaved client beside the hostile ones, and prints the latencies of its requests.
To run with more connections than the test command uses:

    TEST_HOSTILE_CONNECTIONS=1000 TEST_BINARY=target/release/quoit python3 tests/process/hostile.py
"""
import http.client
import os
import re
import resource
import socket
import struct
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection  # noqa: E402

HOSTILE = int(os.environ.get("TEST_HOSTILE_CONNECTIONS", "200"))
MB = 1 << 20
# Half of the budget suffices for the allowances of twice as many connections. The rest is for large
# requests.
BUDGET_MB = max(64, HOSTILE // 4)
# Memory beside the budget: fragmentation, the log's buffers, tasks, and answers to the well-behaved client.
BESIDE_BUDGET_MB = 96
STALL_SECONDS = 3
# Number of requests of the well-behaved client during an attack.
GOOD_COUNT = 200
PATIENCE_SECONDS = 60
LARGE_BYTES = 10 * MB
# Bytes of an unfinished frame that a client sends. All clients together send far more than the budget.
FRONT_BYTES = 4 * MB

GET_LARGE = struct.pack(">IB", 1 + 3 + 7, 9) + b"\x0a\x01b" + b"\x12\x05large"


class GoodClient(threading.Thread):
    """Writes and reads a small value, one request after the other."""

    def __init__(self, node):
        super().__init__()
        self.node = node
        self.is_told_to_end = threading.Event()
        self.seconds = []
        self.failure = None

    def run(self):
        try:
            with Connection(self.node.pb, PATIENCE_SECONDS) as pb:
                while len(self.seconds) < GOOD_COUNT or not self.is_told_to_end.is_set():
                    began = time.monotonic()
                    if len(self.seconds) % 2:
                        pb.put("good", "k", "v")
                    else:
                        pb.get("good", "k")
                    self.seconds.append(time.monotonic() - began)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def told(self):
        """Describes the latencies of its requests."""
        times = sorted(self.seconds)
        of = lambda share: 1e3 * times[min(len(times) - 1, int(share * len(times)))]  # noqa: E731
        return "%d requests, p50 %.1f ms, p99 %.1f ms, longest %.1f ms" \
            % (len(times), of(0.5), of(0.99), of(1))


class Memory(threading.Thread):
    """Samples the memory of a process until it is told to end."""

    def __init__(self, pid):
        super().__init__()
        self.pid = pid
        self.is_told_to_end = threading.Event()
        self.before = self.resident()
        self.most = self.before

    def resident(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as handle:
            return int(re.search(r"VmRSS:\s+(\d+) kB", handle.read()).group(1)) * 1024

    def run(self):
        while not self.is_told_to_end.wait(0.01):
            self.most = max(self.most, self.resident())

    def grown_mb(self):
        return (self.most - self.before) / MB


def metrics(node):
    """Returns all metrics without labels, by name."""
    connection = http.client.HTTPConnection(*node.http, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {name: float(value) for name, value in re.findall(r"^(\w+) ([0-9.e+]+)$", text, re.M)}


def send_as_it_goes(sockets, payload):
    """Sends to all sockets in turns as much as they take, without blocking on any of them."""
    left = {each: memoryview(payload) for each in sockets}
    end = time.monotonic() + PATIENCE_SECONDS
    idle_since = time.monotonic()
    while left and time.monotonic() < end and time.monotonic() - idle_since < 0.5:
        for each, rest in list(left.items()):
            try:
                count = each.send(rest[:256 * 1024])
            except BlockingIOError:
                continue
            except OSError:
                # The node has closed the connection.
                del left[each]
                continue
            idle_since = time.monotonic()
            left[each] = rest[count:]
            if not left[each]:
                del left[each]


@unittest.skipUnless(sys.platform == "linux", "memory is looked at in /proc")
class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def setUp(self):
        self.sockets = []
        self.addCleanup(lambda: [each.close() for each in self.sockets])
        self.start(BUDGET_MB)

    def start(self, budget_mb):
        """Starts a node with this budget, and writes the records that the tests read."""
        settings = ["request.maximum_memory=%dMB" % budget_mb,
                    "request.stall_timeout=%ds" % STALL_SECONDS,
                    "protobuf.backlog=1024", "bitcask.recent_writes_size=16MB"]
        self.node = TemporaryNode(binary_from_environment(), settings)
        self.addCleanup(self.node.__exit__)
        self.node.__enter__()
        with Connection(self.node.pb) as pb:
            pb.put("good", "k", "v")
            pb.put("b", "large", "v" * LARGE_BYTES)
            pb.get("b", "large")

    def connect(self, address, count=HOSTILE):
        """Opens that many non-blocking connections with small receive buffers."""
        for _ in range(count):
            each = socket.socket()
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            each.settimeout(PATIENCE_SECONDS)
            each.connect(address)
            each.setblocking(False)
            self.sockets.append(each)
        return self.sockets

    def during(self, attack, what):
        """Runs an attack with a well-behaved client beside it. Returns the node's metrics at the end of
        the attack."""
        memory, good = Memory(self.node.process.pid), GoodClient(self.node)
        good.start()
        memory.start()
        try:
            attack()
            good.is_told_to_end.set()
            good.join()
            seen = metrics(self.node)
        finally:
            good.is_told_to_end.set()
            good.join()
            memory.is_told_to_end.set()
            memory.join()
        self.assertIsNone(good.failure)
        print("%s: %d connections; good client: %s; resident +%.0f MB, counted at most %.0f of %d MB"
              % (what, len(self.sockets), good.told(), memory.grown_mb(),
                 seen["quoit_request_memory_used_bytes_maximum"] / MB, BUDGET_MB), flush=True)
        self.assertLessEqual(seen["quoit_request_memory_used_bytes_maximum"], BUDGET_MB * MB)
        self.assertLess(memory.grown_mb(), BUDGET_MB + BESIDE_BUDGET_MB)
        return seen

    def await_ends(self, protocol, seconds=PATIENCE_SECONDS):
        """Waits until the node has closed all hostile connections of a protocol."""
        end = time.monotonic() + seconds
        name = r'quoit_connections_open\{protocol="%s"\} (\d+)' % protocol
        while True:
            connection = http.client.HTTPConnection(*self.node.http, timeout=PATIENCE_SECONDS)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            count = int(re.search(name, text).group(1))
            # Over HTTP, one connection is that of this request.
            if count <= (protocol == "http"):
                return
            self.assertLess(time.monotonic(), end, "%d connections are open" % count)
            time.sleep(0.1)

    def test_frames_that_do_not_end_are_refused_within_the_budget_and_given_up(self):
        def attack():
            frame = struct.pack(">IB", 20 * MB, 11) + b"x" * FRONT_BYTES
            send_as_it_goes(self.connect(self.node.pb), frame)

        seen = self.during(attack, "unfinished frames")
        self.assertGreater(seen["quoit_request_memory_refused_total"], 0)
        self.await_ends("pb")

    def test_what_attacks_have_taken_goes_back_to_the_system(self):
        self.start(budget_mb=4 * BUDGET_MB)
        memory = Memory(self.node.process.pid)
        # Two rounds, so that the heaps of more threads grow.
        for _ in range(2):
            frame = struct.pack(">IB", 20 * MB, 11) + b"x" * FRONT_BYTES
            send_as_it_goes(self.connect(self.node.pb), frame)
            while self.sockets:
                self.sockets.pop().close()
            self.await_ends("pb")
        end = time.monotonic() + PATIENCE_SECONDS
        while memory.resident() > memory.before + BUDGET_MB * MB // 2:
            self.assertLess(time.monotonic(), end, "%d MB more than before the attacks"
                            % ((memory.resident() - memory.before) / MB))
            time.sleep(0.1)

    def test_bodies_that_do_not_end_are_refused_within_the_budget_and_given_up(self):
        def attack():
            head = b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: %d\r\n\r\n"
            body = head % (8 * MB) + b"x" * FRONT_BYTES
            send_as_it_goes(self.connect(self.node.http), body)

        seen = self.during(attack, "unfinished bodies")
        self.assertGreater(seen["quoit_request_memory_refused_total"], 0)
        self.await_ends("http")

    def test_large_answers_that_nobody_reads_stay_within_the_budget_and_are_given_up(self):
        def attack():
            send_as_it_goes(self.connect(self.node.pb), GET_LARGE * 2)

        seen = self.during(attack, "unread answers")
        self.assertGreater(seen["quoit_request_memory_refused_total"], 0)
        # A connection that was refused twice has all its answers, and is idle.
        end = time.monotonic() + PATIENCE_SECONDS
        while metrics(self.node)["quoit_slow_answers_total"] == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def test_large_objects_are_whole_while_another_large_answer_waits_to_be_read(self):
        def is_waiting():
            return metrics(self.node)["quoit_request_memory_used_bytes"] > LARGE_BYTES / 2

        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            send_as_it_goes(self.connect(self.node.pb, 1), GET_LARGE)
            while not is_waiting():
                self.assertLess(time.monotonic(), end)
            self.assert_large_is_whole()
            # The node closes a connection that does not read. Then this round has shown nothing.
            if is_waiting():
                return

    def assert_large_is_whole(self):
        value = b"v" * LARGE_BYTES
        with Connection(self.node.pb, PATIENCE_SECONDS) as pb:
            self.assertEqual(pb.get("b", "large"), [value])
        path = "/buckets/b/keys/large"
        web = http.client.HTTPConnection(*self.node.http, timeout=PATIENCE_SECONDS)
        self.addCleanup(web.close)
        web.request("GET", path)
        got = web.getresponse()
        self.assertEqual((got.status, got.read()), (200, value))
        # The connection is still in step: the next answers belong to the next requests.
        web.request("HEAD", path)
        head = web.getresponse()
        self.assertEqual((head.status, head.getheader("Content-Length"), head.read()),
                         (200, str(LARGE_BYTES), b""))
        web.request("GET", path, headers={"If-None-Match": head.getheader("ETag")})
        known = web.getresponse()
        self.assertEqual((known.status, known.read()), (304, b""))
        web.request("GET", path, headers={"Accept": "application/json"})
        refused = web.getresponse()
        self.assertEqual((refused.status, LARGE_BYTES > len(refused.read())), (406, True))

    def test_statistics_asked_for_thousands_of_times_leave_others_their_turn(self):
        def attack():
            requests = b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000
            send_as_it_goes(self.connect(self.node.http, max(20, HOSTILE // 10)), requests)

        self.during(attack, "unread statistics")
        # First a thread of low priority makes thousands of answers that fill the sockets. On a busy machine
        # it gets little processor time.
        self.await_ends("http", 6 * PATIENCE_SECONDS)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
