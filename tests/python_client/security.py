"""Riak's own client for Python against a node with users, permissions and TLS, over both protocols."""
import contextlib
import os
import ssl
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
from secured_node import CLIENTS, secured_node  # noqa: E402
from support import unittest_runner  # noqa: E402

NODE = None
FILES = None
FOLDER = None


def setUpModule():
    global NODE, FILES, FOLDER
    if not is_possible():
        raise unittest.SkipTest("openssl, which makes the certificates, is not installed")
    warnings.simplefilter("ignore", DeprecationWarning)
    FOLDER = contextlib.ExitStack()
    FILES = Certificates(FOLDER.enter_context(tempfile.TemporaryDirectory()))
    NODE = FOLDER.enter_context(secured_node(FILES, CLIENTS))


def tearDownModule():
    if FOLDER:
        FOLDER.close()


class Case:
    """The test cases of one protocol."""

    protocol = None
    # The exception of a refused login, and its message.
    refusal = None
    words_of_login = None
    # The exception of a failed handshake.
    refusal_of_handshake = None
    words_of_denial = None

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

    def assert_refused(self, *credentials, **options):
        """Checks that a login ends in the client's own exception for a refused login."""
        with self.assertRaisesRegex(self.refusal, self.words_of_login):
            self.client(*credentials, **options).bucket("b").get("k")

    def assert_no_handshake(self, words, *credentials, **options):
        """Checks that the handshake fails with the given message."""
        with self.assertRaisesRegex(self.refusal_of_handshake, words):
            self.client(*credentials, **options).bucket("b").get("k")

    def test_a_wrong_password_does_not(self):
        self.assert_refused("pass", "wrong")

    def test_a_user_that_does_not_exist_is_not_let_in(self):
        self.assert_refused("nobody", "secret")

    def test_trust_lets_in_without_a_password(self):
        self.assert_serves(self.client("trusted", "anything"))

    def test_a_certificate_lets_in(self):
        self.assert_serves(self.client("certuser", "unused", cert="certuser"))

    def test_the_certificate_of_another_does_not(self):
        self.assert_refused("certuser", "unused", cert="certother")

    def test_a_certificate_of_another_authority_does_not(self):
        self.assert_no_handshake("(?i)unknown.ca|decrypt.error", "certuser", "unused", cert="certbadca")

    def test_a_revoked_certificate_does_not(self):
        self.assert_no_handshake("(?i)certificate.revoked", "revoked", "unused", cert="revoked")

    def test_a_node_of_another_authority_is_not_trusted(self):
        self.assert_no_handshake("certificate verify failed", "pass", "secret", authority="other-ca")

    def test_what_was_not_granted_is_refused(self):
        with self.assertRaisesRegex(riak.RiakError, self.words_of_denial):
            self.client("poor", "secret").bucket("b").get("k")


class OverPb(Case, unittest.TestCase):
    protocol = "pbc"
    refusal = SecurityError
    words_of_login = "Could not authorize connection"
    refusal_of_handshake = SecurityError
    words_of_denial = "Permission denied: User 'poor' does not have 'riak_kv.get' on default/b"

    def test_the_refusal_is_the_clients_own(self):
        with self.assertRaises(SecurityError):
            self.client("pass", "wrong").ping()


class OverHttps(Case, unittest.TestCase):
    protocol = "http"
    refusal = riak.RiakError
    words_of_login = "Unauthorized|401"
    words_of_denial = "403"
    refusal_of_handshake = ssl.SSLError


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
