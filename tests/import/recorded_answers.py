"""Recorded answers of the Riak node whose directories are imported, compared with those of our node."""
import base64
import email
import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request


def get(node, path, accept="*/*"):
    """Returns status, headers and body of a path."""
    request = urllib.request.Request(node.url + path, headers={"Accept": accept, "Accept-Encoding": "*"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def path_of(record, folder):
    """Returns the path of a record of expected.json, whose names are in base64."""
    def part(name):
        return urllib.parse.quote_from_bytes(base64.b64decode(record[name]), safe="")
    start = "/types/%s" % part("type") if record["type"] else ""
    return "%s/buckets/%s/%s/%s" % (start, part("bucket"), folder, part("key"))


def parts_of(headers, body):
    """Returns (headers, body) of each sibling of an answer."""
    kind = headers.get("Content-Type", "")
    if not kind.startswith("multipart/mixed"):
        return [(headers, body)]
    message = email.message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    return [(part, part.get_payload(decode=True)) for part in message.get_payload()]


def indexes_of(headers):
    """Returns the index entries of an answer."""
    found = []
    for name, value in headers.items():
        if name.lower().startswith("x-riak-index-"):
            # The HTTP library decodes all headers as Latin-1.
            terms = value.encode("latin-1").decode().split(",")
            found += [(name.lower()[len("x-riak-index-"):], term.strip()) for term in terms]
    return sorted(found)


def in_order(value):
    """Sorts the elements of the sets in a data type's value: large sets come in page order."""
    if isinstance(value, dict):
        return {name: in_order(field) for name, field in value.items()}
    return sorted(value) if isinstance(value, list) else value


class RecordedAnswers:
    """Checks for a test. Each takes a record of expected.json."""

    def check_object(self, node, record):
        told = [one for one in record["siblings"] if not one.get("deleted")]
        path = path_of(record, "keys")
        status, headers, body = get(node, path)
        if not told:
            self.assertEqual(status, 404, path)
            return
        if status == 300:
            status, headers, body = get(node, path, "multipart/mixed")
        self.assertIn(status, (200, 300), path)
        found = parts_of(headers, body)
        self.assertEqual(len([one for one in found if one[0].get("X-Riak-Deleted") is None]), len(told), path)
        for sibling in told:
            def is_it(part, sibling=sibling):
                headers, body = part
                if "value" in sibling:
                    return body == base64.b64decode(sibling["value"])
                return hashlib.sha256(body).hexdigest() == sibling["value_sha256"]
            same = [part for part in found if is_it(part)]
            self.assertTrue(same, "%s: no sibling has the value" % path)
            if len(told) > 1:
                continue
            headers = same[0][0]
            self.assertEqual(headers["ETag"].strip('"'), sibling["vtag"], path)
            self.assertEqual(indexes_of(headers), sorted(map(tuple, sibling["indexes"])), path)
            # Names that are not ASCII have no agreed form in a header.
            for name, value in filter(lambda pair: pair[0].isascii(), sibling["usermeta"].items()):
                found = headers.get(name) or headers.get("X-Riak-Meta-" + name)
                self.assertEqual(found.encode("latin-1").decode(), value, path)

    def check_data_type(self, node, record):
        path = "/types/%s/buckets/%s/datatypes/%s" % tuple(
            urllib.parse.quote(record[part], safe="") for part in ("type", "bucket", "key"))
        status, _, body = get(node, path)
        self.assertEqual(status, 200, path)
        value = json.loads(body)
        told = record["value"]["value"]
        if value["type"] == "hll":
            # The registers are the same, but Riak corrects its estimate by tables and Quoit does not.
            self.assertLessEqual(abs(value["value"] - told), told // 100, path)
        else:
            self.assertEqual(in_order(value["value"]), in_order(told), path)
