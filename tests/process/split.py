"""A cluster of five nodes that is split into two and three, written on both sides, and joined again.

The test needs two network namespaces, with a cable between them that can be pulled. If the machine
does not permit that, the program says so and tests nothing.
"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import ClusterCase  # noqa: E402
from support.pb import Connection  # noqa: E402

HERE_SIDE, THERE_SIDE = "10.77.0.1", "10.77.0.2"
KEYS = ["k%d" % number for number in range(20)]
# Time within which the writes of both sides must be on all nodes.
CONVERGED_SECONDS = 30


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Cable:
    """A second network namespace, and the cable to it."""

    def __init__(self):
        # Ends with its standard input, and so with this process at the latest.
        self.holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        self.there = ["nsenter", "-t", str(self.holder.pid), "-n"]
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink("/proc/%d/ns/net" % self.holder.pid) != own, "the namespace")
        run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns",
            str(self.holder.pid))
        for prefix, device, address in (([], "here", HERE_SIDE), (self.there, "there", THERE_SIDE)):
            run(*prefix, "ip", "link", "set", "lo", "up")
            run(*prefix, "ip", "address", "add", address + "/24", "dev", device)
            run(*prefix, "ip", "link", "set", device, "up")

    def pull(self):
        run("ip", "link", "set", "here", "down")

    def plug(self):
        run("ip", "link", "set", "here", "up")

    def cut_off(self):
        self.holder.stdin.close()
        self.holder.wait()


def update_all(address, value):
    """Replaces the values that a client reads. It reads nothing of a key whose replicas are all on the
    other side."""
    with Connection(address) as pb:
        for key in KEYS:
            read = pb.call("RpbGetReq", type="siblings", bucket="b", key=key)
            context = {"vclock": read["vclock"]} if read else {}
            pb.put("b", key, value, type="siblings", **context)


def siblings(address):
    with Connection(address) as pb:
        return [sorted(pb.get("b", key, type="siblings")) for key in KEYS]


class Split(ClusterCase):
    def test_both_sides_of_a_split_take_writes_and_have_them_all_soon_after(self):
        cable = Cable()
        self.addCleanup(cable.cut_off)
        cluster = self.cluster(0, ("ring_size=8", "admin_remote=on"))
        for number in range(5):
            there = number >= 3
            node = cluster.new()
            if there:
                node.prefix = cable.there
            node.flags = [flag.replace("127.0.0.1:", (THERE_SIDE if there else HERE_SIDE) + ":")
                          for flag in node.flags]
            node.start()
        cluster.join(*cluster.nodes[1:])
        cluster[0].create_bucket_type("siblings", {"allow_mult": True})
        here, far = cluster[0], cluster[4]
        with Connection(here.pb) as pb:
            for key in KEYS:
                pb.put("b", key, "before", type="siblings")
        cable.pull()
        wait_until(lambda: here.run("cluster", "status").count("down!") == 2, "the split to be seen")
        update_all(here.pb, "here")
        run(*cable.there, sys.executable, os.path.abspath(__file__), "update", *map(str, far.pb))
        self.assertEqual(siblings(here.pb), [[b"here"]] * len(KEYS))
        cable.plug()
        began = time.monotonic()
        both = [[b"here", b"there"]] * len(KEYS)
        for node in cluster:
            wait_until(lambda: has(node, both), "%s to have both sides' writes" % node.name,
                       CONVERGED_SECONDS)
        wait_until(lambda: node.is_settled(), "nothing to be left to hand over", CONVERGED_SECONDS)
        self.assertLess(time.monotonic() - began, CONVERGED_SECONDS)
        self.assert_unharmed(cluster)


def has(node, expected):
    try:
        return siblings(node.pb) == expected
    except OSError:
        return False


def main():
    if sys.argv[1:2] == ["update"]:
        update_all((sys.argv[2], int(sys.argv[3])), "there")
        return 0
    if os.environ.get("TEST_SPLIT_INSIDE"):
        return unittest_runner.run(sys.modules[__name__])
    inside = ["unshare", "-rn"]
    try:
        run(*inside, "ip", "link", "add", "here", "type", "veth", "peer", "name", "there",
            stderr=subprocess.STDOUT)
    except (OSError, subprocess.CalledProcessError) as error:
        print("skipped: this machine lets nobody make network namespaces (%s), so a cluster that is "
              "cut in two was not tested" % error)
        print("0 passed, 0 failed")
        return 0
    command = inside + [sys.executable, os.path.abspath(__file__)] + sys.argv[1:]
    return subprocess.run(command, env={**os.environ, "TEST_SPLIT_INSIDE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
