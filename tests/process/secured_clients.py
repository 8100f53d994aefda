"""Tests of clients of secured nodes: audit log, new certificates, tools and clusters that log in."""
import base64
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE, os.path.join(os.path.dirname(HERE), "security")]

from certificates import Certificates, is_possible  # noqa: E402
from operations import field  # noqa: E402
from secured_node import secured_node  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import ClusterCase  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from talk import Operator, Pb, error_of, request  # noqa: E402

USERS = ("add-user u password=pw", "add-user certuser", "add-source u 127.0.0.1/32 password",
         "add-source certuser 127.0.0.1/32 certificate")
ALL = "riak_kv.get,riak_kv.put,riak_core.get_bucket,riak_core.set_bucket"
B = field(1, "b")


def run(*arguments, **environment):
    """Runs the program. Returns the finished process with its output as text."""
    return subprocess.run([binary_from_environment()] + list(arguments), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90, text=True,
                          env={**os.environ, **environment})


class WithCertificates:
    """The certificates of a test, and logins with them."""

    files = None

    def log_in(self, node, user="u", password="pw"):
        pb = Pb(node.pb, self.files)
        self.addCleanup(pb.close)
        self.assertEqual(pb.call(255), (255, b""))
        self.assertEqual(pb.tls(), "ok")
        return pb, pb.call(253, field(1, user) + field(2, password))


class SecuredClients(WithCertificates, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not is_possible():
            raise unittest.SkipTest("openssl, which makes the certificates, is not installed")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.files = Certificates(folder.name)

    def node(self, commands, settings=(), flags=()):
        node = secured_node(self.files, commands, settings, flags)
        self.addCleanup(node.__exit__, None, None, None)
        return node.__enter__()

    def written(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(path, mode)
        return path

    def environment(self, user="u"):
        """Returns the environment variables of a login for the tools."""
        return {"QUOIT_USER": user, "QUOIT_CACERT": self.files.path("ca.pem"),
                "QUOIT_PASSWORD_FILE": self.written("password", "pw\n")}

    def audited(self, node):
        with open(os.path.join(node.data_dir, "audit.log"), encoding="utf-8") as handle:
            return [json.loads(line) for line in handle]

    def test_every_operation_on_chosen_buckets_is_audited_with_its_key_and_no_other(self):
        node = self.node((*USERS, "grant %s on any to u" % ALL, "enable"),
                         ("audit=on", "audit.buckets=b,maps/*"))
        pb, _ = self.log_in(node)
        for bucket in ("b", "c"):
            content = field(4, field(1, "v"))
            self.assertEqual(pb.call(11, field(1, bucket) + field(2, "k") + content)[0], 12)
            self.assertEqual(pb.call(9, field(1, bucket) + field(2, "k"))[0], 10)
            self.https(node, "GET", "/buckets/%s/keys/k" % bucket, ("u", "pw"))
        for _ in range(20):
            self.assertEqual(pb.call(13, B + field(2, "k"))[0], 0)
        lines = [line for line in self.audited(node) if line["via"] != "admin"]
        subject = {"type": "default", "bucket": "b", "key": "k"}
        self.assertTrue(all(line["details"] == subject and line["from"] == "127.0.0.1"
                            and line["user"] == "u" for line in lines), lines)
        seen = [(line["via"], line["what"], line["outcome"]) for line in lines]
        self.assertEqual(seen, [("pb", "riak_kv.put", "allowed"), ("pb", "riak_kv.get", "allowed"),
                                ("http", "riak_kv.get", "allowed")]
                         + [("pb", "riak_kv.delete", "refused")] * 20)

    def https(self, node, method, path, auth, body=None):
        addresses = {name: tuple(node.record[name].rsplit(":", 1)) for name in ("http", "https")}
        addresses = {name: (host, int(port)) for name, (host, port) in addresses.items()}
        wanted = {"scheme": "https", "method": method, "path": path, "auth": list(auth),
                  "headers": {"Content-Type": "application/json"}}
        if body is not None:
            wanted["body"] = body
        return request(addresses, self.files, wanted)

    def test_refused_logins_and_operations_and_changes_of_properties_are_audited(self):
        node = self.node((*USERS, "grant %s on default b to u" % ALL, "enable"), ("audit=on",))
        pb, refused = self.log_in(node, password="mistaken")
        self.assertEqual(error_of(refused[1])[0], "Authentication failed")
        pb, done = self.log_in(node)
        self.assertEqual(done, (254, b""))
        denied = error_of(pb.call(9, field(1, "other") + field(2, "k"))[1])[0]
        self.assertEqual(pb.call(21, B + field(2, field(1, 2)))[0], 22)
        self.assertEqual(self.https(node, "GET", "/buckets/other/keys/k", ("u", "pw"))["status"], 403)
        self.assertEqual(self.https(node, "PUT", "/buckets/b/props", ("u", "pw"),
                                    '{"props":{"r":1}}')["status"], 204)
        self.assertEqual(self.https(node, "GET", "/buckets/b/keys/k", ("u", "bad"))["status"], 401)
        lines = [line for line in self.audited(node) if line["via"] != "admin"]
        self.assertTrue(all(line["from"] == "127.0.0.1" and line["user"] == "u" for line in lines), lines)
        seen = [(line["via"], line["what"], line["outcome"]) for line in lines]
        self.assertEqual(seen, [
            ("pb", "login", "refused"), ("pb", "riak_kv.get", "refused"),
            ("pb", "riak_core.set_bucket", "done"), ("http", "riak_kv.get", "refused"),
            ("http", "riak_core.set_bucket", "done"), ("http", "login", "refused")])
        self.assertEqual(lines[1]["reason"], denied)
        self.assertEqual(lines[2]["details"], {"type": "default", "bucket": "b", "props": {"n_val": 2}})
        with open(os.path.join(node.data_dir, "audit.log"), encoding="utf-8") as handle:
            text = handle.read()
        self.assertNotIn("mistaken", text)
        self.assertNotIn('"pw"', text)

    def test_a_new_certificate_counts_without_a_restart_and_at_once_at_a_signal(self):
        node = self.node((*USERS, "enable"))
        before, pb = self.serial(node), self.log_in(node)[0]
        self.files.issue("server", "server", "ca", names="IP:127.0.0.1,DNS:localhost")
        node.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.serial(node) != before, "the new certificate to be shown")
        self.assertEqual(pb.call(1)[0], 2, "a connection that stands goes on")
        # Without a signal the node checks the file regularly. A broken file changes nothing.
        before = self.serial(node)
        with open(self.files.path("server.pem"), encoding="utf-8") as handle:
            good = handle.read()
        self.written("server.pem", good[:200])
        wait_until(lambda: "stay as they are" in node.log_tail(100), "the broken file to be told")
        self.assertRegex(node.log_tail(100), "stay as they are.*server.pem.*PEM")
        self.assertEqual(self.serial(node), before)
        self.files.issue("server", "server", "ca", names="IP:127.0.0.1,DNS:localhost")
        wait_until(lambda: self.serial(node) != before, "the next certificate to be shown")

    def test_the_end_of_a_certificate_is_told_in_status_metrics_and_log(self):
        node = self.node(())
        # The tests' certificates are valid for 20 days, this one perhaps only since this second.
        end = (re.escape(self.files.path("server.pem")) +
               ": the certificate of .* expires in (19|20) days")
        status = run("status", "--url", node.url)
        self.assertRegex(status.stdout, "(?s)needs attention.*" + end)
        self.assertEqual(run("status", "--url", node.url, "--check").returncode, 1)
        self.assertRegex(node.admin("status").stdout, "security warning : " + end)
        done = run("admin", "--url", node.url, "security", "status")
        self.assertRegex(done.stdout, "warning: " + end)
        self.assertIn("Disabled", done.stdout.splitlines())
        with urllib.request.urlopen(node.url + "/metrics", timeout=10) as answer:
            self.assertRegex(answer.read().decode(),
                             "\nquoit_certificate_expiry_days (19|20)\n")
        wait_until(lambda: re.search(end, node.log_tail(100)), "the log to tell it")

    def test_a_file_of_a_password_that_everybody_may_read_is_refused(self):
        node = self.node((*USERS, "grant %s on any to u" % ALL, "enable"))
        secret = self.written("open", "pw\n", 0o644)
        environment = {**self.environment(), "QUOIT_PASSWORD_FILE": secret}
        for words in (("get", "--url", "https://" + node.record["https"], "b/k"),
                      ("bench", "pb://%s:%d" % node.pb, "--get", "100", "-t", "1s",
                       "--results-dir", self.folder),
                      ("admin", "--url", "unix:" + node.data_dir, "security", "alter-user", "u",
                       "password-file=" + secret)):
            done = run(*words, **environment)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn("open: a password that every user of the machine may read (mode 0644)",
                          done.stdout)

    def test_clients_move_to_tls_one_by_one_while_those_in_clear_are_served(self):
        config = self.written("quoit.conf", "listener.tls = both\n")
        node = self.node((*USERS, "grant %s on default b to u" % ALL), (), ("--config", config))
        clear = Pb(node.pb, self.files)
        self.addCleanup(clear.close)
        self.assertEqual(clear.call(1), (2, b""))
        done = node.admin("security", "enable")
        self.assertEqual((done.returncode, done.stdout.split()[-1]), (0, "Enabled"))
        # Unencrypted clients go on with all buckets; clients that begin TLS log in and are checked.
        put = field(1, "other") + field(2, "k") + field(4, field(1, "v"))
        self.assertEqual(clear.call(11, put)[0], 12)
        self.assertEqual(self.clear_status(node, "/types/default/buckets/other/keys/k"), 200)
        pb, done = self.log_in(node)
        self.assertEqual(done, (254, b""))
        self.assertIn("Permission denied", error_of(pb.call(11, put)[1])[0])
        self.assertEqual(self.https(node, "GET", "/buckets/other/keys/k", ("u", "pw"))["status"], 403)
        self.assertEqual(self.clear_status(node, "/admin/v1/status"), 426, "administration is not for all")
        # The operator can see which clients are left.
        status = node.admin("security", "status").stdout
        self.assertRegex(status, r"(?m)^Enabled$")
        self.assertRegex(status, r"\d connections in clear from 127\.0\.0\.1, the last \d+ s ago")
        with urllib.request.urlopen(node.url + "/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        self.assertIn("\nquoit_clear_clients_served 1\n", metrics)
        self.assertIn("\nquoit_clear_client_hosts 1\n", metrics)
        wait_until(lambda: "listener.tls = both: clients in clear" in node.log_tail(100), "the warning")
        self.written("quoit.conf", "listener.tls = required\n")
        node.process.send_signal(signal.SIGHUP)
        wait_until(lambda: clear.call(1)[0] == 0, "clients in clear to be refused")
        self.assertEqual(error_of(clear.call(11, put)[1])[0], "Security is enabled, please STARTTLS first")
        self.assertEqual(self.clear_status(node, "/buckets/other/keys/k"), 426)
        self.assertEqual(pb.call(1), (2, b""), "clients that have logged in go on")
        self.assertRegex(node.log_tail(100), "listener.tls = required: .*hosts=.?127.0.0.1")
        self.assertNotIn("in clear", node.admin("security", "status").stdout)

    def clear_status(self, node, path):
        try:
            with urllib.request.urlopen(node.url + path, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def test_a_changed_password_ends_the_old_one_on_open_connections_of_https(self):
        node = self.node((*USERS, "grant %s on any to u" % ALL, "enable"))
        host, port = node.record["https"].rsplit(":", 1)
        context = ssl.create_default_context(cafile=self.files.path("ca.pem"))
        client = http.client.HTTPSConnection(host, int(port), timeout=20, context=context)
        self.addCleanup(client.close)

        def status(password):
            token = base64.b64encode(("u:" + password).encode()).decode()
            client.request("GET", "/buckets/b/keys/k", headers={"Authorization": "Basic " + token})
            answer = client.getresponse()
            answer.read()
            return answer.status

        self.assertEqual([status("pw"), status("pw")], [404, 404])
        self.assertEqual(node.admin("security", "alter-user", "u", "password=new").returncode, 0)
        self.assertEqual([status("pw"), status("new")], [401, 404])

    def serial(self, node):
        host, port = node.record["https"].rsplit(":", 1)
        context = ssl.create_default_context(cafile=self.files.path("ca.pem"))
        with socket.create_connection((host, int(port)), 20) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
                return secured.getpeercert()["serialNumber"]

    def test_administration_and_data_commands_work_over_https(self):
        node = self.node((*USERS, "grant quoit.operate,quoit.observe on any to u", "enable"))
        url = "https://" + node.record["https"]
        done = run("admin", "--url", url, "security", "status", **self.environment())
        self.assertEqual((done.returncode, done.stdout.split()[-1]), (0, "Enabled"), done.stdout)
        done = run("admin", "--url", url, "security", "add-user", "made", **self.environment())
        self.assertEqual(done.returncode, 0, done.stdout)
        for changed, words in [({"QUOIT_PASSWORD_FILE": self.written("bad", "no\n")},
                                "the user or the password is wrong"),
                               ({"QUOIT_CACERT": self.files.path("other-ca.pem")}, "authority"),
                               ({"QUOIT_USER": "made"}, "the user or the password is wrong")]:
            done = run("admin", "--url", url, "security", "status",
                       **{**self.environment(), **changed})
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(words, done.stdout)

    def test_the_load_generator_logs_in_over_both_protocols(self):
        node = self.node((*USERS, "grant %s on any to u" % ALL, "enable"))
        for name, driver, address, use_ssl in [
                ("https", "http_raw", node.record["https"], ""),
                ("set", "http_raw", node.record["https"], "{http_use_ssl, true}."),
                ("pb", "riakc_pb", node.record["pb"], "")]:
            config = self.written("bench.config", """
                {mode, max}. {duration, 10}. {report_interval, 1}. {concurrent, 2}. {driver, %s}.
                {key_generator, {int_to_str, {sequential_int, 50}}}.
                {value_generator, {fixed_bin, 100}}. {operations, [{put, 1}]}. %s
                """ % (driver, use_ssl))
            done = run("bench", config, "-d", self.folder, "-n", name, "--target", address,
                       **self.environment())
            with open(os.path.join(self.folder, name, "errors.csv"), encoding="utf-8") as handle:
                failed = handle.readlines()[1:]
            self.assertEqual((done.returncode, failed), (0, []), done.stdout)
        refused = run("bench", config, "-d", self.folder, "-n", "refused",
                      "--target", node.record["pb"], **{**self.environment(), "QUOIT_USER": "nobody"})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("Authentication failed", refused.stdout)

    def test_another_cluster_is_consumed_and_compared_by_a_login(self):
        source = self.node((*USERS, "grant quoit.replicate,quoit.fold on any to u,certuser",
                            "grant riak_kv.put on any to u", "enable"),
                           ("replrtq_enablesrc=enabled", "replrtq_srcqueue=out:any|web:any"))
        by_certificate = ["repl_username=certuser", "repl_cacert_filename=" + self.files.path("ca.pem"),
                          "repl_cert_filename=" + self.files.path("certuser.pem"),
                          "repl_key_filename=" + self.files.path("certuser.key")]
        by_password = ["repl_username=u", "repl_cacert_filename=" + self.files.path("ca.pem"),
                       "repl.password_file=" + self.written("secret", "pw\n")]
        over_pb = "out:%s:pb" % source.record["pb"]
        over_https = "web:%s:http" % source.record["https"]
        sinks = []
        for login, peer in [(by_certificate, over_pb), (by_password, over_https)]:
            sink = TemporaryNode(binary_from_environment(), [
                "storage_backend=memory", "replrtq_enablesink=enabled", "replrtq_sinkpeers=" + peer,
                *login])
            self.addCleanup(sink.__exit__)
            sinks.append(sink.__enter__())
        pb, _ = self.log_in(source)
        for number in range(20):
            self.assertEqual(pb.call(11, B + field(2, "k%d" % number)
                                     + field(4, field(1, "v")))[0], 12)
        for sink in sinks:
            reader = Pb(sink.pb, self.files)
            self.addCleanup(reader.close)
            for number in range(20):
                key = B + field(2, "k%d" % number)
                wait_until(lambda reader=reader, key=key: b"v" in reader.call(9, key)[1],
                           "the record to come")
        peer = source.record["pb"] + ":pb"
        for words in (("set", "--peer", peer), ("run", "all")):
            done = run("repl", "--url", sinks[0].url, "fullsync", *words)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("in_sync", done.stdout)
        wrong_password = by_password[:-1] + ["repl.password_file=" + self.written("wrong", "no\n")]
        other_authority = [by_password[0], "repl_cacert_filename=" + self.files.path("other-ca.pem"),
                           by_password[2]]
        for login, told in [(wrong_password, "Authentication failed"),
                            (other_authority, "TLS handshake with")]:
            sink = TemporaryNode(binary_from_environment(), [
                "storage_backend=memory", "replrtq_enablesink=enabled", "replrtq_sinkpeers=" + over_pb,
                *login])
            self.addCleanup(sink.__exit__)
            sink.__enter__()
            wait_until(lambda sink=sink, told=told: told in self.replication(sink), told)
        Operator(os.path.join(source.data_dir, "admin.sock")).command(
            "revoke", "quoit.replicate", "on", "any", "from", "certuser")
        wait_until(lambda: "Permission denied: User 'certuser'" in self.replication(sinks[0]),
                   "the refusal to be told")

    def replication(self, node):
        with urllib.request.urlopen(node.url + "/admin/v1/repl", timeout=10) as answer:
            return answer.read().decode()

    def test_logins_at_other_clusters_that_cannot_be_made_stop_the_start(self):
        authority = "repl_cacert_filename=" + self.files.path("ca.pem")
        open_secret = self.written("open", "pw\n", mode=0o644)
        for settings, words in [
                (["repl_username=u"], "set repl_cacert_filename"),
                ([authority], "set repl_username"),
                (["repl_username=u", authority, "repl.password_file=" + open_secret], "chmod o-rwx"),
                (["repl_username=u", "repl_cacert_filename=/none.pem"], "/none.pem")]:
            node = TemporaryNode(binary_from_environment(), settings)
            self.addCleanup(node.__exit__)
            node.assert_refused(self, words)

    def test_a_revocation_list_of_version_1_stops_the_start_with_its_file_and_a_remedy(self):
        with open(self.files.path("ca.cnf"), encoding="utf-8") as handle:
            text = handle.read()
        self.written("old.cnf", re.sub("crl_extensions=.*\n|crlnumber=.*\n", "", text))
        self.files.run("ca", "-config", "old.cnf", "-gencrl", "-out", "old.crl")
        node = TemporaryNode(binary_from_environment(), [
            "ssl.certfile=" + self.files.path("server.pem"),
            "ssl.keyfile=" + self.files.path("server.key"),
            "ssl.cacertfile=" + self.files.path("ca.pem"), "ssl.crlfile=" + self.files.path("old.crl")])
        self.addCleanup(node.__exit__)
        node.assert_refused(self, "old.crl")
        self.assertIn("version 1", node.log_tail())
        self.assertIn("crl_extensions", node.log_tail())


class ChangedRights(WithCertificates, ClusterCase):
    def test_changed_rights_count_on_all_nodes_and_one_that_is_cut_off_says_so(self):
        if not is_possible():
            raise unittest.SkipTest("openssl, which makes the certificates, is not installed")
        files = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(files.cleanup)
        self.files = Certificates(files.name)
        cluster = self.cluster(3, (
            "ring_size=8", "ssl.certfile=" + self.files.path("server.pem"),
            "ssl.keyfile=" + self.files.path("server.key"), "security.failure_delay=100ms",
            "security.hashing.memory=8KB", "security.open_statistics=on",
            "security.cut_off.refuse_logins_after=3s"))
        for words in (*USERS, "grant riak_core.get_bucket on any to u", "enable"):
            done = cluster[0].admin("security", *words.split())
            self.assertEqual(done.returncode, 0, done.stdout)
        wait_until(lambda: all("Enabled" in node.admin("security", "status").stdout for node in cluster),
                   "all nodes to know that security is on")
        wait_until(lambda: all(self.log_in(node)[1] == (254, b"") for node in cluster), "logins")
        clients = [self.log_in(node)[0] for node in cluster]
        self.assertTrue(all(pb.call(19, B)[0] == 20 for pb in clients))
        # A revoked permission ends within 5 s on open connections of all nodes, and on a node that was
        # down.
        cluster[2].stop()
        self.command(cluster[0], "revoke", "riak_core.get_bucket", "on", "any", "from", "u")
        began = time.monotonic()
        wait_until(lambda: all(self.is_denied(pb) for pb in clients[:2]), "the right to end")
        self.assertLess(time.monotonic() - began, 5)
        cluster[2].start()
        began = time.monotonic()
        again = self.log_in(cluster[2])[0]
        wait_until(lambda: self.is_denied(again), "the right to end on the node that was away")
        self.assertLess(time.monotonic() - began, 5)
        # Without a majority a node continues to serve, reports it, and refuses logins after a time.
        for node in (cluster[0], cluster[1]):
            node.kill()
        wait_until(lambda: self.cut_off_seconds(cluster[2]) >= 3, "the node to be cut off for 3 s")
        self.assertEqual(again.call(1), (2, b""), "who has logged in is served")
        self.assertEqual(error_of(self.log_in(cluster[2])[1][1])[0], "Authentication failed")
        wait_until(lambda: "reaches no majority of the voters" in cluster[2].log_tail(1000), "its log")
        cluster[0].start()
        wait_until(lambda: self.log_in(cluster[2])[1] == (254, b""), "logins to be taken again")
        self.assertEqual(self.cut_off_seconds(cluster[2]), 0)
        cluster[1].start()

    def command(self, node, *words):
        done = node.admin("security", *words)
        self.assertEqual(done.returncode, 0, done.stdout)

    def is_denied(self, pb):
        frame = pb.call(19, B)
        return frame[0] == 0 and "Permission denied" in error_of(frame[1])[0]

    def cut_off_seconds(self, node):
        with urllib.request.urlopen(node.url + "/metrics", timeout=10) as answer:
            return int(re.search("^quoit_security_cut_off_seconds (\\d+)", answer.read().decode(),
                                 re.M).group(1))


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
