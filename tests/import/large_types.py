"""Data types of 100 000 elements in Riak's forms. Imported or put by a client, they are stored as pages."""
import json
import os
import statistics
import struct
import tempfile
import unittest
import urllib.request
import zlib

import bitcask_files
from support.node import TemporaryNode, binary_from_environment
from support.pb import Connection

BINARY = binary_from_environment()
COUNT = 100_000
ACTOR = b"\x01\x02\x03\x04\x00\x00\x00\x01"
# Most bytes that one update may write: some pages of 1.4 KB, not the whole value of some MB.
UPDATE_BYTES_MAX = 16_000


def binary(text):
    return b"\x6d" + struct.pack(">I", len(text)) + text


def integer(number):
    return b"\x62" + struct.pack(">i", number)


def small_tuple(*parts):
    return b"\x68" + bytes([len(parts)]) + b"".join(parts)


def of_list(parts):
    return b"\x6c" + struct.pack(">I", len(parts)) + b"".join(parts) + b"\x6a" if parts else b"\x6a"


def atom(name):
    return b"\x64" + struct.pack(">H", len(name)) + name


def cell(key, value):
    """Encodes a pair of a dictionary: `[Key | Value]`."""
    return b"\x6c\x00\x00\x00\x01" + key + value


def dictionary(cells):
    """Encodes an Erlang dictionary with these cells in sixteen slots, as far as a reader needs it."""
    slots = [of_list(cells[number::16]) for number in range(16)]
    empty = small_tuple(*[of_list([])] * 16)
    numbers = [integer(number) for number in (len(cells), 16, 16, 8, 80, 48)]
    return small_tuple(atom(b"dict"), *numbers, empty, small_tuple(small_tuple(*slots)))


def stored(name, tag, version, term):
    """Encodes a data type's value: names, and the term compressed as by `term_to_binary`."""
    packed = b"\x83\x50" + struct.pack(">I", len(term)) + zlib.compress(term)
    return b"\x45\x02" + struct.pack(">I", len(name)) + name + bytes([tag, version]) + packed


def element(number):
    return b"element-%06d" % number


def dot(number):
    return small_tuple(binary(ACTOR), integer(number + 1))


def clock():
    return of_list([small_tuple(binary(ACTOR), integer(COUNT))])


def set_by_lists():
    entries = [small_tuple(binary(element(number)), of_list([dot(number)])) for number in range(COUNT)]
    return stored(b"riak_dt_orswot", 75, 1, small_tuple(clock(), of_list(entries), of_list([])))


def set_by_dictionaries():
    cells = [cell(binary(element(number)), of_list([dot(number)])) for number in range(COUNT)]
    return stored(b"riak_dt_orswot", 75, 2, small_tuple(clock(), dictionary(cells), dictionary([])))


def gset():
    return stored(b"riak_dt_gset", 82, 1, of_list([binary(element(number)) for number in range(COUNT)]))


def fields():
    """Returns (name, value) of each field of a map of registers."""
    register = atom(b"riak_dt_lwwreg")
    return [(small_tuple(binary(element(number)), register),
             small_tuple(binary(b"v"), integer(number))) for number in range(COUNT)]


def map_by_lists():
    empty = small_tuple(binary(b""), integer(0))
    entries = [small_tuple(name, small_tuple(of_list([small_tuple(dot(number), value)]), empty))
               for number, (name, value) in enumerate(fields())]
    return stored(b"riak_dt_map", 77, 1, small_tuple(clock(), of_list(entries), of_list([])))


def map_by_dictionaries():
    empty = small_tuple(binary(b""), integer(0))
    cells = [cell(name, small_tuple(dictionary([cell(dot(number), value)]), empty))
             for number, (name, value) in enumerate(fields())]
    return stored(b"riak_dt_map", 77, 2, small_tuple(clock(), dictionary(cells), dictionary([])))


TYPES = {"set": (set_by_lists, set_by_dictionaries), "gset": (gset,),
         "map": (map_by_lists, map_by_dictionaries)}


class LargeTypes(unittest.TestCase):
    """One node, into which each type is imported from a directory and put over Protocol Buffers."""

    @classmethod
    def setUpClass(cls):
        cls.node = TemporaryNode(BINARY, ["ring_size=8"]).__enter__()
        cls.addClassCleanup(cls.node.__exit__)

    def ask(self, path, body=None):
        request = urllib.request.Request(self.node.url + path, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def bytes_written(self):
        with open("/proc/%d/io" % self.node.process.pid, encoding="ascii") as file:
            return int(dict(line.split(": ") for line in file)["wchar"])

    def update_bytes(self, path, body_of):
        """Returns the median number of bytes that the node writes for an update."""
        written = []
        for number in range(9):
            before = self.bytes_written()
            self.ask(path, body_of(number))
            written.append(self.bytes_written() - before)
        return statistics.median(written)

    def update_of(self, kind, number):
        new = "new-%d" % number
        return {"update": {new + "_register": "v"}} if kind == "map" else {"add": new}

    def check_paged(self, kind, path):
        """Checks that the value is complete, that pages of it can be read, and that an update writes few
        pages."""
        self.assertEqual(self.ask(path + "?size=true")["size"], COUNT)
        page = self.ask(path + "?page_size=50")
        self.assertLess(len(page["value"]), 500, "it is answered in pages")
        value = self.ask(path)["value"]
        if kind == "map":
            self.assertEqual(value, {element(number).decode() + "_register": "v" for number in range(COUNT)})
        else:
            self.assertEqual(sorted(value), [element(number).decode() for number in range(COUNT)])
        # The first update may still convert the other copies to pages.
        self.ask(path, self.update_of(kind, 99))
        written = self.update_bytes(path, lambda number: self.update_of(kind, number))
        print("%s: an update writes %d bytes" % (path, written))
        self.assertLess(written, UPDATE_BYTES_MAX)
        self.check_sizes(kind, path)
        return written

    def check_sizes(self, kind, path):
        """Checks the size after updates, and after removes of elements that came from Riak."""
        self.assertEqual(self.ask(path + "?size=true")["size"], COUNT + 10)
        if kind == "set":
            context = self.ask(path)["context"]
            self.ask(path, {"remove": "element-077777", "context": context})
            self.assertEqual(self.ask(path + "?size=true")["size"], COUNT + 9)

    def check(self, kind):
        for number, state in enumerate(TYPES[kind]):
            value = state()
            name = "%ss%d" % (kind, number)
            self.node.create_bucket_type(name, {"datatype": kind, "allow_mult": True})
            with self.subTest(form=number, by="directory"), tempfile.TemporaryDirectory() as folder:
                object_ = bitcask_files.riak_object(value, content_type=b"application/riak_" + kind.encode())
                record = bitcask_files.record(b"b", b"imported", object_, bucket_type=name.encode())
                bitcask_files.write_partition(folder, 0, [record])
                status, out, words = bitcask_files.run(BINARY, "import", "run", folder, "--to", self.node.url,
                                                       "--journal", os.path.join(folder, "journal"))
                self.assertEqual(status, 0, out + words)
                self.check_paged(kind, "/types/%s/buckets/b/datatypes/imported" % name)
            with self.subTest(form=number, by="put"), Connection(self.node.pb) as pb:
                content = {"value": value, "content_type": "application/riak_" + kind}
                pb.call("RpbPutReq", bucket="b", key="put", type=name, content=content, vclock=self.vclock(),
                        asis=True)
                self.check_paged(kind, "/types/%s/buckets/b/datatypes/put" % name)
            with self.subTest(form=number, by="plain put"):
                self.check_plain(kind, name, value)

    def check_plain(self, kind, name, value):
        """A client restores a data type by a plain put. Without a context the stored elements stay."""
        path = "/types/%s/buckets/b/datatypes/plain" % name
        with Connection(self.node.pb) as pb:
            place = {"bucket": "b", "key": "plain", "type": name}
            content = {"value": value, "content_type": "application/riak_" + kind}
            pb.call("RpbPutReq", content=content, **place)
            self.check_paged(kind, path)
            size = self.ask(path + "?size=true")["size"]
            pb.call("RpbPutReq", content=content, **place)
            self.assertEqual(self.ask(path + "?size=true")["size"], size)
            # With a context the put replaces what its client has read, so that removed elements are there
            # again.
            read = pb.call("RpbGetReq", **place)["vclock"]
            pb.call("RpbPutReq", content=content, vclock=read, **place)
            self.assertEqual(self.ask(path + "?size=true")["size"], COUNT)

    def vclock(self):
        """Returns the vector clock of the object in the form that Riak gives to clients."""
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(bitcask_files.etf_clock(ACTOR, COUNT)) + deflate.flush()

    def test_sets(self):
        self.check("set")

    def test_a_set_from_riak_costs_as_much_as_one_of_our_own(self):
        self.node.create_bucket_type("own", {"datatype": "set", "allow_mult": True})
        path = "/types/own/buckets/b/datatypes/own"
        for first in range(0, COUNT, 10_000):
            added = [element(number).decode() for number in range(first, first + 10_000)]
            self.ask(path, {"add_all": added})
        own = self.check_paged("set", path)
        with Connection(self.node.pb) as pb:
            content = {"value": set_by_dictionaries(), "content_type": "application/riak_set"}
            pb.call("RpbPutReq", bucket="b", key="riaks", type="own", content=content, vclock=self.vclock(),
                    asis=True)
        self.assertLess(self.check_paged("set", "/types/own/buckets/b/datatypes/riaks"), 1.5 * own)

    def test_grow_only_sets(self):
        self.check("gset")

    def test_maps(self):
        self.check("map")
