"""A node that answers the requests of a plan with recorded answers of a real Riak node."""
import http.server
import json
import os
import socketserver
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(os.path.dirname(HERE), "golden")
sys.path.append(GOLDEN)

import replay  # noqa: E402

SERVER_INFO = {"node": b"riak@127.0.0.1", "server_version": b"3.2.2"}
MEMBERS_REQUEST, MEMBERS_ANSWER = 206, 207
PUSH_REQUEST, PUSH_ANSWER = 204, 205
LIST_BUCKETS_REQUEST = 223


def recorded(path):
    """Returns the steps of a recorded conversation."""
    with open(os.path.join(GOLDEN, path), encoding="utf-8") as file:
        return json.load(file)["steps"]


def without_rules(fields):
    """Returns the fields of a recorded answer, with optional fields as their values."""
    if isinstance(fields, dict) and set(fields) == {"optional"}:
        return fields["optional"]
    if isinstance(fields, dict):
        return {name: without_rules(value) for name, value in fields.items()}
    return fields.encode() if isinstance(fields, str) and fields not in replay.ENUMS["quorum"] else fields


def default_props():
    return without_rules(recorded("props/pb-get-type-default.json")[0]["expect"][0]["fields"])


def member(port=8087):
    """Returns the only member, in the form of the recorded answers."""
    inner = b"\x0a\x09127.0.0.1" + b"\x10" + replay.put_varint(port)
    return b"\x0a" + replay.put_varint(len(inner)) + inner


class _Pb(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            head = self.rfile.read(5)
            if len(head) < 5:
                return
            size, code = struct.unpack(">IB", head)
            body = self.rfile.read(size - 1)
            code, answer = self.server.riak.answer(code, body)
            self.wfile.write(struct.pack(">IB", len(answer) + 1, code) + answer)
            self.wfile.flush()


class _Http(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        members = {"up_nodes": [{"ip": "127.0.0.1", "port": "8098"}]}
        kind, body = {"/ping": ("text/html", b"OK"),
                      "/membership_request": ("application/json", json.dumps(members).encode())}[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class RecordedRiak:
    """Runs listeners for both protocols while the context lasts."""

    def __enter__(self):
        self.servers = [socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
                        for handler in (_Pb, _Http)]
        for server in self.servers:
            server.daemon_threads = True
            server.riak = self
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.pb, self.http = ("127.0.0.1:%d" % server.server_address[1] for server in self.servers)
        return self

    def __exit__(self, *_details):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def answer(self, code, body):
        if code == MEMBERS_REQUEST:
            return MEMBERS_ANSWER, member()
        if code == PUSH_REQUEST:
            # The answer repeats the queue's name, and says that there is no such queue.
            size = body[1]
            return PUSH_ANSWER, body[:2 + size] + b"\x10\x00"
        if code == LIST_BUCKETS_REQUEST:
            return self.named("RpbErrorResp", {"errmsg": b"{error,not_supported}", "errcode": 0})
        if code not in replay.NAMES:
            return self.named("RpbErrorResp", {"errmsg": b"Unknown message code: %d" % code, "errcode": 0})
        name = replay.NAMES[code]
        if name == "RpbGetServerInfoReq":
            return self.named("RpbGetServerInfoResp", SERVER_INFO)
        if name == "RpbGetBucketTypeReq":
            return self.named("RpbGetBucketResp", default_props())
        return self.named("RpbErrorResp", {"errmsg": b"unknown message", "errcode": 0})

    @staticmethod
    def named(name, fields):
        return replay.CODES[name], replay.encode(name, fields)
