"""Starts a node and a cluster, and runs the tests of the Node.js client against them."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support.cluster import Cluster  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

BUCKET_TYPES = {
    "sibs": {"allow_mult": True},
    "plain": {"allow_mult": False},
    "single": {"n_val": 1, "allow_mult": False},
    "counters": {"datatype": "counter", "allow_mult": True},
    "sets": {"datatype": "set", "allow_mult": True},
    "maps": {"datatype": "map", "allow_mult": True},
}
TIMEOUT_SECONDS = 120


def main():
    with (tempfile.TemporaryDirectory(prefix="quoit-test-") as folder,
          TemporaryNode(binary_from_environment()) as node,
          TemporaryNode(binary_from_environment(), ["mapreduce.javascript=on"]) as scripts,
          Cluster(folder, 5, ["ring_size=8"]) as cluster):
        for name, props in BUCKET_TYPES.items():
            node.create_bucket_type(name, props)
            cluster[0].create_bucket_type(name, props)
        environment = dict(os.environ, TEST_PB=node.record["pb"],
                           TEST_SCRIPTS_PB=scripts.record["pb"],
                           TEST_CLUSTER=",".join(each.record["pb"] for each in cluster),
                           TEST_VICTIM=str(cluster[2].record["pid"]))
        # The client was written in 2017 and uses calls that Node.js has deprecated since.
        done = subprocess.run(["node", "--no-deprecation", os.path.join(HERE, "tests.js")],
                              env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
        if done.returncode:
            print("the end of the node's log:\n" + node.log_tail(15))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
