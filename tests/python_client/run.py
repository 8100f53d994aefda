"""Tests a node with Riak's own client for Python, over both protocols.

Every test case runs once over each protocol: the client's results must not depend on the protocol.
One node serves all test cases, and each uses buckets of its own.
"""
import http.client
import json
import os
import sys
import threading
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

import riak  # noqa: E402
from riak.transports.pool import BadResource  # noqa: E402

from support import unittest_runner  # noqa: E402
from support.cluster import wait_until  # noqa: E402
from support.cluster_case import ClusterCase  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

NODE = None
# Exceptions of the client when a connection is lost.
LOST = (OSError, http.client.HTTPException, BadResource)
TIMED_OUT_OVER_HTTP = "Expected status [200, 201, 204], received 503"

BUCKET_TYPES = {
    "sibs": {"allow_mult": True},
    "plain": {"allow_mult": False},
    "single": {"n_val": 1, "allow_mult": False},
    "keys": {},
    "counters": {"datatype": "counter", "allow_mult": True},
    "sets": {"datatype": "set", "allow_mult": True},
    "maps": {"datatype": "map", "allow_mult": True},
    "hlls": {"datatype": "hll", "allow_mult": True},
}


def setUpModule():
    global NODE
    NODE = TemporaryNode(binary_from_environment())
    NODE.__enter__()
    for name, props in BUCKET_TYPES.items():
        NODE.create_bucket_type(name, props)


def tearDownModule():
    NODE.__exit__(None, None, None)


def new_client(protocol):
    return riak.RiakClient(protocol=protocol, host=NODE.pb[0], pb_port=NODE.pb[1],
                           http_port=NODE.http[1])


class Case(unittest.TestCase):
    """Common parts of the test cases: a client of the tested protocol and a fresh bucket."""

    protocol = None

    def setUp(self):
        self.client = new_client(self.protocol)
        self.addCleanup(self.client.close)
        self.name = "b-" + uuid.uuid4().hex[:12]
        self.bucket = self.client.bucket_type("plain").bucket(self.name)

    def sibling_bucket(self):
        return self.client.bucket_type("sibs").bucket(self.name)

    def store(self, key, data, bucket=None, content_type="text/plain"):
        robj = (bucket or self.bucket).new(key, encoded_data=data, content_type=content_type)
        return robj.store()

    @staticmethod
    def value_of(sibling):
        """Returns the value as bytes. Over HTTP the client returns siblings as text."""
        data = sibling.encoded_data
        return data.encode() if isinstance(data, str) else data

    def values_of(self, robj):
        return sorted(self.value_of(sibling) for sibling in robj.siblings)

    def two_siblings(self, key="k"):
        bucket = self.sibling_bucket()
        self.store(key, b"one", bucket)
        self.store(key, b"two", bucket)
        return bucket


class Connection:
    def test_ping_is_answered(self):
        self.assertTrue(self.client.ping())

    def test_many_threads_share_one_client(self):
        errors = []

        def work(number):
            try:
                for index in range(20):
                    key = "%d-%d" % (number, index)
                    self.store(key, key.encode())
                    if self.bucket.get(key).encoded_data != key.encode():
                        errors.append(key)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_multiget_gives_every_object(self):
        for index in range(30):
            self.store("k%d" % index, b"v%d" % index)
        pairs = [("plain", self.name, "k%d" % index) for index in range(30)]
        found = {robj.key: robj.encoded_data for robj in self.client.multiget(pairs)}
        self.assertEqual(found, {"k%d" % index: b"v%d" % index for index in range(30)})


class Objects:
    def test_a_stored_object_is_read_back(self):
        self.store("k", b"value")
        got = self.bucket.get("k")
        self.assertTrue(got.exists)
        self.assertEqual(got.encoded_data, b"value")
        self.assertEqual(got.content_type, "text/plain")
        self.assertIsNotNone(got.vclock)
        self.assertIsNotNone(got.last_modified)
        self.assertTrue(got.etag)

    def test_json_is_encoded_and_decoded_by_the_client(self):
        data = {"name": "Ærøskøbing", "list": [1, 2.5, None, True], "deep": {"a": {"b": []}}}
        self.bucket.new("k", data=data).store()
        got = self.bucket.get("k")
        self.assertEqual(got.data, data)
        self.assertEqual(got.content_type, "application/json")

    def test_binary_values_come_back_byte_for_byte(self):
        data = bytes(range(256)) * 40
        self.store("k", data, content_type="application/octet-stream")
        self.assertEqual(self.bucket.get("k").encoded_data, data)

    def test_a_value_of_a_megabyte_comes_back(self):
        data = os.urandom(1 << 20)
        self.store("k", data, content_type="application/octet-stream")
        self.assertEqual(self.bucket.get("k").encoded_data, data)

    def test_an_empty_value_is_a_value(self):
        self.store("k", b"")
        got = self.bucket.get("k")
        self.assertTrue(got.exists)
        self.assertEqual(got.encoded_data, b"")

    def test_a_missing_key_does_not_exist(self):
        got = self.bucket.get("missing")
        self.assertFalse(got.exists)
        self.assertIsNone(got.encoded_data)

    def test_an_overwrite_with_the_clock_replaces_the_value(self):
        robj = self.store("k", b"one")
        robj.encoded_data = b"two"
        robj.store()
        self.assertEqual(self.bucket.get("k").encoded_data, b"two")

    def test_a_deleted_key_is_gone(self):
        robj = self.store("k", b"v")
        robj.delete()
        self.assertFalse(self.bucket.get("k").exists)

    def test_deleting_a_missing_key_is_no_error(self):
        self.bucket.delete("missing")

    def test_a_deleted_key_can_be_written_again(self):
        self.store("k", b"one").delete()
        self.store("k", b"two")
        self.assertEqual(self.bucket.get("k").encoded_data, b"two")

    def test_the_server_chooses_a_key_where_none_is_given(self):
        first = self.store(None, b"one")
        second = self.store(None, b"two")
        self.assertTrue(first.key)
        self.assertNotEqual(first.key, second.key)
        self.assertEqual(self.bucket.get(first.key).encoded_data, b"one")

    def test_return_body_gives_what_was_stored(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.usermeta = {"colour": "blue"}
        robj.store(return_body=True)
        self.assertEqual(robj.encoded_data, b"v")
        self.assertEqual(robj.usermeta, {"colour": "blue"})
        self.assertIsNotNone(robj.vclock)

    def test_without_return_body_the_value_is_stored_all_the_same(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.store(return_body=False)
        self.assertIsNone(robj.vclock)
        self.assertEqual(self.bucket.get("k").encoded_data, b"v")

    def test_user_metadata_is_kept(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.usermeta = {"one": "1", "two": "zwei"}
        robj.store()
        self.assertEqual(self.bucket.get("k").usermeta, {"one": "1", "two": "zwei"})

    def test_links_are_kept(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.add_link(self.bucket.new("other"), "friend")
        robj.add_link(self.bucket.new("third"), "foe")
        robj.store()
        links = sorted((key, tag) for _, key, tag in self.bucket.get("k").links)
        self.assertEqual(links, [("other", "friend"), ("third", "foe")])

    def test_index_entries_are_kept(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.add_index("name_bin", "alice")
        robj.add_index("age_int", 42)
        robj.add_index("age_int", -7)
        robj.store()
        self.assertEqual(self.bucket.get("k").indexes,
                         {("name_bin", "alice"), ("age_int", 42), ("age_int", -7)})

    def test_charset_is_kept(self):
        robj = self.bucket.new("k", encoded_data="ä".encode("latin-1"),
                               content_type="text/plain")
        robj.charset = "iso-8859-1"
        robj.store()
        got = self.bucket.get("k")
        self.assertEqual((got.content_type, got.charset), ("text/plain", "iso-8859-1"))

    def test_keys_and_buckets_may_hold_spaces_slashes_and_letters_of_any_language(self):
        bucket = self.client.bucket_type("plain").bucket(self.name + " ü/+%")
        for key in ("a b", "a/b", "a+b", "a%2Fb", "schön", "日本語", "?x=1&y=2", "#", "."):
            with self.subTest(key=key):
                self.store(key, key.encode(), bucket)
                self.assertEqual(bucket.get(key).encoded_data, key.encode())

    def test_a_long_key_and_a_long_bucket_name_work(self):
        bucket = self.client.bucket_type("plain").bucket(self.name + "x" * 800)
        self.store("k" * 1000, b"v", bucket)
        self.assertEqual(bucket.get("k" * 1000).encoded_data, b"v")


class Options:
    def test_quorums_as_numbers_and_as_words_are_taken(self):
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.store(w="all", dw="quorum", pw="one")
        robj.encoded_data = b"v2"
        robj.store(w=2, dw=1, pw=1)
        for options in ({"r": "all"}, {"r": 1}, {"pr": "quorum"}, {"r": 2, "pr": 2}):
            with self.subTest(options=options):
                self.assertEqual(self.bucket.get("k", **options).encoded_data, b"v2")

    def test_a_quorum_above_n_is_an_error(self):
        bucket = self.client.bucket_type("single").bucket(self.name)
        self.store("k", b"v", bucket)
        with self.assertRaises(riak.RiakError):
            bucket.get("k", r=2)

    def test_options_for_keys_that_are_not_there_are_taken(self):
        self.assertFalse(self.bucket.get("missing", basic_quorum=True, notfound_ok=False).exists)

    def test_a_timeout_is_taken(self):
        self.store("k", b"v")
        self.assertEqual(self.bucket.get("k", timeout=5000).encoded_data, b"v")

    def test_if_none_match_writes_only_a_new_key(self):
        first = self.bucket.new("k", encoded_data=b"one", content_type="text/plain")
        first.store(if_none_match=True)
        second = self.bucket.new("k", encoded_data=b"two", content_type="text/plain")
        with self.assertRaises(Exception):
            second.store(if_none_match=True)
        self.assertEqual(self.bucket.get("k").encoded_data, b"one")


class Siblings:
    def test_blind_writes_make_siblings(self):
        bucket = self.two_siblings()
        robj = bucket.get("k")
        self.assertEqual(self.values_of(robj), [b"one", b"two"])

    def test_an_object_in_conflict_refuses_to_be_read_as_one_value(self):
        robj = self.two_siblings().get("k")
        with self.assertRaises(riak.ConflictError):
            robj.encoded_data

    def test_writing_the_merged_value_resolves_the_conflict(self):
        bucket = self.two_siblings()
        robj = bucket.get("k")
        merged = b"+".join(self.values_of(robj))
        robj.siblings = [robj.siblings[0]]
        robj.encoded_data = merged
        robj.store()
        self.assertEqual(self.values_of(bucket.get("k")), [b"one+two"])

    def test_a_resolver_of_the_client_sees_all_siblings(self):
        bucket = self.two_siblings()

        def longest_name(robj):
            robj.siblings = [max(robj.siblings, key=lambda sibling: sibling.encoded_data)]

        bucket.resolver = longest_name
        self.assertEqual(self.values_of(bucket.get("k")), [b"two"])

    def test_a_write_with_an_old_clock_makes_a_sibling(self):
        bucket = self.sibling_bucket()
        self.store("k", b"one", bucket)
        stale = bucket.get("k")
        fresh = bucket.get("k")
        fresh.encoded_data = b"two"
        fresh.store()
        stale.encoded_data = b"three"
        stale.store(return_body=False)
        self.assertEqual(self.values_of(bucket.get("k")), [b"three", b"two"])

    def test_a_delete_with_the_clock_of_all_siblings_removes_them(self):
        bucket = self.two_siblings()
        bucket.get("k").delete()
        self.assertFalse(bucket.get("k").exists)

    def test_without_siblings_the_last_write_is_the_value(self):
        self.store("k", b"one")
        self.store("k", b"two")
        self.assertEqual(self.bucket.get("k").encoded_data, b"two")

    def test_each_sibling_keeps_its_own_metadata(self):
        bucket = self.sibling_bucket()
        for name in ("one", "two"):
            robj = bucket.new("k", encoded_data=name.encode(), content_type="text/" + name)
            robj.usermeta = {"name": name}
            robj.store(return_body=False)
        found = {self.value_of(sibling): (sibling.content_type, sibling.usermeta)
                 for sibling in bucket.get("k").siblings}
        self.assertEqual(found, {b"one": ("text/one", {"name": "one"}),
                                 b"two": ("text/two", {"name": "two"})})


class Properties:
    def test_properties_of_a_new_bucket_are_those_of_its_type(self):
        props = self.bucket.get_properties()
        self.assertEqual(props["n_val"], 3)
        self.assertEqual(props["allow_mult"], False)
        self.assertEqual(self.sibling_bucket().allow_mult, True)
        self.assertEqual(self.client.bucket_type("single").bucket(self.name).n_val, 1)

    def test_a_property_set_is_read_back_and_has_effect(self):
        bucket = self.bucket
        bucket.allow_mult = True
        self.assertEqual(bucket.allow_mult, True)
        self.store("k", b"one", bucket)
        self.store("k", b"two", bucket)
        self.assertEqual(len(bucket.get("k").siblings), 2)

    def test_several_properties_are_set_at_once(self):
        self.bucket.set_properties({"n_val": 2, "r": 1, "w": "one", "basic_quorum": True})
        props = self.bucket.get_properties()
        self.assertEqual((props["n_val"], props["r"], props["w"], props["basic_quorum"]),
                         (2, 1, "one", True))

    def test_properties_cleared_are_those_of_the_type_again(self):
        # Over HTTP the client loses the bucket type when it clears properties, so this test uses the
        # default type.
        bucket = self.client.bucket(self.name)
        bucket.set_properties({"n_val": 1})
        self.assertEqual(bucket.get_properties()["n_val"], 1)
        bucket.clear_properties()
        self.assertEqual(bucket.get_properties()["n_val"], 3)

    def test_properties_of_a_bucket_type_are_read_and_set(self):
        bucket_type = self.client.bucket_type("keys")
        before = bucket_type.get_property("rw")
        self.addCleanup(bucket_type.set_property, "rw", before)
        bucket_type.set_property("rw", "all")
        self.assertEqual(bucket_type.get_property("rw"), "all")

    def test_an_unknown_bucket_type_is_an_error(self):
        with self.assertRaises(Exception):
            self.client.bucket_type("no-such-type").get_properties()
        with self.assertRaises(Exception):
            self.client.bucket_type("no-such-type").bucket(self.name).new(
                "k", encoded_data=b"v", content_type="text/plain").store()

    def test_the_same_bucket_name_in_two_types_is_two_buckets(self):
        other = self.client.bucket_type("single").bucket(self.name)
        self.store("k", b"plain")
        self.store("k", b"single", other)
        self.assertEqual(self.bucket.get("k").encoded_data, b"plain")
        self.assertEqual(other.get("k").encoded_data, b"single")
        self.assertFalse(self.client.bucket(self.name).get("k").exists)


class Listing:
    def test_all_keys_of_a_bucket_are_listed_once(self):
        names = ["key-%03d" % index for index in range(250)]
        for name in names:
            self.store(name, b"v")
        self.assertEqual(sorted(self.client.get_keys(self.bucket)), names)

    def test_keys_are_streamed(self):
        names = ["key-%03d" % index for index in range(250)]
        for name in names:
            self.store(name, b"v")
        found = []
        for batch in self.bucket.stream_keys():
            found.extend(key.decode() if isinstance(key, bytes) else key for key in batch)
        self.assertEqual(sorted(found), names)

    def test_an_empty_bucket_has_no_keys(self):
        self.assertEqual(self.client.get_keys(self.bucket), [])

    def test_buckets_are_listed_with_their_type(self):
        bucket_type = self.client.bucket_type("keys")
        self.store("k", b"v", bucket_type.bucket(self.name))
        listed = {bucket.name for bucket in self.client.get_buckets(bucket_type=bucket_type)}
        self.assertIn(self.name, listed)
        self.assertNotIn(self.name, {bucket.name for bucket in self.client.get_buckets()})

    def test_buckets_are_streamed(self):
        bucket_type = self.client.bucket_type("keys")
        self.store("k", b"v", bucket_type.bucket(self.name))
        listed = {bucket.name for batch in
                  self.client.stream_buckets(bucket_type=bucket_type) for bucket in batch}
        self.assertIn(self.name, listed)


class PbOnly(Case):
    """Functions of the client that exist only over Protocol Buffers."""

    protocol = "pbc"

    def transport(self):
        pool = self.client._tcp_pool
        return pool.transaction()

    def test_server_info_tells_name_and_version(self):
        with self.transport() as transport:
            info = transport.get_server_info()
        self.assertRegex(info["server_version"], r"^\d+\.\d+\.\d+")
        self.assertIn("@", info["node"])

    def test_a_client_id_set_is_read_back(self):
        with self.transport() as transport:
            transport.client_id = "abcd"
            self.assertEqual(transport.client_id, "abcd")

    def test_keys_of_control_characters_are_kept(self):
        for key in ("\x00\x01\x02", "\r\n", "\x7f", " "):
            with self.subTest(key=key):
                self.store(key, key.encode())
                self.assertEqual(self.bucket.get(key).encoded_data, key.encode())

    def test_head_only_gives_metadata_without_value(self):
        robj = self.bucket.new("k", encoded_data=b"value", content_type="text/plain")
        robj.usermeta = {"a": "1"}
        robj.store()
        head = self.bucket.get("k", head_only=True)
        self.assertEqual(head.encoded_data, b"")
        self.assertEqual(head.usermeta, {"a": "1"})

    def test_the_preference_list_names_n_partitions(self):
        preflist = self.client.get_preflist(self.client.bucket(self.name), "k")
        self.assertEqual(len(preflist), 3)
        self.assertTrue(all("partition" in item and "node" in item for item in preflist))


class DataTypes:
    """The client refuses removes without a context; see its `ContextRequired`."""

    def record(self, bucket_type, key="k"):
        return self.client.bucket_type(bucket_type).bucket(self.name).get(key)

    def test_a_counter_counts(self):
        counter = self.record("counters")
        self.assertEqual(counter.value, 0)
        counter.increment(5)
        counter.decrement(7)
        counter.store()
        self.assertEqual(counter.value, -2)
        self.assertEqual(self.record("counters").value, -2)

    def test_a_record_under_a_key_of_the_server(self):
        counter = self.client.bucket_type("counters").bucket(self.name).new()
        counter.increment()
        counter.store()
        # Over Protocol Buffers the client returns the key as bytes, which it does not accept as a key.
        key = counter.key if isinstance(counter.key, str) else counter.key.decode()
        self.assertEqual(self.record("counters", key).value, 1)

    def test_a_set_takes_and_gives_up_elements(self):
        group = self.record("sets")
        for name in ("ann", "bob", "cid"):
            group.add(name)
        group.store()
        group = self.record("sets")
        self.assertEqual(group.value, frozenset(["ann", "bob", "cid"]))
        group.discard("bob")
        group.store()
        self.assertEqual(self.record("sets").value, frozenset(["ann", "cid"]))

    def test_an_element_added_since_the_read_survives_the_remove(self):
        group = self.record("sets")
        group.add("ann")
        group.store()
        seen = self.record("sets")
        again = self.record("sets")
        again.add("ann")
        again.store()
        seen.discard("ann")
        seen.store()
        self.assertEqual(self.record("sets").value, frozenset(["ann"]))

    def test_an_empty_set_is_a_set(self):
        group = self.record("sets")
        group.add("ann")
        group.store()
        group.discard("ann")
        group.store()
        self.assertEqual(self.record("sets").value, frozenset())

    def test_a_map_has_fields_of_every_type(self):
        record = self.record("maps")
        record.counters["logins"].increment(3)
        record.flags["admin"].enable()
        record.registers["name"].assign("Ann")
        record.sets["langs"].add("en")
        record.maps["home"].registers["city"].assign("Nara")
        record.store()
        expected = {
            ("logins", "counter"): 3,
            ("admin", "flag"): True,
            ("name", "register"): "Ann",
            ("langs", "set"): frozenset(["en"]),
            ("home", "map"): {("city", "register"): "Nara"},
        }
        record = self.record("maps")
        self.assertEqual(record.value, expected)
        del record.registers["name"]
        record.flags["admin"].disable()
        record.sets["langs"].discard("en")
        record.maps["home"].sets["rooms"].add("bath")
        record.store()
        expected.pop(("name", "register"))
        expected[("admin", "flag")] = False
        expected[("langs", "set")] = frozenset()
        expected[("home", "map")][("rooms", "set")] = frozenset(["bath"])
        self.assertEqual(self.record("maps").value, expected)

    def test_large_sets_in_maps_are_sets_like_any_other(self):
        large_sets_in_maps(self, lambda: self.record("maps"))

    def test_a_hyperloglog_estimates(self):
        visitors = self.record("hlls")
        for number in range(200):
            visitors.add("visitor %d" % number)
        visitors.store()
        self.assertTrue(190 <= self.record("hlls").value <= 210)

    def test_a_deleted_record_starts_anew(self):
        counter = self.record("counters")
        counter.increment(9)
        counter.store()
        counter.delete()
        counter = self.record("counters")
        self.assertEqual(counter.value, 0)
        counter.increment()
        counter.store()
        self.assertEqual(self.record("counters").value, 1)

    def test_counters_of_old(self):
        bucket = self.client.bucket(self.name)
        bucket.set_property("allow_mult", True)
        self.assertIsNone(bucket.get_counter("k"))
        bucket.update_counter("k", 5)
        self.assertEqual(bucket.update_counter("k", -7, returnvalue=True), -2)
        self.assertEqual(bucket.get_counter("k"), -2)


def large_sets_in_maps(case, record):
    """Fills sets in a map, and in a map inside it, until they are stored as pages. `record` reads the
    map."""
    def elements(numbers):
        return frozenset("element %06d" % number for number in numbers)

    for start in range(0, 3000, 500):
        change = record()
        for element in elements(range(start, start + 500)):
            change.sets["outer"].add(element)
            change.maps["home"].sets["inner"].add(element)
        change.maps["home"].counters["turns"].increment()
        change.store()
    seen, change = record(), record()
    whole = elements(range(3000))
    inner = {("inner", "set"): whole, ("turns", "counter"): 6}
    case.assertEqual(change.value, {("outer", "set"): whole, ("home", "map"): inner})

    # A remove takes away only the named elements.
    gone = elements(range(1000, 1010))
    for element in gone:
        change.sets["outer"].discard(element)
        change.maps["home"].sets["inner"].discard(element)
    change.maps["home"].sets["inner"].add("another")
    change.store()
    change = record()
    inner = {("inner", "set"): whole - gone | {"another"}, ("turns", "counter"): 6}
    case.assertEqual(change.value, {("outer", "set"): whole - gone, ("home", "map"): inner})

    # A remove of a field spares elements added since the read, and so the field itself.
    del seen.maps["home"].sets["inner"]
    del seen.sets["outer"]
    seen.store()
    change = record()
    left = {("home", "map"): {("inner", "set"): frozenset(["another"]), ("turns", "counter"): 6},
            ("outer", "set"): frozenset()}
    case.assertEqual(change.value, left)
    change.sets["outer"].add("first")
    change.store()
    left[("outer", "set")] = frozenset(["first"])
    case.assertEqual(record().value, left)


class LargeValuesOnEveryEngine(unittest.TestCase):
    """Sets and maps of thousands of elements, stored by each of the engines."""

    def test_sets_and_maps_in_pages_survive_a_restart(self):
        for engine in ("bitcask", "memory", "leveldb", "leveled", "innostore"):
            with self.subTest(engine=engine):
                self.check(engine)

    def check(self, engine):
        settings = ["storage_backend=" + engine]
        with TemporaryNode(binary_from_environment(), settings) as node:
            for name in ("sets", "maps"):
                node.create_bucket_type(name, BUCKET_TYPES[name])

            def record(name):
                client = riak.RiakClient(protocol="pbc", host=node.pb[0], pb_port=node.pb[1])
                self.addCleanup(client.close)
                return client.bucket_type(name).bucket("b").get("k")

            large_sets_in_maps(self, lambda: record("maps"))
            group = record("sets")
            wanted = frozenset("element %06d" % number for number in range(2000))
            for element in wanted:
                group.add(element)
            group.store()
            change = record("maps")
            for element in wanted:
                change.maps["home"].sets["inner"].add(element)
            change.store()
            before = record("maps").value
            self.assertEqual(before[("home", "map")][("inner", "set")], wanted | {"another"})
            if engine != "memory":
                node.stop()
                node.start()
                self.assertEqual(record("maps").value, before)
                self.assertEqual(record("sets").value, wanted)


class DataTypesOnACluster:
    """Five nodes, one of which is killed while clients write. A client then retries at another node."""

    WRITERS = 4
    ROUNDS = 30
    TRIES = 5

    def is_unknown(self, error):
        """Tells if the outcome of a request is unknown. Over HTTP the client shows only the status."""
        return error.value == ("timeout" if self.protocol == "pbc" else TIMED_OUT_OVER_HTTP)

    def client_of(self, nodes):
        hosts = [{"host": node.pb[0], "pb_port": node.pb[1], "http_port": node.http[1]}
                 for node in nodes]
        client = riak.RiakClient(protocol=self.protocol, nodes=hosts)
        self.addCleanup(client.close)
        return client

    def test_nothing_acknowledged_is_lost_when_a_node_dies(self):
        cluster = self.cluster(5)
        for name in ("counters", "sets", "maps"):
            cluster[0].create_bucket_type(name, BUCKET_TYPES[name])
        killed, failures, begun = threading.Event(), [], threading.Barrier(self.WRITERS + 1)
        unknown = []

        def count(bucket):
            counter = bucket.get("k")
            counter.increment(1)
            try:
                counter.store()
            except (*LOST, riak.RiakError) as error:
                # The node that died had the request and may have counted it, so it is not repeated.
                if not isinstance(error, LOST) and not self.is_unknown(error):
                    raise
                unknown.append(counter)

        def change(bucket, apply):
            """Makes a change that may be made twice. The client itself repeats fetches, but not stores."""
            for _ in range(self.TRIES):
                record = bucket.get("k")
                apply(record)
                try:
                    return record.store()
                except (*LOST, riak.RiakError) as error:
                    # The request was at the node that died, perhaps forwarded by another node.
                    if not isinstance(error, LOST) and not self.is_unknown(error):
                        raise
                    fault = error
            raise fault

        def write(number):
            try:
                client = self.client_of(cluster)
                counters, sets, maps = (client.bucket_type(name).bucket("b")
                                        for name in ("counters", "sets", "maps"))
                for turn in range(self.ROUNDS):
                    if turn == self.ROUNDS // 3:
                        begun.wait(timeout=60)
                    element = "%d-%d" % (number, turn)

                    def put_in_map(record):
                        record.sets["all"].add(element)
                        record.registers["writer-%d" % number].assign(str(turn))

                    count(counters)
                    change(sets, lambda group: group.add(element))
                    change(maps, put_in_map)
                if not killed.wait(timeout=60):
                    failures.append("the node was not killed")
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(self.WRITERS)]
        for thread in threads:
            thread.start()
        begun.wait(timeout=60)
        cluster[2].kill()
        killed.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertLessEqual(len(unknown), self.WRITERS)
        wanted = frozenset("%d-%d" % (number, turn) for number in range(self.WRITERS)
                           for turn in range(self.ROUNDS))
        survivors = [node for place, node in enumerate(cluster) if place != 2]
        for node in survivors:
            client = self.client_of([node])
            value = client.bucket_type("counters").bucket("b").get("k").value
            self.assertIn(self.WRITERS * self.ROUNDS - value, range(len(unknown) + 1))
            self.assertEqual(client.bucket_type("sets").bucket("b").get("k").value, wanted)
            value = client.bucket_type("maps").bucket("b").get("k").value
            self.assertEqual(value[("all", "set")], wanted)
            for number in range(self.WRITERS):
                self.assertEqual(value[("writer-%d" % number, "register")], str(self.ROUNDS - 1))

        # A context from one node removes at another node exactly the elements that it has seen.
        seen = self.client_of(survivors[:1]).bucket_type("sets").bucket("b").get("k")
        again = self.client_of(survivors[1:2]).bucket_type("sets").bucket("b").get("k")
        again.add("0-0")
        again.store()
        seen.discard("0-0")
        seen.discard("0-1")
        seen.store()
        for node in survivors:
            left = self.client_of([node]).bucket_type("sets").bucket("b").get("k").value
            self.assertEqual(left, wanted - {"0-1"})


class Indexes:
    """Queries of secondary indexes. The client converts integers of `_int` fields to text and back."""

    def setUp(self):
        super().setUp()
        self.client.close()
        self.client = new_client(self.protocol)
        self.addCleanup(self.client.close)
        self.bucket = self.client.bucket_type("plain").bucket(self.name)

    def assert_refused(self, words, *query, **options):
        """Checks that a query is refused. Over HTTP the client shows only the status."""
        wanted = words if self.protocol == "pbc" else "received 400"
        with self.assertRaisesRegex(riak.RiakError, wanted):
            list(self.bucket.get_index(*query, **options))

    def store_indexed(self, key, entries, bucket=None):
        robj = (bucket or self.bucket).new(key, encoded_data=b"v", content_type="text/plain")
        for field, term in entries:
            robj.add_index(field, term)
        return robj.store()

    def store_people(self, bucket=None):
        """Stores twenty people with the ages -5 to 14, five for each colour."""
        for number in range(20):
            colour = ("amber", "blue", "cyan", "dun")[number % 4]
            self.store_indexed("k%02d" % number,
                               [("age_int", number - 5), ("colour_bin", colour)], bucket)

    def pages(self, **options):
        """Returns all matches of a paged query, and the number of pages."""
        page = self.bucket.get_index(**options)
        found, count = list(page), 1
        while page.has_next_page():
            page = page.next_page()
            found.extend(page)
            count += 1
        return found, count

    def test_equality_and_ranges_of_both_kinds(self):
        self.store_people()
        got = self.bucket.get_index("colour_bin", "blue")
        self.assertEqual(sorted(got), ["k01", "k05", "k09", "k13", "k17"])
        self.assertEqual(sorted(self.bucket.get_index("age_int", -1, 2)),
                         ["k04", "k05", "k06", "k07"])
        self.assertEqual(list(self.bucket.get_index("age_int", 14)), ["k19"])
        self.assertEqual(list(self.bucket.get_index("age_int", 5, 4)), [])
        self.assertEqual(list(self.bucket.get_index("none_bin", "a", "z")), [])

    def test_integers_have_any_size(self):
        numbers = [-(1 << 300), -(1 << 127) - 1, -1, 0, 1 << 127, 1 << 128, (1 << 300) + 7]
        for place, number in enumerate(numbers):
            self.store_indexed("k%d" % place, [("n_int", number)])
        got = self.bucket.get_index("n_int", numbers[0], numbers[-1], return_terms=True)
        self.assertEqual(sorted((int(term), key) for term, key in got),
                         [(number, "k%d" % place) for place, number in enumerate(numbers)])
        self.assertEqual(sorted(self.bucket.get_index("n_int", 1 << 127, 1 << 299)), ["k4", "k5"])
        self.assertEqual(list(self.bucket.get_index("n_int", 1 << 128)), ["k5"])
        stored = self.bucket.get("k6")
        self.assertEqual(stored.indexes, {("n_int", numbers[-1])})

    def test_terms_come_with_their_keys(self):
        self.store_people()
        got = self.bucket.get_index("age_int", -5, -3, return_terms=True)
        self.assertEqual(sorted((int(term), key) for term, key in got),
                         [(-5, "k00"), (-4, "k01"), (-3, "k02")])

    def test_pages_put_together_are_the_whole_in_order(self):
        self.store_people()
        for size, count in ((3, 7), (4, 6), (20, 2), (50, 1)):
            found, pages = self.pages(index="age_int", startkey=-100, endkey=100,
                                      max_results=size)
            self.assertEqual(found, ["k%02d" % number for number in range(20)])
            self.assertEqual(pages, count)

    def test_pages_hold_what_stays_while_other_data_change(self):
        self.store_people()
        page = self.bucket.get_index("age_int", -100, 100, max_results=4)
        found, turn = list(page), 0
        while page.has_next_page():
            # An entry written before the position of the page is not shown. An entry that exists all the
            # time comes once.
            self.store_indexed("early-%d" % turn, [("age_int", -50)])
            self.bucket.delete("early-%d" % (turn - 1))
            self.store_indexed("k19", [("age_int", 14), ("turn_int", turn)])
            page = page.next_page()
            found.extend(page)
            turn += 1
        self.assertEqual(found, ["k%02d" % number for number in range(20)])

    def test_results_are_streamed(self):
        self.store_people()
        found = []
        for batch in self.bucket.stream_index("colour_bin", "a", "c"):
            found.extend(batch)
        self.assertEqual(sorted(found), sorted("k%02d" % number for number in range(20)
                                               if number % 4 < 2))
        pairs = []
        for batch in self.bucket.stream_index("age_int", 0, 3, return_terms=True, max_results=3):
            pairs.extend(batch)
        self.assertEqual([(int(term), key) for term, key in pairs],
                         [(0, "k05"), (1, "k06"), (2, "k07")])

    def test_a_pattern_filters_terms(self):
        self.store_people()
        got = self.bucket.get_index("colour_bin", "a", "z", term_regex="^.u", return_terms=True)
        self.assertEqual(sorted(set(term for term, _ in got)), ["dun"])
        self.assert_refused("Invalid term regular expression", "colour_bin", "a", "z",
                            term_regex="(?=a)")

    def test_keys_and_buckets_need_no_entries(self):
        for number in range(10):
            self.store("k%d" % number, b"v")
        self.assertEqual(sorted(self.bucket.get_index("$key", "k3", "k5")), ["k3", "k4", "k5"])
        self.assertEqual(sorted(self.bucket.get_index("$bucket", "_")),
                         ["k%d" % number for number in range(10)])
        self.bucket.delete("k4")
        self.assertEqual(sorted(self.bucket.get_index("$key", "k3", "k5")), ["k3", "k5"])

    def test_the_entries_of_the_latest_write_count(self):
        self.store_indexed("k", [("colour_bin", "red")])
        robj = self.bucket.get("k")
        self.assertEqual(robj.indexes, {("colour_bin", "red")})
        robj.set_index("colour_bin", "green")
        robj.store()
        self.assertEqual(list(self.bucket.get_index("colour_bin", "red")), [])
        self.assertEqual(list(self.bucket.get_index("colour_bin", "green")), ["k"])
        self.bucket.delete("k")
        self.assertEqual(list(self.bucket.get_index("colour_bin", "green")), [])

    def test_siblings_are_found_by_the_entries_of_all(self):
        bucket = self.sibling_bucket()
        self.store_indexed("k", [("colour_bin", "red")], bucket)
        self.store_indexed("k", [("colour_bin", "green")], bucket)
        for colour in ("red", "green"):
            self.assertEqual(list(bucket.get_index("colour_bin", colour)), ["k"])

    def test_types_have_indexes_of_their_own(self):
        other = self.client.bucket_type("single").bucket(self.name)
        self.store_indexed("k", [("colour_bin", "red")])
        self.store_indexed("other", [("colour_bin", "red")], other)
        self.assertEqual(list(self.bucket.get_index("colour_bin", "red")), ["k"])
        self.assertEqual(list(other.get_index("colour_bin", "red")), ["other"])

    def test_what_is_no_query_is_named(self):
        for query, words in ((("n_int", "x"), "field_parsing_failed"),
                             (("n_int", "1", "x"), "field_parsing_failed"),
                             (("colour", "x"), "unknown_field_type")):
            self.assert_refused(words, *query)
        self.assert_refused("invalid_continuation", "a_bin", "a", "z", max_results=3,
                            continuation="garbage")
        self.store_people()
        page = self.bucket.get_index("age_int", 0, 9, max_results=3)
        self.assert_refused("invalid_continuation", "age_int", 0, 8, max_results=3,
                            continuation=page.continuation)


class IndexesOnACluster:
    """Five nodes. Queries go to any of them, also while one is dead."""

    COUNT = 300

    def client_of(self, node):
        client = riak.RiakClient(protocol=self.protocol, host=node.pb[0], pb_port=node.pb[1],
                                 http_port=node.http[1])
        self.addCleanup(client.close)
        return client

    def test_every_node_finds_everything_also_when_one_is_dead(self):
        cluster = self.cluster(5, settings=("ring_size=8",))
        bucket = self.client_of(cluster[0]).bucket("b")
        for number in range(self.COUNT):
            robj = bucket.new("k%03d" % number, encoded_data=b"v", content_type="text/plain")
            robj.add_index("n_int", number % 7)
            robj.store(w="all")
        wanted = sorted((number % 7, "k%03d" % number) for number in range(self.COUNT))

        def found(node):
            page = self.client_of(node).bucket("b").get_index(
                "n_int", 0, 6, max_results=40, return_terms=True)
            pairs = list(page)
            while page.has_next_page():
                page = page.next_page()
                pairs.extend(page)
            return [(int(term), key) for term, key in pairs]

        for node in cluster:
            self.assertEqual(found(node), wanted)
        cluster[2].kill()
        survivors = [node for place, node in enumerate(cluster) if place != 2]
        for node in survivors:
            self.assertEqual(found(node), wanted)
            streamed = []
            for batch in self.client_of(node).bucket("b").stream_index("n_int", 3):
                streamed.extend(batch)
            self.assertEqual(sorted(streamed), [key for term, key in wanted if term == 3])


class MapReduceOnACluster(ClusterCase):
    """Five nodes with more data than fits into the buffers on the way to a client that does not read."""

    COUNT, VALUE_BYTES = 300, 64 << 10
    JOB = {"inputs": "b", "query": [{"map": {
        "language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}}]}

    def begin(self, node):
        """Starts a job and reads a little of its answer. Returns the answer, its connection, and the
        bytes read."""
        connection = http.client.HTTPConnection(*node.http, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/mapred?chunked=true", json.dumps(self.JOB),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        return answer, connection, answer.read(1000)

    def jobs(self, node):
        return json.loads(node.run("--format", "json", "jobs"))["jobs"]

    def values_of(self, body, boundary):
        """Returns the values in a multipart body, and whether the body is complete."""
        parts = body.split(b"--" + boundary.encode())
        documents = [part.split(b"\r\n\r\n", 1)[1] for part in parts[1:] if b"\r\n\r\n" in part]
        values = []
        for document in documents:
            values += json.loads(document)["data"]
        return values, body.endswith(b"--" + boundary.encode() + b"--\r\n")

    def test_jobs_wait_for_readers_are_stopped_and_outlive_a_node(self):
        cluster = self.cluster(5)
        client = riak.RiakClient(protocol="pbc", host=cluster[0].pb[0], pb_port=cluster[0].pb[1])
        self.addCleanup(client.close)
        keys = ["k%03d" % number for number in range(self.COUNT)]
        for key in keys:
            value = key.encode().ljust(self.VALUE_BYTES, b".")
            client.bucket("b").new(key, encoded_data=value,
                                   content_type="text/plain").store(w="all")

        # A job whose client does not read waits, until an operator stops it.
        answer, _, _ = self.begin(cluster[0])
        [job] = self.jobs(cluster[0])
        self.assertLess(job["read_count"], self.COUNT)
        cluster[0].run("jobs", "stop", str(job["id"]))
        self.assertIn(b"an operator has stopped the job", answer.read())
        self.assertEqual(self.jobs(cluster[0]), [])

        # A job whose client disconnects ends.
        answer, connection, _ = self.begin(cluster[0])
        answer.close()
        connection.close()
        wait_until(lambda: self.jobs(cluster[0]) == [], "the job to end")

        # A job goes on when a node dies.
        answer, _, begun = self.begin(cluster[0])
        self.assertEqual(len(self.jobs(cluster[0])), 1)
        cluster[2].kill()
        boundary = answer.getheader("Content-Type").split("boundary=")[1]
        values, is_whole = self.values_of(begun + answer.read(), boundary)
        self.assertTrue(is_whole)
        self.assertEqual(sorted(value.rstrip(".") for value in values), keys)


class HttpOnly(Case):
    """Functions of the client that exist only over HTTP, and data that one protocol stores and the other
    reads."""

    protocol = "http"

    def test_stats_have_riaks_names(self):
        with self.client._http_pool.transaction() as transport:
            stats = transport.stats()
        for name in ("riak_kv_version", "node_gets", "node_puts", "vnode_gets"):
            self.assertIn(name, stats)

    def test_keys_are_listed_by_prefix_and_range_in_pages(self):
        for number in range(25):
            self.store("a-%02d" % number, b"v")
        self.store("b", b"v")
        path = "/types/plain/buckets/%s/keys?keys=true" % self.name

        def listed(parameters):
            connection = http.client.HTTPConnection(*NODE.http)
            self.addCleanup(connection.close)
            connection.request("GET", path + parameters)
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            return json.loads(answer.read())

        names = ["a-%02d" % number for number in range(25)]
        self.assertEqual(listed("&prefix=a-"), {"keys": names})
        self.assertEqual(listed("&start=a-20"), {"keys": names[20:] + ["b"]})
        self.assertEqual(listed("&start=a-03&end=a-05"), {"keys": names[3:6]})
        self.assertEqual(listed("&prefix=a-1&end=a-13"), {"keys": names[10:14]})
        page, found = listed("&prefix=a-&max_results=10"), []
        while "continuation" in page:
            found += page["keys"]
            page = listed("&prefix=a-&max_results=10&continuation=" + page["continuation"])
        self.assertEqual(found + page["keys"], names)

    def test_the_root_lists_the_resources(self):
        with self.client._http_pool.transaction() as transport:
            resources = transport.get_resources()
        self.assertEqual(resources["riak_kv_wm_buckets"], b"/buckets")

    def test_what_one_protocol_stores_the_other_reads(self):
        pb = new_client("pbc")
        self.addCleanup(pb.close)
        robj = self.bucket.new("k", encoded_data=b"v", content_type="text/plain")
        robj.usermeta = {"colour": "blue"}
        robj.add_index("age_int", 7)
        robj.add_link(self.bucket.new("other"), "friend")
        robj.store()
        got = pb.bucket_type("plain").bucket(self.name).get("k")
        self.assertEqual(got.encoded_data, b"v")
        # Over Protocol Buffers the name is that of the whole header, as with Riak.
        self.assertEqual({name.lower(): value for name, value in got.usermeta.items()},
                         {"x-riak-meta-colour": "blue"})
        self.assertEqual(got.indexes, {("age_int", 7)})
        self.assertEqual([(key, tag) for _, key, tag in got.links], [("other", "friend")])
        got.encoded_data = b"v2"
        got.store()
        self.assertEqual(self.bucket.get("k").encoded_data, b"v2")


class MapReduce:
    """MapReduce jobs made by the client. Jobs in JavaScript run on a node where JavaScript is switched
    on."""

    def key(self, key, value, content_type="text/plain"):
        return self.client.bucket(self.name).new(
            key, encoded_data=value, content_type=content_type).store()

    def numbers(self):
        for number in (1, 2, 30):
            self.key("k%d" % number, str(number).encode(), "application/json")

    def erlang(self, job, *functions):
        for kind, function, options in functions:
            getattr(job, kind)(["riak_kv_mapreduce", function], options)
        return job.run()

    def test_values_become_numbers_and_a_sum(self):
        self.numbers()
        job = self.client.add(self.name)
        result = self.erlang(job, ("map", "map_object_value", None),
                             ("reduce", "reduce_string_to_integer", None),
                             ("reduce", "reduce_sum", {"arg": {"reduce_phase_batch_size": 2}}))
        self.assertEqual(result, [33])

    def test_a_typed_bucket_and_typed_keys_are_inputs(self):
        for key in ("a", "b"):
            self.store(key, b"v-" + key.encode())
        values = ("map", "map_object_value", None)
        whole = self.client.add(self.name, bucket_type="plain")
        self.assertEqual(sorted(self.erlang(whole, values)), ["v-a", "v-b"])
        one = self.client.add(self.name, "a", bucket_type="plain")
        self.assertEqual(self.erlang(one, values), ["v-a"])

    def test_two_kept_phases_are_two_lists(self):
        self.numbers()
        job = self.client.add(self.name)
        result = self.erlang(job, ("map", "map_object_value", {"keep": True}),
                             ("reduce", "reduce_count_inputs", {"keep": True}))
        self.assertEqual([sorted(result[0]), result[1]], [["1", "2", "30"], [3]])

    def test_keys_are_filtered(self):
        for key in ("basho-20101215", "google-20110103", "yahoo-20090613"):
            self.key(key, b"v")
        job = self.client.add(self.name)
        job.add_key_filters([["tokenize", "-", 2]]).add_key_filter("ends_with", "0613")
        result = job.reduce(["riak_kv_mapreduce", "reduce_identity"]).run()
        self.assertEqual(result, [[self.name, "yahoo-20090613"]])

    def test_an_index_gives_inputs(self):
        for number in range(10):
            robj = self.client.bucket(self.name).new("k%d" % number, encoded_data=b"%d" % number,
                                                     content_type="text/plain")
            robj.add_index("n_int", number).store()
        job = riak.RiakMapReduce(self.client).index(self.name, "n_int", 3, 5)
        values = self.erlang(job, ("map", "map_object_value", None))
        self.assertEqual(sorted(values), ["3", "4", "5"])

    def test_links_are_followed_with_their_tags(self):
        bucket = self.client.bucket(self.name)
        self.key("b", b"B")
        robj = bucket.new("a", encoded_data=b"A", content_type="text/plain")
        robj.add_link(bucket.new("b"), "friend")
        robj.store()
        job = self.client.add(self.name, "a").link(self.name, "friend")
        result = [list(link) for link in self.erlang(job)]
        self.assertEqual([link[:2] for link in result], [[self.name, "b"]])

    def test_results_stream_by_phase(self):
        self.numbers()
        job = self.client.add(self.name).map(["riak_kv_mapreduce", "map_object_value"])
        found = [value for phase, data in job.stream() for value in data if phase == 0]
        self.assertEqual(sorted(found), ["1", "2", "30"])

    def test_a_missing_object_fails_its_phase(self):
        with self.assertRaises(Exception) as caught:
            self.erlang(self.client.add(self.name, "none"), ("map", "map_object_value", None))
        self.assertIn("notfound", str(caught.exception))

    def test_scripts_are_refused_unless_they_are_switched_on(self):
        with self.assertRaises(Exception) as caught:
            self.client.add(self.name).map("Riak.mapValues").run()
        self.assertIn("mapreduce.javascript", str(caught.exception))

    def test_erlang_sources_are_refused_in_words(self):
        self.numbers()
        with self.assertRaises(Exception) as caught:
            self.client.add(self.name).map("fun(_, _, _) -> [] end.",
                                           {"language": "erlang"}).run()
        self.assertIn("Erlang sources are not run", str(caught.exception))


class Scripts:
    """Jobs in JavaScript, on a node where JavaScript is switched on."""

    node = None

    @classmethod
    def setUpClass(cls):
        cls.node = TemporaryNode(binary_from_environment(),
                                 ["mapreduce.javascript=on",
                                  "mapreduce.javascript.call_timeout=500ms"])
        cls.node.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.node.__exit__(None, None, None)

    def setUp(self):
        self.client = riak.RiakClient(protocol=self.protocol, host=self.node.pb[0],
                                      pb_port=self.node.pb[1], http_port=self.node.http[1])
        self.addCleanup(self.client.close)
        self.name = "b-" + uuid.uuid4().hex[:12]
        bucket = self.client.bucket(self.name)
        for key, value in (("one", 1), ("two", 2)):
            bucket.new(key, data=value).store()

    def both(self):
        return self.client.add(self.name, "one").add(self.name, "two")

    def test_named_functions_map_and_reduce(self):
        job = self.both().map("Riak.mapValuesJson").reduce("Riak.reduceSum")
        self.assertEqual(job.run(), [3])
        self.assertEqual(sorted(self.both().map_values().run()), ["1", "2"])
        self.assertEqual(self.both().map_values_json().reduce_min().run(), [1])
        self.assertEqual(self.both().map_values_json().reduce_max().run(), [2])
        self.assertEqual(self.both().map_values_json().reduce_numeric_sort().run(), [1, 2])
        sliced = self.both().map_values_json().reduce_numeric_sort().reduce_slice(1, 2)
        self.assertEqual(sliced.run(), [2])
        limited = self.both().map_values_json().reduce_numeric_sort().reduce_limit(1)
        self.assertEqual(limited.run(), [1])

    def test_values_are_sorted_by_a_function_of_the_job(self):
        source = "function(x, y) { return x == y ? 0 : x > y ? -1 : 1; }"
        self.assertEqual(self.both().map_values_json().reduce_sort(source).run(), [2, 1])

    def test_missing_objects_are_filtered_out(self):
        job = self.both().add(self.name, "none").map_values_json().filter_not_found()
        self.assertEqual(sorted(job.run()), [1, 2])

    def test_sources_get_key_data_and_arguments(self):
        job = self.client.add(self.name, "one", 5).add(self.name, "one", -3)
        job.map("function(v, data, arg) { return [[v.key, data + arg]]; }", {"arg": 10})
        self.assertEqual(sorted(job.run()), [["one", 7], ["one", 15]])

    def test_sources_may_be_stored_in_objects(self):
        bucket = self.client.bucket(self.name + "-code")
        bucket.new("f", encoded_data=b"function(v) { return [v.values[0].data]; }",
                   content_type="text/javascript").store()
        job = self.both().map([bucket.name, "f"], {"language": "javascript"})
        self.assertEqual(sorted(job.run()), ["1", "2"])

    def test_exceptions_and_endless_loops_end_the_job_in_words(self):
        for source, words in (("function() { throw new Error('no such luck'); }", "no such luck"),
                              ("function() { while (true) {} }", "call_timeout")):
            with self.assertRaises(Exception) as caught:
                self.both().map(source).run()
            self.assertIn(words, str(caught.exception))
        self.assertEqual(self.both().map("function(v) { return [v.key]; }")
                         .reduce_sort().run(), ["one", "two"])


def for_both_protocols(namespace):
    """Makes one test case for each group of tests and each protocol."""
    groups = (Connection, Objects, Options, Siblings, Properties, Listing, Indexes, DataTypes,
              MapReduce)
    for group in groups:
        for protocol, suffix in (("pbc", "OverPb"), ("http", "OverHttp")):
            name = group.__name__ + suffix
            namespace[name] = type(name, (group, Case), {"protocol": protocol})


for_both_protocols(globals())
DataTypesOnAClusterOverPb = type("DataTypesOnAClusterOverPb", (DataTypesOnACluster, ClusterCase),
                                 {"protocol": "pbc"})
DataTypesOnAClusterOverHttp = type("DataTypesOnAClusterOverHttp", (DataTypesOnACluster, ClusterCase),
                                   {"protocol": "http"})
IndexesOnAClusterOverPb = type("IndexesOnAClusterOverPb", (IndexesOnACluster, ClusterCase),
                               {"protocol": "pbc"})
IndexesOnAClusterOverHttp = type("IndexesOnAClusterOverHttp", (IndexesOnACluster, ClusterCase),
                                 {"protocol": "http"})

ScriptsOverPb = type("ScriptsOverPb", (Scripts, unittest.TestCase), {"protocol": "pbc"})
ScriptsOverHttp = type("ScriptsOverHttp", (Scripts, unittest.TestCase), {"protocol": "http"})

if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
