"""Requests of the recorded cases: Protocol Buffers with StartTls, HTTP and HTTPS, security commands."""
import base64
import http.client
import json
import socket
import ssl
import struct
import time

TIMEOUT = 30


class LocalConnection(http.client.HTTPConnection):
    """HTTP through the administration socket of a data directory."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self.path)


class Operator:
    """The operator of a node, who uses its local socket."""

    def __init__(self, path):
        self.path = path

    def ask(self, method, path, document=None):
        connection = LocalConnection(self.path)
        try:
            body = json.dumps(document) if document is not None else None
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, "/admin/v1/" + path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()

    def command(self, *words):
        """Runs a command of `quoit admin security`, which must succeed."""
        status, document = self.ask("POST", "security", {"command": list(words)})
        if status != 200:
            raise AssertionError("%s: %s" % (" ".join(words), document.get("message")))
        return document

    def forget_all(self):
        """Deletes all users, groups, sources and grants, and switches security off."""
        self.command("disable")
        self.command("ciphers", ":".join(self.ask("GET", "security/ciphers")[1]["supported"]))
        for source in self.ask("GET", "security/sources")[1]["sources"]:
            self.command("del-source", source["user"], source["cidr"])
        for user in self.ask("GET", "security/users")[1]["users"]:
            self.command("del-user", user["name"])
        for group in self.ask("GET", "security/groups")[1]["groups"]:
            self.command("del-group", group["name"])
        every = "riak_kv.get,riak_kv.put,riak_kv.delete,riak_kv.index,riak_kv.list_keys," \
                "riak_kv.list_buckets,riak_kv.mapreduce,riak_kv.get_preflist"
        for on in (["any"], ["default", "b"], ["default"], ["sets"]):
            self.command("revoke", every, "on", *on, "from", "all")

    def set_up(self, setup):
        """Makes the users, groups, sources and grants that a case needs."""
        self.forget_all()
        for group in setup.get("groups", []):
            self.command("add-group", group["name"], *group["options"])
        for user in setup.get("users", []):
            self.command("add-user", user["name"], *user["options"])
        for source in setup.get("sources", []):
            try:
                self.command("add-source", source["users"], source["cidr"], source["source"],
                             *source["options"])
            except AssertionError:
                # Riak accepts every word as a source; Quoit refuses unknown ones.
                if source["source"] in ("trust", "password", "certificate"):
                    raise
        for grant in setup.get("grants", []):
            self.command("grant", grant["permissions"], "on", *grant["on"], "to", grant["to"])
        if setup.get("security") == "on":
            self.command("enable")


def tls_context(certificates, options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.path("ca.pem"))
    versions = {"1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2,
                "1.3": ssl.TLSVersion.TLSv1_3}
    if "ciphers" in options:
        context.set_ciphers(options["ciphers"])
    if "min" in options:
        context.minimum_version = versions[options["min"]]
    if "max" in options:
        context.maximum_version = versions[options["max"]]
    if "cert" in options:
        context.load_cert_chain(certificates.path(options["cert"] + ".pem"),
                                certificates.path(options["cert"] + ".key"))
    return context


class Pb:
    """A Protocol Buffers connection."""

    def __init__(self, address, certificates):
        self.certificates = certificates
        self.socket = socket.create_connection(address, TIMEOUT)

    def close(self):
        self.socket.close()

    def send(self, code, body=b""):
        self.socket.sendall(struct.pack(">IB", len(body) + 1, code) + body)

    def receive(self):
        """Returns (code, body) of the next frame; None if the connection is closed."""
        head = self.read(5)
        if head is None:
            return None
        length, code = struct.unpack(">IB", head)
        body = self.read(length - 1) if length > 1 else b""
        return None if body is None else (code, body)

    def read(self, count):
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except (ConnectionError, ssl.SSLError):
                return None
            if not piece:
                return None
            data += piece
        return data

    def call(self, code, body=b""):
        try:
            self.send(code, body)
        except (ConnectionError, ssl.SSLError):
            return None
        return self.receive()

    def tls(self, **options):
        """Does the handshake. Returns "ok", or the reason of its failure."""
        context = tls_context(self.certificates, options)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
            # With TLS 1.3 the first read reports a refused certificate.
            if self.socket.version() == "TLSv1.3" and "cert" in options:
                self.socket.settimeout(0.3)
                try:
                    self.socket.recv(1)
                except socket.timeout:
                    pass
                finally:
                    self.socket.settimeout(TIMEOUT)
            return "ok"
        except (ssl.SSLError, OSError) as fault:
            return str(getattr(fault, "reason", fault))


def error_of(body):
    """Returns (text, code) of an RpbErrorResp."""
    text, number, place = "", None, 0
    while place < len(body):
        tag, place = body[place], place + 1
        if tag == 0x0a:
            size, place = varint(body, place)
            text, place = body[place:place + size].decode("utf-8", "replace"), place + size
        elif tag == 0x10:
            number, place = varint(body, place)
        else:
            break
    return text, number


def varint(body, place):
    number, shift = 0, 0
    while True:
        byte = body[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place


def request(addresses, certificates, wanted):
    """Sends one HTTP request of a case. Returns a dict of status, headers and body, or of the TLS
    failure."""
    scheme = wanted.get("scheme", "https")
    host, port = addresses[scheme]
    if scheme == "https":
        options = {"cert": wanted["client_cert"]} if "client_cert" in wanted else {}
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT,
                                                 context=tls_context(certificates, options))
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    headers = dict(wanted.get("headers") or {})
    if wanted.get("auth"):
        pair = ":".join(wanted["auth"]).encode()
        headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
    body = wanted.get("body")
    try:
        connection.putrequest(wanted["method"], wanted["path"], skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        data = body.encode() if body is not None else None
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        began = time.monotonic()
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        return {"status": answer.status, "headers": dict(answer.getheaders()), "body": text,
                "seconds": time.monotonic() - began}
    except (ssl.SSLError, ConnectionError) as fault:
        return {"tls": "failed", "reason": str(fault)}
    finally:
        connection.close()
