"""Starts a node and runs the tests of the Node.js client against it."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

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
    with TemporaryNode(binary_from_environment()) as node:
        for name, props in BUCKET_TYPES.items():
            node.create_bucket_type(name, props)
        # The client is of 2017 and uses calls that Node.js advises against today.
        done = subprocess.run(["node", "--no-deprecation", os.path.join(HERE, "tests.js")],
                              env=dict(os.environ, QUOIT_PB=node.record["pb"]),
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
        if done.returncode:
            print("the end of the node's log:\n" + node.log_tail(15))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
