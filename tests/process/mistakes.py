"""A table of mistakes that people make, with the expected message: the value, the place, the remedy.

Each line is a command line of `quoit` and texts that must occur in its answer. {http}, {pb} and
{node} are the addresses of a running node, {dead} is an address without a server, {dir} is an empty
directory, and {data} is the node's data directory.
"""
import os
import shlex
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

BINARY = os.path.abspath(binary_from_environment())
SECONDS = 60
RECORD_FORM = "write TYPE/BUCKET/KEY (or BUCKET/KEY for the type default), with %2F for a slash"
BUCKET_FORM = "write TYPE/BUCKET (or BUCKET for the type default), with %2F for a slash"

# Files in {dir} that the commands below name.
FILES = {
    "typo.conf": "leveldb.maximum_memry = 1GB\n",
    "typo2.conf": "log.formt = json\n",
    "typo3.conf": "handoff.inbond = on\n",
    "typo4.conf": "anti_entropy.trigger_intervall = 1h\n",
    "noequals.conf": "ring_size 64\n",
    "ring.conf": "ring_size = 63\n",
    "flag.conf": "handoff.inbound = maybe\n",
    "size.conf": "object.size.maximum = 50 potatoes\n",
    "address.conf": "listener.http.main = 8098\n",
    "engine.conf": "storage_backend = rocksdb\n",
    "twice.conf": "slow_log.maximum = 99999999\n",
    "value.json": "{",
    "bench.config": "{mode, max}.\n{driver, basho_bench_driver_nothing}.\n",
    "unclosed.config": "{mode, max.\n",
    "toml.toml": "mode = \n",
}

NAMES = [
    ("get k", ["'k' is not the name of a record", "the key is missing", RECORD_FORM]),
    ("get ''", ["the key is missing", RECORD_FORM]),
    ("get b/", ["its key is empty", RECORD_FORM]),
    ("get t//k", ["its bucket is empty", RECORD_FORM]),
    ("get /b/k", ["its type is empty", RECORD_FORM]),
    ("get t/b/k/l", ["it has 4 parts", "%2F for a slash"]),
    ("get b/100%", ["a percent sign in its key", "%25 for a percent sign"]),
    ("get b/%zz", ["a percent sign in its key", "two hexadecimal digits"]),
    ("put k v", ["'k' is not the name of a record", RECORD_FORM]),
    ("del k", ["'k' is not the name of a record", RECORD_FORM]),
    ("keys a/b/c", ["'a/b/c' is not the name of a bucket", "it has 3 parts", BUCKET_FORM]),
    ("keys ''", ["its bucket is empty", BUCKET_FORM]),
    ("index a/b/c f_bin x", ["it has 3 parts", BUCKET_FORM]),
    ("admin keys a/b/c", ["it has 3 parts", BUCKET_FORM]),
    ("admin fold object-stats a/b/c", ["it has 3 parts", BUCKET_FORM]),
    ("admin data-type k", ["the key is missing", RECORD_FORM]),
    ("admin bucket props a/b/c", ["it has 3 parts", BUCKET_FORM]),
    ("set add k x", ["the key is missing", RECORD_FORM]),
    ("counter incr k", ["the key is missing", RECORD_FORM]),
    ("map update k a_flag=true", ["the key is missing", RECORD_FORM]),
]

PLACES = [
    ("admin --url {dead} ping",
     ["no answer from http://{dead}", "is a node running there?", "--url HOST:PORT"]),
    ("get --url {dead} b/k", ["no answer from http://{dead}", "--url HOST:PORT"]),
    ("status --url {dead}", ["no answer from http://{dead}", "--url HOST:PORT"]),
    ("stat --url {dead}", ["no answer from http://{dead}"]),
    ("slow-log --url {dead}", ["no answer from http://{dead}"]),
    ("hot-keys --url {dead}", ["no answer from http://{dead}"]),
    ("admin --url {dead},{dead} ping", ["none of http://{dead}, http://{dead} can be asked"]),
    ("admin --url {pb} ping", ["{pb} does not speak HTTP", "listener.http", "8098"]),
    ("admin --url {node} ping", ["{node} ended the connection", "listener.http"]),
    ("admin --url 'http://a b' ping", ["is not a URL", "--url HOST:PORT"]),
    ("admin --url nowhere.invalid:8098 ping", ["nowhere.invalid:8098", "no host of that name"]),
    ("admin --url unix:{dir} ping", ["unix:{dir}/admin.sock is not there", "data directory"]),
    ("admin --url {http} cluster join {http}", ["HTTP", "{http}"]),
    ("admin --url {http} cluster join {dead}", ["{dead}"]),
    ("admin --url {http} cluster join nonsense", ["nonsense"]),
    ("admin --url {http} cluster leave nobody@nowhere", ["nobody@nowhere is not a member"]),
    ("admin --url {http} down nobody@nowhere", ["nobody@nowhere is not a member"]),
    ("admin --url {http} cluster commit", ["cluster plan"]),
    ("serve --pb {pb} --http 127.0.0.1:0 --node 127.0.0.1:0 --data-dir {dir}/d1",
     ["can't listen on {pb}", "another process has the port", "--pb HOST:PORT"]),
    ("serve --pb 127.0.0.1:0 --http {http} --node 127.0.0.1:0 --data-dir {dir}/d2",
     ["can't listen on {http}", "another process has the port", "--http HOST:PORT"]),
    ("serve --pb 127.0.0.1:0 --http 127.0.0.1:0 --node {node} --data-dir {dir}/d3",
     ["can't listen on {node}", "another process has the port", "--node HOST:PORT"]),
    ("serve --pb 192.0.2.1:0 --data-dir {dir}/d4",
     ["192.0.2.1:0", "this machine does not have the address", "--pb HOST:PORT"]),
    ("serve --pb 8087 --data-dir {dir}/d5", ["8087", "HOST:PORT"]),
    ("serve --pb 127.0.0.1:0 --http 127.0.0.1:0 --node 127.0.0.1:0 --data-dir {data}", ["{data}"]),
    ("serve --pb 127.0.0.1:0 --http 127.0.0.1:0 --node 127.0.0.1:0 --data-dir {dir}/value.json",
     ["can't make the data directory {dir}/value.json", "--data-dir"]),
]

SETTINGS = [
    ("config check {dir}/typo.conf", ["typo.conf", "1", "leveldb.maximum_memry", "leveldb.maximum_memory"]),
    ("config check {dir}/typo2.conf", ["log.formt", "log.format"]),
    ("config check {dir}/typo3.conf", ["handoff.inbond", "handoff.inbound"]),
    ("config check {dir}/typo4.conf", ["anti_entropy.trigger_intervall", "anti_entropy.trigger_interval"]),
    ("config check {dir}/noequals.conf", ["noequals.conf", "1"]),
    ("config check {dir}/ring.conf", ["ring_size", "63"]),
    ("config check {dir}/flag.conf", ["handoff.inbound", "maybe", "on or off"]),
    ("config check {dir}/size.conf", ["object.size.maximum", "50 potatoes", "512KB"]),
    ("config check {dir}/address.conf", ["listener.http.main", "8098", "HOST:PORT"]),
    ("config check {dir}/engine.conf", ["storage_backend", "rocksdb", "bitcask"]),
    ("config check {dir}/twice.conf", ["slow_log.maximum", "99999999", "from 0 to 10000"]),
    ("config check {dir}/none.conf", ["none.conf"]),
    ("config init {dir}/typo.conf", ["typo.conf", "name another file", "--print"]),
    ("config show --set ring_sise=64", ["ring_sise", "ring_size"]),
    ("config show --set ring_size", ["`ring_size` is not of the form `key = value`"]),
    ("serve --set nodenam=x --data-dir {dir}/d6", ["nodenam", "nodename"]),
    ("serve --config {dir}/none.conf", ["none.conf"]),
    ("serve --config {dir}/typo.conf", ["leveldb.maximum_memry", "leveldb.maximum_memory"]),
    ("doctor --config {dir}/ring.conf", ["ring_size", "63"]),
    ("config describe nodenam", ["nodename"]),
]

DATA = [
    ("get --url {http} b/none", ["there is no default/b/none"]),
    ("del --url {http} b/none", ["there is no default/b/none"]),
    ("get --url {http} none/b/k",
     ["bucket type none does not exist or is not active", "bucket-type create none"]),
    ("put --url {http} none/b/k v", ["bucket type none does not exist", "bucket-type list"]),
    ("keys --url {http} none/b", ["none", "does not exist"]),
    ("buckets --url {http} none", ["none", "does not exist"]),
    ("index --url {http} b age_int x", ["age_int", "x"]),
    ("index --url {http} b age 1", ["age"]),
    ("put --url {http} b/k v --index age_int=x", ["age_int"]),
    ("put --url {http} b/k v --index age", ["'age' is not of the form NAME=VALUE"]),
    ("put --url {http} b/k --file {dir}/none", ["can't read the value from {dir}/none"]),
    ("put --url {http} b/k v --file {dir}/value.json", ["cannot be used with"]),
    ("put --url {http} b/k v --context x --replace", ["cannot be used with"]),
    ("put --url {http} b/k v --w many", ["'many' is not a number of replicas", "one, quorum, all, default"]),
    ("put --url {http} b/k v --w 9", ["n value of 3"]),
    ("put --url {http} b/there v --if-absent", ["default/b/there is there already", "nothing was written"]),
    ("get --url {http} b/there --sibling 2", ["has no sibling 2", "--sibling 1"]),
    ("get --url {http} b/there --sibling 0", ["has no sibling 0"]),
    ("get --url {http} b/there --output {dir}/no/where", ["can't write {dir}/no/where"]),
    ("get --url {http} carts/de/42 --format raw", ["has 2 siblings", "--sibling 1 to 2", "--replace"]),
    ("set add --url {http} b/k x",
     ["buckets of the type default hold objects, no set", "bucket-type create"]),
    ("counter incr --url {http} sets/b/k", ["sets/b/k"]),
    ("set get --url {http} sets/b/none", ["there is no sets/b/none"]),
    ("set remove --url {http} sets/b/none x", ["there is no sets/b/none"]),
    ("map get --url {http} sets/b/there", ["sets/b/there is a set: use `quoit set`"]),
    ("map update --url {http} sets/b/k name", ["'name' is not of the form FIELD=VALUE"]),
    ("map update --url {http} sets/b/k name=x", ["does not tell its kind", "_register"]),
    ("map update --url {http} sets/b/k a_flag=perhaps", ["a flag is true or false"]),
    ("map update --url {http} sets/b/k n_counter=x", ["a whole number", "n_counter=+1"]),
    ("map update --url {http} sets/b/k t_set=x", ["t_set=+x to add", "t_set=-x to remove"]),
    ("map update --url {http} sets/b/k m_map=x", ["name a field of the map"]),
    ("counter incr --url {http} sets/b/k many", ["many"]),
]

ADMINISTRATION = [
    ("admin --url {http} bucket-type create t {{", ["Cannot create bucket type t: invalid json"]),
    ("admin --url {http} bucket-type create t '{{}}'", ["no props field found in json"]),
    ("admin --url {http} bucket-type create t '{{\"props\":{{\"n_val\":0}}}}'", ["n_val"]),
    ("admin --url {http} bucket-type create t '{{\"props\":{{\"datatype\":\"list\"}}}}'", ["datatype"]),
    ("admin --url {http} bucket-type activate none", ["none"]),
    ("admin --url {http} bucket-type status none", ["none"]),
    ("admin --url {http} bucket-type update carts '{{\"props\":{{\"n_val\":\"x\"}}}}'", ["n_val"]),
    ("admin --url {http} bucket props b {{", ["invalid json"]),
    ("admin --url {http} fold status 99", ["there is no fold 99"]),
    ("admin --url {http} fold find-keys b", ["--siblings <N>"]),
    ("admin --url {http} aae-exchange 9999", ["9999"]),
    ("admin --url {http} transfer-rate nothing", ["nothing"]),
    ("admin engine convert leveled --data-dir {dir}", ["{dir}"]),
    ("admin bogus", ["unrecognized subcommand 'bogus'"]),
    ("statu", ["unrecognized subcommand 'statu'", "'status'"]),
    ("completions csh", ["csh", "bash", "zsh", "fish"]),
    ("debug bundle --url {dead} --output {dir}/no/where", ["can't make {dir}/no/where", "--output"]),
    ("man --dir {dir}/value.json", ["can't write manual pages into {dir}/value.json"]),
    ("dev-cluster 0", ["0"]),
    ("bench {dir}/none.config", ["none.config"]),
    ("bench {dir}/bench.config",
     ["bench.config:2:10", "driver nothing is not offered: there are", "riakc_pb"]),
    ("bench {dir}/unclosed.config", ["unclosed.config", "1"]),
    ("bench {dir}/toml.toml", ["toml.toml", "1"]),
    ("bench report {dir}/none", ["{dir}/none"]),
]


class Mistakes(unittest.TestCase):
    """Each class of mistakes is a test. Each of its lines must fail with its message."""

    @classmethod
    def setUpClass(cls):
        cls.running = TemporaryNode(BINARY)
        cls.node = cls.running.__enter__()
        cls.addClassCleanup(cls.running.__exit__, None, None, None)
        cls.folder = cls.node.folder.name
        for name, text in FILES.items():
            with open(os.path.join(cls.folder, name), "w", encoding="utf-8") as handle:
                handle.write(text)
        cls.node.create_bucket_type("carts", {"allow_mult": True})
        cls.node.create_bucket_type("sets", {"datatype": "set"})
        for command in ["put b/there v", "put carts/de/42 apples", "put carts/de/42 pears",
                        "set add sets/b/there x"]:
            done = cls.quoit(shlex.split(command) + ["--url", cls.node.url])
            assert done.returncode == 0, done.stdout
        # A port that is taken, but on which no server listens.
        cls.silent = socket.socket()
        cls.silent.bind(("127.0.0.1", 0))
        cls.addClassCleanup(cls.silent.close)
        cls.places = {
            "http": "%s:%d" % cls.node.http, "pb": "%s:%d" % cls.node.pb, "node": "%s:%d" % cls.node.node,
            "dead": "127.0.0.1:%d" % cls.silent.getsockname()[1], "dir": cls.folder,
            "data": cls.node.data_dir}

    @classmethod
    def quoit(cls, words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUOIT")}
        return subprocess.run([BINARY] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS, text=True, cwd=cls.folder,
                              env=environment)

    def check(self, table):
        for line, words in table:
            with self.subTest(line):
                command = shlex.split(line.format(**self.places))
                done = self.quoit(command)
                told = "%s\ntells\n%s" % (" ".join(command), done.stdout)
                if command[:2] != ["config", "describe"]:
                    self.assertNotEqual(done.returncode, 0, told)
                self.assertNotIn("panicked", done.stdout, told)
                for word in words:
                    self.assertIn(word.format(**self.places), done.stdout, told)

    def test_names_of_records_and_buckets(self):
        self.check(NAMES)

    def test_places_of_nodes(self):
        self.check(PLACES)

    def test_settings(self):
        self.check(SETTINGS)

    def test_data(self):
        self.check(DATA)

    def test_administration(self):
        self.check(ADMINISTRATION)

    def test_the_table_has_a_hundred_mistakes(self):
        self.assertGreaterEqual(len(NAMES + PLACES + SETTINGS + DATA + ADMINISTRATION), 100)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
