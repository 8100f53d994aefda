"""Test programs that mount file systems for themselves only. If the machine does not permit that, the
program says so and tests nothing."""
import os
import subprocess
import sys
import tempfile

from support import unittest_runner


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def run(module, path):
    """Runs the tests of a module in a namespace in which it can mount."""
    if os.environ.get("TEST_MAY_MOUNT"):
        return unittest_runner.run(module)
    inside = ["unshare", "-rm"]
    try:
        subprocess.run(inside + ["mount", "-t", "tmpfs", "none", tempfile.gettempdir()], check=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (OSError, subprocess.CalledProcessError) as error:
        print("skipped: this machine lets nobody mount a file system of their own (%s), so full and "
              "read-only disks were not tested" % error)
        print("0 passed, 0 failed")
        return 0
    command = inside + [sys.executable, os.path.abspath(path)] + sys.argv[1:]
    return subprocess.run(command, env={**os.environ, "TEST_MAY_MOUNT": "1"}).returncode
