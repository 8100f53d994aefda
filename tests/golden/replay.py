#!/usr/bin/env python3
"""Replays recorded conversations with a Riak-compatible store and compares its answers.

    replay.py --pb HOST:PORT --http HOST:PORT [options] PATH...

A conversation is a JSON file: a title, a reason, what the server must have ready, and
steps. A step is one request in one of the two client protocols and the answer expected.
README.md beside this file describes the format and the rules of comparison.
Only the Python standard library (3.8 or later) is needed.
"""
import argparse
import base64
import collections
import hashlib
import json
import os
import random
import re
import shlex
import socket
import struct
import subprocess
import sys
import time
import urllib.parse

# ---------------------------------------------------------------- Protocol Buffers tables

# NAME CODE: field=number type[*]   ('*' marks a repeated field, CODE '-' a nested message);
# an indented line continues the one before it
SCHEMA = """
RpbErrorResp 0: errmsg=1 bytes, errcode=2 uint
RpbPingReq 1:
RpbPingResp 2:
RpbGetClientIdReq 3:
RpbGetClientIdResp 4: client_id=1 bytes
RpbSetClientIdReq 5: client_id=1 bytes
RpbSetClientIdResp 6:
RpbGetServerInfoReq 7:
RpbGetServerInfoResp 8: node=1 bytes, server_version=2 bytes
RpbPair -: key=1 bytes, value=2 bytes
RpbLink -: bucket=1 bytes, key=2 bytes, tag=3 bytes
RpbContent -: value=1 bytes, content_type=2 bytes, charset=3 bytes, content_encoding=4 bytes,
    vtag=5 bytes, links=6 RpbLink*, last_mod=7 uint, last_mod_usecs=8 uint, usermeta=9 RpbPair*,
    indexes=10 RpbPair*, deleted=11 bool
RpbGetReq 9: bucket=1 bytes, key=2 bytes, r=3 quorum, pr=4 quorum, basic_quorum=5 bool,
    notfound_ok=6 bool, if_modified=7 bytes, head=8 bool, deletedvclock=9 bool, timeout=10 uint,
    sloppy_quorum=11 bool, n_val=12 uint, type=13 bytes, node_confirms=14 uint
RpbGetResp 10: content=1 RpbContent*, vclock=2 bytes, unchanged=3 bool
RpbPutReq 11: bucket=1 bytes, key=2 bytes, vclock=3 bytes, content=4 RpbContent, w=5 quorum,
    dw=6 quorum, return_body=7 bool, pw=8 quorum, if_not_modified=9 bool, if_none_match=10 bool,
    return_head=11 bool, timeout=12 uint, asis=13 bool, sloppy_quorum=14 bool, n_val=15 uint,
    type=16 bytes, node_confirms=17 quorum
RpbPutResp 12: content=1 RpbContent*, vclock=2 bytes, key=3 bytes
RpbDelReq 13: bucket=1 bytes, key=2 bytes, rw=3 quorum, vclock=4 bytes, r=5 quorum, w=6 quorum,
    pr=7 quorum, pw=8 quorum, dw=9 quorum, timeout=10 uint, sloppy_quorum=11 bool, n_val=12
    uint, type=13 bytes
RpbDelResp 14:
RpbListBucketsReq 15: timeout=1 uint, stream=2 bool, type=3 bytes
RpbListBucketsResp 16: buckets=1 bytes*, done=2 bool
RpbListKeysReq 17: bucket=1 bytes, timeout=2 uint, type=3 bytes
RpbListKeysResp 18: keys=1 bytes*, done=2 bool
RpbModFun -: module=1 bytes, function=2 bytes
RpbCommitHook -: modfun=1 RpbModFun, name=2 bytes
RpbBucketProps -: n_val=1 uint, allow_mult=2 bool, last_write_wins=3 bool, precommit=4
    RpbCommitHook*, has_precommit=5 bool, postcommit=6 RpbCommitHook*, has_postcommit=7 bool,
    chash_keyfun=8 RpbModFun, linkfun=9 RpbModFun, old_vclock=10 uint, young_vclock=11 uint,
    big_vclock=12 uint, small_vclock=13 uint, pr=14 quorum, r=15 quorum, w=16 quorum, pw=17
    quorum, dw=18 quorum, rw=19 quorum, basic_quorum=20 bool, notfound_ok=21 bool, backend=22
    bytes, search=23 bool, repl=24 ReplMode, search_index=25 bytes, datatype=26 bytes,
    consistent=27 bool, write_once=28 bool, hll_precision=29 uint
RpbGetBucketReq 19: bucket=1 bytes, type=2 bytes
RpbGetBucketResp 20: props=1 RpbBucketProps
RpbSetBucketReq 21: bucket=1 bytes, props=2 RpbBucketProps, type=3 bytes
RpbSetBucketResp 22:
RpbMapRedReq 23: request=1 bytes, content_type=2 bytes
RpbMapRedResp 24: phase=1 uint, response=2 bytes, done=3 bool
RpbIndexReq 25: bucket=1 bytes, index=2 bytes, qtype=3 IndexQueryType, key=4 bytes, range_min=5
    bytes, range_max=6 bytes, return_terms=7 bool, stream=8 bool, max_results=9 uint,
    continuation=10 bytes, timeout=11 uint, type=12 bytes, term_regex=13 bytes,
    pagination_sort=14 bool, cover_context=15 bytes, return_body=16 bool
RpbIndexResp 26: keys=1 bytes*, results=2 RpbPair*, continuation=3 bytes, done=4 bool
RpbResetBucketReq 29: bucket=1 bytes, type=2 bytes
RpbResetBucketResp 30:
RpbGetBucketTypeReq 31: type=1 bytes
RpbSetBucketTypeReq 32: type=1 bytes, props=2 RpbBucketProps
RpbGetBucketKeyPreflistReq 33: bucket=1 bytes, key=2 bytes, type=3 bytes
RpbBucketKeyPreflistItem -: partition=1 uint, node=2 bytes, primary=3 bool
RpbGetBucketKeyPreflistResp 34: preflist=1 RpbBucketKeyPreflistItem*
RpbCSBucketReq 40: bucket=1 bytes, start_key=2 bytes, end_key=3 bytes, start_incl=4 bool,
    end_incl=5 bool, continuation=6 bytes, max_results=7 uint, timeout=8 uint, type=9 bytes,
    cover_context=10 bytes
RpbIndexObject -: key=1 bytes, object=2 RpbGetResp
RpbCSBucketResp 41: objects=1 RpbIndexObject*, continuation=2 bytes, done=3 bool
RpbIndexBodyResp 42: objects=1 RpbIndexObject*, continuation=2 bytes, done=3 bool
RpbCounterUpdateReq 50: bucket=1 bytes, key=2 bytes, amount=3 sint, w=4 quorum, dw=5 quorum,
    pw=6 quorum, returnvalue=7 bool, node_confirms=8 quorum
RpbCounterUpdateResp 51: value=1 sint
RpbCounterGetReq 52: bucket=1 bytes, key=2 bytes, r=3 quorum, pr=4 quorum, basic_quorum=5 bool,
    notfound_ok=6 bool, node_confirms=7 uint
RpbCounterGetResp 53: value=1 sint
RpbYokozunaIndexGetReq 54: name=1 bytes
RpbYokozunaSchemaGetReq 58: name=1 bytes
RpbSearchQueryReq 27: q=1 bytes, index=2 bytes
RpbCoverageReq 70: type=1 bytes, bucket=2 bytes, min_partitions=3 uint, replace_cover=4 bytes,
    unavailable_cover=5 bytes*
RpbCoverageEntry -: ip=1 bytes, port=2 uint, keyspace_desc=3 bytes, cover_context=4 bytes
RpbCoverageResp 71: entries=1 RpbCoverageEntry*
DtFetchReq 80: bucket=1 bytes, key=2 bytes, type=3 bytes, r=4 quorum, pr=5 quorum,
    basic_quorum=6 bool, notfound_ok=7 bool, timeout=8 uint, sloppy_quorum=9 bool, n_val=10
    uint, include_context=11 bool, node_confirms=12 uint
MapField -: name=1 bytes, type=2 MapFieldType
MapEntry -: field=1 MapField, counter_value=2 sint, set_value=3 bytes*, register_value=4 bytes,
    flag_value=5 bool, map_value=6 MapEntry*
DtValue -: counter_value=1 sint, set_value=2 bytes*, map_value=3 MapEntry*, hll_value=4 uint,
    gset_value=5 bytes*
DtFetchResp 81: context=1 bytes, type=2 DataType, value=3 DtValue
CounterOp -: increment=1 sint
SetOp -: adds=1 bytes*, removes=2 bytes*
GSetOp -: adds=1 bytes*
HllOp -: adds=1 bytes*
MapUpdate -: field=1 MapField, counter_op=2 CounterOp, set_op=3 SetOp, register_op=4 bytes,
    flag_op=5 FlagOp, map_op=6 MapOp
MapOp -: removes=1 MapField*, updates=2 MapUpdate*
DtOp -: counter_op=1 CounterOp, set_op=2 SetOp, map_op=3 MapOp, hll_op=4 HllOp, gset_op=5 GSetOp
DtUpdateReq 82: bucket=1 bytes, key=2 bytes, type=3 bytes, context=4 bytes, op=5 DtOp, w=6
    quorum, dw=7 quorum, pw=8 quorum, return_body=9 bool, timeout=10 uint, sloppy_quorum=11
    bool, n_val=12 uint, include_context=13 bool, node_confirms=14 quorum
DtUpdateResp 83: key=1 bytes, context=2 bytes, counter_value=3 sint, set_value=4 bytes*,
    map_value=5 MapEntry*, hll_value=6 uint, gset_value=7 bytes*
RpbAuthReq 253: user=1 bytes, password=2 bytes
RpbAuthResp 254:
RpbStartTls 255:
"""
ENUMS = {
    "DataType": {"COUNTER": 1, "SET": 2, "MAP": 3, "HLL": 4, "GSET": 5},
    "MapFieldType": {"COUNTER": 1, "SET": 2, "REGISTER": 3, "FLAG": 4, "MAP": 5},
    "FlagOp": {"ENABLE": 1, "DISABLE": 2},
    "IndexQueryType": {"eq": 0, "range": 1},
    "ReplMode": {"FALSE": 0, "REALTIME": 1, "FULLSYNC": 2, "TRUE": 3},
    "quorum": {"one": 4294967294, "quorum": 4294967293, "all": 4294967292,
               "default": 4294967291},
}
ENUM_NAMES = {e: {n: w for w, n in t.items()} for e, t in ENUMS.items()}
MESSAGES, CODES, NAMES = {}, {}, {}


def _read_schema():
    for line in SCHEMA.strip().replace("\n    ", " ").splitlines():
        head, _, rest = line.partition(":")
        name, code = head.split()
        fields = []
        for part in filter(None, (p.strip() for p in rest.split(","))):
            field, kind = part.split()
            label, number = field.split("=")
            fields.append((label, int(number), kind.rstrip("*"), kind.endswith("*")))
        MESSAGES[name] = fields
        if code != "-":
            CODES[name] = int(code)
            NAMES[int(code)] = name


_read_schema()


def put_varint(number):
    if number < 0:
        number += 1 << 64
    out = bytearray()
    while True:
        low, number = number & 127, number >> 7
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def get_varint(data, at):
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
        if shift > 70:
            raise ValueError("varint too long")


def encode(name, fields):
    """Encodes the Protocol Buffers body of message `name`. Values are bytes, numbers or dictionaries."""
    out = bytearray()
    known = {label for label, _, _, _ in MESSAGES[name]}
    for label in fields:
        if label not in known:
            raise ValueError("message %s has no field %s" % (name, label))
    for label, number, kind, repeated in MESSAGES[name]:
        if label not in fields:
            continue
        for value in (fields[label] if repeated else [fields[label]]):
            if kind == "bytes" or kind in MESSAGES:
                body = to_bytes(value) if kind == "bytes" else encode(kind, value)
                out += put_varint(number << 3 | 2) + put_varint(len(body)) + body
                continue
            if kind in ENUMS and isinstance(value, str):
                value = ENUMS[kind][value]
            if kind == "sint":
                value = (value << 1) if value >= 0 else ((-value) << 1) - 1
            out += put_varint(number << 3) + put_varint(int(value))
    return bytes(out)


def decode(name, data):
    by_number = {number: (label, kind, rep) for label, number, kind, rep in MESSAGES[name]}
    out, at = {}, 0
    while at < len(data):
        tag, at = get_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = get_varint(data, at)
        elif wire == 2:
            size, at = get_varint(data, at)
            if at + size > len(data):
                raise ValueError("field %d of %s is cut short" % (number, name))
            value, at = data[at:at + size], at + size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type %d in %s" % (wire, name))
        label, kind, repeated = by_number.get(number, ("field_%d" % number, "raw", True))
        if kind in MESSAGES:
            value = decode(kind, value)
        elif kind == "bool":
            value = bool(value)
        elif kind == "sint":
            value = (value >> 1) ^ -(value & 1)
        elif kind in ENUM_NAMES:
            value = ENUM_NAMES[kind].get(value, value)
        if repeated:
            out.setdefault(label, []).append(value)
        else:
            out[label] = value
    return out


# ------------------------------------------------------------------ values in conversations

def to_bytes(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise ValueError("not a byte string: %r" % (value,))


class Context:
    """State of a running conversation: its suffix and the values captured so far."""

    def __init__(self, suffix):
        self.run = suffix
        self.values = collections.OrderedDict()

    def lookup(self, name):
        name, _, filt = name.partition("|")
        if name == "run":
            return self.run
        if name not in self.values:
            raise KeyError("nothing captured under the name %r" % name)
        value = self.values[name]
        if filt == "b64":
            return base64.b64encode(to_bytes(value)).decode()
        if filt == "unb64":
            return base64.b64decode(value)
        if filt == "url":
            return urllib.parse.quote(to_bytes(value), safe="")
        if filt == "bare":
            return value.strip('"')
        if filt == "quoted":
            return '"%s"' % as_text(value)
        return value

    def text(self, string):
        """Substitutes $run, ${name} and ${name|filter} in a text, and a text that consists of $name
        only."""
        whole = re.fullmatch(r"\$(\w+)|\$\{([^}]+)\}", string)
        if whole:
            name = whole.group(1) or whole.group(2)
            if whole.group(2) or name == "run" or name in self.values:
                return self.lookup(name)

        def fill(found):
            value = self.lookup(found.group(1))
            return value.decode("utf-8") if isinstance(value, bytes) else value
        return re.sub(r"\$\{([^}]+)\}", fill, string).replace("$run", self.run)

    def value(self, item):
        """Evaluates a value of a request: text, {"b64"}, {"hex"}, {"cat"}, {"repeat"}, {"json"}."""
        if isinstance(item, str):
            return self.text(item)
        if isinstance(item, list):
            return [self.value(i) for i in item]
        if isinstance(item, dict):
            if len(item) == 1:
                (key, inner), = item.items()
                if key == "b64":
                    return base64.b64decode(inner)
                if key == "hex":
                    return bytes.fromhex(inner)
                if key == "cat":
                    return b"".join(to_bytes(self.value(i)) for i in inner)
                if key == "repeat":
                    return to_bytes(self.value(inner[0])) * inner[1]
                if key == "json":
                    return json.dumps(self.plain(inner)).encode()
            return {k: self.value(v) for k, v in item.items()}
        return item

    def plain(self, item):
        if isinstance(item, str):
            value = self.text(item)
            return value.decode() if isinstance(value, bytes) else value
        if isinstance(item, list):
            return [self.plain(i) for i in item]
        if isinstance(item, dict):
            return {self.text(k): self.plain(v) for k, v in item.items()}
        return item


# ------------------------------------------------------------------------------- transport

class UnreadableAnswer(Exception):
    """The server gave no readable answer: it refused, timed out, closed the connection or sent malformed
    data."""


class NoAnswer(UnreadableAnswer):
    """A step's time ran out, or no server listens at the address."""


class Wire:
    def __init__(self, address, timeout):
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.buffer = b""
        self.fresh = True
        try:
            self.sock = socket.create_connection(address, timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise NoAnswer("cannot connect to %s:%s: %s" % (address + (error,)))

    def start(self):
        self.deadline = time.monotonic() + self.timeout

    def _left(self, most=None):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise NoAnswer("no complete answer within %g s" % self.timeout)
        return left if most is None else min(left, most)

    def send(self, data):
        try:
            self.sock.settimeout(self._left())
            self.sock.sendall(data)
        except socket.timeout:
            raise NoAnswer("the server does not read; %g s passed" % self.timeout)
        except OSError as error:
            raise UnreadableAnswer("closed while sending: %s" % error)

    def fill(self, most=None):
        """Reads some bytes. Returns False at the end of the connection."""
        try:
            self.sock.settimeout(self._left(most))
            data = self.sock.recv(1 << 18)
        except socket.timeout:
            raise NoAnswer("no complete answer within %g s" % (most or self.timeout))
        except OSError:
            return False
        self.buffer += data
        return bool(data)

    def take(self, count):
        parts, have = [], 0
        while True:
            if self.buffer:
                piece = self.buffer[:count - have]
                self.buffer = self.buffer[len(piece):]
                parts.append(piece)
                have += len(piece)
            if have >= count:
                return b"".join(parts)
            if not self.fill():
                raise UnreadableAnswer("connection closed after %d of %d bytes" % (have, count))

    def line(self):
        while b"\n" not in self.buffer:
            if len(self.buffer) > 1 << 20:
                raise UnreadableAnswer("a header line longer than 1 MB")
            if not self.fill():
                raise UnreadableAnswer("connection closed in the middle of an answer"
                                       if self.buffer else "connection closed without an answer")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8", "surrogateescape")

    def ended(self, wait):
        """Tells if the server closes the connection within `wait` seconds."""
        limit = time.monotonic() + wait
        while time.monotonic() < limit:
            try:
                self.sock.settimeout(max(0.01, limit - time.monotonic()))
                data = self.sock.recv(65536)
                if not data:
                    return True
                self.buffer += data
            except socket.timeout:
                return False
            except OSError:
                return True
        return False

    def close(self):
        try:
            self.sock.close()
        except OSError:
            pass


STREAMS = {"RpbListKeysReq", "RpbMapRedReq", "RpbCSBucketReq"}
MAX_FRAME = 256 << 20


def read_frame(wire):
    size, = struct.unpack(">I", wire.take(4))
    if not 1 <= size <= MAX_FRAME:
        raise UnreadableAnswer("a frame of %d bytes" % size)
    data = wire.take(size)
    name = NAMES.get(data[0])
    if name is None:
        return {"pb": "code %d" % data[0], "fields": {"body": data[1:]}}
    try:
        fields = decode(name, data[1:])
        if "errmsg" in fields:  # long terms are wrapped over lines by some servers
            fields["errmsg"] = re.sub(rb"\n\s*", b"", fields["errmsg"])
        return {"pb": name, "fields": fields}
    except (ValueError, IndexError) as error:
        raise UnreadableAnswer("cannot decode %s: %s" % (name, error))


def read_pb(wire, message, fields):
    """Returns the frames that answer a request. The frames of a stream are merged."""
    streaming = message in STREAMS or (
        message in ("RpbIndexReq", "RpbListBucketsReq") and fields.get("stream"))
    frames = [read_frame(wire)]
    if not streaming:
        return frames
    while frames[-1]["pb"] != "RpbErrorResp" and not frames[-1]["fields"].get("done"):
        frames.append(read_frame(wire))
    failed = frames.pop() if frames[-1]["pb"] == "RpbErrorResp" else None
    whole = {}
    json_results = fields.get("content_type") in ("application/json", b"application/json")
    for frame in frames:
        body = frame["fields"]
        if frame["pb"] == "RpbMapRedResp":
            if "response" in body:
                results = whole.setdefault("phases", {}).setdefault(str(body.get("phase")), [])
                if json_results:
                    results.extend(json.loads(body["response"]))
                else:
                    results.append(body["response"])
            if body.get("done"):
                whole["done"] = True
            continue
        for label, value in body.items():
            if isinstance(value, list):
                whole.setdefault(label, []).extend(value)
            else:
                whole[label] = value
    out = [{"pb": frames[0]["pb"], "stream": True, "fields": whole}] if frames else []
    return out + ([failed] if failed else [])


def split_headers(wire):
    headers = []
    while True:
        line = wire.line()
        if not line:
            return headers
        if line[0] in " \t" and headers:
            headers[-1] = (headers[-1][0], headers[-1][1] + " " + line.strip())
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise UnreadableAnswer("not a header line: %r" % line[:200])
        headers.append((name.strip().lower(), value.strip()))


def read_status(wire):
    line = wire.line()
    found = re.match(r"HTTP/1\.[01] (\d{3})(?: |$)", line)
    if not found:
        raise UnreadableAnswer("not an HTTP status line: %r" % line[:200])
    return int(found.group(1))


def read_http(wire, method):
    status = read_status(wire)
    headers = split_headers(wire)
    while 100 <= status < 200:
        status = read_status(wire)
        headers = split_headers(wire)
    first = {}
    for name, value in headers:
        first.setdefault(name, value)
    closing = "close" in first.get("connection", "").lower()
    if method == "HEAD" or status in (204, 304):
        body = b""
    elif "chunked" in first.get("transfer-encoding", "").lower():
        parts = []
        while True:
            size = int(wire.line().split(";")[0].strip() or "x", 16)
            if size == 0:
                split_headers(wire)
                break
            parts.append(wire.take(size))
            wire.line()
        body = b"".join(parts)
    elif "content-length" in first:
        body = wire.take(int(first["content-length"]))
    else:
        closing = True
        while wire.fill():
            pass
        body, wire.buffer = wire.buffer, b""
    return {"status": status, "headers": headers, "raw": body}, closing


# -------------------------------------------------------------------- shapes of HTTP answers

COMPARED_HEADERS = {"content-encoding", "location", "link", "etag", "last-modified",
                    "allow", "www-authenticate"}


def header_shape(pairs, with_type, watched=()):
    out = {}
    for name, value in pairs:
        if name == "content-type":
            if not with_type:
                continue
            value = re.sub(r"\s*;\s*", "; ", value)
            value = re.sub(r"boundary=\S+", "boundary=*", value)
        elif not (name in COMPARED_HEADERS or name in watched or name.startswith("x-riak-")):
            continue
        if name in ("allow", "link"):
            parts = [p.strip() for p in re.split(r",(?=\s*<)|,(?![^<]*>)", value) if p.strip()]
            out.setdefault(name, []).extend(parts)
        elif name in out:
            out[name] = out[name] + ", " + value
        else:
            out[name] = value
    return out


def split_multipart(body, boundary):
    mark = b"--" + boundary.encode()
    pieces = re.split(rb"(?:^|\r?\n)" + re.escape(mark), body)
    parts = []
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            break
        piece = re.sub(rb"^\r?\n", b"", piece, count=1)
        head, _, content = re.split(rb"(\r?\n\r?\n)", piece, maxsplit=1) \
            if re.search(rb"\r?\n\r?\n", piece) else (piece, b"", b"")
        pairs = []
        for line in head.decode("utf-8", "surrogateescape").splitlines():
            name, _, value = line.partition(":")
            if name.strip():
                pairs.append((name.strip().lower(), value.strip()))
        parts.append((pairs, content))
    return parts


def json_documents(text):
    docs, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        doc, at = decoder.raw_decode(text, at)
        docs.append(doc)
    return docs


def merge_documents(docs):
    out = {}
    for doc in docs:
        if not isinstance(doc, dict):
            out.setdefault("other", []).append(doc)
        elif "phase" in doc and "data" in doc:
            out.setdefault("phases", {}).setdefault(str(doc["phase"]), []).extend(doc["data"])
        else:
            for key, value in doc.items():
                if isinstance(value, list):
                    out.setdefault(key, []).extend(value)
                else:
                    out[key] = value
    return out


def body_shape(content_type, body, status, path=""):
    kind = content_type.split(";")[0].strip().lower()
    if not body:
        return ""
    if kind == "multipart/mixed":
        found = re.search(r'boundary="?([^\s";]+)"?', content_type)
        parts = split_multipart(body, found.group(1) if found else "")
        if re.search(r"[?&](stream|chunked)=true", path):
            docs = []
            for _, content in parts:
                docs.extend(json_documents(content.decode()))
            return {"json_stream": merge_documents(docs)}
        out = []
        for pairs, content in parts:
            inner = dict(pairs).get("content-type", "")
            out.append({"headers": header_shape(pairs, True),
                        "body": body_shape(inner, content, 300)})
        return {"multipart": out}
    if kind == "application/json" or (kind == "text/plain" and path.startswith("/mapred")):
        try:
            if re.search(r"[?&](keys|buckets)=stream", path):
                return {"json_stream": merge_documents(json_documents(body.decode()))}
            return {"json": json.loads(body)}
        except (ValueError, UnicodeDecodeError):
            return body
    if kind == "text/html" and status >= 400:
        return {"page": True}
    if body.startswith(b"Siblings:\n"):
        return {"siblings": body.decode().split("\n")[1:-1]}
    return body


def http_shape(answer, method, path, watched=()):
    headers, body = answer["headers"], answer["raw"]
    content_type = dict(headers).get("content-type", "")
    shape = body_shape(content_type, body, answer["status"], path)
    page = shape == {"page": True}
    if isinstance(shape, bytes) and answer["status"] >= 400:
        shape = re.sub(rb",\n\s+", b",", shape)  # a printed term wrapped over lines
    with_type = (bool(body) and not page) or (method == "HEAD" and answer["status"] < 400)
    out = {"status": answer["status"], "headers": header_shape(headers, with_type, watched),
           "body": shape}
    if "continue" in answer:
        out["continue"] = answer["continue"]
    return out


# ------------------------------------------------------------------------------ comparison

KINDS = {
    "vclock": r"(?s).+", "context": r"(?s).+", "continuation": r"(?s).+", "node": r"\S+",
    "vtag": r"[0-9A-Za-z+/=_.-]{4,64}", "etag": r'"[^"]{4,64}"',
    "generated_key": r"[0-9A-Za-z_-]{8,64}", "version": r"\d+\.\d+\.\d+\S*",
    "http_date": r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT",
}
MATCHERS = {"is", "contains", "starts", "re", "any", "optional", "near", "sha256", "len",
            "b64", "has_keys", "page", "one_of", "contains_all", "whole"}


def is_matcher(item):
    return isinstance(item, dict) and bool(item) and set(item) <= MATCHERS


def as_text(value):
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def matcher_difference(rule, got, ctx):
    if "any" in rule or "optional" in rule or "page" in rule:
        return None
    if "one_of" in rule:
        for choice in rule["one_of"]:
            if difference(choice, got, ctx, False) is None:
                return None
        return "none of the allowed answers"
    if "near" in rule:
        low, high = rule["near"]
        if isinstance(got, (int, float)) and low <= got <= high:
            return None
        return "expected a number between %s and %s, got %s" % (low, high, show(got))
    if "has_keys" in rule:
        missing = [k for k in rule["has_keys"] if not isinstance(got, dict) or k not in got]
        return "missing members %s" % missing if missing else None
    if "is" in rule:
        kind = rule["is"]
        if kind in ("time", "usecs", "number"):
            low, high = {"time": (1500000000, 1 << 33), "usecs": (0, 999999),
                         "number": (-1 << 64, 1 << 64)}[kind]
            good = isinstance(got, (int, float)) and low <= got <= high
        else:
            text = as_text(got)
            good = isinstance(text, str) and re.fullmatch(KINDS[kind], text) is not None
        return None if good else "expected a %s, got %s" % (kind, show(got))
    if "sha256" in rule:
        if not isinstance(got, (bytes, str)):
            return "expected %d bytes, got %s" % (rule["len"], show(got))
        data = to_bytes(got)
        if len(data) != rule["len"] or hashlib.sha256(data).hexdigest() != rule["sha256"]:
            return "expected %d bytes with SHA-256 %s..., got %d bytes %s" % (
                rule["len"], rule["sha256"][:12], len(data), show(got))
        return None
    if "b64" in rule:
        wanted = base64.b64decode(rule["b64"])
        good = isinstance(got, (bytes, str)) and to_bytes(got) == wanted
        return None if good else "expected bytes %s, got %s" % (show(wanted), show(got))
    text = as_text(got)
    if isinstance(text, (dict, list)):
        text = json.dumps(text, default=as_text)
    if not isinstance(text, str):
        return "expected text, got %s" % show(got)
    if "contains" in rule and ctx.text(rule["contains"]) not in text:
        return "expected text containing %r, got %s" % (ctx.text(rule["contains"]), show(got))
    for wanted in rule.get("contains_all", ()):
        if ctx.text(wanted) not in text:
            return "expected text containing %r, got %s" % (ctx.text(wanted), show(got))
    if "starts" in rule and not text.startswith(ctx.text(rule["starts"])):
        return "expected text starting %r, got %s" % (ctx.text(rule["starts"]), show(got))
    if "re" in rule and not re.search(rule["re"].replace("$run", ctx.run), text):
        return "expected text matching %r, got %s" % (rule["re"], show(got))
    return None


def plain_item(item):
    return isinstance(item, (str, int, float, bool)) or item is None


def difference(want, got, ctx, ordered, where=""):
    """Returns None if `got` is as wanted, else a sentence about the first difference."""
    def at(text):
        return "%s: %s" % (where or "answer", text)
    if is_matcher(want):
        said = matcher_difference(want, got, ctx)
        return at(said) if said else None
    if isinstance(want, str):
        wanted = ctx.text(want)
        if isinstance(got, bytes) or isinstance(wanted, bytes):
            good = isinstance(got, (bytes, str)) and to_bytes(wanted) == to_bytes(got)
        else:
            good = wanted == got
        return None if good else at("expected %s, got %s" % (show(wanted), show(got)))
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return at("expected %s, got %s" % (show(want), show(got)))
        filled = {ctx.text(k): v for k, v in want.items()}
        for key, value in filled.items():
            if key not in got:
                if isinstance(value, dict) and "optional" in value:
                    continue
                return at("%s is missing; expected %s" % (key, show(value)))
            said = difference(value, got[key], ctx, ordered, where + "." + key if where else key)
            if said:
                return said
        for key in got:
            if key not in filled:
                return at("%s is not expected; got %s" % (key, show(got[key])))
        return None
    if isinstance(want, list):
        if not isinstance(got, list):
            return at("expected a list, got %s" % show(got))
        if not ordered and all(map(plain_item, want)):
            wanted = collections.Counter(repr(to_bytes(ctx.text(w)) if isinstance(w, str) else w)
                                         for w in want)
            have = collections.Counter(repr(to_bytes(g) if isinstance(g, str) else g)
                                       for g in got)
            if wanted == have:
                return None
            lacking, extra = list((wanted - have)), list((have - wanted))
            return at("missing %s, unexpected %s" % (lacking[:5], extra[:5]))
        if len(want) != len(got):
            return at("expected %d items, got %d: %s" % (len(want), len(got), show(got)))
        if ordered:
            for index, (w, g) in enumerate(zip(want, got)):
                said = difference(w, g, ctx, ordered, "%s[%d]" % (where, index))
                if said:
                    return said
            return None
        return at_pairing(want, got, ctx, where)
    if type(want) is not type(got) and not (isinstance(want, (int, float))
                                            and isinstance(got, (int, float))
                                            and not isinstance(want, bool)
                                            and not isinstance(got, bool)):
        return at("expected %s, got %s" % (show(want), show(got)))
    return None if want == got else at("expected %s, got %s" % (show(want), show(got)))


def at_pairing(want, got, ctx, where):
    """Pairs wanted items with received ones in any order, by augmenting paths."""
    taken = {}

    def seek(index, seen):
        for place, item in enumerate(got):
            if place in seen or difference(want[index], item, ctx, False, where):
                continue
            seen.add(place)
            if place not in taken or seek(taken[place], seen):
                taken[place] = index
                return True
        return False
    for index in range(len(want)):
        if not seek(index, set()):
            free = [g for p, g in enumerate(got) if p not in taken] or got
            said = difference(want[index], free[0], ctx, False, "%s[%d]" % (where, index))
            return said or "%s: no partner for %s" % (where, show(want[index]))
    return None


def show(value, most=700):
    if isinstance(value, bytes):
        try:
            text = json.dumps(value.decode("utf-8"))
        except UnicodeDecodeError:
            text = "bytes " + value[:200].hex()
    else:
        text = json.dumps(value, default=lambda b: printable(b), sort_keys=True)
    return text if len(text) <= most else text[:most] + "... (%d characters)" % len(text)


def printable(data):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


# ------------------------------------------------------------------------------- recording

PB_KINDS = {"vclock": "vclock", "vtag": "vtag", "last_mod": "time", "context": "context",
            "last_mod_usecs": "usecs", "continuation": "continuation", "node": "node",
            "server_version": "version", "cover_context": "context"}
HEADER_KINDS = {"x-riak-vclock": "vclock", "etag": "etag", "last-modified": "http_date"}
JSON_KINDS = {"context": "context", "continuation": "continuation", "claimant": "node",
              "vclock": "vclock"}


def known_as(value, ctx):
    """Returns `$name` if the value was captured before, as it is or in base64."""
    for name, captured in ctx.values.items():
        if type(captured) is type(value) and captured == value:
            return "${%s}" % name
        if isinstance(value, str) and isinstance(captured, bytes):
            if captured == value.encode("utf-8", "surrogateescape"):
                return "${%s}" % name
            if b'"%s"' % captured == value.encode("utf-8", "surrogateescape"):
                return "${%s|quoted}" % name
        if isinstance(value, str) and isinstance(captured, bytes) \
                and base64.b64encode(captured).decode() == value:
            return "${%s|b64}" % name
        if isinstance(value, bytes) and isinstance(captured, str):
            try:
                if captured.strip('"').encode() == value:
                    return "${%s|bare}" % name
                if len(value) > 8 and base64.b64decode(captured, validate=True) == value:
                    return "${%s|unb64}" % name
            except (ValueError, UnicodeEncodeError):
                pass
    return None


def record_text(value, ctx):
    for start in (rb"Error processing [^:]*", rb"Couldn't decode JSON: ",
                  rb"Invalid operation on datatype '\w+': "):  # what follows is volatile
        found = re.match(start, to_bytes(value))
        if found:
            return {"starts": found.group(0).decode()}
    if isinstance(value, bytes):
        if len(value) > 1200:
            return {"sha256": hashlib.sha256(value).hexdigest(), "len": len(value)}
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
        if any(ord(c) < 32 and c not in "\t\r\n" for c in text):
            return {"b64": base64.b64encode(value).decode()}
        value = text
    return value.replace(ctx.run, "$run")


def record_pb(item, ctx, label="", message=""):
    if label == "key" and message in ("RpbPutResp", "DtUpdateResp"):
        return known_as(item, ctx) or {"is": "generated_key"}
    if label in PB_KINDS and isinstance(item, (bytes, int)):
        known = known_as(item, ctx) if label in ("vclock", "vtag") else None
        return known or {"is": PB_KINDS[label]}
    if label == "repl" and item == "TRUE":
        return {"optional": "TRUE"}
    if isinstance(item, dict):
        out = {k: record_pb(v, ctx, k, message) for k, v in item.items()}
        if to_text(item.get("content_type")).startswith("application/riak_"):
            out["value"] = {"any": "internal form"}
        return out
    if isinstance(item, list):
        return [record_pb(i, ctx, label + "[]", message) for i in item]
    if isinstance(item, (bytes, str)):
        return record_text(item, ctx)
    return item


def to_text(value):
    return as_text(value) if isinstance(value, (bytes, str)) else ""


def record_json(item, ctx, label=""):
    if label in JSON_KINDS and isinstance(item, str):
        return {"is": JSON_KINDS[label]}
    if label == "repl" and item is True:
        return {"optional": True}
    if isinstance(item, dict):
        return {k.replace(ctx.run, "$run"): record_json(v, ctx, k) for k, v in item.items()}
    if isinstance(item, list):
        return [record_json(i, ctx) for i in item]
    if isinstance(item, str):
        return item.replace(ctx.run, "$run")
    return item


def record_headers(headers, ctx):
    out = {}
    for name, value in headers.items():
        if name in HEADER_KINDS:
            kind = HEADER_KINDS[name]
            if kind == "etag" and not value.startswith('"'):
                kind = "vtag"
            out[name] = {"is": kind} if kind == "http_date" else \
                known_as(value, ctx) or {"is": kind}
        elif name == "location" and re.search(r"/[0-9A-Za-z]{20,40}$", value):
            stem = value.rsplit("/", 1)[0].replace(ctx.run, "$run")
            out[name] = known_as(value, ctx) or {"re": "^%s/[0-9A-Za-z_-]{8,64}$" % stem}
        elif isinstance(value, list):
            out[name] = [v.replace(ctx.run, "$run") for v in value]
        else:
            out[name] = value.replace(ctx.run, "$run")
    return out


def record_body(body, ctx, content_type=""):
    if isinstance(body, (bytes, str)):
        if content_type.startswith("application/riak_"):
            return {"any": "internal form"}
        return record_text(body, ctx)
    if "multipart" in body:
        return {"multipart": [{"headers": record_headers(p["headers"], ctx),
                               "body": record_body(p["body"], ctx,
                                                   p["headers"].get("content-type", ""))}
                              for p in body["multipart"]]}
    if "siblings" in body:
        return {"siblings": [known_as(v, ctx) or {"is": "vtag"} for v in body["siblings"]]}
    if "page" in body:
        return {"page": True}
    key, = body
    return {key: record_json(body[key], ctx)}


def record_answer(answer, ctx):
    if isinstance(answer, list):
        out = []
        for frame in answer:
            kept = dict(frame)
            if "fields" in frame:
                kept["fields"] = record_pb(frame["fields"], ctx, "", frame["pb"])
            elif "status" in frame:
                kept = record_answer(frame, ctx)
            out.append(kept)
        return out
    out = {"status": answer["status"], "headers": record_headers(answer["headers"], ctx),
           "body": record_body(answer["body"], ctx, answer["headers"].get("content-type", ""))}
    if answer["status"] >= 400 and answer["body"] and "content-type" not in answer["headers"]:
        out["headers"]["content-type"] = {"optional": True}
    if answer["status"] == 304:
        out["headers"].setdefault("last-modified", {"optional": True})
    if "continue" in answer:
        out["continue"] = answer["continue"]
    return out


def set_rule(node, path, rule):
    head, _, rest = path.partition(".")
    places = range(len(node)) if head == "*" and isinstance(node, list) else \
        list(node) if head == "*" else [int(head) if isinstance(node, list) else head]
    for place in places:
        if not rest:
            node[place] = rule
        else:
            set_rule(node[place], rest, rule)


# ----------------------------------------------------------------------- running the steps

class Client:
    def __init__(self, pb, http, timeout):
        self.addresses = {"pb": pb, "http": http}
        self.timeout = timeout
        self.wires = {}

    def wire(self, kind, name):
        key = (kind, name)
        if key not in self.wires:
            if self.addresses[kind] is None:
                raise NoAnswer("no address given for %s" % kind)
            self.wires[key] = Wire(self.addresses[kind], self.timeout)
        wire = self.wires[key]
        wire.start()
        return wire

    def drop(self, kind, name):
        wire = self.wires.pop((kind, name), None)
        if wire:
            wire.close()

    def close(self):
        for kind, name in list(self.wires):
            self.drop(kind, name)

    def perform(self, step, ctx):
        kind = "http" if "http" in step or "http_raw" in step else "pb"
        name = step.get("connection", "")
        reused = (kind, name) in self.wires
        try:
            return self.attempt(step, ctx, kind, name)
        except NoAnswer:
            self.drop(kind, name)
            raise
        except UnreadableAnswer as trouble:
            self.drop(kind, name)
            if not (reused and ("without an answer" in str(trouble)
                                or "after 0 of 4" in str(trouble)
                                or "while sending" in str(trouble))):
                raise
        try:
            return self.attempt(step, ctx, kind, name)
        except UnreadableAnswer:
            self.drop(kind, name)
            raise

    def attempt(self, step, ctx, kind, name):
        wire = self.wire(kind, name)
        if "silent_for" in step:
            wire.deadline = time.monotonic() + step["silent_for"]
        try:
            return self.exchange(step, ctx, kind, name, wire)
        except NoAnswer:
            if "silent_for" not in step:
                raise
            self.drop(kind, name)
            return [{"silent": True}]

    def exchange(self, step, ctx, kind, name, wire):
        if "pb" in step:
            fields = ctx.value(step.get("fields", {}))
            body = encode(step["pb"], fields)
            wire.send(struct.pack(">IB", len(body) + 1, CODES[step["pb"]]) + body)
            answer = read_pb(wire, step["pb"], fields)
        elif "pb_raw" in step:
            data = to_bytes(ctx.value(step["pb_raw"]))
            if step.get("code") is not None:
                data = struct.pack(">IB", len(data) + 1, step["code"]) + data
            wire.send(data)
            answer = []
            for _ in range(step.get("answers", 1)):
                try:
                    answer.append(read_frame(wire))
                except NoAnswer:
                    raise
                except UnreadableAnswer as trouble:
                    if "connection closed" not in str(trouble):
                        raise
                    answer.append({"closed": True})
                    self.drop(kind, name)
                    return answer
        elif "http_raw" in step:
            wire.send(to_bytes(ctx.value(step["http_raw"])))
            answer = []
            for method in step.get("methods", ["GET"]):
                got, closing = read_http(wire, method)
                answer.append(http_shape(got, method, step.get("path", "")))
                if closing:
                    self.drop(kind, name)
                    break
            return answer
        else:
            return self.attempt_http(step, ctx, wire, name)
        if step.get("check_close"):
            closed = wire.ended(2.0)
            answer.append({"closed": closed})
            if closed:
                self.drop(kind, name)
        if step.get("only_run"):
            for frame in answer:
                for label in ("buckets", "keys"):
                    if label in frame.get("fields", {}):
                        frame["fields"][label] = [n for n in frame["fields"][label]
                                                  if ctx.run.encode() in n]
        return answer

    def attempt_http(self, step, ctx, wire, name):
        method, path = step["http"], as_text(ctx.value(step["path"]))
        headers = [(k, ctx.value(v)) for k, v in (
            step["headers"].items() if isinstance(step.get("headers"), dict)
            else step.get("headers", []))]
        body = to_bytes(ctx.value(step["body"])) if "body" in step else None
        given = {k.lower() for k, _ in headers}
        if "host" not in given:
            headers.insert(0, ("Host", "%s:%s" % self.addresses["http"]))
        if "content-length" not in given and "transfer-encoding" not in given \
                and (body is not None or method in ("PUT", "POST")):
            headers.append(("Content-Length", str(len(body or b""))))
        head = "%s %s HTTP/1.1\r\n" % (method, path)
        data = head.encode("utf-8", "surrogateescape")
        for key, value in headers:
            data += key.encode() + b": " + to_bytes(value) + b"\r\n"
        data += b"\r\n"
        continued = None
        if "expect" in given:
            wire.send(data)
            status = read_status(wire)
            split_headers(wire)
            continued = status == 100
            if not continued:
                raise UnreadableAnswer("expected 100 Continue, got status %d" % status)
            wire.send(body or b"")
        else:
            wire.send(data + (body or b""))
        answer, closing = read_http(wire, method)
        if continued is not None:
            answer["continue"] = continued
        if closing:
            self.drop("http", name)
        shape = http_shape(answer, method, path, step.get("watch", ()))
        shape["_raw"] = answer["raw"]
        shape["_headers"] = answer["headers"]
        if step.get("only_run") and isinstance(shape["body"], dict):
            for doc in shape["body"].values():
                for label in ("buckets", "keys"):
                    if isinstance(doc, dict) and isinstance(doc.get(label), list):
                        doc[label] = [n for n in doc[label] if ctx.run in n]
        return shape


def capture(path, answer):
    """Extracts one value from an answer: 'vclock', 'content.0.vtag', 'header:etag', 'json:context',
    'body:REGEX' (the first group)."""
    kind, colon, rest = path.partition(":")
    if colon and kind == "header":
        for name, value in answer["_headers"]:
            if name == rest.lower():
                return value
        raise UnreadableAnswer("no header %s to capture" % rest)
    if colon and kind == "body":
        found = re.search(rest.encode(), answer["_raw"])
        if not found:
            raise UnreadableAnswer("the body does not match %r" % rest)
        return found.group(1).decode("utf-8", "surrogateescape")
    node, path = (json.loads(answer["_raw"]), rest) if colon else (answer[0]["fields"], path)
    try:
        for part in path.split("."):
            node = node[int(part)] if isinstance(node, list) else node[part]
    except (KeyError, IndexError, TypeError):
        raise UnreadableAnswer("no %s to capture" % path)
    return node


def visible(answer):
    if isinstance(answer, dict):
        return {k: v for k, v in answer.items() if not k.startswith("_")}
    return answer


def expected(step, instead):
    """Returns the expected answer of a step; with `instead`, the alternative answer if the step has one."""
    return step["instead"] if instead and "instead" in step else step.get("expect")


def run_step(client, step, ctx, instead=False):
    """Returns (answer, difference or None). A step with "poll" is repeated until its answer is as
    expected."""
    limit = time.monotonic() + step.get("poll", 0)
    want = expected(step, instead)
    while True:
        answer = client.perform(step, ctx)
        said = difference(want, visible(answer), ctx, step.get("ordered", False)) \
            if want is not None else None
        if said is None or time.monotonic() >= limit:
            break
        time.sleep(0.1)
    if said is None:
        for name, path in step.get("capture", {}).items():
            ctx.values[name] = capture(path, answer)
    return answer, said


def record_step(client, step, ctx):
    if "poll" in step:
        answer, said = run_step(client, step, ctx)
        if said:
            raise UnreadableAnswer("polling never gave what was expected: " + said)
        return
    answer = client.perform(step, ctx)
    step["expect"] = record_answer(visible(answer), ctx)
    for path, rule in step.get("rules", {}).items():
        set_rule(step, "expect" if path == "whole" else "expect." + path, rule)
    said = difference(step["expect"], visible(answer), ctx, step.get("ordered", False))
    if said:
        raise UnreadableAnswer("the recorded rules do not fit the answer itself: " + said)
    for name, path in step.get("capture", {}).items():
        ctx.values[name] = capture(path, answer)


def new_suffix(counter=[0]):
    counter[0] += 1
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(random.choice(letters) for _ in range(7)) + "%03x" % (counter[0] & 0xfff)


def sent_text(step):
    keep = {k: v for k, v in step.items() if k in (
        "pb", "fields", "pb_raw", "code", "http", "http_raw", "path", "headers", "body")}
    return show(keep)


def in_turn(addresses, number):
    """Returns the address for a conversation. The addresses of several nodes are used in turn."""
    return addresses[number % len(addresses)] if addresses else None


def run_conversation(number, conversation, args):
    """Returns None if all steps pass, else a dictionary that describes the first failure."""
    # With several nodes, each of the two protocols uses another node.
    client = Client(in_turn(args.pb, number), in_turn(args.http, number + 1), args.timeout)
    ctx = Context(new_suffix())
    try:
        for number, step in enumerate(conversation["steps"], 1):
            failure = {"step": number, "about": step.get("note", ""), "sent": sent_text(step),
                       "expected": show(expected(step, args.instead)), "silent": False}
            try:
                if args.record:
                    record_step(client, step, ctx)
                    continue
                answer, said = run_step(client, step, ctx, args.instead)
                if said:
                    failure.update(got=show(visible(answer)), difference=said)
                    return failure
                if args.verbose:
                    print("    step %d: %s -> %s" % (number, sent_text(step),
                                                     show(visible(answer), 300)))
            except (UnreadableAnswer, KeyError, ValueError, OSError) as error:
                failure.update(got="", difference=str(error),
                               silent=isinstance(error, NoAnswer))
                return failure
        return None
    finally:
        client.close()


# ---------------------------------------------------------------------------- command line

def load(paths, with_quirks):
    out = []
    for path in paths:
        if os.path.isfile(path):
            out.append(path)
            continue
        if not os.path.isdir(path):
            sys.exit("replay: no such file or directory: %s" % path)
        for folder, folders, files in os.walk(path):
            if not with_quirks and os.path.abspath(folder) == os.path.abspath(path):
                folders[:] = [f for f in folders if f != "quirks"]
            folders.sort()
            out += [os.path.join(folder, f) for f in sorted(files) if f.endswith(".json")]
    conversations = []
    for path in out:
        with open(path, encoding="utf-8") as handle:
            conversation = json.load(handle)
        if "steps" in conversation:
            conversations.append((path, conversation))
    return conversations


def all_needs(conversations):
    types, config = {}, set()
    for path, conversation in conversations:
        needs = conversation.get("needs", {})
        for name, props in needs.get("types", {}).items():
            if types.setdefault(name, props) != props:
                sys.exit("replay: %s wants bucket type %s with other properties" % (path, name))
        config.update("%s = %s" % pair for pair in needs.get("config", {}).items())
    return {"types": types, "config": sorted(config)}


def run_setup(needs, args):
    for name, props in sorted(needs["types"].items()):
        active = props.get("active", True)
        clean = {k: v for k, v in props.items() if k != "active"}
        commands = args.setup + (args.activate if active else [])
        for template in commands:
            command = template.replace("{name}", shlex.quote(name)) \
                .replace("{json}", shlex.quote(json.dumps({"props": clean}))) \
                .replace("{props}", shlex.quote(json.dumps(clean)))
            try:
                done = subprocess.run(command, shell=True, timeout=args.setup_timeout,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            except subprocess.TimeoutExpired:
                sys.exit("replay: setup command took too long: %s" % command)
            if args.verbose or done.returncode:
                print("setup: %s -> %d %s" % (command, done.returncode,
                                              done.stdout.decode("utf-8", "replace").strip()))
            if done.returncode and not args.setup_may_fail:
                sys.exit("replay: setup failed")


def address(text):
    host, _, port = text.rpartition(":")
    return (host or "127.0.0.1", int(port))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--pb", type=address, action="append", metavar="HOST:PORT",
                        help="the Protocol Buffers listener; repeated for the nodes of a cluster, "
                             "which take turns")
    parser.add_argument("--http", type=address, action="append", metavar="HOST:PORT",
                        help="the HTTP listener; repeated as above, and each conversation speaks "
                             "HTTP with the node after the one of its other protocol")
    parser.add_argument("--json", action="store_true", help="one JSON document as the report")
    parser.add_argument("--record", action="store_true",
                        help="write the server's answers into the files as the expected ones")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("-k", metavar="TEXT", help="only conversations whose path has this text")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for one step (10)")
    parser.add_argument("--total", type=float, default=1200,
                        help="seconds for the whole run (1200)")
    parser.add_argument("--give-up", type=int, default=3, metavar="N",
                        help="stop after N conversations in a row without any answer (3)")
    parser.add_argument("--quirks", action="store_true", help="include the folder quirks/")
    parser.add_argument("--instead", action="store_true",
                        help="hold steps that give a sensible answer (`instead`) to that one, "
                             "and skip conversations of quirks/ that give none")
    parser.add_argument("--have", action="append", default=[], metavar="KEY=VALUE",
                        help="configuration the server has, for conversations that need it")
    parser.add_argument("--needs", action="store_true", help="print what must exist, and stop")
    parser.add_argument("--setup", action="append", default=[], metavar="CMD",
                        help="command to run for each bucket type first; {name}, {json} "
                             "({\"props\":{...}}) and {props} are filled in; may be repeated")
    parser.add_argument("--activate", action="append", default=[], metavar="CMD",
                        help="like --setup, after it, only for types that must be active")
    parser.add_argument("--setup-may-fail", action="store_true",
                        help="go on when a setup command fails (the type may exist already)")
    parser.add_argument("--setup-timeout", type=float, default=60)
    args = parser.parse_args()

    conversations = load(args.paths, args.quirks)
    if args.k:
        conversations = [c for c in conversations if args.k in c[0]]
    if args.needs:
        print(json.dumps(all_needs(conversations), indent=1, sort_keys=True))
        return 0
    if args.setup or args.activate:
        run_setup(all_needs(conversations), args)
    if args.pb is None and args.http is None:
        if args.setup or args.activate:
            return 0
        parser.error("--pb and --http are needed")

    have = dict(pair.split("=", 1) for pair in args.have)
    report, silent_in_a_row, limit = [], 0, time.monotonic() + args.total
    stopped = None
    for path, conversation in conversations:
        name = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path)[:-5])
        unmet = {k: v for k, v in conversation.get("needs", {}).get("config", {}).items()
                 if have.get(k) != v}
        entry = {"name": name, "path": path, "title": conversation.get("title", "")}
        report.append(entry)
        if args.instead and "instead" in conversation \
                and not any("instead" in step for step in conversation["steps"]):
            entry["result"] = "skip"
            entry["difference"] = "no step says what the sensible answer is"
        elif unmet:
            entry["result"] = "skip"
            entry["difference"] = "needs " + ", ".join("%s=%s" % p for p in unmet.items())
        elif stopped:
            entry.update(result="FAIL", difference=stopped)
        else:
            failure = run_conversation(len(report), conversation, args)
            entry["result"] = "FAIL" if failure else "pass"
            entry.update(failure or {})
            silent_in_a_row = silent_in_a_row + 1 if failure and failure["silent"] else 0
            if silent_in_a_row >= args.give_up:
                stopped = "not run: the server gave no answer to %d conversations in a row" \
                    % silent_in_a_row
            elif time.monotonic() > limit:
                stopped = "not run: the whole run took longer than %g s" % args.total
            if args.record and not failure:
                with open(path, "w", encoding="utf-8") as handle:
                    handle.write(pretty(conversation) + "\n")
        if not args.json:
            print_entry(entry)
    passed = sum(e["result"] == "pass" for e in report)
    failed = sum(e["result"] == "FAIL" for e in report)
    if args.json:
        print(json.dumps({"passed": passed, "failed": failed,
                          "skipped": len(report) - passed - failed,
                          "conversations": report}, indent=1))
    else:
        skipped = len(report) - passed - failed
        if skipped:
            print("%d skipped" % skipped)
        print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > 0 else 1


def print_entry(entry):
    if entry["result"] == "pass":
        print("pass %s" % entry["name"])
    elif entry["result"] == "skip" or "step" not in entry:
        print("%s %s: %s" % (entry["result"], entry["name"], entry["difference"]))
    else:
        print("FAIL %s: step %d%s: %s" % (entry["name"], entry["step"],
                                          " (%s)" % entry["about"] if entry["about"] else "",
                                          entry["difference"]))
        print("       sent:     %s" % entry["sent"])
        print("       expected: %s" % entry["expected"])
        print("       got:      %s" % entry["got"])
    sys.stdout.flush()


def pretty(item, depth=0, width=110):
    """Formats JSON with short values on one line, so that a conversation reads like a script."""
    flat = json.dumps(item, ensure_ascii=False)
    if len(flat) + depth <= width or not isinstance(item, (dict, list)) or not item:
        return flat
    pad = " " * (depth + 1)
    if isinstance(item, dict):
        rows = ["%s%s: %s" % (pad, json.dumps(k, ensure_ascii=False), pretty(v, depth + 1, width))
                for k, v in item.items()]
        return "{\n%s\n%s}" % (",\n".join(rows), " " * depth)
    rows = [pad + pretty(v, depth + 1, width) for v in item]
    return "[\n%s\n%s]" % (",\n".join(rows), " " * depth)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(1)
