"""Measures how soon a node answers: from the start of the process until `/ping` says OK, and from the
installation of a package until the first get.

    python3 benchmarks/start.py --binary target/dist/quoit --rounds 10
    python3 benchmarks/start.py --binary target/dist/quoit --deb target/package/quoit_0.1.0_amd64.deb
"""
import argparse
import http.client
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAUSE_SECONDS = 0.001
LIMIT_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """A node that is started on a directory, and ended with its context."""

    def __init__(self, binary, data, options=()):
        self.port, self.pb = free_port(), free_port()
        self.command = [binary, "serve", "--data-dir", data, "--http", "127.0.0.1:%d" % self.port,
                        "--pb", "127.0.0.1:%d" % self.pb, "--node", "127.0.0.1:0", *options]

    def __enter__(self):
        self.began = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_details):
        self.process.terminate()
        self.process.wait(LIMIT_SECONDS)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Content-Type": "text/plain"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def until_ping(self):
        """Seconds from the start of the process until it answers."""
        while time.monotonic() - self.began < LIMIT_SECONDS:
            try:
                if self.ask("GET", "/ping") == (200, b"OK"):
                    return time.monotonic() - self.began
            except OSError:
                pass
            if self.process.poll() is not None:
                sys.exit("the node ended with status %d" % self.process.returncode)
            time.sleep(PAUSE_SECONDS)
        sys.exit("the node does not answer")


def start_to_ping(binary, rounds):
    """Times of starts on new directories, and of starts again on the same ones."""
    new, again = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="quoit-start-") as folder:
            data = os.path.join(folder, "data")
            for times in (new, again):
                with Node(binary, data) as node:
                    times.append(node.until_ping())
    return new, again


def install_to_get(deb):
    """Seconds for unpacking a package, starting its program, a put and a get."""
    with tempfile.TemporaryDirectory(prefix="quoit-start-") as folder:
        root = os.path.join(folder, "root")
        began = time.monotonic()
        subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
        with Node(os.path.join(root, "usr/bin/quoit"), os.path.join(folder, "data")) as node:
            node.until_ping()
            assert node.ask("PUT", "/buckets/b/keys/k", "hello")[0] == 204
            assert node.ask("GET", "/buckets/b/keys/k") == (200, b"hello")
            return time.monotonic() - began


def row(name, times):
    ms = sorted(1e3 * each for each in times)
    return "| %s | %.0f (%.0f..%.0f) |" % (name, statistics.median(ms), ms[0], ms[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(ROOT, "target/dist/quoit"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--deb", help="also measure from this package to the first get")
    arguments = parser.parse_args()
    new, again = start_to_ping(arguments.binary, arguments.rounds)
    print("| from | ms, median (spread) |\n| --- | --- |")
    print(row("start on a new directory to ping", new))
    print(row("start on the same directory to ping", again))
    if arguments.deb:
        times = [install_to_get(arguments.deb) for _ in range(arguments.rounds)]
        print(row("package unpacked, started, first put and get", times))


if __name__ == "__main__":
    main()
