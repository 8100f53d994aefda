"""A Riak node whose queue has objects that a real Riak node stored, sent in frames as a real node sends
them."""
import gzip
import json
import os
import re
import struct
import subprocess
import tarfile
import tempfile
import threading
import unittest
import zlib

import bitcask_files
import large_types
from recorded_answers import RecordedAnswers, get
from recorded_riak import GOLDEN, RecordedRiak, member, recorded, replay
from support.cluster import wait_until
from support.node import NodeError, TemporaryNode, binary_from_environment

LargeTypes = large_types.LargeTypes
BINARY = binary_from_environment()
FETCH_REQUEST, FETCH_ANSWER = 202, 203
MEMBERS_REQUEST, MEMBERS_ANSWER = 206, 207
PUSH_REQUEST, PUSH_ANSWER = 204, 205
FOLD_REQUEST, FOLD_ANSWER = 217, 222
ARCHIVE = "bitcask-data-types"
TYPES = {"sibs": {"allow_mult": True}, "nosibs": {"allow_mult": False}, "n1": {"n_val": 1},
         "n2": {"n_val": 2, "allow_mult": True}, "once": {"write_once": True},
         "lww": {"allow_mult": False, "last_write_wins": True, "dvv_enabled": False}}
DATA_TYPES = {"counters": "counter", "sets": "set", "gsets": "gset", "maps": "map", "hlls": "hll"}


def sized(data):
    return struct.pack(">I", len(data)) + data


def field(number, data):
    """Encodes a field of bytes of a message."""
    return replay.put_varint(number << 3 | 2) + replay.put_varint(len(data)) + data


def fields(message):
    """Decodes a message. Returns its fields by number, as bytes or numbers."""
    found, at = {}, 0
    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
    while at < len(message):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        found[tag >> 3] = value
    return found


class StoredObject:
    """An object in the form of Riak's Bitcask, with its name."""

    def __init__(self, name, value):
        self.type, self.value = b"", value
        if name[0] == 3:
            size, = struct.unpack_from(">H", name, 1)
            self.type, name = name[3:3 + size], b"\x02" + name[3 + size:]
        size, = struct.unpack_from(">H", name, 1)
        self.bucket, self.key = name[3:3 + size], name[3 + size:]

    def name(self):
        return sized(self.type) + sized(self.bucket) + sized(self.key)

    def clock(self):
        size, = struct.unpack_from(">I", self.value, 2)
        return self.value[6:6 + size]

    def siblings(self):
        """Returns (value, metadata) of each sibling."""
        at = 6 + len(self.clock())
        count, = struct.unpack_from(">I", self.value, at)
        at += 4
        for _ in range(count):
            parts = []
            for _ in range(2):
                size, = struct.unpack_from(">I", self.value, at)
                parts.append(self.value[at + 4:at + 4 + size])
                at += 4 + size
            yield parts

    def is_tombstone(self):
        return all(meta[13 + meta[12]] == 1 for _, meta in self.siblings())

    def frame(self):
        """Returns the answer to a fetch."""
        sent = b"\x10" + self.name() + self.value
        deleted = self.is_tombstone()
        answer = b"\x08\x00\x10" + bytes([deleted]) + b"\x18" + replay.put_varint(zlib.crc32(sent))
        return answer + field(4, sent) + (field(5, self.clock()) if deleted else b"")


def stored_objects(folder):
    """Returns the copies of all records below a Bitcask folder, the newest of each partition."""
    copies = {}
    for directory, _, names in os.walk(folder):
        found = {}
        for name in sorted(name for name in names if name.endswith(".bitcask.data")):
            with open(os.path.join(directory, name), "rb") as file:
                data = file.read()
            at = 0
            while at < len(data):
                _, _, key_size, size = struct.unpack_from(">IIHI", data, at)
                start = at + 14 + key_size
                found[data[at + 14:start]] = data[start:start + size]
                at = start + size
        for name, value in found.items():
            if not value.startswith(b"bitcask_tombstone"):
                copies[name, value] = StoredObject(name, value)
    return list(copies.values())


class RecordedQueue(RecordedRiak):
    """A recorded Riak with a queue. It has real-time entries from the start, and others after a fold."""

    def __init__(self, real_time, folded=()):
        self.lock = threading.Lock()
        self.real_time, self.folded = list(real_time), list(folded)
        self.fold = []
        self.sent = 0

    def answer(self, code, body):
        with self.lock:
            if code == FETCH_REQUEST:
                for queue in (self.real_time, self.fold):
                    if queue:
                        self.sent += 1
                        return FETCH_ANSWER, queue.pop(0).frame()
                return FETCH_ANSWER, b"\x08\x01"
            if code == PUSH_REQUEST:
                lengths = replay.put_varint(len(self.fold)), replay.put_varint(len(self.real_time))
                return PUSH_ANSWER, field(1, fields(body)[1]) + b"\x10\x01P%sX\x00`%s" % lengths
            if code == MEMBERS_REQUEST:
                return MEMBERS_ANSWER, member(int(self.pb.rsplit(":", 1)[1]))
            if code == FOLD_REQUEST:
                asked = fields(body)
                named = [one for one in self.folded
                         if (one.type, one.bucket) == (asked.get(1, b""), asked[2])]
                self.fold += named
                return FOLD_ANSWER, self.counted(len(named))
        return super().answer(code, body)

    @staticmethod
    def counted(count):
        """Returns the recorded answer of a fold that queued one record, with another number of records."""
        steps = recorded("replication/rangerepl-pb.json")
        step = next(one for one in steps if one.get("code") == FOLD_REQUEST)
        def answer(number):
            inner = field(1, b"dispatched_count") + b"\x18" + replay.put_varint(number)
            return field(1, b"repl_keys") + field(2, inner)
        assert answer(1) == step["expect"][0]["fields"]["body"].encode()
        return answer(count)


def quoit(*words):
    """Runs the program, which must succeed. Returns its output."""
    done = subprocess.run([BINARY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add_sink(node, riak):
    quoit("repl", "--url", node.url, "sink", "add", "quoit", riak.pb + ":pb")


class LiveQueue(RecordedAnswers, unittest.TestCase):
    """A sink of Quoit at the queue of the recorded Riak node."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)
        with tarfile.open(os.path.join(GOLDEN, "riak-data", ARCHIVE + ".tar.gz")) as tar:
            tar.extractall(folder.name)
        cls.objects = stored_objects(folder.name)

    def recorded_patterns(self, name, stored, value=None):
        """Returns the frames of a recorded conversation, as patterns for an object of another name."""
        for step in recorded("replication/%s.json" % name):
            if step.get("code") != FETCH_REQUEST or "re" not in step["expect"][0]["fields"]["body"]:
                continue
            text = lambda data: re.escape(data.decode("utf-8", "surrogateescape"))  # noqa: E731
            pattern = step["expect"][0]["fields"]["body"]["re"]
            named = re.compile(r'\{1,3\}\\x10.*?\$run\\x00\{3\}\\x01k5')
            pattern = named.sub(lambda _: r'{1,4}\x10' + text(stored.name()) + "5", pattern, count=1)
            if value is not None:
                pattern = pattern.replace(r"\x00{3}\x06\x01hello", text(sized(value)))
            yield pattern

    def first(self, is_it):
        return next(one for one in self.objects if is_it(one))

    def test_frames_are_as_recorded(self):
        def is_plain(one):
            siblings = list(one.siblings())
            return len(siblings) == 1 and one.type == b"" and one.bucket.isascii() \
                and siblings[0][0][:1] == b"\x01" and 1 < len(siblings[0][0]) < 100 \
                and b"k\0\x0atext/plain" in siblings[0][1] and not one.is_tombstone()
        plain = self.first(is_plain)
        tombstone = self.first(lambda one: one.is_tombstone() and one.type == b"" and one.bucket.isascii())
        kinds = [("put-fetch-pb", 0, plain, next(plain.siblings())[0]), ("delete-pb", 1, tombstone, None)]
        for name, kind in (("counter", b"counters"), ("set", b"sets"), ("hll", b"hlls")):
            kinds.append((name, 0, self.first(lambda one, kind=kind: one.type == kind), None))
        for name, number, stored, value in kinds:
            pattern = list(self.recorded_patterns(name, stored, value))[number]
            frame = stored.frame().decode("utf-8", "surrogateescape")
            self.assertRegex(frame, pattern, name)

    def sink(self, node, riak):
        for name, props in TYPES.items():
            node.create_bucket_type(name, props)
        for name, datatype in DATA_TYPES.items():
            node.create_bucket_type(name, {"datatype": datatype, "allow_mult": True})
        add_sink(node, riak)

    def wait_until_fetched(self, riak, count):
        wait_until(lambda: riak.sent == count and not riak.real_time and not riak.fold,
                   "%d entries to be fetched" % count)

    def test_what_a_real_riak_stored_comes_by_bootstrap_and_in_real_time(self):
        with gzip.open(os.path.join(GOLDEN, "riak-data", ARCHIVE + ".expected.json.gz")) as file:
            expected = json.load(file)
        folded = [one for one in self.objects if one.bucket.startswith(b"s12-")]
        live = [one for one in self.objects if not one.bucket.startswith(b"s12-")]
        self.assertGreater(min(len(folded), len(live)), 10)
        buckets = sorted({"%s/%s" % ((one.type or b"default").decode(), one.bucket.decode())
                          for one in folded})
        only = [word for bucket in buckets for word in ("--only", bucket)]
        with TemporaryNode(BINARY, ["ring_size=16", "delete_mode=keep"]) as node, \
                RecordedQueue(live, folded) as riak:
            self.sink(node, riak)
            out = quoit("import", "bootstrap", "http://" + riak.http, "--riak-pb", riak.pb, "--by", "fold",
                             "--format", "json", *only)
            self.assertEqual(sum(one["queued"] for one in json.loads(out)["buckets"]), len(folded))
            self.wait_until_fetched(riak, len(self.objects))
            try:
                wait_until(lambda: self.is_all_stored(node, expected), "the last objects to be stored")
            except NodeError:
                self.are_there(node, expected)
                raise

    def are_there(self, node, expected):
        """Checks that all records are as the real node answered."""
        for record in expected["objects"]:
            self.check_object(node, record)
        for record in expected["data_types"]:
            self.check_data_type(node, record)

    def is_all_stored(self, node, expected):
        try:
            self.are_there(node, expected)
        except AssertionError:
            return False
        return True


class PagesByReplication(unittest.TestCase):
    """Data types of 100,000 elements that arrive in replication messages."""

    ask, check_paged, check_sizes = LargeTypes.ask, LargeTypes.check_paged, LargeTypes.check_sizes
    bytes_written, update_bytes = LargeTypes.bytes_written, LargeTypes.update_bytes
    update_of = LargeTypes.update_of

    def test_large_states_become_pages(self):
        states = {(kind, number): make() for kind, forms in large_types.TYPES.items()
                  for number, make in enumerate(forms)}
        with TemporaryNode(BINARY, ["ring_size=8"]) as self.node:
            entries = []
            for (kind, number), state in states.items():
                bucket_type = "%ss%d" % (kind, number)
                self.node.create_bucket_type(bucket_type, {"datatype": kind, "allow_mult": True})
                stored = bitcask_files.riak_object(state, content_type=b"application/riak_" + kind.encode())
                name = b"\x03" + struct.pack(">H", len(bucket_type)) + bucket_type.encode() + b"\0\x01bk"
                entries.append(StoredObject(name, stored))
            with RecordedQueue(entries) as riak:
                add_sink(self.node, riak)
                for kind, number in states:
                    path = "/types/%ss%d/buckets/b/datatypes/k" % (kind, number)
                    wait_until(lambda path=path: get(self.node, path + "?size=true")[0] == 200, path)
                    with self.subTest(kind=kind, form=number):
                        self.check_paged(kind, path)
