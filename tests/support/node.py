"""A real node for a test: a process on loopback with ports of its own."""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

START_SECONDS = 30
STOP_SECONDS = 30


class NodeError(Exception):
    """The node failed to start or to stop."""


def die_with_parent():
    """Has the kernel kill the node when the test program has ended, for any reason."""
    if sys.platform == "linux":
        parent_death_signal = 1
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)


class Administered:
    """A target of `quoit admin`. Subclasses have the program as `binary` and a node's ready file as
    `record`."""

    @property
    def url(self):
        return "http://" + self.record["http"]

    def admin(self, *arguments):
        """Runs `quoit admin` against the node. Returns the finished process with its output as text."""
        return subprocess.run([self.binary, "admin", "--url", self.url] + list(arguments),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, text=True)

    def json(self, *arguments):
        """Returns the output of `quoit admin --format json`, which must succeed."""
        done = self.admin("--format", "json", *arguments)
        if done.returncode:
            raise NodeError("%s: admin %s: %s" % (self.url, " ".join(arguments), done.stdout))
        return json.loads(done.stdout)

    def create_bucket_type(self, name, props, active=True):
        """Creates and activates a bucket type, which must succeed."""
        self._bucket_type("create", name, json.dumps({"props": props}))
        if active:
            self._bucket_type("activate", name)

    def _bucket_type(self, *arguments):
        done = self.admin("bucket-type", *arguments)
        if done.returncode:
            raise NodeError("bucket-type %s: %s" % (" ".join(arguments), done.stdout))


class Node(Administered):
    """One `quoit serve` process. As a context manager it is stopped at the end."""

    def __init__(self, binary, data_dir, settings=(), flags=()):
        self.binary = binary
        self.data_dir = data_dir
        self.settings = list(settings)
        self.flags = list(flags)
        self.environment = {}
        # Words before the program on the command line, for nodes that are not started directly.
        self.prefix = []
        self.process = None
        self.record = None
        self.folder_above = os.path.dirname(data_dir)
        self.log_path = os.path.join(self.folder_above, "node.log")

    def start(self):
        """Starts the process, and waits for the ready file with its addresses."""
        self.record = self.wait_until_ready(self.launch())
        return self

    def launch(self):
        """Starts the process without waiting for it. Returns the path of its ready file."""
        ready_path = os.path.join(self.folder_above, "ready.json")
        if os.path.exists(ready_path):
            os.unlink(ready_path)
        command = self.prefix + [
            self.binary, "serve", "--data-dir", self.data_dir, "--pb", "127.0.0.1:0",
            "--http", "127.0.0.1:0", "--node", "127.0.0.1:0", "--ready-file", ready_path]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command + self.flags, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **self.environment}, preexec_fn=die_with_parent)
        return ready_path

    def assert_refused(self, test, words):
        """Starts the process, which must end by itself with these words in its log."""
        self.launch()
        test.assertEqual(self.process.wait(START_SECONDS), 1, self.log_tail())
        test.assertIn(words, self.log_tail())

    def wait_until_ready(self, ready_path):
        """Waits for the ready file of a launched node. Returns its contents."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            try:
                with open(ready_path, encoding="utf-8") as handle:
                    return json.load(handle)
            except (FileNotFoundError, ValueError):
                pass
            if self.process.poll() is not None:
                raise NodeError("the node ended with status %d before it was ready:\n%s"
                                % (self.process.returncode, self.log_tail()))
            time.sleep(0.01)
        self.kill()
        raise NodeError("the node was not ready within %d s:\n%s"
                        % (START_SECONDS, self.log_tail()))

    @property
    def records(self):
        """The ready files of all nodes: here of only one."""
        return [self.record]

    @property
    def pb(self):
        """Address of the Protocol Buffers listener: (host, port)."""
        return _address(self.record["pb"])

    @property
    def http(self):
        """Address of the HTTP listener: (host, port)."""
        return _address(self.record["http"])

    @property
    def node(self):
        """Address of the listener for other nodes: (host, port)."""
        return _address(self.record["node"])

    def stop(self):
        """Stops the process with SIGTERM and waits for it. Returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError("the node did not stop within %d s of SIGTERM:\n%s"
                            % (STOP_SECONDS, self.log_tail()))

    def kill(self):
        """Kills the process, as a crash would."""
        self.process.kill()
        self.process.wait()

    def log_tail(self, lines=30):
        """Returns the end of the node's output."""
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as handle:
                return "".join(handle.readlines()[-lines:])
        except OSError:
            return "(no log)"

    def __enter__(self):
        return self

    def __exit__(self, *_details):
        if self.process is not None and self.process.poll() is None:
            self.kill()


class TemporaryNode(Node):
    """A node with its data in a temporary folder, which is deleted with it."""

    def __init__(self, binary, settings=(), flags=()):
        self.folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        data_dir = os.path.join(self.folder.name, "data")
        os.mkdir(data_dir)
        super().__init__(binary, data_dir, settings, flags)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *details):
        super().__exit__(*details)
        self.folder.cleanup()


def _address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def copy_data(source, target):
    """Copies a data directory, or a folder of them, without the socket of a running process."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("admin.sock"))


def binary_from_environment():
    """Returns the path of the program under test, which the runner passes in TEST_BINARY."""
    binary = os.environ.get("TEST_BINARY")
    if not binary:
        sys.exit("TEST_BINARY names no program; run this through: python3 tests/run.py")
    return binary
