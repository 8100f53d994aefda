"""The records of a trial: the written values, and the answers that a node may give afterwards."""
import random

from support.pb import Connection, Refused

BUCKET = b"b"
INDEX = b"number_int"
COUNT = 1500
VALUE_BYTES = 400
# One of this many records is written a second time, so that its first value is an older one.
REWRITTEN_EVERY = 5
# Number of requests that are sent before their answers are read.
PIPELINED = 50
KEYS = [b"key-%05d" % number for number in range(COUNT)]


class UnexcusedFault(Exception):
    """A node did something that the damage does not excuse."""


def value(number, version):
    """Returns a value that identifies its record and that no engine can compress."""
    filler = random.Random(number * 10 + version).randbytes(VALUE_BYTES // 2).hex().encode()
    return b"%d.%d " % (number, version) + filler


def write(node):
    """Writes all records, some of them twice."""
    with Connection(node.pb) as pb:
        for number in range(COUNT):
            put(pb, number, 1)
        for number in range(0, COUNT, REWRITTEN_EVERY):
            put(pb, number, 2)


def put(pb, number, version):
    content = {"value": value(number, version), "content_type": "text/plain",
               "indexes": [{"key": INDEX, "value": b"%d" % number}]}
    fields = {}
    if version > 1:
        fields["vclock"] = pb.call("RpbGetReq", bucket=BUCKET, key=KEYS[number])["vclock"]
    pb.call("RpbPutReq", bucket=BUCKET, key=KEYS[number], content=content, dw=1, **fields)


def last_version(number):
    return 1 if number % REWRITTEN_EVERY else 2


class Answers:
    """The answers of a node about all records."""

    def __init__(self, node, **options):
        self.right, self.older, self.missing, self.errors = set(), set(), set(), {}
        # Each is a set of numbers, or the text of an error.
        self.keys = self.query(node, "RpbListKeysReq", bucket=BUCKET)
        self.read(node, options)
        self.entries = self.query(node, "RpbIndexReq", bucket=BUCKET, index=INDEX, qtype=1,
                                  range_min=b"0", range_max=b"%d" % COUNT, stream=True)

    def read(self, node, options):
        with Connection(node.pb) as pb:
            for first in range(0, COUNT, PIPELINED):
                numbers = range(first, min(COUNT, first + PIPELINED))
                for number in numbers:
                    pb.send("RpbGetReq", bucket=BUCKET, key=KEYS[number], **options)
                for number in numbers:
                    self.take(number, pb)

    def take(self, number, pb):
        try:
            found = [content["value"] for content in pb.receive().get("content", [])]
        except Refused as error:
            self.errors[number] = str(error)
            return
        if not found:
            self.missing.add(number)
        elif found == [value(number, last_version(number))]:
            self.right.add(number)
        elif found == [value(number, 1)]:
            self.older.add(number)
        else:
            raise UnexcusedFault("wrong bytes of record %d: %r" % (number, [text[:40] for text in found]))

    def query(self, node, message, **fields):
        found = set()
        try:
            with Connection(node.pb) as pb:
                pb.send(message, **fields)
                while True:
                    part = pb.receive()
                    found.update(part.get("keys", []))
                    if part.get("done"):
                        return {int(key.split(b"-")[1]) for key in found}
        except Refused as error:
            return str(error)

    def is_whole(self):
        """Tells if nothing is missing anywhere."""
        everything = set(range(COUNT))
        return self.right == everything and self.keys == everything and self.entries == everything

    def check(self):
        """Raises `UnexcusedFault` if an answer looks complete and is not, compared with the records that
        the node has."""
        there = self.right | self.older | set(self.errors)
        for name, answer in (("listing", self.keys), ("index query", self.entries)):
            if isinstance(answer, set) and not there <= answer:
                raise UnexcusedFault("a %s without an error lacks %d records that the node knows"
                                     % (name, len(there - answer)))

    def summary(self):
        def size(answer):
            return len(answer) if isinstance(answer, set) else "error (%s)" % answer[:100]
        return "%d right, %d older, %d missing, %d errors; listed %s, by index %s" % (
            len(self.right), len(self.older), len(self.missing), len(self.errors), size(self.keys),
            size(self.entries))


