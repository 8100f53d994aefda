"""Checks beyond the recorded cases: every operation with and without its permission, certificates, bounds."""
import json
import os
import re
import socket
import ssl
import struct
import time

from talk import Pb, error_of, request

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "docs", "security.md")


def check_rights(world):
    """Runs the checks; how many passed and failed."""
    passed, failed = 0, 0
    for check in CHECKS:
        try:
            check(world)
            passed += 1
        except Exception as fault:  # noqa: BLE001  A check that fails does not end the others.
            failed += 1
            print("FAIL %s: %s: %s" % (check.__name__, type(fault).__name__, fault), flush=True)
    return passed, failed


def field(number, value):
    """A field of a message: bytes, or a number."""
    if isinstance(value, int):
        return bytes([number << 3]) + encode(value)
    value = value.encode() if isinstance(value, str) else value
    return encode(number << 3 | 2) + encode(len(value)) + value


def encode(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


B = field(1, "b")
CONTENT = field(4, field(1, "v"))
RANGE = field(2, "b") + field(3, 0)

# Code, body, permission, and where the permission is asked for.
OPERATIONS = {
    9: (B + field(2, "k"), "riak_kv.get", "default/b"),
    11: (B + field(2, "k9") + CONTENT, "riak_kv.put", "default/b"),
    13: (B + field(2, "none"), "riak_kv.delete", "default/b"),
    15: (b"", "riak_kv.list_buckets", "default"),
    17: (B, "riak_kv.list_keys", "default/b"),
    19: (B, "riak_core.get_bucket", "default/b"),
    21: (field(1, "b9") + field(2, field(1, 2)), "riak_core.set_bucket", "default/b9"),
    25: (B + field(2, "f_bin") + field(3, 0) + field(4, "x"), "riak_kv.index", "default/b"),
    29: (field(1, "b9"), "riak_core.set_bucket", "default/b9"),
    31: (field(1, "sibs"), "riak_core.get_bucket_type", "sibs"),
    32: (field(1, "sibs") + field(2, field(1, 3)), "riak_core.set_bucket_type", "sibs"),
    33: (B + field(2, "k"), "riak_kv.get_preflist", "default/b"),
    40: (B + field(2, ""), "quoit.fold", "default/b"),
    50: (field(1, "cnt") + field(2, "k") + field(3, 2), "riak_kv.put", "default/cnt"),
    52: (field(1, "cnt") + field(2, "k"), "riak_kv.get", "default/cnt"),
    70: (field(2, "b"), "quoit.layout", "any"),
    80: (B + field(2, "k") + field(3, "sets"), "riak_kv.get", "sets/b"),
    82: (B + field(2, "k") + field(3, "sets") + field(5, field(2, field(1, "m"))), "riak_kv.put",
         "sets/b"),
}


def log_in(world, user="u", password="pw", **options):
    pb = Pb(world.node.pb, world.certificates)
    assert pb.call(255) == (255, b""), "StartTls is agreed to"
    done = pb.tls(**options)
    assert done == "ok", done
    frame = pb.call(253, field(1, user) + field(2, password))
    assert frame == (254, b""), frame
    return pb


def one_user(world, grants=()):
    world.setup = None
    operator = world.operator
    operator.forget_all()
    operator.command("add-user", "u", "password=pw")
    operator.command("add-source", "all", "127.0.0.1/32", "password")
    for permission, on in grants:
        operator.command("grant", permission, "on", *on, "to", "u")
    operator.command("enable")


def scope(where):
    return ["any"] if where == "any" else where.split("/")


def every_operation_needs_its_permission_and_no_other(world):
    one_user(world)
    every = ",".join(sorted({permission for _, permission, _ in OPERATIONS.values()}))
    pb = log_in(world)
    for code, (body, permission, where) in OPERATIONS.items():
        frame = pb.call(code, body)
        denied = "Permission denied: User 'u' does not have '%s' on %s" % (permission, where)
        assert frame and frame[0] == 0 and error_of(frame[1])[0] == denied, (code, frame, denied)
    for code, (body, permission, where) in OPERATIONS.items():
        world.operator.command("revoke", every, "on", "any", "from", "u")
        others = ",".join(each for each in every.split(",") if each != permission)
        world.operator.command("grant", others, "on", "any", "to", "u")
        frame = pb.call(code, body)
        assert error_of(frame[1])[0].startswith("Permission denied"), (code, permission, frame)
        world.operator.command("grant", permission, "on", *scope(where), "to", "u")
        frame = pb.call(code, body)
        text = error_of(frame[1])[0] if frame[0] == 0 else ""
        assert not text.startswith("Permission denied"), (code, permission, where, text)
        world.operator.command("revoke", permission, "on", *scope(where), "from", "u")
        # Answers to these come in frames, up to one that says that it is the last.
        last = {17: b"\x10\x01", 40: b"\x18\x01"}.get(code)
        while last and not frame[1].endswith(last):
            frame = pb.receive()
    pb.close()


def the_table_of_the_documentation_is_what_the_node_does(world):
    with open(TABLE, encoding="utf-8") as handle:
        rows = re.findall(r"^\| `(\d+)` \| [^|]*\| `([a-z_.]+)` \|", handle.read(), re.M)
    told = {int(code): permission for code, permission in rows}
    tested = {code: permission for code, (_, permission, _) in OPERATIONS.items()}
    different = {code for code in tested if told.get(code) != tested[code]}
    assert not different, "docs/security.md tells otherwise of %s" % sorted(different)


def revoked_rights_end_at_once_on_open_connections(world):
    one_user(world, [("riak_kv.get", ["default", "b"])])
    pb = log_in(world)
    assert pb.call(9, B + field(2, "k"))[0] == 10
    world.operator.command("revoke", "riak_kv.get", "on", "default", "b", "from", "u")
    assert pb.call(9, B + field(2, "k"))[0] == 0
    pb.close()


def a_revoked_certificate_ends_the_handshake(world):
    one_user(world)
    pb = Pb(world.node.pb, world.certificates)
    assert pb.call(255) == (255, b"")
    done = pb.tls(cert="revoked", max="1.2")
    assert done != "ok", "a revoked certificate is taken"
    pb.close()


def tls_1_3_is_spoken_and_from_the_first_byte(world):
    one_user(world)
    host, port = world.node.record["pb_tls"].rsplit(":", 1)
    pb = Pb((host, int(port)), world.certificates)
    assert pb.tls(min="1.3") == "ok"
    assert pb.socket.version() == "TLSv1.3"
    frame = pb.call(1)
    assert error_of(frame[1])[0] == "Security is enabled, please authenticate first", frame
    assert pb.call(253, field(1, "u") + field(2, "pw")) == (254, b"")
    assert pb.call(1) == (2, b"")
    pb.close()


def clear_text_behind_start_tls_is_not_taken_for_what_came_through_it(world):
    one_user(world)
    pb = Pb(world.node.pb, world.certificates)
    pb.socket.sendall(struct.pack(">IB", 1, 255) + struct.pack(">IB", 1, 1))
    assert pb.receive() == (255, b"")
    assert pb.receive() is None, "the connection goes on"
    pb.close()


def large_messages_of_strangers_are_not_read(world):
    one_user(world)
    pb = Pb(world.node.pb, world.certificates)
    pb.socket.sendall(struct.pack(">IB", 1 << 20, 11))
    frame = pb.receive()
    assert frame is None or frame[0] == 0, frame
    assert pb.receive() is None, "the connection goes on"
    pb.close()
    done = request(world.addresses, world.certificates, {
        "scheme": "https", "method": "PUT", "path": "/buckets/b/keys/big", "body": "x" * (1 << 20),
        "headers": {"Content-Type": "text/plain"}})
    assert done.get("status", 401) == 401, done.get("status")


def administration_over_the_network_needs_its_right(world):
    one_user(world)

    def ask(method, path, auth=None, scheme="https", body=None):
        wanted = {"scheme": scheme, "method": method, "path": "/admin/v1/" + path, "auth": auth}
        if body:
            wanted.update(body=json.dumps(body), headers={"Content-Type": "application/json"})
        return request(world.addresses, world.certificates, wanted)["status"]

    user, disable = ["u", "pw"], {"command": ["disable"]}
    assert ask("GET", "status", scheme="http") == 426
    assert ask("GET", "status") == 401
    assert ask("GET", "status", user) == 403
    world.operator.command("grant", "quoit.observe", "on", "any", "to", "u")
    assert ask("GET", "status", user) == 200
    assert ask("POST", "security", user, body=disable) == 403
    world.operator.command("grant", "quoit.operate", "on", "any", "to", "u")
    assert ask("POST", "security", user, body=disable) == 200


def the_operator_gets_in_again_when_all_users_are_lost(world):
    world.setup = None
    world.operator.forget_all()
    world.operator.command("enable")
    done = world.node.admin("security", "status")
    assert done.stdout.strip() == "Enabled", done.stdout
    done = world.node.admin("security", "add-user", "again", "password=x")
    assert done.returncode == 0, done.stdout
    world.operator.command("disable")


def connections_that_do_not_log_in_are_bounded(world):
    one_user(world)
    sockets = []
    try:
        for _ in range(300):
            sockets.append(socket.create_connection(world.node.pb, 10))
        closed = 0
        for each in sockets[256:]:
            each.settimeout(5)
            try:
                closed += each.recv(1) == b""
            except OSError:
                pass
        assert closed >= 40, "%d of 44 are closed" % closed
    finally:
        for each in sockets:
            each.close()
    limit = time.monotonic() + 10
    while True:
        try:
            log_in(world).close()
            return
        except (AssertionError, OSError, ssl.SSLError):
            # The node may not have seen yet that the others are gone.
            if time.monotonic() > limit:
                raise


CHECKS = [
    every_operation_needs_its_permission_and_no_other,
    the_table_of_the_documentation_is_what_the_node_does,
    revoked_rights_end_at_once_on_open_connections,
    a_revoked_certificate_ends_the_handshake,
    tls_1_3_is_spoken_and_from_the_first_byte,
    clear_text_behind_start_tls_is_not_taken_for_what_came_through_it,
    large_messages_of_strangers_are_not_read,
    administration_over_the_network_needs_its_right,
    the_operator_gets_in_again_when_all_users_are_lost,
    connections_that_do_not_log_in_are_bounded,
]
