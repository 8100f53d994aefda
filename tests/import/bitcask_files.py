"""Writes Bitcask directories in Riak's format for tests."""
import os
import struct
import subprocess
import zlib

RING_SIZE = 8


def etf_clock(actor, counter, seconds=63_800_000_000):
    """Encodes a vector clock of one actor as an external term."""
    time = b"\x6e\x05\x00" + seconds.to_bytes(5, "little")
    entry = b"\x68\x02\x6d" + struct.pack(">I", len(actor)) + actor
    return b"\x83\x6c\x00\x00\x00\x01" + entry + b"\x68\x02\x62" + struct.pack(">i", counter) + time + b"\x6a"


def riak_object(value, actor=b"\x01\x02\x03\x04\x00\x00\x00\x01", counter=1,
                content_type=b"text/plain"):
    """Encodes an object with one value in Riak's stored form, version 1."""
    clock = etf_clock(actor, counter)
    text = b"\x83\x6b" + struct.pack(">H", len(content_type)) + content_type
    meta = struct.pack(">III", 1600, 0, 7) + b"\x01e\x00"
    name = b"\x01content-type"
    meta += struct.pack(">I", len(name)) + name + struct.pack(">I", 1 + len(text)) + b"\x00" + text
    value = b"\x01" + value
    return (b"\x35\x01" + struct.pack(">I", len(clock)) + clock + struct.pack(">I", 1)
            + struct.pack(">I", len(value)) + value + struct.pack(">I", len(meta)) + meta)


def record(bucket, key, value, bucket_type=None):
    """Encodes a record of a data file."""
    name = b"\x02" if bucket_type is None else b"\x03" + struct.pack(">H", len(bucket_type)) + bucket_type
    name += struct.pack(">H", len(bucket)) + bucket + key
    body = struct.pack(">IHI", 1_600_000_000, len(name), len(value)) + name + value
    return struct.pack(">I", zlib.crc32(body)) + body


def run(binary, *arguments):
    """Runs the program to its end. Returns its status, output and error output."""
    done = subprocess.run([binary] + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300, text=True)
    return done.returncode, done.stdout, done.stderr


def write_partition(data_dir, number, records):
    """Writes one data file of a partition. Returns the file's path."""
    index = number * (1 << 160) // RING_SIZE
    folder = os.path.join(data_dir, "bitcask", str(index))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "1.bitcask.data")
    with open(path, "wb") as file:
        for one in records:
            file.write(one)
    return path
