"""A cluster of real nodes for a test: processes of its own on loopback, joined by `quoit admin`."""
import os
import random
import socket
import time

from support.node import Node, NodeError, binary_from_environment

AGREE_SECONDS = 60
# Below the ports that systems give to outgoing connections: one of those must not take the port of
# a node between its end and its next start.
PORTS = range(15000, 30000)
_GIVEN = set()


class ClusterNode(Node):
    """A node that comes back to its addresses when it is started again."""

    def __init__(self, folder, number, settings=(), flags=(), binary=None):
        self.name = "test%d@127.0.0.1" % number
        home = os.path.join(folder, "node%d" % number)
        os.makedirs(home)
        super().__init__(binary or binary_from_environment(), os.path.join(home, "data"), settings,
                         ["--name", self.name] + list(flags))
        for flag in ("pb", "http", "node"):
            self.flags += ["--" + flag, "127.0.0.1:%d" % free_port()]

    def run(self, *arguments):
        """What `quoit admin` prints; an error if it fails."""
        done = self.admin(*arguments)
        if done.returncode:
            raise NodeError("%s: admin %s: %s" % (self.name, " ".join(arguments), done.stdout))
        return done.stdout

    def join(self, other):
        """Stages that this node joins the cluster of another."""
        return self.run("cluster", "join", other.record["node"])

    def is_settled(self):
        """Whether this node knows that all agree, and has nothing to hand over."""
        if not self.is_running() or self.admin("ringready").returncode != 0:
            return False
        return not self.json("transfers")["waiting"]

    def is_running(self):
        return self.process is not None and self.process.poll() is None


class Cluster:
    """Nodes on the data of one folder, of the program under test if no other is named. Ends with its
    context at the latest."""

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
        """One more node, started and alone."""
        return self.new(settings, flags).start()

    def new(self, settings=None, flags=()):
        """One more node, not started yet."""
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
        """Carries out what is staged, and waits until it is done."""
        wait_until(self.joining_are_up, "the nodes that join to be reached")
        self[0].run("cluster", "plan")
        self[0].run("cluster", "commit")
        self.settle()

    def joining_are_up(self):
        members = self[0].json("cluster", "status")["members"]
        return all(member["availability"] == "up" for member in members
                   if member["status"] == "joining")

    def settle(self):
        """Waits until all nodes that run agree and nothing moves."""
        running = [node for node in self.nodes if node.is_running()]
        for node in running:
            wait_until(node.is_settled, "%s to agree with the others" % node.name)


def free_port():
    """A port that nobody listens on now, that no outgoing connection is given, and that was not given out."""
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
    """Waits for something that must come true."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise NodeError("waited %d s for %s" % (seconds, what))
        time.sleep(0.02)
