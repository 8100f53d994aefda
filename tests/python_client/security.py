"""Riak's own client for Python against a node with users, rights and TLS, over both protocols."""
import os
import sys
import tempfile
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "security")]

import riak  # noqa: E402
from riak.security import SecurityCreds, SecurityError  # noqa: E402

from certificates import Certificates, is_possible  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

NODE = None
FILES = None
FOLDER = None


def setUpModule():
    global NODE, FILES, FOLDER
    if not is_possible():
        raise unittest.SkipTest("openssl, which makes the certificates, is not installed")
    warnings.simplefilter("ignore", DeprecationWarning)
    FOLDER = tempfile.TemporaryDirectory()
    FILES = Certificates(FOLDER.name)
    NODE = TemporaryNode(binary_from_environment(), [
        "ssl.certfile=" + FILES.path("server.pem"), "ssl.keyfile=" + FILES.path("server.key"),
        "ssl.cacertfile=" + FILES.path("ca.pem"), "ssl.crlfile=" + FILES.path("ca.crl"),
        "listener.https.test=127.0.0.1:0", "storage_backend=memory",
        "security.failure_delay=200ms", "security.hashing.memory=8KB"])
    NODE.__enter__()
    for words in ["add-user pass password=secret", "add-user trusted", "add-user certuser",
                  "add-user revoked", "add-user poor password=secret",
                  "add-source pass,poor 127.0.0.1/32 password", "add-source trusted 127.0.0.1/32 trust",
                  "add-source certuser,revoked 127.0.0.1/32 certificate",
                  "grant riak_kv.get,riak_kv.put,riak_kv.delete,riak_kv.list_keys on default to "
                  "pass,trusted,certuser", "enable"]:
        done = NODE.admin("security", *words.split())
        assert done.returncode == 0, done.stdout


def tearDownModule():
    if NODE:
        NODE.__exit__(None, None, None)
        FOLDER.cleanup()


class Case:
    """The cases of one protocol."""

    protocol = None
    refusals = (Exception,)

    def client(self, user, password=None, cert=None, authority="ca"):
        files = {"cacert_file": FILES.path(authority + ".pem")}
        if cert:
            files.update(cert_file=FILES.path(cert + ".pem"), pkey_file=FILES.path(cert + ".key"))
        credentials = SecurityCreds(username=user, password=password, **files)
        port = int(NODE.record["https"].rsplit(":", 1)[1])
        client = riak.RiakClient(protocol=self.protocol, host="127.0.0.1", pb_port=NODE.pb[1],
                                 http_port=port, credentials=credentials)
        client.retries = 0
        self.addCleanup(client.close)
        return client

    def assert_serves(self, client):
        bucket = client.bucket("secured-" + self.protocol)
        bucket.new("k", encoded_data=b"v", content_type="text/plain").store()
        self.assertEqual(bucket.get("k").encoded_data, b"v")

    def test_a_password_lets_in(self):
        self.assert_serves(self.client("pass", "secret"))

    def test_a_wrong_password_does_not(self):
        with self.assertRaises(self.refusals):
            self.client("pass", "wrong").bucket("b").get("k")

    def test_a_user_that_does_not_exist_is_not_let_in(self):
        with self.assertRaises(self.refusals):
            self.client("nobody", "secret").bucket("b").get("k")

    def test_trust_lets_in_without_a_password(self):
        self.assert_serves(self.client("trusted", "anything"))

    def test_a_certificate_lets_in(self):
        self.assert_serves(self.client("certuser", "unused", cert="certuser"))

    def test_the_certificate_of_another_does_not(self):
        with self.assertRaises(self.refusals):
            self.client("certuser", "unused", cert="certother").bucket("b").get("k")

    def test_a_certificate_of_another_authority_does_not(self):
        with self.assertRaises(self.refusals):
            self.client("certuser", "unused", cert="certbadca").bucket("b").get("k")

    def test_a_revoked_certificate_does_not(self):
        with self.assertRaises(self.refusals):
            self.client("revoked", "unused", cert="revoked").bucket("b").get("k")

    def test_a_node_of_another_authority_is_not_trusted(self):
        with self.assertRaises(self.refusals):
            self.client("pass", "secret", authority="other-ca").bucket("b").get("k")

    def test_what_was_not_granted_is_refused(self):
        with self.assertRaisesRegex(riak.RiakError, "Permission denied|403"):
            self.client("poor", "secret").bucket("b").get("k")


class OverPb(Case, unittest.TestCase):
    protocol = "pbc"

    def test_the_refusal_is_the_clients_own(self):
        with self.assertRaises(SecurityError):
            self.client("pass", "wrong").ping()


class OverHttps(Case, unittest.TestCase):
    protocol = "http"


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
