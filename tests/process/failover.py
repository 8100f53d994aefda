"""Tests of loads whose nodes die: `quoit bench` continues with the other nodes at once, over both
protocols."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster_case import ClusterCase, end  # noqa: E402
from support.node import binary_from_environment  # noqa: E402
from support.cluster import wait_until  # noqa: E402

WORKERS = 8
RATE = 200
SECONDS = 9
# Number of rows of `summary.csv` after which a node is killed.
ROWS_BEFORE = 3
# A request may wait for a second until a silent node counts as dead. The rest is for a busy machine.
NOTICED_SECONDS = 2

RUN = """{mode, {open_rate, %d}}. {concurrent, %d}. {report_interval, 1}. {verify, true}.
{key_generator, {int_to_str, {uniform_int, 500}}}. {value_generator, {fixed_bin, 200}}.
""" % (RATE, WORKERS)
OBJECTS = "{operations, [{get, 4}, {put, 4}]}. "


class Failover(ClusterCase):
    def run_load(self, cluster, config, name):
        """Starts a load, and kills a node while it runs. Returns the load's results and output."""
        path = os.path.join(self.folder, name + ".config")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(config)
        bench = subprocess.Popen(
            [binary_from_environment(), "bench", path, "-d", self.folder, "-n", name,
             "--duration", "%ds" % SECONDS],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(end, bench)
        results = os.path.join(self.folder, name)
        wait_until(lambda: bench.poll() is not None or len(table(results, "summary.csv")) >= ROWS_BEFORE,
                   "the load to begin")
        self.assertIsNone(bench.poll(), "the load ended early")
        cluster[1].kill()
        said, _ = bench.communicate(timeout=120)
        self.assertEqual(bench.returncode, 0, said)
        return results, said

    def assert_goes_on(self, results, said, failed_max):
        rows = table(results, "summary.csv")
        failed = sum(int(row[4]) for row in rows)
        self.assertLessEqual(failed, failed_max, said)
        # An open-loop load counts the latency of each operation from its scheduled time.
        slowest_us = max(int(row[9]) for name in ("get", "put")
                         for row in table(results, name + "_latencies.csv"))
        self.assertLess(slowest_us / 1e6, NOTICED_SECONDS, said)
        for row in rows[:-1]:
            self.assertGreater(int(row[3]), RATE * 0.4, "no second of the load stands still\n" + said)
        with open(os.path.join(results, "summary.json"), encoding="utf-8") as handle:
            self.assertNotIn('"lost"', handle.read().replace('"lost":0', ""))

    def addresses(self, cluster, kind):
        return ", ".join('{"%s", %d}' % getattr(node, kind) for node in cluster)

    def test_protocol_buffers_with_replicas_known(self):
        cluster = self.cluster(3)
        config = RUN + OBJECTS + "{driver, riakc_pb}. {riakc_pb_replies, 2}. {riakc_pb_ips, [%s]}." % (
            self.addresses(cluster, "pb"))
        self.assert_goes_on(*self.run_load(cluster, config, "aware"), failed_max=0)

    def test_protocol_buffers_with_a_target_for_each_worker(self):
        cluster = self.cluster(3)
        config = RUN + OBJECTS + (
            "{driver, riakc_pb}. {riakc_pb_replies, 2}. {riakc_pb_replica_aware, false}. "
            "{riakc_pb_ips, [%s]}." % self.addresses(cluster, "pb"))
        self.assert_goes_on(*self.run_load(cluster, config, "plain"), failed_max=0)

    def test_http(self):
        cluster = self.cluster(3)
        config = RUN + OBJECTS + "{driver, http_raw}. {http_raw_ips, [%s]}." % (
            self.addresses(cluster, "http"))
        self.assert_goes_on(*self.run_load(cluster, config, "http"), failed_max=WORKERS)

    def test_http_with_templates(self):
        cluster = self.cluster(3)
        places = ", ".join('{"%s", %d, {"/buckets/b/keys/k~s", [number]}}' % node.http
                           for node in cluster)
        config = RUN.replace("{verify, true}.", "") + (
            "{driver, http}. {generators, [{number, {key_generator, {int_to_str, {uniform_int, 500}}}}]}. "
            "{targets, [{object, [%s]}]}. {values, [{small, \"v\"}]}. "
            "{headers, [{text, [{'Content-Type', \"text/plain\"}]}]}. "
            "{operations, [{{get, object}, 4}, {{put, object, small, text}, 4}]}." % places)
        results, said = self.run_load(cluster, config, "templates")
        failed = sum(int(row[4]) for row in table(results, "summary.csv"))
        self.assertLessEqual(failed, WORKERS, said)


def table(results, name):
    """Returns the rows of a result table without the heading. There are none while the file does not
    exist."""
    try:
        with open(os.path.join(results, name), encoding="utf-8") as handle:
            return [re.split(r",\s*", line.strip()) for line in handle.readlines()[1:] if line.endswith("\n")]
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
