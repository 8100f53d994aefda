"""Starts a node with users, permissions and TLS, and runs the security tests of the Node.js client
against it."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "security")]

from certificates import Certificates, is_possible  # noqa: E402
from secured_node import CLIENTS, secured_node  # noqa: E402

TIMEOUT_SECONDS = 120


def main():
    if not is_possible():
        print("skipped: openssl, which makes the certificates, is not installed")
        print("0 passed, 0 failed")
        return 0
    with tempfile.TemporaryDirectory(prefix="quoit-test-") as folder:
        files = Certificates(folder)
        with secured_node(files, CLIENTS) as node:
            environment = dict(os.environ, TEST_PB=node.record["pb"], TEST_FILES=folder,
                               TEST_LOG=node.log_path)
            done = subprocess.run(["node", "--no-deprecation", os.path.join(HERE, "security.js")],
                                  env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
            if done.returncode:
                print("the end of the node's log:\n" + node.log_tail(15))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
