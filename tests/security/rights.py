"""Checks beyond the recorded cases: every operation with and without its permission, certificates,
limits."""
import json
import os
import re
import select
import socket
import ssl
import struct
import time

from operations import (B, FOR_USERS, HTTP, LAST_FRAME, LOGIN_ALONE, OPEN, PB, field)
from talk import Pb, error_of, request

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "docs", "security.md")


def check_rights(world):
    """Runs the checks. Returns the numbers of passed and failed checks."""
    passed, failed = 0, 0
    for check in CHECKS:
        try:
            check(world)
            passed += 1
        except Exception as fault:  # noqa: BLE001  A check that fails does not end the others.
            failed += 1
            print("FAIL %s: %s: %s" % (check.__name__, type(fault).__name__, fault), flush=True)
    return passed, failed


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


def denial(permission, where):
    return "Permission denied: User 'u' does not have '%s' on %s" % (permission, where)


EVERY = ",".join(sorted({row[1] for row in PB.values()} | {row[4] for row in HTTP}))


def only(world, permission, where):
    """Grants every permission except this one, on everything."""
    world.operator.command("revoke", EVERY, "on", "any", "from", "u")
    others = ",".join(each for each in EVERY.split(",") if each != permission)
    world.operator.command("grant", others, "on", "any", "to", "u")


def every_message_needs_its_permission_and_no_other(world):
    one_user(world)
    pb = log_in(world)
    for code, (body, permission, where, _) in PB.items():
        frame = pb.call(code, body)
        wanted = denial(permission, where)
        assert frame and frame[0] == 0 and error_of(frame[1])[0] == wanted, (code, frame, wanted)
    for code, (body, permission, where, answer) in PB.items():
        only(world, permission, where)
        frame = pb.call(code, body)
        assert error_of(frame[1])[0] == denial(permission, where), (code, permission, frame)
        world.operator.command("revoke", EVERY, "on", "any", "from", "u")
        world.operator.command("grant", permission, "on", *scope(where), "to", "u")
        frame = pb.call(code, body)
        assert frame and frame[0] == answer, (code, permission, where, frame)
        world.operator.command("revoke", permission, "on", *scope(where), "from", "u")
        while code in LAST_FRAME and not frame[1].endswith(LAST_FRAME[code]):
            frame = pb.receive()
    for code, (body, answer) in LOGIN_ALONE.items():
        frame = pb.call(code, body)
        assert frame and frame[0] == answer, (code, frame)
    pb.close()


def every_message_of_the_protocol_is_walked(world):
    one_user(world)
    pb = log_in(world)
    for code in range(1, 253):
        if code in PB or code in LOGIN_ALONE:
            continue
        frame = pb.call(code, b"")
        text = error_of(frame[1])[0] if frame and frame[0] == 0 else ""
        is_answer = "is an answer, not a request" in text
        assert text == "Unknown message code: %d" % code or is_answer, (code, frame)
        if is_answer:
            pb.close()
            pb = log_in(world)
    pb.close()


def as_user(world, method, path, headers=None, body=None, auth=("u", "pw"), scheme="https"):
    wanted = {"scheme": scheme, "method": method, "path": path, "headers": headers or {}}
    if auth:
        wanted["auth"] = list(auth)
    if body is not None:
        wanted["body"] = body
    return request(world.addresses, world.certificates, wanted)


def every_resource_needs_its_permission_and_no_other(world):
    one_user(world)
    for method, path, headers, body, permission, where, status in HTTP:
        only(world, permission, where)
        done = as_user(world, method, path, headers, body)
        assert done["status"] == 403, (method, path, permission, done)
        # An answer to HEAD has no body with the message.
        assert method == "HEAD" or denial(permission, where) in done["body"], (method, path, done)
        world.operator.command("revoke", EVERY, "on", "any", "from", "u")
        world.operator.command("grant", permission, "on", *scope(where), "to", "u")
        done = as_user(world, method, path, headers, body)
        assert done["status"] == status, (method, path, permission, where, done)
        world.operator.command("revoke", permission, "on", *scope(where), "from", "u")
    for path in FOR_USERS:
        assert as_user(world, "GET", path)["status"] == 200, path


def pages_of_other_sites_do_nothing_with_the_credentials_of_a_browser(world):
    one_user(world, grants=[(EVERY, ["any"])])
    foreign = [{"Referer": "https://evil.example/page"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
    # A page can make a browser request an image without a Referer.
    image = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    for method, path, headers, body, permission, *_ in HTTP:
        changes = method not in ("GET", "HEAD")
        acts = permission == "quoit.erase" or re.match("/(rangerepl|queuename)/", path)
        for more in foreign if changes or acts else foreign[:1]:
            done = as_user(world, method, path, {**headers, **more}, body)
            assert done["status"] == 403, (method, path, more, done)
        if acts and not changes:
            done = as_user(world, method, path, {**headers, **image}, body)
            assert done["status"] == 403, (method, path, done)


def http_before_a_login_answers_refusals_alone(world):
    one_user(world)
    for method, path, headers, body, *_ in HTTP:
        plain = as_user(world, method, path, headers, body, auth=None, scheme="http")
        assert plain["status"] == 426, (method, path, plain)
        secured = as_user(world, method, path, headers, body, auth=None)
        assert secured["status"] == 401 and "WWW-Authenticate" in secured["headers"], \
            (method, path, secured)
    for path in FOR_USERS:
        assert as_user(world, "GET", path, auth=None, scheme="http")["status"] == 426, path
        assert as_user(world, "GET", path, auth=None)["status"] == 401, path
    for path in OPEN:
        for scheme in ("http", "https"):
            assert as_user(world, "GET", path, auth=None, scheme=scheme)["status"] == 200, path
    # Link walking and unknown paths do not reveal more.
    for path, wanted in [("/riak/b/k/_,_,_", (403,)), ("/nothing", (401, 404))]:
        done = as_user(world, "GET", path, auth=None)
        assert done["status"] in wanted, (path, done)


def messages_before_a_login_are_answered_by_refusals_alone(world):
    one_user(world)
    bodies = {code: row[0] for code, row in PB.items()}
    bodies.update({code: row[0] for code, row in LOGIN_ALONE.items()})
    clear = Pb(world.node.pb, world.certificates)
    for code in range(255):
        frame = clear.call(code, bodies.get(code, b""))
        text = error_of(frame[1])[0] if frame and frame[0] == 0 else None
        assert text == "Security is enabled, please STARTTLS first", (code, frame)
    assert clear.call(255) == (255, b"") and clear.tls() == "ok"
    host, port = world.node.record["pb_tls"].rsplit(":", 1)
    at_once = Pb((host, int(port)), world.certificates)
    assert at_once.tls() == "ok"
    for pb in (clear, at_once):
        for code in set(range(256)) - {253}:
            frame = pb.call(code, bodies.get(code, b""))
            text = error_of(frame[1])[0] if frame and frame[0] == 0 else None
            assert text == "Security is enabled, please authenticate first", (code, frame)
        pb.close()


def a_port_that_speaks_tls_answers_clear_text_with_an_alert_alone(world):
    one_user(world)
    for name in ("pb_tls", "https"):
        host, port = world.node.record[name].rsplit(":", 1)
        for said in [struct.pack(">IB", 1, code) for code in (1, 9, 253, 255)] \
                + [b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n"]:
            with socket.create_connection((host, int(port)), 20) as stranger:
                stranger.sendall(said)
                stranger.shutdown(socket.SHUT_WR)
                answer = b""
                try:
                    while piece := stranger.recv(4096):
                        answer += piece
                except ConnectionResetError:
                    pass
            assert answer == b"" or (answer[0] == 21 and len(answer) == 7), (name, said, answer)


# Jobs that find their inputs in different ways, with their permissions in the order of the check.
MAP = {"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}}
IN_B, IN_TYPED, ANY = "default/b", "sibs/b", "any"
RUN = "riak_kv.mapreduce"
JOBS = [
    ([["b", "k"]], [MAP], [(RUN, IN_B)]),
    ([["b", "k", "", "sibs"]], [MAP], [(RUN, IN_TYPED)]),
    ([["b", "k"], ["b", "k", "", "sibs"]], [MAP], [(RUN, IN_B), (RUN, IN_TYPED)]),
    ("b", [MAP], [("riak_kv.list_keys", IN_B), (RUN, IN_B)]),
    (["sibs", "b"], [MAP], [("riak_kv.list_keys", IN_TYPED), (RUN, IN_TYPED)]),
    ({"bucket": "b", "key_filters": [["eq", "k"]]}, [MAP], [("riak_kv.list_keys", IN_B), (RUN, IN_B)]),
    ({"bucket": "b", "index": "f_bin", "key": "x"}, [MAP], [("riak_kv.index", IN_B), (RUN, IN_B)]),
    ([["b", "k"]], [MAP, MAP], [(RUN, IN_B), (RUN, ANY)]),
]


def inputs_of_jobs_need_their_rights(world):
    one_user(world)
    pb = log_in(world)
    for inputs, query, needs in JOBS:
        job = json.dumps({"inputs": inputs, "query": query})

        def over_pb():
            frame = pb.call(23, field(1, job) + field(2, "application/json"))
            text = error_of(frame[1])[0] if frame[0] == 0 else ""
            while frame[0] == 24 and not frame[1].endswith(LAST_FRAME[23]):
                frame = pb.receive()
            return text

        def over_http():
            done = as_user(world, "POST", "/mapred", {"Content-Type": "application/json"}, job)
            return done["body"] if done["status"] == 403 else ""

        for missing in needs:
            world.operator.command("revoke", EVERY, "on", "any", "from", "u")
            # A grant on `any` would include each of the other permissions.
            held = [need for need in needs if need != missing and need != (RUN, ANY)]
            for permission, where in held:
                world.operator.command("grant", permission, "on", *scope(where), "to", "u")
            for said in (over_pb(), over_http()):
                assert denial(*missing) in said, (job, missing, said)
            for permission, where in held:
                world.operator.command("revoke", permission, "on", *scope(where), "from", "u")
        for permission, where in needs:
            world.operator.command("grant", permission, "on", *scope(where), "to", "u")
        for said in (over_pb(), over_http()):
            assert "Permission denied" not in said, (job, said)
        for permission, where in needs:
            world.operator.command("revoke", permission, "on", *scope(where), "from", "u")
    pb.close()


def on_of(where):
    return {"any": "*any*"}.get(where, "bucket" if "/" in where else "type")


def the_table_of_the_documentation_is_what_the_node_does(world):
    with open(TABLE, encoding="utf-8") as handle:
        text = handle.read()
    rows = re.findall(r"^\| `(\d+)` \| [^|]*\| `([a-z_.]+)` \| ([*a-z]+) \|", text, re.M)
    told = {int(code): (permission, on) for code, permission, on in rows}
    tested = {code: (row[1], on_of(row[2])) for code, row in PB.items()}
    different = {code for code in set(told) | set(tested) if told.get(code) != tested.get(code)}
    assert not different, "docs/security.md tells otherwise of %s" % sorted(different)
    told = set()
    for methods, paths, permission, on in re.findall(
            r"^\| ([A-Z, ]+) \| ([^|]*) \| `([a-z_.]+)` \| ([*a-z]+) \|", text, re.M):
        for method in methods.split(", "):
            for path in re.findall("`([^`]+)`", paths):
                told.add((method, path, permission, on))
    untold = [row for row in HTTP if not any(
        (method, permission, on) == (as_told(row[0]), row[4], on_of(row[5])) and matches(path, row[1])
        for method, path, permission, on in told)]
    assert not untold, "docs/security.md does not tell of %s" % [row[:2] for row in untold]
    unwalked = [each for each in told if not any(
        (each[0], each[2], each[3]) == (row[0], row[4], on_of(row[5])) and matches(each[1], row[1])
        for row in HTTP)]
    assert not unwalked, "no test walks %s" % unwalked


def as_told(method):
    """Returns the method whose row in the documentation applies to a method."""
    return "GET" if method == "HEAD" else method


def matches(template, path):
    """Tells if a path matches a template of the documentation, which leaves out most forms with a bucket
    type."""
    untyped = re.sub("/types/[^/]+/buckets/", "/buckets/", path)
    return is_of(template, path) or is_of(template, untyped)


def is_of(template, path):
    name = "[^/?]+"
    pattern = re.escape(template).replace("\\.\\.\\.", ".*")
    pattern = re.sub(r"(?<=/)(T|B|K|N|Q|SIZE|INDEX|VALUE|FIRST|LAST)(?=/|$|\\\?)", name, pattern)
    query = "" if "?" in template else "(\\?filter=.*)?"
    return re.fullmatch(pattern + query, path) is not None


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


def change_feeds_need_their_right_on_the_bucket(world):
    one_user(world)

    def status():
        wanted = {"scheme": "https", "method": "GET", "path": "/buckets/b/changes", "auth": ["u", "pw"]}
        return request(world.addresses, world.certificates, wanted)["status"]

    world.operator.command("grant", "riak_kv.get,riak_kv.list_keys", "on", "default", "b", "to", "u")
    assert status() == 403
    world.operator.command("grant", "quoit.changes", "on", "default", "b", "to", "u")
    assert status() == 404, "the bucket has no feed"


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
    # Warnings come before it: the tests' certificates are valid for only 30 days.
    assert done.stdout.splitlines()[-1] == "Enabled", done.stdout
    done = world.node.admin("security", "add-user", "again", "password=x")
    assert done.returncode == 0, done.stdout
    world.operator.command("disable")


def connections_that_do_not_log_in_are_bounded(world):
    one_user(world)
    sockets = []
    try:
        for _ in range(300):
            sockets.append(socket.create_connection(world.node.pb, 10))
        # The node's threads take connections in an order of their own, so any 44 of them are closed.
        closed, limit = set(), time.monotonic() + 10
        while len(closed) < 40 and time.monotonic() < limit:
            waiting = [each for each in sockets if each not in closed]
            closed.update(select.select(waiting, [], [], 1)[0])
        assert len(closed) >= 40, "%d of 44 are closed" % len(closed)
    finally:
        for each in sockets:
            each.close()
    limit = time.monotonic() + 10
    while True:
        try:
            log_in(world).close()
            return
        except (AssertionError, OSError, ssl.SSLError):
            # The node may not have noticed yet that the other connections are closed.
            if time.monotonic() > limit:
                raise


CHECKS = [
    every_message_needs_its_permission_and_no_other,
    every_message_of_the_protocol_is_walked,
    every_resource_needs_its_permission_and_no_other,
    inputs_of_jobs_need_their_rights,
    pages_of_other_sites_do_nothing_with_the_credentials_of_a_browser,
    http_before_a_login_answers_refusals_alone,
    messages_before_a_login_are_answered_by_refusals_alone,
    a_port_that_speaks_tls_answers_clear_text_with_an_alert_alone,
    the_table_of_the_documentation_is_what_the_node_does,
    revoked_rights_end_at_once_on_open_connections,
    a_revoked_certificate_ends_the_handshake,
    tls_1_3_is_spoken_and_from_the_first_byte,
    clear_text_behind_start_tls_is_not_taken_for_what_came_through_it,
    large_messages_of_strangers_are_not_read,
    administration_over_the_network_needs_its_right,
    change_feeds_need_their_right_on_the_bucket,
    the_operator_gets_in_again_when_all_users_are_lost,
    connections_that_do_not_log_in_are_bounded,
]
