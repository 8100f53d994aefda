"""Tests of the real process: start, stop, crash, and its messages when it can't start."""
import http.client
import json
import os
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
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.node import Node, TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection, Refused, replay  # noqa: E402

KILL_ROUNDS = 4
WRITERS = 6


class ProcessCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.data_dir = os.path.join(folder.name, "data")

    def start(self, settings=(), flags=()):
        """Returns a node on this test's data, which ends with the test at the latest."""
        node = Node(binary_from_environment(), self.data_dir, settings, flags)
        self.addCleanup(node.__exit__)
        return node.start()

    def refused(self, *flags):
        """Returns the message of `quoit serve` when it does not start. The process must end by itself
        with a failure."""
        command = [binary_from_environment(), "serve", "--data-dir", self.data_dir]
        for flag in ("--pb", "--http", "--node"):
            command += [] if flag in flags else [flag, "127.0.0.1:0"]
        done = subprocess.run(command + list(flags), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("panicked", done.stdout)
        return done.stdout

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path


class Start(ProcessCase):
    def test_the_ready_file_tells_the_process_and_addresses_that_answer(self):
        node = self.start()
        self.assertEqual(node.record["pid"], node.process.pid)
        self.assertIn("@", node.record["name"])
        with Connection(node.pb) as pb:
            pb.ping()
        connection = http.client.HTTPConnection(*node.http, timeout=10)
        self.addCleanup(connection.close)
        connection.request("GET", "/ping")
        self.assertEqual(connection.getresponse().read(), b"OK")
        with socket.create_connection(node.node, 10):
            pass

    def test_the_name_given_is_the_name_told(self):
        node = self.start(flags=["--name", "quoit@test"])
        self.assertEqual(node.record["name"], "quoit@test")
        with Connection(node.pb) as pb:
            self.assertEqual(pb.call("RpbGetServerInfoReq")["node"], b"quoit@test")

    def test_messages_that_lack_a_field_and_unknown_codes_say_so(self):
        node = self.start()
        for code, why in [(210, "lacks its required field n_val"), (217, "lacks its required field"),
                          (250, "Unknown message code: 250")]:
            with self.subTest(code), Connection(node.pb) as pb:
                pb.wire.start()
                pb.wire.send(struct.pack(">IB", 1, code))
                with self.assertRaisesRegex(Refused, why):
                    pb.receive()
        with Connection(node.pb) as pb:
            pb.ping()

    def test_the_data_directory_is_made_if_it_is_not_there(self):
        self.data_dir = os.path.join(self.folder, "some", "where", "data")
        os.makedirs(os.path.dirname(self.data_dir))
        self.start()
        self.assertTrue(os.path.isdir(self.data_dir))

    def test_a_second_process_on_the_same_data_is_refused_and_the_first_goes_on(self):
        node = self.start()
        said = self.refused()
        self.assertIn(self.data_dir, said)
        with Connection(node.pb) as pb:
            pb.put("b", "k", "v")
            self.assertEqual(pb.get("b", "k"), [b"v"])

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assertIn(address, self.refused("--pb", address))
            self.assertIn(address, self.refused("--http", address))
            self.assertIn(address, self.refused("--node", address))

    def test_a_data_directory_that_is_a_file_is_named(self):
        self.data_dir = self.write("a-file", "not a directory")
        self.assertIn(self.data_dir, self.refused())


class Configuration(ProcessCase):
    def test_an_unknown_setting_is_named_with_the_nearest_right_one(self):
        said = self.refused("--set", "rign_size=8")
        self.assertIn("rign_size", said)
        self.assertIn("ring_size", said)

    def test_an_unknown_key_in_the_file_is_named_with_file_and_line(self):
        path = self.write("quoit.conf", "# a comment\n\nrign_size = 8\n")
        said = self.refused("--config", path)
        self.assertIn(path, said)
        self.assertRegex(said, r"\b3\b")
        self.assertIn("ring_size", said)

    def test_a_bad_value_is_named(self):
        self.assertIn("seven", self.refused("--set", "ring_size=seven"))
        self.assertIn("63", self.refused("--set", "ring_size=63"))

    def test_keys_of_riak_without_meaning_here_start_a_node_all_the_same(self):
        path = self.write("riak.conf", "erlang.schedulers.force_wakeup_interval = 500\n"
                                       "ring_size = 16\n")
        node = self.start(flags=["--config", path])
        with Connection(node.pb) as pb:
            pb.ping()

    def test_promises_of_a_riak_conf_that_are_not_kept_are_warned_of(self):
        path = self.write("riak.conf", "search = on\nerlang.async_threads = 64\n")
        node = self.start(flags=["--config", path])
        warned = [line for line in node.log_tail(200).splitlines() if "WARN" in line]
        self.assertTrue(any("search" in line for line in warned), warned)
        self.assertFalse(any("erlang" in line for line in warned), warned)

    def test_an_unknown_variable_is_named_with_the_nearest_right_one(self):
        os.environ["QUOIT_STORAGE_BACKND"] = "memory"
        self.addCleanup(os.environ.pop, "QUOIT_STORAGE_BACKND")
        said = self.refused()
        self.assertIn("QUOIT_STORAGE_BACKND", said)
        self.assertIn("variable QUOIT_STORAGE_BACKEND", said)

    def test_the_environment_overrides_the_file(self):
        path = self.write("quoit.conf", "nodename = file@host\n")
        os.environ["QUOIT_NODENAME"] = "environment@host"
        self.addCleanup(os.environ.pop, "QUOIT_NODENAME")
        node = self.start(flags=["--config", path])
        self.assertEqual(node.record["name"], "environment@host")


class Signals(ProcessCase):
    def test_sighup_takes_up_what_it_can_and_tells_the_rest(self):
        path = self.write("quoit.conf", "verify_rate = 1MB\ntransfer_limit = 2\n")
        node = self.start(flags=["--config", path])
        self.write("quoit.conf", "verify_rate = 2MB\ntransfer_limit = 7\nlog.level = debug\n")
        os.kill(node.record["pid"], signal.SIGHUP)
        told = self.logged(node, "take effect at the next start")
        self.assertIn("verify_rate", told)
        self.assertIn("transfer_limit", self.logged(node, "settings were read again"))
        url = "http://" + node.record["http"]
        limits = subprocess.run([binary_from_environment(), "admin", "--url", url, "transfer-limit"],
                                stdout=subprocess.PIPE, text=True, timeout=30, check=True).stdout
        self.assertIn("7", limits)

    def test_a_bad_file_changes_nothing_at_sighup(self):
        path = self.write("quoit.conf", "ring_size = 16\n")
        node = self.start(flags=["--config", path])
        self.write("quoit.conf", "rign_size = 16\n")
        os.kill(node.record["pid"], signal.SIGHUP)
        self.assertIn("rign_size", self.logged(node, "nothing is reloaded"))
        with Connection(node.pb) as pb:
            pb.ping()

    def test_signals_without_a_meaning_do_not_end_a_node(self):
        node = self.start()
        for name in ("SIGUSR1", "SIGUSR2"):
            os.kill(node.record["pid"], getattr(signal, name))
            self.logged(node, name)
        with Connection(node.pb) as pb:
            pb.ping()

    def logged(self, node, words):
        """Returns the line of the node's log with these words, once it is there."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            lines = [line for line in node.log_tail(1000).splitlines() if words in line]
            if lines:
                return lines[-1]
            time.sleep(0.02)
        self.fail("not logged: %s\n%s" % (words, node.log_tail()))


class Metrics(ProcessCase):
    """Checks the rules of `promtool check metrics` for every family."""

    def metrics(self, node, accept):
        connection = http.client.HTTPConnection(*node.http, timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics", headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.getheader("Content-Type"), answer.read().decode()

    def test_every_family_has_its_help_its_type_and_the_end_of_its_name(self):
        node = self.start()
        for accept in (None, "*/*", "text/plain"):
            form, text = self.metrics(node, accept)
            self.assertEqual(form, "text/plain; version=0.0.4; charset=utf-8")
            self.assertNotIn("# EOF", text)
        helps, kinds, samples = {}, {}, set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name, words = line.split(" ", 3)[2:]
                self.assertNotIn(name, helps)
                helps[name] = words
            elif line.startswith("# TYPE "):
                name, kinds_word = line.split(" ", 3)[2:]
                kinds[name] = kinds_word
            else:
                samples.add(line.split(" ")[0].split("{")[0])
        self.assertEqual(set(helps), set(kinds))
        self.assertTrue(all(helps.values()))
        for name, kind in kinds.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            if kind != "histogram":
                self.assertFalse(name.endswith(("_bucket", "_count", "_sum")), name)
            words = name.split("_")
            for unit in ("ms", "us", "s", "milliseconds", "microseconds", "kb", "mb", "minutes"):
                self.assertNotIn(unit, words, name)
            for unit in ("bytes", "seconds"):
                self.assertLessEqual(words.count(unit), 1, name)
        histograms = [name for name, kind in kinds.items() if kind == "histogram"]
        known = set(kinds) | {name + end for name in histograms for end in ("_bucket", "_sum", "_count")}
        self.assertEqual(samples - known, set())

    def test_open_metrics_are_for_those_who_ask(self):
        accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;q=0.5,*/*;q=0.1"
        form, text = self.metrics(self.start(), accept)
        self.assertTrue(form.startswith("application/openmetrics-text"), form)
        self.assertTrue(text.endswith("# EOF\n"))


class WrongPorts(ProcessCase):
    """Messages for a person who has confused two ports."""

    def admin(self, url, *arguments):
        command = [binary_from_environment(), "admin", "--url", url] + list(arguments)
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)

    def test_a_join_names_the_protocol_that_answers(self):
        node = self.start()
        with TemporaryNode(binary_from_environment(), ["nodename=other@host"]) as other:
            for port in ("http", "pb"):
                said = self.admin(node.record["http"], "cluster", "join", other.record[port])
                self.assertEqual(said.returncode, 1)
                self.assertIn("listener.internode", said.stdout)
            said = self.admin(node.record["http"], "cluster", "join", other.record["http"]).stdout
            self.assertIn("the other side speaks HTTP", said)

    def test_administration_needs_no_scheme_and_tells_what_is_not_http(self):
        node = self.start()
        self.assertEqual(self.admin(node.record["http"], "ping").stdout, "pong\n")
        said = self.admin(node.record["pb"], "ping").stdout
        self.assertIn("does not speak HTTP", said)

    def test_an_address_of_another_machine_is_told_as_that(self):
        self.assertIn("this machine does not have the address",
                      self.refused("--http", "192.0.2.1:8098"))

    def test_types_that_could_never_be_used_are_refused(self):
        node = self.start()
        said = self.admin(node.record["http"], "bucket-type", "create", "strong",
                          '{"props":{"consistent":true}}')
        self.assertEqual(said.returncode, 1)
        self.assertIn("no strongly consistent buckets", said.stdout)
        said = self.admin(node.record["http"], "bucket-type", "create", "typo",
                          '{"props":{"allow_mutl":true}}')
        self.assertEqual(said.returncode, 0)
        self.assertIn("did you mean allow_mult?", said.stdout)


class RemoteOperators(ProcessCase):
    def test_operators_from_anywhere_are_warned_of(self):
        flags = ["--http", "0.0.0.0:0", "--set", "admin_remote=on"]
        self.assertIn("admin_remote = on", self.start(flags=flags).log_tail(200))

    def test_operators_of_this_machine_are_not(self):
        node = self.start(flags=["--set", "admin_remote=on"])
        self.assertNotIn("admin_remote", node.log_tail(200))

    def test_users_of_a_node_with_security_are_not(self):
        node = self.start()
        done = node.admin("security", "enable")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(node.stop(), 0)
        node = self.start(flags=["--http", "0.0.0.0:0", "--set", "admin_remote=on"])
        self.assertNotIn("admin_remote = on", node.log_tail(200))


class ConfigCommand(ProcessCase):
    """`quoit config`, which checks a configuration without starting a node."""

    def config(self, *arguments):
        return subprocess.run([binary_from_environment(), "config"] + list(arguments), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30)

    def test_every_key_shown_is_described(self):
        shown = json.loads(self.config("show", "--format", "json").stdout)
        described = self.config("describe").stdout
        names = [setting["key"] for setting in shown]
        self.assertIn("ring_size", names)
        for name in names:
            family = name.rpartition(".")[0] + ".$name"
            self.assertTrue(name in described or family in described, name)

    def test_a_good_file_passes_and_a_bad_one_is_told_with_its_line(self):
        good = self.write("good.conf", "ring_size = 16\n")
        bad = self.write("bad.conf", "ring_size = 16\n\nring_size = seven\n")
        self.assertEqual(self.config("check", good).returncode, 0)
        done = self.config("check", bad)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(bad + ":3", done.stdout)
        # A file that a node would refuse does not pass either.
        promising = self.write("promising.conf", "handoff.ssl.certfile = cert.pem\n")
        done = self.config("check", promising)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("set internode.tls to both or required", done.stdout)

    def test_what_is_shown_tells_where_it_was_set(self):
        path = self.write("quoit.conf", "ring_size = 16\n")
        shown = self.config("show", path, "--set", "delete_mode=keep").stdout
        self.assertRegex(shown, r"ring_size = 16.*quoit\.conf:1")
        self.assertRegex(shown, r"delete_mode = keep.*command line")


class Stop(ProcessCase):
    def test_sigterm_ends_the_process_well_and_keeps_the_data(self):
        node = self.start()
        with Connection(node.pb) as pb:
            for index in range(200):
                pb.put("b", "k%d" % index, "v%d" % index)
        self.assertEqual(node.stop(), 0, node.log_tail())
        node.start()
        with Connection(node.pb) as pb:
            for index in range(200):
                self.assertEqual(pb.get("b", "k%d" % index), [b"v%d" % index])

    def test_requests_sent_before_sigterm_are_answered(self):
        node = self.start()
        with Connection(node.pb) as pb:
            for index in range(100):
                pb.send("RpbPutReq", bucket="b", key="k%d" % index, content={"value": "v"})
            pb.receive()
            node.process.send_signal(signal.SIGTERM)
            answered = 1
            try:
                for _ in range(99):
                    pb.receive()
                    answered += 1
            except replay.UnreadableAnswer:
                pass
        self.assertEqual(node.stop(), 0, node.log_tail())
        node.start()
        with Connection(node.pb) as pb:
            for index in range(answered):
                self.assertEqual(pb.get("b", "k%d" % index), [b"v"])

    def test_bucket_types_and_properties_survive_a_restart_and_a_crash(self):
        node = self.start()
        node.create_bucket_type("sibs", {"allow_mult": True})
        with Connection(node.pb) as pb:
            pb.call("RpbSetBucketReq", bucket="b", props={"n_val": 2})
        for end in (node.stop, node.kill):
            end()
            node.start()
            with Connection(node.pb) as pb:
                props = pb.call("RpbGetBucketTypeReq", type="sibs")["props"]
                self.assertIs(props["allow_mult"], True)
                self.assertEqual(pb.call("RpbGetBucketReq", bucket="b")["props"]["n_val"], 2)


class Crash(ProcessCase):
    def writer(self, node, number, round_number, acknowledged, enough):
        """Writes until the process is gone, and notes the acknowledged keys."""
        try:
            with Connection(node.pb) as pb:
                for index in range(1_000_000):
                    key = "%d-%d-%d" % (round_number, number, index)
                    pb.put("b", key, "value of " + key)
                    acknowledged.append(key)
                    enough.release()
        except replay.UnreadableAnswer:
            pass

    def test_what_was_acknowledged_is_there_after_sigkill(self):
        node, acknowledged = self.start(), []
        for round_number in range(KILL_ROUNDS):
            enough = threading.Semaphore(0)
            threads = [threading.Thread(target=self.writer, args=(
                node, number, round_number, acknowledged, enough)) for number in range(WRITERS)]
            for thread in threads:
                thread.start()
            for _ in range(100 + 37 * round_number):
                self.assertTrue(enough.acquire(timeout=30), node.log_tail())
            node.kill()
            for thread in threads:
                thread.join()
            node.start()
            with Connection(node.pb) as pb:
                for key in acknowledged:
                    self.assertEqual(pb.get("b", key), [("value of " + key).encode()])

    def test_a_deleted_key_stays_deleted_after_sigkill(self):
        node = self.start()
        with Connection(node.pb) as pb:
            pb.put("b", "k", "v")
            pb.call("RpbDelReq", bucket="b", key="k")
        node.kill()
        node.start()
        with Connection(node.pb) as pb:
            self.assertEqual(pb.get("b", "k"), [])


class BadInput(ProcessCase):
    def test_garbage_on_a_connection_harms_no_other(self):
        with TemporaryNode(binary_from_environment()) as node, Connection(node.pb) as good:
            good.put("b", "k", "v")
            for garbage in (b"\0\0\0\0", b"\xff\xff\xff\xff" + b"x" * 100, b"\0\0\0\2\x09\xff",
                            b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\5\x09\x0a\xff\xff\xff"):
                for address in (node.pb, node.http, node.node):
                    with socket.create_connection(address, 10) as bad:
                        bad.sendall(garbage)
                        bad.shutdown(socket.SHUT_WR)
                        while bad.recv(65536):
                            pass
                self.assertEqual(good.get("b", "k"), [b"v"])
            self.assertIsNone(node.process.poll())
            self.assertNotIn("panicked", node.log_tail(1000))


class Admin(ProcessCase):
    def json(self, node, *arguments):
        done = node.admin("--format", "json", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)

    def test_commands_answer_in_json(self):
        node = self.start()
        node.create_bucket_type("sibs", {"allow_mult": True})
        for arguments in (["ping"], ["status"], ["stat", "show", "**"],
                          ["bucket-type", "list"], ["member-status"], ["ring-status"],
                          ["ringready"], ["services"], ["wait-for-service", "riak_kv"],
                          ["cluster", "status"], ["cluster", "partitions"],
                          ["cluster", "partition", "id=0"], ["cluster", "partition-count"]):
            with self.subTest(arguments=arguments):
                self.json(node, *arguments)
        status = self.json(node, "bucket-type", "status", "sibs")
        self.assertIs(status["props"]["allow_mult"], True)
        self.assertEqual(status["state"], "active")

    def test_a_type_is_created_activated_and_updated(self):
        node = self.start()
        props = json.dumps({"props": {"allow_mult": False}})
        self.assertEqual(node.admin("bucket-type", "create", "t", props).returncode, 0)
        self.assertEqual(node.admin("bucket-type", "activate", "t").returncode, 0)
        props = json.dumps({"props": {"n_val": 2}})
        self.assertEqual(node.admin("bucket-type", "update", "t", props).returncode, 0)
        self.assertEqual(self.json(node, "bucket-type", "status", "t")["props"]["n_val"], 2)

    def test_scripts_find_the_phrases_that_they_know(self):
        node = self.start()
        for arguments, phrase in (
                (["member-status"], "Valid:1 / Leaving:0 / Exiting:0 / Joining:0 / Down:0"),
                (["ring-status"], "All nodes are up and reachable"),
                (["ringready"], "TRUE All nodes agree on the ring ['%s']" % node.record["name"]),
                (["wait-for-service", "riak_kv", node.record["name"]], "riak_kv is up"),
                (["cluster", "status"], "Ring ready: true")):
            with self.subTest(arguments=arguments):
                done = node.admin(*arguments)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn(phrase, done.stdout)

    def test_a_command_on_what_is_not_there_fails_in_words(self):
        node = self.start()
        done = node.admin("bucket-type", "activate", "missing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("missing", done.stdout)

    def test_without_a_node_the_address_is_named(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = "http://127.0.0.1:%d" % closed.getsockname()[1]
            done = subprocess.run([binary_from_environment(), "admin", "--url", url, "ping"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(url.split("//")[1], done.stdout)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
