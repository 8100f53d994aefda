"""The tables of refused certificates in the documentation: each kind of certificate is made with OpenSSL
and given to a node or shown to one, and the node must answer with the message of the table."""
import os
import re
import subprocess

from certificates import Certificates
from support.cluster import wait_until
from support.node import START_SECONDS, TemporaryNode, binary_from_environment
from talk import Operator, Pb

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "secure-a-cluster.md")
LEAF = "basicConstraints=CA:FALSE\n"
NAMED = LEAF + "subjectAltName=IP:127.0.0.1,DNS:localhost\n"
POLICY = "[ca]\ndefault_ca=it\n[it]\ndatabase=dates.txt\nrand_serial=yes\nnew_certs_dir=.\n" \
         "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n"
# Ciphers that Riak's client for Node.js offers in TLS 1.2.
CIPHERS_OF_NODE_CLIENT = "DHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA:AES128-SHA256:AES128-SHA"


class Files(Certificates):
    """Makes faulty certificates. Each method makes NAME.pem and NAME.key."""

    def request(self, name, key=("ec", "prime256v1"), common_name="certuser"):
        if key[0] == "rsa":
            self.run("genrsa", "-traditional", "-out", name + ".key", key[1])
        else:
            self.run("ecparam", "-name", key[1], "-genkey", "-noout", "-out", name + ".key")
        os.chmod(self.path(name + ".key"), 0o600)
        self.run("req", "-new", "-key", name + ".key", "-subj", "/CN=" + common_name, "-out", name + ".csr")

    def sign(self, name, extensions=NAMED, days="30", digest="-sha256"):
        more = []
        if extensions:
            with open(self.path(name + ".ext"), "w", encoding="utf-8") as handle:
                handle.write(extensions)
            more = ["-extfile", name + ".ext"]
        self.run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", digest,
                 "-CAcreateserial", "-days", days, "-out", name + ".pem", *more)

    def made(self, name, key=("ec", "prime256v1"), **signed):
        self.request(name, key)
        self.sign(name, **signed)

    def between(self, name, start, end):
        self.request(name)
        for file, content in [("dates.cnf", POLICY), ("dates.txt", ""), (name + ".ext", NAMED)]:
            with open(self.path(file), "w", encoding="utf-8") as handle:
                handle.write(content)
        self.run("ca", "-batch", "-notext", "-config", "dates.cnf", "-in", name + ".csr", "-cert", "ca.pem",
                 "-keyfile", "ca.key", "-startdate", start, "-enddate", end, "-extfile", name + ".ext",
                 "-out", name + ".pem")

    def itself(self, name):
        self.request(name)
        self.run("req", "-x509", "-new", "-key", name + ".key", "-subj", "/CN=certuser", "-days", "30",
                 "-out", name + ".pem")

    def encrypted(self, name):
        self.made(name)
        self.run("ec", "-in", name + ".key", "-aes256", "-passout", "pass:secret", "-out", name + ".new")
        os.rename(self.path(name + ".new"), self.path(name + ".key"))
        os.chmod(self.path(name + ".key"), 0o600)

    def readable(self, name):
        self.made(name)
        os.chmod(self.path(name + ".key"), 0o604)

    def of_another_key(self, name):
        self.made(name)
        self.request(name)

    def list_of_version_1(self, name):
        self.made(name)
        with open(self.path("old.cnf"), "w", encoding="utf-8") as handle:
            handle.write("[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\ndefault_md=sha256\n"
                         "default_crl_days=30\ncertificate=ca.pem\nprivate_key=ca.key\n")
        self.run("ca", "-config", "old.cnf", "-gencrl", "-out", name + ".crl")


# Makers of a server's files, by the first cell of the table's row.
OF_SERVERS = {
    "X.509 version 1": lambda files, name: files.made(name, extensions=""),
    "host name in the common name only": lambda files, name: files.made(name, extensions=LEAF),
    "signed with SHA-1 or MD5": lambda files, name: files.made(name, digest="-sha1"),
    "RSA below 2048 bits": lambda files, name: files.made(name, ("rsa", "1024")),
    "another elliptic curve than P-256": lambda files, name: files.made(name, ("ec", "secp521r1")),
    "expired": lambda files, name: files.between(name, "20200101000000Z", "20200201000000Z"),
    "not yet valid": lambda files, name: files.between(name, "20490101000000Z", "20491231000000Z"),
    "for clients only": lambda files, name: files.made(
        name, extensions=NAMED + "extendedKeyUsage=clientAuth\n"),
    "that of an authority itself": lambda files, name: files.itself(name),
    "key of another certificate": lambda files, name: files.of_another_key(name),
    "encrypted private key": lambda files, name: files.encrypted(name),
    "private key that others may read": lambda files, name: files.readable(name),
    "revocation list of version 1": lambda files, name: files.list_of_version_1(name),
}
# Makers of files for certificates that a client shows.
OF_CLIENTS = {
    "X.509 version 1": lambda files, name: files.made(name, extensions=""),
    "signed with SHA-1": lambda files, name: files.made(name, digest="-sha1"),
    "RSA below 2048 bits": lambda files, name: files.made(name, ("rsa", "1024"), extensions=LEAF),
    "expired": lambda files, name: files.between(name, "20200101000000Z", "20200201000000Z"),
    "not yet valid": lambda files, name: files.between(name, "20490101000000Z", "20491231000000Z"),
    "for servers only": lambda files, name: files.made(
        name, extensions=LEAF + "extendedKeyUsage=serverAuth\n"),
    "that of an authority itself": lambda files, name: files.made(
        name, extensions="basicConstraints=CA:TRUE\n"),
    "of another authority": lambda files, name: files.issue(name, "certuser", "other-ca"),
    "revoked": lambda files, name: None,
}
# Rows whose certificates work with some clients, so that the node only warns.
ONLY_WARNED = {"host name in the common name only", "that of an authority itself"}
# Rows about ciphers, for which no file is made.
WITHOUT_FILES = {"RSA key exchange", "the ciphers of Riak's client for Node.js in TLS 1.2"}


def rows_of(title):
    """Returns the rows of the table below a heading: the plain text of the first cell, and the node's
    message."""
    with open(PAGE, encoding="utf-8") as handle:
        text = handle.read()
    section = text.split("\n## " + title + "\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!---|certificate)([^|]*) \|(?: [^|]* \|)? `([^`]*)` \|", section, re.M)
    return {plain(first): words for first, words in rows}


def plain(cell):
    return cell.split(",")[0].split(" (")[0]


def settings_of(files, name):
    settings = ["ssl.certfile=" + files.path(name + ".pem"), "ssl.keyfile=" + files.path(name + ".key"),
                "ssl.cacertfile=" + files.path("ca.pem"), "listener.https.test=127.0.0.1:0",
                "storage_backend=memory"]
    if os.path.exists(files.path(name + ".crl")):
        settings.append("ssl.crlfile=" + files.path(name + ".crl"))
    return settings


def check_servers(files):
    """Checks each row of the table of server certificates. Returns the number of rows."""
    told = rows_of("Certificates that are refused")
    assert set(told) == set(OF_SERVERS) | set(WITHOUT_FILES), \
        "the page and this test differ in %s" % (set(told) ^ (set(OF_SERVERS) | set(WITHOUT_FILES)))
    for number, (row, make) in enumerate(OF_SERVERS.items()):
        name = "server%d" % number
        make(files, name)
        node = TemporaryNode(binary_from_environment(), settings_of(files, name))
        try:
            if row in ONLY_WARNED:
                node.start()
            else:
                node.launch()
                assert node.process.wait(START_SECONDS) == 1, "%s: the node starts" % row
                assert files.path(name) in node.log_tail(), "%s names no file" % row
            wait_until(lambda: told[row] in log_of(node), "%s: the node says: %s" % (row, told[row]), 10)
            if row == "host name in the common name only":
                assert_own_client_refuses(node, files)
        finally:
            node.__exit__()
    return len(OF_SERVERS)


def assert_own_client_refuses(node, files):
    url = "https://" + node.record["https"]
    done = subprocess.run([node.binary, "admin", "--url", url, "--cacert", files.path("ca.pem"), "status"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)
    assert done.returncode and "the common name does not count" in done.stdout, done.stdout


def check_clients(files):
    """Checks each row of the table of client certificates, in both TLS versions. Returns the number of
    rows."""
    told = rows_of("Certificates of clients")
    assert set(told) == set(OF_CLIENTS), set(told) ^ set(OF_CLIENTS)
    settings = settings_of(files, "server") + ["ssl.crlfile=" + files.path("ca.crl")]
    with TemporaryNode(binary_from_environment(), settings) as node:
        operator = Operator(os.path.join(node.data_dir, "admin.sock"))
        operator.command("add-user", "certuser")
        operator.command("add-source", "all", "127.0.0.1/32", "certificate")
        operator.command("enable")
        assert shaken(node, files, "certuser", "1.3") == "ok", "a good certificate is taken"
        for number, (row, make) in enumerate(OF_CLIENTS.items()):
            name = "revoked" if row == "revoked" else "client%d" % number
            make(files, name)
            for version in ("1.2", "1.3"):
                before = len(log_of(node))

                # A node logs only a few such lines a second.
                def is_told():
                    alert = shaken(node, files, name, version)
                    assert "ALERT" in alert, (row, version, alert)
                    return told[row] in log_of(node)[before:]

                wait_until(is_told, "'%s' in the log after %s (TLS %s)" % (told[row], row, version), 10)
    return len(OF_CLIENTS)


def shaken(node, files, name, version):
    pb = Pb(node.pb, files)
    try:
        assert pb.call(255) == (255, b"")
        # The client must accept its own weak certificate, so that the node has to refuse it.
        return pb.tls(cert=name, min=version, max=version, ciphers="DEFAULT:@SECLEVEL=0")
    finally:
        pb.close()


def log_of(node):
    with open(node.log_path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def check_ciphers(files):
    """Checks the rows about ciphers. Returns the number of rows."""
    told = rows_of("Certificates that are refused")
    settings = settings_of(files, "server")
    with TemporaryNode(binary_from_environment(), settings + ["log.level=debug"]) as node:
        operator = Operator(os.path.join(node.data_dir, "admin.sock"))
        operator.command("ciphers", "AES256-SHA:ECDHE-ECDSA-AES256-GCM-SHA384")
        operator.command("enable")
        for options in [{"max": "1.2", "ciphers": "AES256-SHA:@SECLEVEL=0"},
                        {"max": "1.2", "ciphers": CIPHERS_OF_NODE_CLIENT + ":@SECLEVEL=0"},
                        {"min": "1.1", "max": "1.1", "ciphers": "DEFAULT:@SECLEVEL=0"}]:
            pb = Pb(node.pb, files)
            assert pb.call(255) == (255, b"")
            done = pb.tls(**options)
            assert "ALERT" in done, (options, done)
            pb.close()
        pb = Pb(node.pb, files)
        assert pb.call(255) == (255, b"")
        done = pb.tls(ciphers=CIPHERS_OF_NODE_CLIENT + ":@SECLEVEL=0", min="1.3")
        assert done == "ok", "with TLS 1.3 beside them: %s" % done
        pb.close()
        for row in WITHOUT_FILES:
            wait_until(lambda: told[row] in log_of(node), "'%s' in the log of the node" % told[row], 10)
    node = TemporaryNode(binary_from_environment(), settings + ["tls_protocols.tlsv1.1=on"])
    try:
        node.launch()
        assert node.process.wait(START_SECONDS) == 1, "the node starts with TLS 1.1"
        assert "tls_protocols.tlsv1.1" in node.log_tail(), node.log_tail()
    finally:
        node.__exit__()
    return len(WITHOUT_FILES)


def check_refused_certificates(files):
    """Runs the checks. Returns the numbers of passed rows and of failed checks."""
    passed, failed = 0, 0
    for check in (check_servers, check_clients, check_ciphers):
        try:
            passed += check(files)
        except Exception as fault:  # noqa: BLE001  A check that fails does not end the others.
            failed += 1
            print("FAIL %s: %s: %s" % (check.__name__, type(fault).__name__, fault), flush=True)
    return passed, failed
