"""Measures what Riak's trees cost a node while they are kept: processor time and memory, with the same load
of puts before the first question of a Riak and after it.

    python3 benchmarks/riak_trees.py --binary target/dist/quoit

Trees are brought up to date every minute for an hour after a question, so each of both measurements takes
several minutes.
"""
import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from memory import memory  # noqa: E402
from start import Node, ROOT  # noqa: E402

QUESTION = "/cachedtrees/nvals/3/root"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def load(args, folder, node, *options):
    """Runs a load of puts, and returns the node's processor time meanwhile."""
    before = cpu_seconds(node.process.pid)
    url = "pb://127.0.0.1:%d/b" % node.pb
    subprocess.run([args.binary, "bench", url, "--keys", str(args.records),
                    "--value-size", "1024", "--results-dir", folder, *options],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return cpu_seconds(node.process.pid) - before


def question(node):
    """Asks as a Riak does, and returns how long the answer took and its processor time."""
    before, began = cpu_seconds(node.process.pid), time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=600)
    connection.request("GET", QUESTION)
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit("%s: status %d, %r" % (QUESTION, answer.status, answer.read()))
    answer.read()
    connection.close()
    return time.monotonic() - began, cpu_seconds(node.process.pid) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "target", "dist", "quoit"),
                        help="the program [default: target/dist/quoit]")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the node [1000000]")
    parser.add_argument("--rate", type=int, default=2_000, help="puts a second of the load [2000]")
    parser.add_argument("--seconds", type=int, default=240, help="length of each load [240]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quoit-trees-") as folder, \
            Node(args.binary, os.path.join(folder, "data")) as node:
        node.until_ping()
        load(args, folder, node, "--fill")
        steady = ("--put", "1", "--rate", str(args.rate), "--duration",
                  "%ds" % args.seconds)
        without, own_without = load(args, folder, node, *steady), memory(node.process.pid)[1]
        first, first_cpu = question(node)
        with_trees, own_with = load(args, folder, node, *steady), memory(node.process.pid)[1]
        again, again_cpu = question(node)
    print("%d records, %d puts a second for %d s" % (args.records, args.rate, args.seconds))
    print("| what | without trees | with trees |\n|---|---|---|")
    print("| processor time of the node, s | %.1f | %.1f |" % (without, with_trees))
    print("| share of a processor | %.1f %% | %.1f %% |"
          % (100 * without / args.seconds, 100 * with_trees / args.seconds))
    print("| memory of its own, MiB | %.1f | %.1f |" % (own_without / 1024, own_with / 1024))
    print("trees: %+.1f %% of the node's processor time, %.1f %% of a processor"
          % (100 * (with_trees / without - 1), 100 * (with_trees - without) / args.seconds))
    print("the first question: %.2f s, %.2f s of a processor; a later one: %.2f s, %.2f s"
          % (first, first_cpu, again, again_cpu))


if __name__ == "__main__":
    main()
