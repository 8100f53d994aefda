"""A Protocol Buffers connection for tests that need little more than get and put.

It uses the messages of the replay tool, so that one table of them serves all tests.
"""
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import replay  # noqa: E402


class Refused(Exception):
    """The node answered with an error; the text is the node's."""


class Connection:
    def __init__(self, address, timeout=30):
        self.wire = replay.Wire(address, timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def send(self, message, **fields):
        body = replay.encode(message, fields)
        self.wire.start()
        self.wire.send(struct.pack(">IB", len(body) + 1, replay.CODES[message]) + body)

    def receive(self):
        """Returns the fields of the next frame. Raises `Refused` for an error answer."""
        self.wire.start()
        frame = replay.read_frame(self.wire)
        if frame["pb"] == "RpbErrorResp":
            raise Refused(frame["fields"]["errmsg"].decode())
        return frame["fields"]

    def call(self, message, **fields):
        self.send(message, **fields)
        return self.receive()

    def ping(self):
        self.call("RpbPingReq")

    def put(self, bucket, key, value, **options):
        content = {"value": value, "content_type": "text/plain"}
        return self.call("RpbPutReq", bucket=bucket, key=key, content=content, **options)

    def get(self, bucket, key, **options):
        """Returns the values of a key: none, one, or siblings."""
        fields = self.call("RpbGetReq", bucket=bucket, key=key, **options)
        return [content["value"] for content in fields.get("content", [])]
