"""A node with users, permissions and TLS, for tests of clients."""
import contextlib

from support.node import TemporaryNode, binary_from_environment

# Users for tests of clients: one for each kind of source, and one without permissions.
CLIENTS = (
    "add-user pass password=secret", "add-user trusted", "add-user certuser", "add-user revoked",
    "add-user poor password=secret", "add-source pass,poor 127.0.0.1/32 password",
    "add-source trusted 127.0.0.1/32 trust", "add-source certuser,revoked 127.0.0.1/32 certificate",
    "grant riak_kv.get,riak_kv.put,riak_kv.delete,riak_kv.list_keys on default to pass,trusted,certuser",
    "enable")


@contextlib.contextmanager
def secured_node(files, commands, settings=(), flags=()):
    """Starts a node with these certificates, and runs these commands of `quoit admin security`."""
    node = TemporaryNode(binary_from_environment(), [
        "ssl.certfile=" + files.path("server.pem"), "ssl.keyfile=" + files.path("server.key"),
        "ssl.cacertfile=" + files.path("ca.pem"), "ssl.crlfile=" + files.path("ca.crl"),
        "listener.https.test=127.0.0.1:0", "listener.protobuf_tls.test=127.0.0.1:0",
        "storage_backend=memory", "security.failure_delay=200ms", "security.hashing.memory=8KB",
        *settings], flags)
    with node:
        for words in commands:
            done = node.admin("security", *words.split())
            assert done.returncode == 0, (words, done.stdout)
        yield node
