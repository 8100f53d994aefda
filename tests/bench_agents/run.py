"""Agents of `quoit bench`: shares that add up to a run of one process, authentication, and failures."""
import collections
import csv
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "security")]

import certificates  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.cluster import free_port, wait_until  # noqa: E402
from support.node import binary_from_environment  # noqa: E402

BINARY = os.path.abspath(binary_from_environment())
SECONDS = 60
TOKEN = "a3f1" * 4 + "9b07c2d8e6541f0a" * 3
# Each worker walks through its own part of the keys and ends, so that the drawn operations do not depend on
# time.
DRAWN = """{mode, max}. {concurrent, 10}. {driver, null}. {duration, infinity}. {rng_seed, {7, 8, 9}}.
{key_generator, {partitioned_sequential_int, 4000}}. {value_generator, {fixed_bin, 10}}.
{operations, [{print_key, 3}, {put, 4}, {an_error, 1}, {another_error, 1}]}. {report_interval, 1}.
"""
PACED = """{mode, {rate, 100}}. {concurrent, 8}. {driver, null}. {duration, infinity}.
{operations, [{do_something, 1}]}. {report_interval, 1}.
"""


class SlowServer:
    """A server of the memcached protocol that has no keys, and delays each answer."""

    def __init__(self, answer_seconds):
        self.answer_seconds = answer_seconds
        self.keys = collections.Counter()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                self.keys[line.split()[1].decode()] += 1
                # The delay of the answer is part of the measured latency.
                time.sleep(self.answer_seconds)
                try:
                    connection.sendall(b"END\r\n")
                except OSError:
                    return

    def stop(self):
        # Closing the listener alone would not end the wait in accept().
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Agent:
    """A process that waits for coordinators on a port of its own."""

    def __init__(self, *options):
        self.lines = []
        self.process = subprocess.Popen(
            [BINARY, "bench", "agent", "--listen", "127.0.0.1:0", *options], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        wait_until(lambda: self.address or self.process.poll() is not None, "an agent", SECONDS)

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def address(self):
        found = re.search(r"Waiting for a coordinator on (\S+);", "".join(self.lines))
        return found and found.group(1)

    def says(self, text):
        wait_until(lambda: text in "".join(self.lines), "an agent that says %r" % text, SECONDS)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=SECONDS)
        self.reader.join(SECONDS)
        self.process.stdout.close()
        return status


class AgentCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(path, 0o600)
        return path

    def agent(self, *options):
        agent = Agent(*options)
        self.addCleanup(agent.stop)
        return agent

    def start(self, text, agents, *options, name="run"):
        addresses = [agent if isinstance(agent, str) else agent.address for agent in agents]
        joined = ["--agents", ",".join(addresses)] if agents else []
        bench = subprocess.Popen(
            [BINARY, "bench", self.write(name + ".config", text), "-d", self.folder, "-n", name, *joined,
             *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd=self.folder)

        def end():
            if bench.poll() is None:
                bench.kill()
            bench.wait(SECONDS)
            bench.stdout.close()
        self.addCleanup(end)
        return bench

    def finish(self, bench):
        said, _ = bench.communicate(timeout=SECONDS)
        self.assertNotIn("panicked", said)
        return bench.returncode, said

    def run_whole(self, *arguments, **named):
        return self.finish(self.start(*arguments, **named))

    def summary(self, name="run"):
        with open(os.path.join(self.folder, name, "summary.json"), encoding="utf-8") as handle:
            return json.load(handle)

    def has_rows(self):
        path = os.path.join(self.folder, "run", "summary.csv")
        try:
            with open(path, encoding="utf-8") as handle:
                return len(handle.readlines()) > 2
        except OSError:
            return False


def counts(summary):
    """Returns successes and failures of each operation, and failures by reason."""
    operations = {one["name"]: (one["latencies"]["count"], one["failed"]) for one in summary["operations"]}
    return operations, {(one["operation"], one["reason"]): one["count"] for one in summary["errors"]}


def keys(lines):
    found = (re.fullmatch(r'(?:<<")?(\d+)(?:">>)?', line.strip()) for line in lines)
    return collections.Counter(key.group(1) for key in found if key)


class Shares(AgentCase):
    def test_four_agents_draw_and_count_what_one_process_does(self):
        status, said = self.run_whole(DRAWN, [], name="whole")
        self.assertEqual(status, 0, said)
        whole = self.summary("whole")
        agents = [self.agent() for _ in range(4)]
        status, told = self.run_whole(DRAWN, agents)
        self.assertEqual(status, 0, told)
        merged = self.summary()
        self.assertEqual(counts(merged), counts(whole))
        self.assertEqual(merged["end"], "completed")
        self.assertEqual([one["workers"] for one in merged["agents"]], [3, 3, 2, 2])
        self.assertNotIn("agents", whole)
        for agent in agents:
            self.assertEqual(agent.stop(), 0)
        printed = sum((keys(agent.lines) for agent in agents), collections.Counter())
        self.assertGreater(sum(printed.values()), 1000)
        self.assertEqual(printed, keys(said.splitlines()), "each key is drawn by one agent")
        # Every latency is in the merged histograms, and nowhere else.
        path = os.path.join(self.folder, "run", "hdr", "put.hlog")
        with open(path, encoding="utf-8") as handle:
            counted = sum(int(found) for found in re.findall(r" successful=(\d+)", handle.read()))
        self.assertEqual(counted, counts(whole)[0]["put"][0])

    def test_an_open_loop_has_the_arrivals_of_one_process(self):
        text = PACED.replace("{mode, {rate, 100}}", "{mode, {open_rate, 400}}")
        status, said = self.run_whole(text, [self.agent() for _ in range(3)], "--duration", "2s")
        self.assertEqual(status, 0, said)
        summary = self.summary()
        self.assertEqual(summary["successful"] + summary["unstarted"], 800)
        self.assertLess(summary["elapsed_s"], 4)

    def test_scripts_and_names_of_files_go_to_the_agents(self):
        self.write("keys.js", "function keys(worker) { let n = 0; return () => worker * 1000 + n++ % 5; }\n")
        text = PACED + '{key_generator, {script, "keys.js", keys, []}}.'
        text = text.replace("{do_something, 1}", "{print_key, 1}")
        agents = [self.agent(), self.agent()]
        status, said = self.run_whole(text, agents, "--duration", "1s")
        self.assertEqual(status, 0, said)
        for agent, workers in zip(agents, ({1, 3, 5, 7}, {2, 4, 6, 8})):
            agent.stop()
            self.assertEqual({int(key) // 1000 for key in keys(agent.lines)}, workers)

    def test_remote_nodes_are_agents(self):
        agent = self.agent()
        text = PACED + "{distribute_work, true}. {remote_nodes, [{'%s', 'bb1'}]}." % agent.address
        status, said = self.run_whole(text, [], "--duration", "1s")
        self.assertEqual(status, 0, said)
        self.assertEqual([one["address"] for one in self.summary()["agents"]], [agent.address])

    def slow_server(self, answer_seconds):
        server = SlowServer(answer_seconds)
        self.addCleanup(server.stop)
        return server

    def test_agents_replay_a_trace_once_between_them(self):
        server = self.slow_server(0)
        lines = "".join("%.3f,get,key-%d,0\n" % (number / 500, number) for number in range(600))
        self.write("trace.csv", "time,operation,key,value_size\n" + lines)
        text = """{trace, "trace.csv"}. {driver, memcached}. {memcached_ips, [{"127.0.0.1", %d}]}.
            {operations, [{get, 1}]}. {concurrent, 6}. {report_interval, 1}.""" % server.port
        status, said = self.run_whole(text, [self.agent() for _ in range(3)])
        self.assertEqual((status, self.summary()["failed"]), (1, 600), "missing keys are failures: " + said)
        self.assertEqual(server.keys, {"key-%d" % number: 1 for number in range(600)})
        self.assertGreater(self.summary()["elapsed_s"], 1.1, "each operation waits for its time")

    def test_a_search_finds_the_rate_that_all_agents_bear_together(self):
        server = self.slow_server(0.02)
        # Four workers of two agents with operations of 20 ms: at most 200 operations a second.
        text = """{mode, {knee, [{p99_ms, 100}, {from, 60}, {step, "2s"}]}}. {warmup, "500ms"}.
            {driver, memcached}. {memcached_ips, [{"127.0.0.1", %d}]}. {operations, [{get_any, 1}]}.
            {concurrent, 4}. {report_interval, 1}.""" % server.port
        status, said = self.run_whole(text, [self.agent(), self.agent()])
        self.assertEqual(status, 0, said)
        with open(os.path.join(self.folder, "run", "knee.csv"), encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle, skipinitialspace=True))
        rates = {within: [float(row["offered"]) for row in rows if row["within"] == within]
                 for within in ("true", "false")}
        self.assertTrue(100 < max(rates["true"]) < 230, rows)
        self.assertTrue(max(rates["true"]) < min(rates["false"]), rows)

    def test_runs_that_belong_in_one_process_are_refused(self):
        for more, words in ((PACED.replace("{concurrent, 8}", "{concurrent, 1}"), "raise concurrent"),
                            (PACED + '{key_generator, {file_line_bin, "run.config"}}.', "each line")):
            status, said = self.run_whole(more, ["127.0.0.1:1", "127.0.0.1:2"])
            self.assertEqual(status, 1, said)
            self.assertIn(words, said)


class Trust(AgentCase):
    def test_a_token_is_wanted_beyond_loopback(self):
        done = subprocess.run([BINARY, "bench", "agent", "--listen", "0.0.0.0:0"], text=True, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("--token-file", done.stdout)

    def test_the_token_counts(self):
        right = self.write("token", TOKEN + "\n")
        wrong = self.write("other", TOKEN[::-1] + "\n")
        agent = self.agent("--token-file", right)
        for options in (["--token-file", wrong], []):
            name = "no%d" % len(options)
            status, said = self.run_whole(PACED, [agent], *options, "--duration", "1s", name=name)
            self.assertEqual(status, 1, said)
            self.assertRegex(said, "do not trust each other|was closed|cannot be read|nothing was heard")
        status, said = self.run_whole(PACED, [agent], "--token-file", right, "--duration", "1s")
        self.assertEqual(status, 0, said)
        self.assertGreater(self.summary()["successful"], 0)

    @unittest.skipUnless(certificates.is_possible(), "there is no openssl")
    def test_certificates_count_on_both_sides(self):
        made = certificates.Certificates(self.folder)

        def options(name, authority="ca"):
            return ["--tls-cert", made.path(name + ".pem"), "--tls-key", made.path(name + ".key"),
                    "--tls-ca", made.path(authority + ".pem")]
        agent = self.agent(*options("server"))
        for number, wrong in enumerate((options("certbadca"), options("certuser", "other-ca"))):
            status, said = self.run_whole(PACED, [agent], *wrong, "--duration", "1s", name="no%d" % number)
            self.assertEqual(status, 1, said)
            self.assertIn("do not trust each other", said)
        status, said = self.run_whole(PACED, [agent], *options("certuser"), "--duration", "1s")
        self.assertEqual(status, 0, said)
        self.assertGreater(self.summary()["successful"], 0)


class BadEnds(AgentCase):
    def test_an_agent_that_is_not_there_is_named(self):
        address = "127.0.0.1:%d" % free_port()
        status, said = self.run_whole(PACED, [self.agent(), address])
        self.assertEqual(status, 1, said)
        self.assertIn("agent %s: cannot connect" % address, said)

    def test_an_agent_of_another_version_is_refused(self):
        greeting = json.dumps({"type": "greeting", "protocol": 1, "version": "0.0.1"}).encode()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            bench = self.start(PACED, ["127.0.0.1:%d" % listener.getsockname()[1]])
            peer, _ = listener.accept()
            with peer:
                peer.sendall(struct.pack(">I", len(greeting)) + greeting)
                status, said = self.finish(bench)
        self.assertEqual(status, 1, said)
        self.assertIn("it is version 0.0.1 (protocol 1)", said)
        self.assertIn("start the same version on both", said)

    def test_a_killed_agent_ends_the_run_which_says_so(self):
        agents = [self.agent(), self.agent()]
        bench = self.start(PACED, agents)
        wait_until(self.has_rows, "rows", SECONDS)
        agents[1].process.kill()
        status, said = self.finish(bench)
        self.assertEqual(status, 1, said)
        self.assertIn("AGENT LOST: %s" % agents[1].address, said)
        summary = self.summary()
        self.assertEqual(summary["end"], "agent_lost")
        self.assertGreater(summary["successful"], 0)
        self.assertEqual([bool(one["lost"]) for one in summary["agents"]], [False, True])
        agents[0].says("the run has ended")

    def test_an_agent_that_is_stopped_says_so(self):
        agent = self.agent()
        bench = self.start(PACED, [agent])
        wait_until(self.has_rows, "rows", SECONDS)
        self.assertEqual(agent.stop(), 0)
        status, said = self.finish(bench)
        self.assertEqual(status, 1, said)
        self.assertIn("it was stopped", said)

    def test_a_killed_coordinator_ends_the_run_of_its_agent_which_takes_the_next(self):
        agent = self.agent()
        bench = self.start(PACED, [agent])
        wait_until(self.has_rows, "rows", SECONDS)
        bench.kill()
        bench.wait(SECONDS)
        agent.says("its run is ended")
        wait_until(lambda: self.run_whole(PACED, [agent], "--duration", "1s", name="next")[0] == 0 or
                   os.rename(os.path.join(self.folder, "next"), tempfile.mkdtemp(dir=self.folder)),
                   "a run after that", SECONDS)
        self.assertGreater(self.summary("next")["successful"], 0)

    def test_ctrl_c_stops_all_and_keeps_the_results(self):
        agent = self.agent()
        bench = self.start(PACED, [agent])
        wait_until(self.has_rows, "rows", SECONDS)
        bench.send_signal(signal.SIGINT)
        status, said = self.finish(bench)
        self.assertEqual(status, 0, said)
        self.assertEqual(self.summary()["end"], "interrupted")
        self.assertGreater(self.summary()["successful"], 0)
        agent.says("the run has ended")

    def test_a_busy_agent_refuses_a_second_coordinator(self):
        agent = self.agent()
        bench = self.start(PACED, [agent])
        wait_until(self.has_rows, "rows", SECONDS)
        status, said = self.run_whole(PACED, [agent], name="second")
        self.assertEqual(status, 1, said)
        self.assertIn("it is busy with a run of", said)
        bench.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(bench)[0], 0, "the first run goes on")


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
