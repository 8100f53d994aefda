"""A cluster of real nodes for a test: processes on loopback, joined by `quoit admin`."""
import os
import random
import socket
import time

from support.node import Node, NodeError, binary_from_environment

AGREE_SECONDS = 60
# Below the ports of outgoing connections: such a connection must not take the port of a node between the
# node's end and its next start.
PORTS = range(15000, 30000)
_GIVEN = set()


class ClusterNode(Node):
    """A node that uses the same addresses whenever it is started."""

    def __init__(self, folder, number, settings=(), flags=(), binary=None):
        self.name = "test%d@127.0.0.1" % number
        home = os.path.join(folder, "node%d" % number)
        os.makedirs(home)
        super().__init__(binary or binary_from_environment(), os.path.join(home, "data"), settings,
                         ["--name", self.name] + list(flags))
        for flag in ("pb", "http", "node"):
            self.flags += ["--" + flag, "127.0.0.1:%d" % free_port()]

    def run(self, *arguments):
        """Returns the output of `quoit admin`, which must succeed."""
        done = self.admin(*arguments)
        if done.returncode:
            raise NodeError("%s: admin %s: %s" % (self.name, " ".join(arguments), done.stdout))
        return done.stdout

    def join(self, other):
        """Stages the joining of this node to the cluster of another."""
        return self.run("cluster", "join", other.record["node"])

    def is_settled(self):
        """Tells if this node knows that all nodes agree, and has nothing to hand over."""
        if not self.is_running() or self.admin("ringready").returncode != 0:
            return False
        return not self.json("transfers")["waiting"]

    def is_running(self):
        return self.process is not None and self.process.poll() is None


class Cluster:
    """A cluster with its data in a folder, which runs the program under test by default. It ends with
    its context at the latest."""

    def __init__(self, folder, count, settings=(), flags=(), binary=None):
        self.folder = folder
        self.settings = list(settings)
        self.flags = list(flags)
        self.binary = binary
        self.nodes = []
        self.count = count

    def __enter__(self):
        try:
            for _ in range(self.count):
                self.add()
            if self.count > 1:
                self.join(*self.nodes[1:])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_details):
        for node in self.nodes:
            node.__exit__()

    def __getitem__(self, place):
        return self.nodes[place]

    def __iter__(self):
        return iter(self.nodes)

    def add(self, settings=None, flags=()):
        """Starts one more node, which has not joined yet."""
        return self.new(settings, flags).start()

    def new(self, settings=None, flags=()):
        """Makes one more node without starting it."""
        settings = self.settings if settings is None else settings
        node = ClusterNode(self.folder, len(self.nodes) + 1, settings, self.flags + list(flags),
                           self.binary)
        self.nodes.append(node)
        return node

    def join(self, *nodes):
        """Joins nodes to the first one, and waits until all agree."""
        for node in nodes:
            node.join(self[0])
        self.commit()

    def commit(self):
        """Commits the staged changes, and waits until they are done."""
        wait_until(self.joining_are_up, "the nodes that join to be reached")
        self[0].run("cluster", "plan")
        self[0].run("cluster", "commit")
        self.settle()

    def joining_are_up(self):
        members = self[0].json("cluster", "status")["members"]
        return all(member["availability"] == "up" for member in members
                   if member["status"] == "joining")

    def settle(self):
        """Waits until all running nodes agree and no transfer is left."""
        running = [node for node in self.nodes if node.is_running()]
        for node in running:
            wait_until(node.is_settled, "%s to agree with the others" % node.name)


def free_port():
    """Returns a port without a listener that is outside the range of outgoing connections and was not
    returned before."""
    while True:
        port = random.choice(PORTS)
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                _GIVEN.add(port)
                return port
            except OSError:
                continue


def wait_until(condition, what, seconds=AGREE_SECONDS):
    """Waits until a condition holds."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise NodeError("waited %d s for %s" % (seconds, what))
        time.sleep(0.02)
