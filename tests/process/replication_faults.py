"""Tests of links between clusters of real processes with faults: of peers, of clocks, or of deletes."""
import os
import socket
import struct
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import shifted_clock, unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.node import NodeError  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.replicating import Clusters, consume, get, repl, stale, status  # noqa: E402

# Riak's error for an unknown message.
UNKNOWN = b"Unknown message code: 164"
UNKNOWN_FRAME = (struct.pack(">IBBB", 1 + 2 + len(UNKNOWN) + 2, 0, 0x0A, len(UNKNOWN)) + UNKNOWN +
                 b"\x10\x00")
# The beginning of an unfinished answer, followed by bytes of another protocol.
GARBAGE = b"\x00\x00\x00\x09\xa5garbage!"
GARBAGE_HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\xff\xff\xff\xffjunk"


class Impostor:
    """A server that gives the same answer to every request, or no answer at all."""

    def __init__(self, answer):
        self.answer = answer
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            while connection.recv(1 << 16):
                if self.answer:
                    connection.sendall(self.answer)
        except OSError:
            pass

    def close(self):
        # Closing the socket alone would not end the wait in accept().
        self.socket.shutdown(socket.SHUT_RDWR)
        for each in [self.socket] + self.connections:
            each.close()


class LinksWithFaults(unittest.TestCase):
    def setUp(self):
        self.clusters = Clusters(self.addCleanup)

    def impostor(self, answer):
        made = Impostor(answer)
        self.addCleanup(made.close)
        return "127.0.0.1:%d" % made.port

    def test_peers_that_are_none_are_told_with_what_is_wrong_and_the_others_go_on(self):
        one = self.clusters.start("one", 1)
        other = self.clusters.start("other", 1)
        wrong = {
            "silent": (self.impostor(b"") + ":pb", "does not answer"),
            "silenthttp": (self.impostor(b"") + ":http", "no answer within"),
            "garbage": (self.impostor(GARBAGE) + ":pb", "is this a Quoit or Riak node's PB port?"),
            "garbagehttp": (self.impostor(GARBAGE_HTTP) + ":http", "a fetched object"),
            "unknown": (self.impostor(UNKNOWN_FRAME) + ":pb", UNKNOWN.decode()),
        }
        for queue, (address, _) in wrong.items():
            repl(one[0], "sink", "add", queue, address, "--workers", "2")
        consume(one, other)
        with Connection(other[0].pb) as pb:
            pb.put("b", "k", b"v")
        wait_until(lambda: get(one[0], "b", "k") == [b"v"], "the good link to go on")
        for queue, (address, said) in wrong.items():
            def is_told(queue=queue, said=said):
                shown = repl(one[0], "status").splitlines()
                return any("ATTENTION: sink %s: " % queue in line and said in line for line in shown)
            wait_until(is_told, "%r to be told of %s" % (said, queue))
        self.assertFalse(any("sink out" in line for line in repl(one[0], "status").splitlines()
                             if "ATTENTION" in line))
        for queue, said in (("garbage", "is this a Quoit or Riak node's PB port?"),
                            ("unknown", UNKNOWN.decode())):
            repl(one[0], "fullsync", "set", "--peer", wrong[queue][0])
            self.assertIn("failed", repl(one[0], "fullsync", "run", "all"))
            self.assertIn(said, status(one[0])["full_sync"]["last"]["fault"])

    def test_a_fault_of_a_peer_is_told_no_longer_when_it_answers_again(self):
        one = self.clusters.start("one", 1)
        other = self.clusters.start("other", 1)
        consume(one, other)
        other[0].kill()
        wait_until(lambda: "ATTENTION: sink out" in repl(one[0], "status"), "the fault to be told")
        other[0].start()
        wait_until(lambda: "ATTENTION: sink out" not in repl(one[0], "status"), "it to be over")

    def test_clocks_that_differ_are_told_and_change_nothing(self):
        if shifted_clock.compiler() is None:
            self.skipTest("no C compiler: clocks that differ are not tested")
        one, other = self.clusters.start("one", 1), self.clusters.start("other", 1)
        other[0].kill()
        other[0].environment = shifted_clock.environment(self.clusters.folder, 3600)
        other[0].start()
        consume(one, other)
        consume(other, one)
        self.agree(one, other)
        wait_until(lambda: "ahead of this node's clock: set the clocks" in repl(one[0], "status"),
                   "the difference to be told")

    def test_clusters_may_have_other_numbers_of_partitions_and_replicas(self):
        one, other = self.clusters.start("one", 1, 8), self.clusters.start("other", 1, 64)
        one[0].create_bucket_type("t", {"n_val": 3, "allow_mult": False})
        other[0].create_bucket_type("t", {"n_val": 1, "allow_mult": True})
        consume(one, other)
        consume(other, one)
        self.agree(one, other, type="t")

    def agree(self, one, other, **options):
        """Each cluster writes, overwrites and deletes values that the other one has written. Compares
        the two clusters."""
        for writer, reader, key in ((one, other, "1"), (other, one, "2")):
            for value in (b"first", b"second"):
                with Connection(writer[0].pb) as pb:
                    found = pb.call("RpbGetReq", bucket="b", key=key, **options)
                    seen = {name: found[name] for name in ("vclock",) if name in found}
                    pb.put("b", key, value, **seen, **options)
                wait_until(lambda: get(reader[0], "b", key, **options) == [value], "%r" % value)
                writer, reader = reader, writer
        with Connection(one[0].pb) as pb:
            pb.call("RpbDelReq", bucket="b", key="2", **options)
        wait_until(lambda: get(other[0], "b", "2", **options) == [], "the delete to be across")
        repl(one[0], "fullsync", "set", "--peer", "127.0.0.1:%d:pb" % other[0].pb[1])
        wait_until(lambda: "in_sync" in repl(one[0], "fullsync", "run", "all"), "both to be the same")

    def test_deletes_that_a_suspended_queue_drops_wait_for_a_full_sync(self):
        one = self.clusters.start("one", 1, settings=["repl.retention=2m"])
        other = self.clusters.start("other", 1)
        consume(other, one)
        node = one[0]

        def missed():
            return status(node)["source"]["queues"][0]["missed_deletes_age_ms"]

        def is_kept():
            with open(os.path.join(node.data_dir, "replication", "QUEUES"), encoding="ascii") as kept:
                return "\nmissed " in kept.read()
        with Connection(node.pb) as pb:
            pb.put("b", "gone", b"v")
            wait_until(lambda: get(other[0], "b", "gone") == [b"v"], "the value to be across")
            repl(node, "queue", "suspend", "out")
            self.assertIsNone(missed())
            pb.call("RpbDelReq", bucket="b", key="gone")
        wait_until(is_kept, "the delete to be noted on the disk")
        node.kill()
        node.start()
        self.assertIsNotNone(missed())
        repl(node, "queue", "resume", "out")
        repl(node, "fullsync", "set", "--peer", "127.0.0.1:%d:pb" % other[0].pb[1])

        reports = []

        def is_made_up_for():
            reports.append(repl(node, "fullsync", "run", "all"))
            return missed() is None
        try:
            # Deletes of the last 30 s, a quarter of the retention, wait for the next full-sync.
            wait_until(is_made_up_for, "a full-sync to find nothing", 110)
        except NodeError as late:
            self.fail("%s: of %d runs the last one said %s" % (late, len(reports), reports[-1]))
        self.assertEqual(get(other[0], "b", "gone"), [])
        self.assertFalse(stale(one))


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
