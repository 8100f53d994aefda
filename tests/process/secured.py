"""Tests of TLS between real nodes: tokens, rotation, removal, an open cluster that is closed under load."""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import KEYS, ClusterCase, are_closed, links, put_all, values  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "secure-a-cluster.md")


def refusals_told(node):
    """Returns how often the node's log reports a handshake that was refused because the node is not a
    member any more."""
    return node.log_tail(10000).count("CertificateRevoked")


def is_shut_out(node, refusals):
    """Tells if a removed node has stopped because it learned of its removal, or was refused that often."""
    return not node.is_running() or refusals_told(node) >= refusals


class Closed(ClusterCase):
    def test_tokens_let_nodes_in_and_what_is_none_does_not(self):
        cluster = self.closed(3, ("ring_size=8", "audit=on"))
        wait_until(lambda: are_closed(cluster), "all members to hold certificates")
        put_all(cluster[0], KEYS, "v")
        self.assertEqual(values(cluster[2], KEYS, r=3), [[b"v"]] * len(KEYS))
        fourth = cluster.add()
        used = os.path.join(self.folder, "token")
        for words, path in [
                ("was used by as many nodes as it was made for", used),
                ("cut off or has a typing error", self.written("cut", open(used).read().strip()[:-1] + "~")),
                ("begins with quoit-join-1-", self.written("other", "secret")),
        ]:
            refused = self.join_with(fourth, cluster[0], path)
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn(words, refused.stdout)
        def without():
            return self.refusal(fourth, "cluster", "join", cluster[0].record["node"])
        # Before it has the certificate of its own cluster, it is told to join by a token.
        wait_until(lambda: "no proof of membership" in without(), "the refusal of a join without a proof")
        revoked = self.token_file(cluster[1])
        def unused():
            listed = cluster[2].run("cluster", "token", "list")
            return [line.split()[0] for line in listed.splitlines() if "for 1 more" in line]
        wait_until(unused, "the third node to know the new token")
        cluster[2].run("cluster", "token", "revoke", unused()[0])
        refused = self.join_with(fourth, cluster[0], revoked)
        self.assertIn("was revoked", refused.stdout)
        self.assertEqual(len(cluster[0].json("cluster", "status")["members"]), 3)
        joined = self.join_with(fourth, cluster[1], self.token_file(cluster[2]))
        self.assertEqual(joined.returncode, 0, joined.stdout)
        cluster.commit()
        wait_until(lambda: are_closed(cluster), "the fourth to hold a certificate")
        self.assert_secrets_are_kept(cluster)
        self.assert_audited(cluster[2])

    def written(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path

    def assert_secrets_are_kept(self, cluster):
        for node in cluster:
            mode = os.stat(os.path.join(node.data_dir, "control.redb")).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600)
            self.assertFalse(os.path.exists(os.path.join(node.data_dir, "internode-certificate.pem")))
            self.assertNotIn("quoit-join-1-", node.log_tail(10000))

    def assert_audited(self, node):
        with open(os.path.join(node.data_dir, "audit.log"), encoding="utf-8") as handle:
            text = handle.read()
        lines = [json.loads(line) for line in text.splitlines()]
        made = [line for line in lines if line["what"] == "POST cluster/tls/tokens"]
        self.assertEqual([line["outcome"] for line in made], ["done"])
        self.assertNotIn("quoit-join-1-", text)
        self.assertTrue(any(line["what"].startswith("DELETE cluster/tls/tokens/") for line in lines))

    def test_a_removed_member_is_shut_out_and_the_port_says_nothing_to_strangers(self):
        cluster = self.closed(3, ("ring_size=8", "audit=on"))
        wait_until(lambda: are_closed(cluster), "all members to hold certificates")
        for prod in prods():
            with socket.create_connection(cluster[0].node, timeout=20) as stranger:
                stranger.sendall(prod)
                stranger.shutdown(socket.SHUT_WR)
                answer = b""
                try:
                    while piece := stranger.recv(4096):
                        answer += piece
                except ConnectionResetError:
                    pass
            # A TLS alert has seven bytes, and names no node, cluster or version.
            self.assertTrue(answer == b"" or (answer[0] == 21 and len(answer) == 7), (prod, answer))
        removed = cluster[2]
        cluster[0].run("cluster", "force-remove", removed.name)
        cluster[0].run("cluster", "plan")
        cluster[0].run("cluster", "commit")
        # Its connections end, and none of its handshakes succeeds again, even after a restart.
        wait_until(lambda: is_shut_out(removed, 1), "the removed node to be shut out")
        if removed.is_running():
            removed.stop()
        refusals = refusals_told(removed)
        removed.launch()
        wait_until(lambda: is_shut_out(removed, refusals + 1), "the removed node to be shut out again")
        if refusals_told(removed):
            self.assertIn("becomes a member again with an empty data directory", removed.log_tail(10000))
        self.assert_unharmed([cluster[0], cluster[1]])

    def test_the_authority_is_rotated_under_load_without_a_failed_request(self):
        cluster = self.closed(3, ("ring_size=8", "audit=on"))
        wait_until(lambda: are_closed(cluster), "all members to hold certificates")
        bench = self.bench(cluster, 8)
        self.let_it_run(bench)
        before = links(cluster[0])["authorities"][0]["id"]
        cluster[1].run("cluster", "tls", "rotate")
        wait_until(lambda: are_closed(cluster) and
                   links(cluster[0])["authorities"][0]["id"] != before, "the rotation to be over")
        self.assert_flawless(bench)
        cluster[2].stop()
        cluster[2].start()
        wait_until(lambda: are_closed(cluster), "a node to be back with a new certificate")


class Bundles(ClusterCase):
    def test_a_bundle_of_a_secured_node_holds_no_secret(self):
        password, cookie = "correct-horse-battery", "a-long-shared-secret-of-this-cluster"
        settings = ("ring_size=8", "internode.tls=required", "audit=on", "distributed_cookie=" + cookie)
        cluster = self.cluster(1, settings)
        node = cluster[0]
        wait_until(lambda: links(node)["authorities"], "the node to have an authority")
        token = node.run("cluster", "token").strip()
        file = os.path.join(self.folder, "password")
        with open(file, "w", encoding="utf-8") as handle:
            handle.write(password)
        os.chmod(file, 0o600)
        node.run("security", "add-user", "shop", "password-file=" + file)
        path = os.path.join(self.folder, "bundle.tar")
        command = [node.binary, "debug", "bundle", "--url", node.url, "--output", path,
                   "--log", node.log_path, "--data-dir", node.data_dir]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        with tarfile.open(path) as bundle:
            files = {entry.name: bundle.extractfile(entry).read().decode("utf-8", "replace")
                     for entry in bundle if entry.isfile()}
        self.assertIn("quoit-debug/overview.json", files)
        self.assertIn("internode.tls = required", files["quoit-debug/config.txt"])
        for name, text in files.items():
            for secret in (password, cookie, token, token[-24:], "PRIVATE KEY", "argon2", "pbkdf2"):
                self.assertNotIn(secret, text, name)


class Opened(ClusterCase):
    """The commands of the page "Secure a cluster" for nodes, in the page's order, under load."""

    def test_a_running_cluster_is_closed_as_the_page_says_without_a_failed_request(self):
        with open(DOCUMENT, encoding="utf-8") as handle:
            page = handle.read()
        commands = re.findall(r"^ {4,}quoit admin (cluster .*)$", page, re.MULTILINE)
        self.assertEqual(commands, ["cluster tls", "cluster tls", "cluster tls rotate",
                                    "cluster token --ttl 15m > token",
                                    "cluster join 10.0.0.1:8099 --token-file token"])
        settings = re.findall(r"^ {4,}(internode\.tls = .*)$", page, re.MULTILINE)
        self.assertEqual(settings, ["internode.tls = both", "internode.tls = required"])
        config = os.path.join(self.folder, "quoit.conf")
        self.configure(config, "internode.tls = plain")
        cluster = self.cluster(3, ("ring_size=8",), ("--config", config))
        bench = self.bench(cluster, 14)
        self.let_it_run(bench)
        self.step(cluster, config, settings[0])
        wait_until(lambda: are_closed(cluster), "all connections to have TLS")
        self.assertIn("connected", cluster[0].run(*commands[1].split()))
        self.step(cluster, config, settings[1])
        before = links(cluster[0])["authorities"][0]["id"]
        cluster[0].run(*commands[2].split())
        wait_until(lambda: are_closed(cluster) and
                   links(cluster[0])["authorities"][0]["id"] != before, "the rotation to be over")
        self.assert_flawless(bench)
        with urllib.request.urlopen(cluster[0].url + "/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        self.assertIn('quoit_certificate_expiry_seconds{certificate="node"} 31', metrics)
        self.assertIn("quoit_certificates_expiring 0", metrics)
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="utf-8") as handle:
            handle.write(cluster[0].run("cluster", "token", "--ttl", "15m"))
        joined = cluster.add()
        joined.run("cluster", "join", cluster[0].record["node"], "--token-file", token)
        cluster.commit()
        wait_until(lambda: are_closed(cluster), "the fourth to hold a certificate")

    def test_a_closed_cluster_is_opened_and_closed_again_without_a_failed_request(self):
        config = os.path.join(self.folder, "quoit.conf")
        self.configure(config, "internode.tls = both")
        cluster = self.cluster(3, ("ring_size=8",), ("--config", config))
        wait_until(lambda: are_closed(cluster), "all connections to have TLS")
        self.step(cluster, config, "internode.tls = required")
        bench = self.bench(cluster, 12)
        self.let_it_run(bench)
        self.step(cluster, config, "internode.tls = both")
        self.step(cluster, config, "internode.tls = plain")
        # Existing TLS connections go on; a node that starts now uses no TLS.
        self.assertTrue(are_closed(cluster))
        self.step(cluster, config, "internode.tls = both")
        self.step(cluster, config, "internode.tls = required")
        wait_until(lambda: are_closed(cluster), "all connections to have TLS again")
        self.assert_flawless(bench)
        self.assert_unharmed(cluster)

    def configure(self, path, line):
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(line + "\n")

    def step(self, cluster, config, line):
        self.configure(config, line)
        for node in cluster:
            node.process.send_signal(signal.SIGHUP)
        mode = line.split()[-1]
        wait_until(lambda: all(links(node)["mode"] == mode for node in cluster), "mode " + mode)


def prods():
    """Yields byte strings of strangers. None of them is a handshake with a certificate."""
    hello = bytes.fromhex("1603010005010000010303")
    for byte in (0, 1, 0x0c, 0x15, 0x16, 0x17, 0x47, 0x7f, 0x80, 0xff):
        yield bytes([byte]) * 64
    for at in range(len(hello)):
        for value in (0, 0x7f, 0xff):
            yield hello[:at] + bytes([value]) + hello[at + 1:]
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    # The beginning of a greeting by a member without TLS.
    yield bytes.fromhex("0000000c") + bytes([1, 0, 0, 0]) + b"quo1" + bytes(4)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
