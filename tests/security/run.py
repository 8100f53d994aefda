#!/usr/bin/env python3
"""Security: recorded cases of a real Riak replayed against a real node, and checks that they leave out.

    run.py            everything
    run.py CASE...    only the recorded cases whose names begin with CASE

`better.json` lists the cases in which Quoit's answer is better than Riak's, with the reason and the answers.
The closing line is `N passed, N failed`.
"""
import json
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

from certificates import Certificates, is_possible  # noqa: E402
from operations import field  # noqa: E402
from refused import Files, check_refused_certificates  # noqa: E402
from rights import check_rights  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from talk import Operator, Pb, error_of, request  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(HERE), "golden", "security", "cases.json")
# Seconds by which the node delays the answer to a refused login; Riak delays it by 5.
DELAY = 0.2
# Headers that differ from server to server, or that hold more than Riak's.
OWN_HEADERS = {"date", "server", "vary", "connection", "last-modified", "etag", "x-riak-vclock"}


class Mismatch(Exception):
    """A node's answer differs from the recorded one."""


class World:
    """A node with certificates, and the data that the cases expect."""

    def __init__(self, node, certificates):
        self.node = node
        self.certificates = certificates
        self.operator = Operator(os.path.join(node.data_dir, "admin.sock"))
        self.addresses = {"http": node.http, "https": address(node.record["https"])}
        self.setup = None
        self.runs_jobs = False

    def set_up(self, setup):
        """Makes the users and grants that a case needs, unless the previous case has left them."""
        wanted = json.dumps(setup, sort_keys=True)
        if wanted != self.setup:
            self.operator.set_up(setup)
            self.setup = wanted

    def write_data(self):
        self.node.create_bucket_type("sets", {"datatype": "set"})
        self.node.create_bucket_type("sibs", {"allow_mult": True})
        for method, path, body, headers in [
                ("PUT", "/buckets/b/keys/k", "v", {"x-riak-index-f_bin": "x"}),
                ("PUT", "/buckets/cnt/props", '{"props":{"allow_mult":true}}',
                 {"Content-Type": "application/json"}),
                ("POST", "/buckets/cnt/counters/k", "1", {}),
                ("POST", "/types/sets/buckets/b/datatypes/k", '{"add":"m"}',
                 {"Content-Type": "application/json"}),
                ("PUT", "/types/sibs/buckets/b/keys/k", "v", {}),
                *((method, path + "/fed/props", '{"props":{"change_feed":1}}',
                   {"Content-Type": "application/json"})
                  for method, path in [("PUT", "/buckets"), ("PUT", "/types/sibs/buckets")])]:
            done = request(self.addresses, self.certificates, {
                "scheme": "http", "method": method, "path": path, "body": body,
                "headers": {"Content-Type": "text/plain", **headers}})
            assert done["status"] < 300, (path, done)
        job = json.dumps({"inputs": "b", "query": [{"map": {
            "language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}}]})
        pb = Pb(self.node.pb, self.certificates)
        frame = pb.call(23, field(1, job) + field(2, "application/json"))
        self.runs_jobs = frame is not None and frame[0] == 24
        pb.close()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def replay_pb(world, send, expect):
    connections = {}

    def connection(number):
        if number not in connections:
            connections[number] = Pb(world.node.pb, world.certificates)
        return connections[number]

    connection(0)
    try:
        for place, (step, wanted) in enumerate(zip(send["steps"], expect["steps"])):
            try:
                replay_step(world, connection(step.get("conn", 0)), step, wanted)
            except Mismatch as fault:
                raise Mismatch("step %d (%s): %s" % (place, step.get("msg", list(step)[0]), fault))
    finally:
        for each in connections.values():
            each.close()


def replay_step(world, connection, step, wanted):
    if "admin" in step:
        world.operator.command(*step["admin"])
        world.setup = None
    elif "tls" in step:
        done = connection.tls(**step["tls"])
        if (done == "ok") != (wanted["tls"] == "ok"):
            raise Mismatch("handshake: %s, and Riak: %s" % (done, wanted))
        if done != "ok" and "reason" in wanted and wanted["reason"] not in done:
            raise Mismatch("handshake failed with %s, and not %s" % (done, wanted["reason"]))
    elif "sweep" in step:
        for group in wanted["answers"]:
            for code in group["codes"]:
                compare_frame(connection.call(code), group["answer"])
    elif "raw" in step:
        try:
            connection.socket.sendall(bytes.fromhex(step["raw"]))
        except OSError:
            pass
        if wanted.get("no_answer"):
            connection.socket.settimeout(1)
            try:
                data = connection.socket.recv(1)
            except OSError:
                data = None
            connection.socket.settimeout(30)
            if data is not None:
                raise Mismatch("an answer came: %r" % data)
        elif wanted.get("closed"):
            # A TLS alert may come before the end.
            while connection.read(1):
                pass
    else:
        began = time.monotonic()
        frame = connection.call(step["code"], bytes.fromhex(step["body"]))
        took = time.monotonic() - began
        compare_frame(frame, wanted)
        if "at_least_s" in wanted and took < DELAY:
            raise Mismatch("answered after %.2f s" % took)
        if wanted.get("more_frames"):
            # The server decides the number of frames in a stream.
            while frame and not is_last(frame):
                frame = connection.receive()
        if wanted.get("then_closed") and connection.receive() is not None:
            raise Mismatch("the connection goes on")


def is_last(frame):
    code, body = frame
    done = {16: b"\x10\x01", 18: b"\x10\x01", 24: b"\x18\x01", 26: b"\x20\x01"}.get(code)
    return code == 0 or done is None or body.endswith(done)


def compare_frame(frame, wanted):
    if wanted.get("closed"):
        if frame is not None:
            raise Mismatch("answered %r, and Riak closes" % (frame,))
        return
    if frame is None:
        raise Mismatch("closed, and Riak answers %s" % wanted)
    code, body = frame
    text, number = error_of(body) if code == 0 else ("", None)
    if code != wanted["code"]:
        raise Mismatch("code %d %s, and Riak: %s" % (code, text, wanted))
    compare = wanted.get("compare", "")
    if compare == "any error":
        return
    if code == 0:
        if compare == "errmsg is only the beginning":
            start = wanted["errmsg"].split(":")[0]
            if not text.startswith(start):
                raise Mismatch("%r, and Riak: %r" % (text, wanted["errmsg"]))
        elif text != wanted["errmsg"] or (number or 0) != wanted["errcode"]:
            raise Mismatch("%r, and Riak: %r" % (text, wanted["errmsg"]))
    elif compare != "code" and body.hex() != wanted["body"]:
        raise Mismatch("body %s, and Riak: %s" % (body.hex(), wanted["body"]))


def replay_http(world, send, expect):
    for place, (wanted_request, wanted) in enumerate(zip(send["requests"], expect["responses"])):
        got = request(world.addresses, world.certificates, wanted_request)
        try:
            compare_response(got, wanted)
        except Mismatch as fault:
            raise Mismatch("request %d: %s" % (place, fault))


def compare_response(got, wanted):
    if "tls" in wanted:
        if got.get("tls") != wanted["tls"]:
            raise Mismatch("%s, and Riak: %s" % (got, wanted))
        return
    if "status_in" in wanted:
        if got.get("status") not in wanted["status_in"]:
            raise Mismatch("%s, and not one of %s" % (got.get("status", got), wanted["status_in"]))
        return
    if got.get("status") != wanted["status"]:
        raise Mismatch("%s %s, and Riak: %s" % (got.get("status", got), got.get("body", "")[:200],
                                                wanted["status"]))
    varies = wanted.get("not_compared") or []
    own = {name.lower(): value for name, value in got["headers"].items()}
    for name, value in wanted.get("headers", {}).items():
        name = name.lower()
        if name in OWN_HEADERS or "headers." + name in [each.lower() for each in varies]:
            continue
        if name in ("link", "transfer-encoding", "content-length") or name.startswith("x-riak-index-"):
            continue
        # An answer without a body has no media type in Quoit.
        if name == "content-type" and got["body"] == "" and wanted["status"] in (201, 204):
            continue
        if own.get(name) != value:
            raise Mismatch("header %s: %r, and Riak: %r" % (name, own.get(name), value))
    if wanted["status"] == 426 and "content-type" in own \
            and "Content-Type" not in wanted.get("headers", {}):
        raise Mismatch("a Content-Type")
    is_plain = own.get("content-type") == "text/plain"
    if "body" in wanted and "body" not in varies and is_plain and wanted["status"] != 200:
        if got["body"] != wanted["body"]:
            raise Mismatch("body %r, and Riak: %r" % (got["body"], wanted["body"]))


def replay_admin(world, send, expect):
    world.setup = None
    for words, wanted in zip(send["commands"], expect["commands"]):
        done = world.node.admin("security", *words)
        printed = plain(done.stdout)
        expected = plain(wanted["stdout"].replace("riak-admin", "quoit admin"))
        if words and words[0].startswith(("add-", "alter-")) and is_refused(wanted):
            # Riak also prints the row, or a second error, after the first line.
            expected = expected.split("\n")[0]
        # Riak's commands exit with status 0 even after a refusal.
        status = 1 if is_refused(wanted) else wanted["exit"]
        if wanted.get("compare") != "exit" and printed != expected:
            raise Mismatch("%s: %r, and Riak: %r" % (" ".join(words), printed, expected))
        if (done.returncode != 0) != (status != 0):
            raise Mismatch("%s: exit status %d\n%s" % (" ".join(words), done.returncode, printed))


def is_refused(wanted):
    return re.search(r"^(\{errors?,|error$)", wanted["stdout"], re.M) is not None


def plain(text):
    """Removes Erlang's return values, blank lines and the prefix of errors from a command's output, and
    masks password hashes."""
    lines = []
    for line in text.split("\n"):
        line = re.sub(r"^quoit: ", "", line)
        line = re.sub(r"[0-9a-f]{40}", "H" * 40, line)
        if line in ("ok", "error") or line.startswith(("{error", "{errors", "warning:")):
            continue
        if line.strip():
            lines.append(line.rstrip())
    return "\n".join(lines)


REPLAY = {"pb": replay_pb, "http": replay_http, "admin": replay_admin}
ANSWERS = {"pb": "steps", "http": "responses", "admin": "commands"}


def with_better(case, better):
    """Returns the expected answers of a case: Riak's, or those of Quoit where they are better."""
    expect = json.loads(json.dumps(case["expect"]))
    answers = expect[ANSWERS[case["kind"]]]
    for place, answer in better.get("answers", {}).items():
        answers[int(place)] = answer
    return expect


def replay_cases(world, names):
    with open(GOLDEN, encoding="utf-8") as handle:
        cases = json.load(handle)
    with open(os.path.join(HERE, "better.json"), encoding="utf-8") as handle:
        better = json.load(handle)
    unknown = set(better) - {case["id"] for case in cases}
    assert not unknown, "better.json names cases that do not exist: %s" % sorted(unknown)
    # Cases with the same setup are replayed together, so that it is made once. Cases that change it come
    # last.
    cases.sort(key=lambda case: (case["kind"], "admin" in json.dumps(case["send"]),
                                 json.dumps(case["setup"], sort_keys=True)))
    passed, failed = 0, 0
    skipped = 0
    for case in cases:
        if "mapred" in case["id"] and not world.runs_jobs:
            skipped += 1
            continue
        if names and not case["id"].startswith(tuple(names)):
            continue
        try:
            world.set_up(case["setup"])
            known = better.get(case["id"], {})
            REPLAY[case["kind"]](world, case["send"], with_better(case, known))
            passed += 1
        except Exception as fault:  # noqa: BLE001  A case that fails does not end the others.
            failed += 1
            world.setup = None
            print("FAIL %s: %s: %s" % (case["id"], type(fault).__name__, fault), flush=True)
    if skipped:
        print("%d cases of MapReduce wait until the node runs its jobs" % skipped)
    return passed, failed


def main():
    if not is_possible():
        print("skipped: openssl, which makes the certificates, is not installed")
        print("0 passed, 0 failed")
        return 0
    names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        settings = [
            "ssl.certfile=" + certificates.path("server.pem"),
            "ssl.keyfile=" + certificates.path("server.key"),
            "ssl.cacertfile=" + certificates.path("ca.pem"),
            "ssl.crlfile=" + certificates.path("ca.crl"),
            "listener.https.test=127.0.0.1:0",
            "listener.protobuf_tls.test=127.0.0.1:0",
            "security.failure_delay=%dms" % (DELAY * 1000),
            # Password hashes that cost as little as possible.
            "security.hashing.memory=8KB",
        ]
        with TemporaryNode(binary_from_environment(), settings) as node:
            world = World(node, certificates)
            world.write_data()
            passed, failed = replay_cases(world, names)
            if not names:
                for more in (check_rights(world), check_refused_certificates(Files(certificates.folder))):
                    passed, failed = passed + more[0], failed + more[1]
            if node.process.poll() is not None:
                failed += 1
                print("FAIL the node has ended: %s" % node.log_tail())
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
