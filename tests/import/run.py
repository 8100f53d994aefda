"""Moves from Riak, with real processes: recorded directories of a Riak node, killed imports, damage,
types, comparisons, and Riak's own commands."""
import glob
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

import bitcask_files  # noqa: E402
from behind import Behind  # noqa: E402,F401
from killed import Killed  # noqa: E402,F401
from large_types import LargeTypes  # noqa: E402,F401
from recorded_answers import RecordedAnswers, get  # noqa: E402
import riak_pages  # noqa: E402
from support import unittest_runner  # noqa: E402
from support.cluster import Cluster, wait_until  # noqa: E402
from support.pb import Connection  # noqa: E402
from support.node import TemporaryNode, binary_from_environment, die_with_parent  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(HERE), "golden", "riak-data")
BINARY = binary_from_environment()
TYPES = {"sibs": {"allow_mult": True}, "nosibs": {"allow_mult": False}, "n1": {"n_val": 1},
         "n2": {"n_val": 2, "allow_mult": True}, "once": {"write_once": True},
         "lww": {"allow_mult": False, "last_write_wins": True, "dvv_enabled": False}}
ENGINES = ("bitcask", "leveldb", "leveled", "innostore", "memory")
START_SECONDS = 30


def quoit(*arguments, cwd=None, binary=BINARY):
    """Runs the program to its end. Returns its status, output and error output."""
    done = subprocess.run([binary] + list(arguments), stdin=subprocess.DEVNULL, cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True)
    return done.returncode, done.stdout, done.stderr


class Recorded(RecordedAnswers, unittest.TestCase):
    """Directories that a real Riak node wrote, imported on every engine."""

    def imported(self, archive, engine):
        with gzip.open(os.path.join(GOLDEN, archive + ".expected.json.gz")) as file:
            expected = json.load(file)
        settings = ["storage_backend=" + engine, "delete_mode=keep", "ring_size=16"]
        with TemporaryNode(BINARY, settings) as node, tempfile.TemporaryDirectory() as folder:
            with tarfile.open(os.path.join(GOLDEN, archive + ".tar.gz")) as tar:
                tar.extractall(folder)
            for name, props in TYPES.items():
                node.create_bucket_type(name, props)
            before = {path: os.stat(path).st_mtime_ns for path in glob.glob(folder + "/**", recursive=True)}
            status, out, words = quoit("import", "run", folder, "--to", node.url, "--format", "json",
                                       cwd=node.folder.name)
            self.assertEqual(status, 0, out + words)
            report = json.loads(out)
            self.assertEqual(report["verified"]["behind_count"], 0, report)
            self.assertGreater(report["same_copies"], report["sent"])
            after = {path: os.stat(path).st_mtime_ns for path in glob.glob(folder + "/**", recursive=True)}
            self.assertEqual(before, after, "the source was written to")
            for record in expected["objects"]:
                self.check_object(node, record)
            for record in expected["data_types"]:
                self.check_data_type(node, record)
            self.assertGreater(len(expected["data_types"]), 40)

    def on_every_engine(self, archive):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                self.imported(archive, engine)

    def test_bitcask(self):
        self.on_every_engine("bitcask")

    def test_bitcask_with_data_types(self):
        self.on_every_engine("bitcask-data-types")

    def test_bitcask_of_a_killed_node(self):
        self.on_every_engine("bitcask-killed")

    def test_leveldb(self):
        self.on_every_engine("leveldb")

    def test_leveldb_with_data_types(self):
        self.on_every_engine("leveldb-data-types")

    def test_leveled(self):
        self.on_every_engine("leveled")


class OneNode(unittest.TestCase):
    """Imports into one node, each into buckets of its own."""

    @classmethod
    def setUpClass(cls):
        cls.node = TemporaryNode(BINARY, ["ring_size=8"]).__enter__()
        cls.addClassCleanup(cls.node.__exit__)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def records(self, bucket, count, first=0):
        return [bitcask_files.record(bucket, b"k%06d" % number,
                                     bitcask_files.riak_object(b"value %d" % number))
                for number in range(first, first + count)]

    def run_import(self, *options):
        return quoit("import", "run", self.folder, "--to", self.node.url, "--format", "json", *options,
                     cwd=self.folder)

    def test_an_import_that_was_killed_goes_on_where_it_was(self):
        count = 12_000
        for number in range(4):
            bitcask_files.write_partition(self.folder, number, self.records(b"killed", count // 4,
                                                                            number * count // 4))
        journal = os.path.join(self.folder, "quoit-import.journal")
        process = subprocess.Popen([BINARY, "import", "run", self.folder, "--to", self.node.url],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        limit = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < limit:
            try:
                with open(journal, encoding="utf-8") as file:
                    if json.load(file)["sent"]["partitions"]:
                        break
            except (FileNotFoundError, ValueError):
                pass
            time.sleep(0.001)
        process.kill()
        process.wait()
        self.assertTrue(os.path.exists(journal), "it was done before it could be killed")
        status, out, words = self.run_import()
        self.assertEqual(status, 0, out + words)
        report = json.loads(out)
        self.assertTrue(report["resumed"])
        self.assertEqual((report["read"], report["sent"]), (count, count), "not the sum of all runs")
        self.assertEqual(report["verified"]["checked"], count)
        self.assertEqual(sum(one["stored"] for one in report["buckets"]), count)
        self.assertFalse(os.path.exists(journal))

    def test_damage_ends_the_import_unless_it_is_to_be_skipped(self):
        records = self.records(b"damaged", 50)
        path = bitcask_files.write_partition(self.folder, 0, records)
        at = sum(map(len, records[:7]))
        with open(path, "r+b") as file:
            file.seek(at + len(records[7]) - 1)
            file.write(b"\xff")
        status, _, words = self.run_import()
        self.assertEqual(status, 1)
        self.assertIn("%s: at byte %d" % (path, at), words)
        status, out, words = self.run_import("--skip-damaged")
        self.assertEqual(status, 1, words)
        report = json.loads(out)
        self.assertEqual((report["damaged_count"], report["buckets"][0]["stored"]), (1, 49))
        status, out, words = quoit("import", "inspect", self.folder, "--format", "json")
        self.assertEqual(status, 1, words)
        self.assertEqual(json.loads(out)["damaged"][0]["offset"], at)

    def test_the_latest_record_of_a_key_counts_and_tombstones_of_bitcask_remove(self):
        value = bitcask_files.riak_object
        records = [bitcask_files.record(b"latest", b"k", value(b"old", counter=1)),
                   bitcask_files.record(b"latest", b"gone", value(b"x")),
                   bitcask_files.record(b"latest", b"k", value(b"new", counter=2)),
                   bitcask_files.record(b"latest", b"gone", b"bitcask_tombstone2\0\0\0\1")]
        bitcask_files.write_partition(self.folder, 0, records)
        status, out, words = self.run_import()
        self.assertEqual(status, 0, out + words)
        self.assertEqual(get(self.node, "/buckets/latest/keys/k")[2], b"new")
        self.assertEqual(get(self.node, "/buckets/latest/keys/gone")[0], 404)

    def test_objects_that_were_checked_when_they_were_written_are_not_checked_again(self):
        self.node.create_bucket_type("checked", {"precommit": [{"mod": "quoit", "fun": "valid_json"}]})
        record = bitcask_files.record(b"b", b"k", bitcask_files.riak_object(b"no JSON"),
                                      bucket_type=b"checked")
        bitcask_files.write_partition(self.folder, 0, [record])
        status, out, words = self.run_import()
        self.assertEqual(status, 0, out + words)
        self.assertEqual(get(self.node, "/types/checked/buckets/b/keys/k")[2], b"no JSON")

    def test_a_new_node_does_not_start_on_a_directory_of_riaks(self):
        bitcask_files.write_partition(self.folder, 0, self.records(b"b", 1))
        status, _, words = quoit("serve", "--data-dir", self.folder, "--pb", "127.0.0.1:0", "--http",
                                 "127.0.0.1:0", "--node", "127.0.0.1:0")
        self.assertEqual(status, 1)
        self.assertIn("quoit import inspect", words)

    def test_a_directory_that_a_process_has_open_is_refused(self):
        path = bitcask_files.write_partition(self.folder, 0, self.records(b"b", 1))
        with open(path, "rb"):
            status, _, words = quoit("import", "inspect", self.folder)
        self.assertEqual(status, 1)
        self.assertIn("pid %d" % os.getpid(), words)

    def test_an_empty_directory_is_told(self):
        status, _, words = quoit("import", "inspect", self.folder)
        self.assertEqual(status, 1)
        self.assertIn("holds no data of Riak", words)

    def test_types_and_buckets_are_compared_with_those_of_another_node_that_speaks_as_riak(self):
        here = self.node
        with TemporaryNode(BINARY, ["ring_size=8"]) as riak:
            riak.create_bucket_type("carts", {"datatype": "set", "n_val": 2})
            types = ["import", "types", riak.url, "carts", "--to", here.url]
            self.assertEqual(quoit(*types)[0], 1)
            status, out, words = quoit(*types, "--create", "--format", "json")
            self.assertEqual(status, 0, out + words)
            self.assertTrue(json.loads(out)["same"])
            self.assertEqual(quoit(*types)[0], 0)
            by_pb = ["--by", "pb", "--riak-pb", riak.record["pb"]]
            status, out, words = quoit(*types, *by_pb)
            self.assertEqual((status, out), (0, "carts (active): as in Riak\n"), words)
            self.names_are_found(riak)
            compared = os.path.join(self.folder, "compared")
            bitcask_files.write_partition(compared, 0, self.records(b"compared", 20))
            for node in (riak, here):
                status, out, words = quoit("import", "run", compared, "--to", node.url, "--journal",
                                           os.path.join(self.folder, "journal-" + node.record["http"]))
                self.assertEqual(status, 0, out + words)
            compare = ["import", "compare", riak.url, here.url, "--riak-pb", riak.record["pb"],
                       "--here-pb", here.record["pb"], "--only", "default/compared", "--format", "json"]
            status, out, words = quoit(*compare)
            self.assertEqual(status, 0, out + words)
            bucket = json.loads(out)["buckets"][0]
            self.assertEqual((bucket["riak"], bucket["sampled"]), (bucket["here"], 20))
            request = urllib.request.Request(here.url + "/buckets/compared/keys/k000003", method="DELETE")
            urllib.request.urlopen(request, timeout=30).close()
            status, out, _ = quoit(*compare)
            self.assertEqual((status, json.loads(out)["buckets"][0]["only_riak"]), (1, ["k000003"]))

    def test_a_comparison_with_a_riak_that_does_not_answer_fails(self):
        dead = "127.0.0.1:1"
        for options in (["--riak-pb", dead, "--here-pb", self.node.record["pb"]],
                        ["--riak-pb", self.node.record["pb"], "--here-pb", dead]):
            status, out, words = quoit("import", "compare", self.node.url, self.node.url, *options)
            self.assertEqual(status, 1, out)
            self.assertIn("no connection to " + dead, words)

    def test_a_comparison_of_nothing_with_nothing_fails(self):
        with TemporaryNode(BINARY, ["ring_size=8"]) as empty:
            compare = ["import", "compare", empty.url, empty.url, "--riak-pb", empty.record["pb"],
                       "--here-pb", empty.record["pb"], "--format", "json"]
            status, out, words = quoit(*compare)
            self.assertEqual((status, json.loads(out)), (1, {"same": False, "buckets": []}), words)
            self.assertIn("nothing was compared", words)
            # A bucket that was named was compared, and is the same on both sides.
            status, out, words = quoit(*compare, "--only", "default/empty")
            self.assertEqual((status, json.loads(out)["same"]), (0, True), words)

    def names_are_found(self, riak):
        """Types are named by a report, by a directory, or by Riak if it has data of them."""
        types = ["import", "types", riak.url, "--to", self.node.url, "--riak-pb", riak.record["pb"],
                 "--format", "json"]
        report = os.path.join(self.folder, "report.json")
        with open(report, "w", encoding="utf-8") as file:
            json.dump({"buckets": [{"type": "carts"}, {"type": "default"}]}, file)
        source = os.path.join(self.folder, "typed")
        record = bitcask_files.record(b"b", b"k", bitcask_files.riak_object(b"v"), bucket_type=b"carts")
        bitcask_files.write_partition(source, 0, [record])
        with Connection(riak.pb) as pb:
            pb.call("DtUpdateReq", bucket="b", key="k", type="carts", op={"set_op": {"adds": ["a"]}})
        for options in (["--inspected", report], ["--data-dir", source], []):
            status, out, words = quoit(*types, *options)
            self.assertEqual(status, 0, out + words)
            self.assertEqual([one["name"] for one in json.loads(out)["types"]], ["carts"], options)

    def test_riak_admin_is_answered_by_its_own_name(self):
        link = os.path.join(self.folder, "riak-admin")
        os.symlink(BINARY, link)
        status, out, words = quoit("member-status", "--url", self.node.url, binary=link)
        self.assertEqual(status, 0, words)
        for phrase in ("valid", "100.0%", "Valid:1 / Leaving:0 / Exiting:0 / Joining:0 / Down:0"):
            self.assertIn(phrase, out)
        status, out, _ = quoit("ringready", "--url", self.node.url, binary=link)
        self.assertEqual((status, out[:4]), (0, "TRUE"))
        status, out, _ = quoit("cluster", "plan", "--url", self.node.url, binary=link)
        self.assertIn("There are no staged changes", out)
        status, out, _ = quoit("--url", self.node.url, "transfers", binary=link)
        self.assertEqual(status, 0, out)
        self.assertIn("No transfers active", out)
        status, out, words = quoit("security", "status", "--url", self.node.url, binary=link)
        self.assertEqual((status, out.strip()), (0, "Disabled"), words)
        status, out, words = quoit("show", "transfer_limit", "--url", self.node.url, binary=link)
        self.assertEqual(status, 0, words)
        self.assertIn("transfer_limit  transfer_rate", out)
        status, out, _ = quoit("test", "--url", self.node.url, binary=link)
        self.assertIn("Successfully completed 1 read/write cycle to '", out)
        status, out, _ = quoit("reip_manual", "a", "b", binary=link)
        self.assertEqual((status, out.startswith("nothing to do")), (0, True))
        for words_of in (["ensemble-status"], ["frobnicate"]):
            status, _, words = quoit(*words_of, binary=link)
            self.assertEqual(status, 1)
            self.assertNotIn("unrecognized", words)
        status, out, _ = quoit("wait-for-service", "riak_search", "--url", self.node.url, binary=link)
        self.assertEqual((status, out.split(":")[0]), (1, "riak_search is not a service of the node"))
        # Scripts look for refusals on the standard output.
        status, out, words = quoit("bucket-type", "status", "none", "--url", self.node.url, binary=link)
        self.assertEqual((status, out, words), (1, "none is not an existing bucket type\n", ""))
        riak = os.path.join(self.folder, "riak")
        os.symlink(BINARY, riak)
        for words_of in (["ping"], ["ping", "riak@127.0.0.1"]):
            status, out, _ = quoit(*words_of, "--url", self.node.url, binary=riak)
            self.assertEqual((status, out.strip()), (0, "pong"))
        status, out, _ = quoit("ping", "--url", "127.0.0.1:1", binary=riak)
        self.assertEqual((status, out), (1, "Node '127.0.0.1:1' not responding to pings.\n"))
        status, out, words = quoit("chkconfig", binary=riak)
        self.assertEqual((status, out), (0, "config is OK\n"), words)

    def test_riak_admin_tells_vnodes_diagnosis_and_what_is_under_way(self):
        def admin(*words):
            status, out, fault = quoit("riak-admin", *words, "--url", self.node.url)
            self.assertEqual(status, 0, out + fault)
            return out
        vnodes = admin("vnode-status")
        self.assertEqual(vnodes.count("VNode: "), 8)
        self.assertIn("VNode: 182687704666362864775460604089535377456991567872\n"
                      "Backend: riak_kv_bitcask_backend\nStatus:\n[{type,primary},{node,[", vnodes)
        self.assertIn("ring_preflists", admin("diag", "--list"))
        self.assertRegex(admin("diag", "-d", "info"), r"(?m)^\[info\] The ring has 8 partitions")
        only = admin("diag", "ring_preflists").splitlines()
        self.assertEqual(len(only), 1, only)
        self.assertTrue(only[0].startswith("[warning] There are 1 members"), only)
        self.assertEqual(admin("diag", "-d", "emergency").strip(), "No diagnostic messages to report.")
        self.assertIn("Load: cpu", admin("top"))
        dump = os.path.join(self.folder, "cluster.html")
        admin("cluster-info", dump)
        with open(dump, encoding="utf-8") as file:
            self.assertIn("<h2>Members</h2>", file.read())
        status, words, _ = quoit("riak-admin", "diag", "frobnicate", "--url", self.node.url)
        self.assertEqual(status, 1)
        self.assertIn("diag --list", words)

    def test_each_statistic_is_what_the_page_says(self):
        stats = json.loads(get(self.node, "/stats", "application/json")[2])
        told = riak_pages.statistics()
        for name, here in told.items():
            self.assertEqual(name in stats, here != "missing", name)
            if here == "0":
                self.assertEqual(stats[name], 0, name)
        unknown = {name for name in stats if not name.startswith("quoit_")} - set(told)
        self.assertEqual(unknown, set(), "not in the table of statistics")

    def test_each_setting_of_riaks_is_what_the_page_says(self):
        with open(os.path.join(HERE, "riak.conf"), encoding="utf-8") as file:
            keys = [line.split("=")[0].strip() for line in file if not line.startswith("#")]
        self.assertGreater(len(keys), 250)
        told = dict(riak_pages.settings())
        rows = {key: riak_pages.row_of(key, told) for key in keys}
        self.assertEqual([key for key in keys if rows[key] is None], [], "they have no row")
        self.assertEqual(set(told) - set(rows.values()), set(), "rows of no key")
        words = {"kept": "kept", "changed": "changed", "no meaning": "without_meaning", "refused": "refused"}
        remarks = self.remarks(os.path.join(HERE, "riak.conf"))
        refused = [key for key in keys if told[rows[key]] == "refused"]
        for key in set(keys) - set(refused):
            self.assertEqual(remarks[key], words[told[rows[key]]], key)
        # These keys are refused if they are set.
        source = os.path.join(self.folder, "set.conf")
        with open(source, "w", encoding="utf-8") as file:
            file.writelines("%s = on\n" % key for key in refused)
        self.assertEqual(set(self.remarks(source).values()), {"refused"})

    def remarks(self, file):
        """Returns the program's remark about each key of a file."""
        _, out, words = quoit("config", "from-riak", file, "--memory", "8589934592", "--format", "json")
        self.assertTrue(out, words)
        return {one["riak_key"]: one["remark"] for one in json.loads(out)}

    def test_each_command_of_the_page_is_answered(self):
        for program, commands in riak_pages.commands().items():
            self.assertGreater(len(commands), 10, program)
            for command in commands:
                # Every existing command has help; a word that is not a command has none.
                _, out, words = quoit(program, *command, "--help")
                self.assertNotIn("is not a command of", out + words, command)
        self.assertFalse(os.path.exists("--help"), "help was taken for the name of a file")

    def test_a_riak_conf_becomes_a_configuration_that_a_node_takes(self):
        source = os.path.join(self.folder, "riak.conf")
        with open(source, "w", encoding="utf-8") as file:
            file.write("nodename = riak@10.0.0.1\nring_size = 128\nleveldb.maximum_memory.percent = 50\n"
                       "erlang.async_threads = 64\nlistener.http.internal = 10.0.0.1:8098\n")
        advanced = os.path.join(self.folder, "advanced.config")
        with open(advanced, "w", encoding="utf-8") as file:
            file.write("[{riak_kv, [{delete_mode, keep}]}].\n")
        status, out, words = quoit("config", "from-riak", source, advanced, "--memory", "8589934592")
        self.assertEqual(status, 0, words)
        self.assertIn("leveldb.maximum_memory = 4095MB", out)
        self.assertIn("delete_mode = keep", out)
        made = os.path.join(self.folder, "quoit.conf")
        with open(made, "w", encoding="utf-8") as file:
            file.write(out)
        self.assertEqual(quoit("config", "check", made)[0], 0)
        with open(source, "a", encoding="utf-8") as file:
            file.write("strong_consistency = on\n")
        status, out, words = quoit("config", "from-riak", source)
        self.assertEqual(status, 1)
        self.assertIn("# REFUSED", out)


class ThreeNodes(unittest.TestCase):
    """Imports into a cluster whose nodes die meanwhile."""

    COUNT = 9_000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cluster = Cluster(self.folder, 3, ["ring_size=16"])
        self.addCleanup(self.cluster.__exit__)
        self.cluster.__enter__()
        self.source = os.path.join(self.folder, "riak")
        for number in range(3):
            share = range(number * self.COUNT // 3, (number + 1) * self.COUNT // 3)
            records = [bitcask_files.record(b"b", b"k%06d" % one, bitcask_files.riak_object(b"%d" % one),
                                            bucket_type=b"fresh") for one in share]
            bitcask_files.write_partition(self.source, number, records)
        self.journal = os.path.join(self.folder, "journal")

    def start(self, *options):
        return subprocess.Popen([BINARY, "import", "run", self.source, "--to", self.cluster[0].url,
                                 "--journal", self.journal, "--format", "json"] + list(options),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=die_with_parent, text=True)

    def across(self):
        """Returns the number of records that the journal counts as stored in the cluster."""
        if not os.path.exists(self.journal):
            return 0
        with open(self.journal, encoding="utf-8") as file:
            return json.load(file)["tally"]["sent"]

    def until_more_are_across(self, process, than):
        def is_begun():
            self.assertIsNone(process.poll(), "it was done before a node could be killed")
            return self.across() > than
        wait_until(is_begun, "the import to go on")

    def test_dead_nodes_and_a_dead_import_lose_nothing(self):
        first = self.start()
        self.until_more_are_across(first, 0)
        # A replica dies, and then the import.
        self.cluster[1].kill()
        first.kill()
        first.communicate()
        before = self.across()
        second = self.start()
        self.until_more_are_across(second, before)
        # The node that the import sends to dies, and starts again.
        self.cluster[0].kill()
        self.cluster[0].start()
        out, words = second.communicate(timeout=300)
        self.assertEqual(second.returncode, 0, out + words)
        report = json.loads(out)
        self.assertTrue(report["resumed"])
        self.assertEqual(report["sent"], self.COUNT, "it counts what all runs have sent")
        self.assertEqual((report["verified"]["checked"], report["verified"]["behind_count"]), (self.COUNT, 0))
        self.cluster[1].start()
        self.cluster.settle()
        # The type was created on all nodes, and each of them has the records.
        for node in self.cluster:
            for number in (0, self.COUNT // 2, self.COUNT - 1):
                status, _, body = get(node, "/types/fresh/buckets/b/keys/k%06d" % number)
                self.assertEqual((status, body), (200, b"%d" % number))

    def test_types_are_not_created_where_they_must_not_be(self):
        process = self.start("--no-types")
        _, words = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertIn("bucket type fresh does not exist", words)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
