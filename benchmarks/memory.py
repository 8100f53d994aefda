"""Measures the memory of a node that has nothing to do: empty, by the number of partitions, and with idle
connections.

    python3 benchmarks/memory.py --binary target/dist/quoit

Resident memory counts the pages of the program that were read, which other programs of the same file share;
memory of its own is what the node has allocated.
"""
import argparse
import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from start import Node, ROOT  # noqa: E402

RING_SIZES = (8, 64, 512)
CONNECTION_COUNTS = (100, 1000)
SETTLED_SECONDS = 3


def memory(pid):
    """(resident, own) memory of a process, in KiB."""
    fields = {}
    with open("/proc/%d/status" % pid, encoding="ascii") as status:
        for line in status:
            name, _, rest = line.partition(":")
            fields[name] = rest.split()
    return int(fields["VmRSS"][0]), int(fields["RssAnon"][0])


def settled(node):
    """The memory of a node that has been left alone for a moment."""
    time.sleep(SETTLED_SECONDS)
    return memory(node.process.pid)


@contextlib.contextmanager
def started(binary, ring_size):
    """A node on an empty directory."""
    with tempfile.TemporaryDirectory(prefix="quoit-memory-") as folder:
        with Node(binary, os.path.join(folder, "data"), ["--set", "ring_size=%d" % ring_size]) as node:
            node.until_ping()
            yield node


def by_partitions(binary, rounds):
    """Prints the memory of empty nodes, and what a partition costs."""
    print("| partitions | resident MiB | own MiB |\n|---|---|---|")
    owns = []
    for ring_size in RING_SIZES:
        found = []
        for _ in range(rounds):
            with started(binary, ring_size) as node:
                found.append(settled(node))
        resident, own = (statistics.median(each) for each in zip(*found))
        owns.append(own)
        print("| %d | %.1f | %.1f |" % (ring_size, resident / 1024, own / 1024))
    step = (owns[-1] - owns[0]) / (RING_SIZES[-1] - RING_SIZES[0])
    print("a partition: %.1f KiB" % step)


def by_connections(binary):
    """Prints what an idle connection costs that has asked once."""
    for protocol, question in (("Protocol Buffers", b"\x00\x00\x00\x01\x01"),
                               ("HTTP", b"GET /ping HTTP/1.1\r\nHost: node\r\n\r\n")):
        opened, sizes = [], []
        # A node of its own for each protocol, which takes nothing over that the other one has left.
        with started(binary, RING_SIZES[1]) as node:
            # The first connections pay for what all of them share.
            for count in CONNECTION_COUNTS:
                while len(opened) < count:
                    port = node.pb if protocol != "HTTP" else node.port
                    connection = socket.create_connection(("127.0.0.1", port))
                    connection.sendall(question)
                    connection.recv(4096)
                    opened.append(connection)
                sizes.append(settled(node)[1])
            for connection in opened:
                connection.close()
        step = (sizes[1] - sizes[0]) / (CONNECTION_COUNTS[1] - CONNECTION_COUNTS[0])
        print("an idle connection, %s: %.1f KiB" % (protocol, step))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "dist", "quoit"),
                        help="the program [default: target/dist/quoit]")
    parser.add_argument("--rounds", type=int, default=3, help="nodes of each number of partitions [3]")
    args = parser.parse_args()
    by_partitions(args.binary, args.rounds)
    by_connections(args.binary)


if __name__ == "__main__":
    main()
