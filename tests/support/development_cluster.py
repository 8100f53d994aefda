"""A development cluster for a test: `quoit dev-cluster` with its data in a temporary folder."""
import json
import os
import signal
import subprocess
import tempfile

from support.cluster import wait_until
from support.node import Administered, NodeError, die_with_parent

STOP_SECONDS = 60


class DevelopmentCluster(Administered):
    """Several nodes that form a cluster, as long as the context lasts."""

    def __init__(self, binary, count, settings=()):
        self.binary = binary
        self.count = count
        self.settings = list(settings)
        self.folder = None
        self.process = None
        self.records = []

    @property
    def record(self):
        """The record of the node that receives the requests about the whole cluster."""
        return self.records[0]

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        ready = os.path.join(self.folder.name, "ready.json")
        command = [self.binary, "dev-cluster", str(self.count), "--base-dir", self._base(),
                   "--ready-file", ready]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self._log(), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=die_with_parent)
        wait_until(lambda: os.path.exists(ready) or self.process.poll() is not None,
                   "%d nodes to be one cluster" % self.count)
        if self.process.poll() is not None:
            raise NodeError("quoit dev-cluster ended before it was ready:\n" + _tail(self._log()))
        with open(ready, encoding="utf-8") as handle:
            self.records = json.load(handle)["nodes"]

    def _base(self):
        return os.path.join(self.folder.name, "base")

    def _log(self):
        return os.path.join(self.folder.name, "log")

    def log_tail(self, lines=15):
        """Returns the end of the output of each node."""
        return "\n".join("%s:\n%s" % (record["name"], _tail(self._log_of(record), lines))
                         for record in self.records)

    def _log_of(self, record):
        return os.path.join(self._base(), record["name"].partition("@")[0], "log")

    def __exit__(self, *_details):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()


def _tail(path, lines=15):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return "".join(handle.readlines()[-lines:])
    except OSError:
        return "(no log)"
