"""Makes certificates for a test: an authority, a server, clients, another authority, and a revocation
list."""
import os
import shutil
import subprocess


def is_possible():
    """Tells if the program that makes certificates is installed."""
    return shutil.which("openssl") is not None


class Certificates:
    """Files in a folder: `ca.pem`, `other-ca.pem`, and NAME.pem with NAME.key for each certificate."""

    def __init__(self, folder):
        self.folder = folder
        self.authority("ca")
        self.authority("other-ca")
        self.issue("server", "server", "ca", names="IP:127.0.0.1,DNS:localhost")
        self.issue("certuser", "certuser", "ca")
        self.issue("certother", "somebodyelse", "ca")
        self.issue("certbadca", "certuser", "other-ca")
        self.issue("revoked", "revoked", "ca")
        self.revoke("ca", ["revoked"])

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        subprocess.run(["openssl"] + list(arguments), cwd=self.folder, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)

    def authority(self, name):
        self.key(name)
        self.run("req", "-x509", "-new", "-key", name + ".key", "-subj", "/CN=Test " + name,
                 "-days", "20", "-out", name + ".pem", "-addext", "keyUsage=keyCertSign,cRLSign")

    def key(self, name):
        self.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name + ".key")
        os.chmod(self.path(name + ".key"), 0o600)

    def issue(self, name, common_name, authority, names=""):
        self.key(name)
        self.run("req", "-new", "-key", name + ".key", "-subj", "/CN=" + common_name,
                 "-out", name + ".csr")
        extensions = "basicConstraints=CA:FALSE\n"
        if names:
            extensions += "subjectAltName=%s\n" % names
        with open(self.path(name + ".ext"), "w", encoding="utf-8") as handle:
            handle.write(extensions)
        self.run("x509", "-req", "-in", name + ".csr", "-CA", authority + ".pem",
                 "-CAkey", authority + ".key", "-CAcreateserial", "-days", "20",
                 "-extfile", name + ".ext", "-out", name + ".pem")

    def revoke(self, authority, names):
        with open(self.path("ca.cnf"), "w", encoding="utf-8") as handle:
            handle.write("[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\ndefault_md=sha256\n"
                         "default_crl_days=20\ncertificate=%s.pem\nprivate_key=%s.key\n"
                         "crlnumber=crlnumber\ncrl_extensions=list\n"
                         "[list]\nauthorityKeyIdentifier=keyid:always\n"
                         % (authority, authority))
        with open(self.path("crlnumber"), "w", encoding="utf-8") as handle:
            handle.write("1000\n")
        open(self.path("index.txt"), "w", encoding="utf-8").close()
        for name in names:
            self.run("ca", "-config", "ca.cnf", "-revoke", name + ".pem")
        self.run("ca", "-config", "ca.cnf", "-gencrl", "-out", authority + ".crl")
