"""Clusters of real processes that replicate to each other, and helpers for their tests."""
import json
import os
import subprocess
import tempfile
import urllib.request

from support.cluster import Cluster
from support.node import binary_from_environment
from support.pb import Connection

SOURCE = ["replrtq_enablesrc=enabled", "replrtq_srcqueue=out:any", "ttaaefs_queuename=out",
          "ttaaefs_queuename_peer=out"]


class Clusters:
    """Clusters of a test, or of a class of tests, in a folder of their own. Its clean-up ends them."""

    def __init__(self, add_cleanup):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        add_cleanup(folder.cleanup)
        self.folder = folder.name
        self.add_cleanup = add_cleanup

    def start(self, name, count, ring_size=8, settings=()):
        """Starts a cluster whose nodes have a queue `out` of all writes."""
        home = os.path.join(self.folder, name)
        os.makedirs(home)
        made = Cluster(home, count, SOURCE + ["ring_size=%d" % ring_size] + list(settings))
        self.add_cleanup(made.__exit__)
        return made.__enter__()


def repl(node, *arguments, fails=False):
    """Runs `quoit repl`. Returns its output."""
    done = subprocess.run([binary_from_environment(), "repl", "--url", node.url] + list(arguments),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=90, text=True)
    if (done.returncode != 0) != fails:
        raise AssertionError("repl %s: %s" % (" ".join(arguments), done.stdout))
    return done.stdout


def status(node):
    """Returns the state of a node's replication."""
    with urllib.request.urlopen(node.url + "/admin/v1/repl", timeout=10) as answer:
        return json.load(answer)["result"]


def waiting(cluster):
    """Returns the number of unconfirmed entries in the queues of all running nodes."""
    queues = [queue for node in cluster if node.is_running()
              for queue in status(node)["source"]["queues"] if queue["name"] == "out"]
    return sum(queue["real_time"] + queue["full_sync"] + queue["unconfirmed"] for queue in queues)


def peers(cluster):
    return "|".join("127.0.0.1:%d:pb" % node.pb[1] for node in cluster)


def consume(sink, source):
    """Has all nodes of a cluster consume the queue of all nodes of another."""
    repl(sink[0], "sink", "add", "out", peers(source), "--workers", "8", "--all")


def get(node, bucket, key, **options):
    with Connection(node.pb) as pb:
        return sorted(pb.get(bucket, key, **options))


def counter(node, key):
    with Connection(node.pb) as pb:
        fields = pb.call("DtFetchReq", bucket="c", key=key, type="counters")
    return fields.get("value", {}).get("counter_value", 0)


def add(node, key, amount):
    with Connection(node.pb) as pb:
        pb.call("DtUpdateReq", bucket="c", key=key, type="counters",
                op={"counter_op": {"increment": amount}})


def stale(cluster):
    """Tells if a node of a cluster has a stale queue."""
    return any(queue["stale"] for node in cluster for queue in status(node)["source"]["queues"])
