"""Operations of both protocols, with the permission that each needs, its scope, and the answer."""
import base64
import json
import re
from urllib.parse import quote


def field(number, value):
    """Encodes a field of a message: bytes, or a number."""
    if isinstance(value, int):
        return encode(number << 3) + encode(value)
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
# Folds over the bucket b with all keys, all segments and all times.
KEYS = field(2, "b") + field(10, 0)
RANGE = KEYS + field(40, 0)
SEGMENTS = KEYS + field(30, 0) + field(40, 0)
COUNT = field(50, 1)
JOB = ('{"inputs":[["b","k"]],"query":[{"map":{"language":"erlang","module":"riak_kv_mapreduce",'
       '"function":"map_object_value"}}]}')
CLUSTER = b"c" * 16

# By message code: body, permission, scope of the permission, and code of the answer.
PB = {
    9: (B + field(2, "k"), "riak_kv.get", "default/b", 10),
    11: (B + field(2, "k9") + CONTENT, "riak_kv.put", "default/b", 12),
    13: (B + field(2, "none"), "riak_kv.delete", "default/b", 14),
    15: (b"", "riak_kv.list_buckets", "default", 16),
    17: (B, "riak_kv.list_keys", "default/b", 18),
    19: (B, "riak_core.get_bucket", "default/b", 20),
    21: (field(1, "b9") + field(2, field(1, 2)), "riak_core.set_bucket", "default/b9", 22),
    23: (field(1, JOB) + field(2, "application/json"), "riak_kv.mapreduce", "default/b", 24),
    25: (B + field(2, "f_bin") + field(3, 0) + field(4, "x"), "riak_kv.index", "default/b", 26),
    29: (field(1, "b9"), "riak_core.set_bucket", "default/b9", 30),
    31: (field(1, "sibs"), "riak_core.get_bucket_type", "sibs", 20),
    32: (field(1, "sibs") + field(2, field(1, 3)), "riak_core.set_bucket_type", "sibs", 22),
    33: (B + field(2, "k"), "riak_kv.get_preflist", "default/b", 34),
    40: (B + field(2, ""), "quoit.fold", "default/b", 41),
    50: (field(1, "cnt") + field(2, "k") + field(3, 2), "riak_kv.put", "default/cnt", 51),
    52: (field(1, "cnt") + field(2, "k"), "riak_kv.get", "default/cnt", 53),
    70: (field(2, "b"), "quoit.layout", "any", 71),
    80: (B + field(2, "k") + field(3, "sets"), "riak_kv.get", "sets/b", 81),
    82: (B + field(2, "k") + field(3, "sets") + field(5, field(2, field(1, "m"))), "riak_kv.put",
         "sets/b", 83),
    160: (b"", "quoit.layout", "any", 161),
    162: (B + field(2, "k") + field(3, "sets"), "riak_kv.get", "sets/b", 163),
    164: (field(1, "none") + field(2, CLUSTER), "quoit.replicate", "any", 165),
    166: (field(1, CLUSTER) + field(2, 64) + field(3, 0), "quoit.replicate", "any", 167),
    168: (field(1, "none"), "quoit.replicate", "any", 169),
    170: (field(1, CLUSTER), "quoit.erase", "any", 171),
    172: (field(1, CLUSTER), "quoit.replicate", "any", 173),
    174: (field(1, CLUSTER), "quoit.replicate", "any", 175),
    176: (field(1, CLUSTER) + field(2, 1) + field(3, field(1, field(1, b"\0\7\0\1defaultbk"))),
          "quoit.replicate", "any", 177),
    202: (field(1, "q1_ttaaefs"), "quoit.replicate", "any", 203),
    204: (field(1, "none"), "quoit.replicate", "any", 205),
    206: (b"", "quoit.replicate", "any", 207),
    210: (field(1, 3), "quoit.fold", "any", 220),
    211: (field(1, 3) + field(2, 1), "quoit.fold", "any", 220),
    212: (field(1, 3) + field(2, 1), "quoit.fold", "any", 221),
    213: (KEYS + field(20, 0) + field(30, 0) + field(40, 0) + field(50, 1), "quoit.fold",
          "default/b", 220),
    214: (SEGMENTS, "quoit.fold", "default/b", 221),
    215: (RANGE + field(50, 0) + field(51, 5), "quoit.fold", "default/b", 222),
    216: (RANGE, "quoit.fold", "default/b", 222),
    217: (RANGE + field(50, "q1_ttaaefs"), "quoit.replicate", "any", 222),
    218: (SEGMENTS, "quoit.fold", "default/b", 221),
    219: (RANGE, "quoit.erase", "default/b", 222),
    223: (b"", "quoit.fold", "any", 224),
    230: (field(2, "gone") + SEGMENTS[3:] + COUNT, "quoit.erase", "default/gone", 222),
    231: (field(2, "gone") + SEGMENTS[3:] + COUNT, "quoit.erase", "default/gone", 222),
}
# Codes that need only a login, with the codes of their answers.
LOGIN_ALONE = {1: (b"", 2), 3: (b"", 4), 5: (field(1, "me"), 6), 7: (b"", 8)}
# Answers in several frames: the end of the last frame.
LAST_FRAME = {17: b"\x10\x01", 23: b"\x18\x01", 40: b"\x18\x01"}

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
PROPS = '{"props":{"n_val":2}}'
SET = '{"add":"m"}'
OPERATE = json.dumps({"command": "queue_add", "name": "walked", "filter": "any"})
# The vector clock of a pushed record is that of a recorded object.
PUSHED = json.dumps({"keys-clocks": [{"bucket": "b", "key": "k", "clock":
                                      "a85hYGBgzGDKBVIcickl+UWOjo4ZTImMeawMjPP3PODLAgA="}]})


def filtered(**members):
    """Returns the parameter that restricts a fold."""
    return "?filter=" + quote(base64.b64encode(json.dumps(members).encode()))


COUNTS = filtered(change_method="count")
NUMBERS = "?filter=" + quote(base64.b64encode(b"[1]"))

# Paths below a bucket, for the forms `/buckets/B...` and `/types/T/buckets/B...`: method, rest of the path,
# headers, body, permission, and the status of a successful operation. A DELETE finds the record of the PUT
# before it.
OF_BUCKET = [
    ("GET", "b/keys/k", {}, None, "riak_kv.get", 200),
    ("PUT", "b/keys/k8", TEXT, "v", "riak_kv.put", 204),
    ("POST", "b/keys/k8", TEXT, "v", "riak_kv.put", 204),
    ("DELETE", "b/keys/k8", {}, None, "riak_kv.delete", 204),
    ("GET", "b/keys?keys=true", {}, None, "riak_kv.list_keys", 200),
    ("POST", "b/keys", TEXT, "v", "riak_kv.put", 201),
    ("GET", "b/props", {}, None, "riak_core.get_bucket", 200),
    ("PUT", "b9/props", JSON, PROPS, "riak_core.set_bucket", 204),
    ("DELETE", "b9/props", {}, None, "riak_core.set_bucket", 204),
    ("GET", "b/keys/k/preflist", {}, None, "riak_kv.get_preflist", 200),
    ("GET", "fed/changes", {}, None, "quoit.changes", 200),
    ("GET", "b/index/f_bin/x", {}, None, "riak_kv.index", 200),
    ("GET", "b/index/f_bin/a/z", {}, None, "riak_kv.index", 200),
]
# Paths whose first part names a fold: fold, rest of the path, permission.
OF_FOLD = [
    ("rangetrees", "b/trees/small", "quoit.fold"),
    ("rangetrees", "b/keysclocks", "quoit.fold"),
    ("rangerepair", "b", "quoit.erase"),
    ("siblings", "b/counts/5", "quoit.fold"),
    ("objectsizes", "b/sizes/5", "quoit.fold"),
    ("objectstats", "b", "quoit.fold"),
    ("tombs", "b", "quoit.fold"),
    ("reap", "gone" + COUNTS, "quoit.erase"),
    ("erase", "gone" + COUNTS, "quoit.erase"),
]
# Method, path, headers, body, permission, scope of the permission, and the status of a successful
# operation.
ALONE = [
    ("GET", "/riak/b/k", {}, None, "riak_kv.get", "default/b", 200),
    ("PUT", "/riak/b/k8", TEXT, "v", "riak_kv.put", "default/b", 204),
    ("POST", "/riak/b/k8", TEXT, "v", "riak_kv.put", "default/b", 204),
    ("DELETE", "/riak/b/k8", {}, None, "riak_kv.delete", "default/b", 204),
    ("GET", "/buckets?buckets=true", {}, None, "riak_kv.list_buckets", "default", 200),
    ("GET", "/types/sibs/buckets?buckets=true", {}, None, "riak_kv.list_buckets", "sibs", 200),
    ("GET", "/riak?buckets=true", {}, None, "riak_kv.list_buckets", "default", 200),
    ("GET", "/riak/b?keys=true", {}, None, "riak_kv.list_keys", "default/b", 200),
    ("POST", "/riak/b", TEXT, "v", "riak_kv.put", "default/b", 201),
    ("GET", "/riak/b", {}, None, "riak_core.get_bucket", "default/b", 200),
    ("PUT", "/riak/b9", JSON, PROPS, "riak_core.set_bucket", "default/b9", 204),
    ("GET", "/types/sibs/props", {}, None, "riak_core.get_bucket_type", "sibs", 200),
    ("PUT", "/types/sibs/props", JSON, '{"props":{"r":2}}', "riak_core.set_bucket_type", "sibs", 204),
    ("GET", "/types/sets/buckets/b/datatypes/k", {}, None, "riak_kv.get", "sets/b", 200),
    ("POST", "/types/sets/buckets/b/datatypes/k", JSON, SET, "riak_kv.put", "sets/b", 204),
    ("POST", "/types/sets/buckets/b/datatypes", JSON, SET, "riak_kv.put", "sets/b", 201),
    ("GET", "/buckets/cnt/counters/k", {}, None, "riak_kv.get", "default/cnt", 200),
    ("POST", "/buckets/cnt/counters/k", TEXT, "1", "riak_kv.put", "default/cnt", 204),
    ("POST", "/mapred", JSON, JOB, "riak_kv.mapreduce", "default/b", 200),
    ("GET", "/aaebucketlist", {}, None, "quoit.fold", "any", 200),
    ("GET", "/cachedtrees/nvals/3/root", {}, None, "quoit.fold", "any", 200),
    ("GET", "/cachedtrees/nvals/3/branch" + NUMBERS, {}, None, "quoit.fold", "any", 200),
    ("GET", "/cachedtrees/nvals/3/keysclocks" + NUMBERS, {}, None, "quoit.fold", "any", 200),
    ("GET", "/rangerepl/buckets/b/queuename/q1_ttaaefs", {}, None, "quoit.replicate", "any", 200),
    ("GET", "/rangerepl/types/sibs/buckets/b/queuename/q1_ttaaefs", {}, None, "quoit.replicate", "any", 200),
    ("GET", "/queuename/q1_ttaaefs", {}, None, "quoit.replicate", "any", 200),
    ("POST", "/queuename/q1_ttaaefs", JSON, PUSHED, "quoit.replicate", "any", 200),
    ("GET", "/membership_request", {}, None, "quoit.replicate", "any", 200),
    ("GET", "/admin/v1/status", {}, None, "quoit.observe", "any", 200),
    ("POST", "/admin/v1/repl", JSON, OPERATE, "quoit.operate", "any", 200),
    ("PUT", "/admin/v1/bucket-types/walked", JSON, PROPS, "quoit.operate", "any", 200),
    ("DELETE", "/admin/v1/types/sibs/buckets/b9/props", {}, None, "quoit.operate", "any", 200),
]


def of_both_forms():
    for above, bucket_type in (("", "default"), ("/types/sibs", "sibs")):
        for method, path, headers, body, permission, status in OF_BUCKET:
            where = bucket_type + "/" + re.split("[/?]", path)[0]
            yield method, above + "/buckets/" + path, headers, body, permission, where, status
        for fold, path, permission in OF_FOLD:
            where = bucket_type + "/" + re.split("[/?]", path)[0]
            yield "GET", "/" + fold + above + "/buckets/" + path, {}, None, permission, where, 200


def with_head(rows):
    """Yields the rows, and HEAD for each GET except those of queues, because a fetch removes an entry."""
    for row in rows:
        yield row
        if row[0] == "GET" and not row[1].startswith("/queuename/"):
            yield ("HEAD",) + row[1:]


HTTP = list(with_head(list(of_both_forms()) + ALONE))
# Paths that need no login, and paths that only need a login.
OPEN = ["/ping", "/livez", "/readyz"]
FOR_USERS = ["/", "/stats", "/metrics"]
