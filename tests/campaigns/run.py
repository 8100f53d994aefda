"""Campaigns of `quoit bench`: every shipped campaign at a tiny scale, kills, and Ctrl-C.

With CAMPAIGN_SCALE=0.001 the shipped campaigns run at that scale instead, which takes longer. Of the
campaigns that compare engines only one cell runs otherwise, since the others only differ in settings.
"""
import csv
import html.parser
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import chromium, unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402

BINARY = os.path.abspath(binary_from_environment())
# With this scale each load takes its minimum of two seconds.
SCALE = os.environ.get("CAMPAIGN_SCALE", "0.000001")
# The number of published figures of each campaign.
SHIPPED = {
    "ec2-http": 16, "five-nodes": 2, "beyond-memory": 6, "eight-to-fourteen-nodes": 8,
    "growth-and-failure": 0, "volume": 3, "replication": 10, "crdt-growth": 6,
    "engines-skewed": 0, "engines-rewritten": 0, "engines-compression": 0,
}
# The cell to run of campaigns whose cells only differ in settings of the servers.
CELLS = {} if "CAMPAIGN_SCALE" in os.environ else {
    "engines-skewed": "leveldb-updates", "engines-rewritten": "leveled", "engines-compression": "bitcask_lz4"}
SECONDS = float(os.environ.get("CAMPAIGN_SECONDS", "600"))
# HTML elements without an end tag.
ALONE = {"meta", "link", "br", "img", "input", "hr"}

# Three cells with one node each. The second one is long enough to be interrupted.
SMALL = """{title, "small"}. {server, [{nodes, 1}, {engine, memory}]}.
{matrix, [{part, [{one, 0.02}, {two, %s}, {three, 0.02}]}]}.
{run, [{duration, {axis, part}}, {mode, {rate, 50}}, {concurrent, 2}, {driver, riakc_pb},
       {report_interval, 1}, {riakc_pb_ips, {servers, pb}}, {operations, [{get, 1}, {put, 1}]},
       {key_generator, {int_to_bin_bigendian, {uniform_int, {scaled, 100}}}}]}.
{published, [{[{part, two}], "a source, with <b>", [{rate, 50}, {{p99, get}, {1, 1000}}]}]}.
"""


class Balanced(html.parser.HTMLParser):
    """Parses a page. Collects its links, and elements that are not closed or were never opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.links, self.text = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += ["<%s> is not closed" % name for name in self.open]

    def handle_starttag(self, tag, attributes):
        if tag not in ALONE:
            self.open.append(tag)
        self.links += [value for name, value in attributes if tag == "a" and name == "href"]

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append("</%s> after %s" % (tag, self.open[-3:]))
        else:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


def processes_below(folder):
    """Returns the ids of processes whose command line names a path in a folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as handle:
                words = handle.read().split(b"\0")
        except OSError:
            continue
        if int(pid) != os.getpid() and any(folder.encode() in word for word in words):
            found.append(int(pid))
    return found


class CampaignCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.directory = os.path.join(folder.name, "campaign")

    def command(self, campaign, *options):
        return [BINARY, "bench", "campaign", campaign, "-d", self.directory, *options]

    def run_whole(self, campaign, *options):
        """Runs a campaign. Returns its exit status and its output."""
        done = subprocess.run(self.command(campaign, *options), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
                              cwd=self.folder)
        self.assertNotIn("panicked", done.stdout)
        return done.returncode, done.stdout

    def small(self, minutes="0.02"):
        path = os.path.join(self.folder, "small.campaign")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(SMALL % minutes)
        return path

    def json(self, name):
        with open(os.path.join(self.directory, name), encoding="utf-8") as handle:
            return json.load(handle)

    def ends(self):
        """Returns the ends of the cells that ran, by label."""
        return {cell["label"]: cell["end"] for cell in self.json("state.json")["cells"]}

    def assert_nothing_runs(self):
        limit = time.monotonic() + 60
        while processes_below(self.folder):
            left = processes_below(self.folder)
            self.assertLess(time.monotonic(), limit, "processes are left: %s" % left)
            time.sleep(0.05)

    def page(self):
        path = os.path.join(self.directory, "campaign.html")
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
        page = Balanced(text)
        self.assertEqual(page.faults, [])
        for link in page.links:
            self.assertTrue(os.path.exists(os.path.join(self.directory, link)), link)
        browser = chromium.find()
        if browser is not None:
            document, console = chromium.dump(browser, path)
            self.assertEqual(console, [])
            self.assertIn('aria-labelledby="cells"', document)
            self.assertIn("<th scope=\"col\"><button", document, "tables can be sorted")
        return page


class Shipped(CampaignCase):
    def run_shipped(self, name, published):
        chosen = ("--cell", CELLS[name]) if name in CELLS else ()
        status, said = self.run_whole(name, "--scale", SCALE, "--force", *chosen)
        self.assertEqual(status, 0, said)
        ends = self.ends()
        self.assertEqual(set(ends.values()), {"done"}, said)
        tables = self.json("summary.json")
        left = [cell["cell"] for cell in tables["cells"] if cell["end"] != "done"]
        self.assertEqual(left, [cell["cell"] for cell in tables["cells"] if cell["cell"] not in ends])
        self.assertEqual(len(ends), 1 if chosen else len(tables["cells"]))
        compared = [row for row in tables["figures"] if row["published"] is not None]
        self.assertEqual(len(compared), published)
        lacking = [row for row in compared if row["ours"] is None and not self.had_none(row)]
        self.assertEqual(lacking, [], said)
        path = os.path.join(self.directory, "summary.csv")
        with open(path, encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
        self.assertEqual(len(rows), len(tables["figures"]))
        self.assertEqual(len([row for row in rows if row["source"]]), published)
        page = self.page()
        self.assertEqual(sorted(page.links), sorted(label + "/report.html" for label in ends))
        text = " ".join(page.text)
        for row in compared:
            self.assertIn(row["published"], text)
            self.assertIn(row["source"], text)
        for label in ends:
            done = subprocess.run([BINARY, "bench", "report", os.path.join(self.directory, label)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("servers-")], [])
        self.assert_nothing_runs()
        return tables

    def had_none(self, row):
        """Tells if no operation of the figure succeeded in the two seconds of the cell."""
        for word in row["figure"].split():
            path = os.path.join(self.directory, row["cell"], word.rstrip(",") + "_latencies.csv")
            if os.path.exists(path):
                with open(path, encoding="utf-8", newline="") as handle:
                    periods = list(csv.DictReader(handle, skipinitialspace=True))
                if not any(int(period["n"]) for period in periods):
                    return True
        return False

    def test_the_list_names_all_of_them(self):
        done = subprocess.run([BINARY, "bench", "campaign", "list"], stdout=subprocess.PIPE, text=True,
                              timeout=60)
        self.assertEqual({line.split()[0] for line in done.stdout.splitlines()}, set(SHIPPED))

    def test_events_of_growth_and_failure_change_the_servers(self):
        self.run_shipped("growth-and-failure", SHIPPED["growth-and-failure"])
        for cell, names in (("growth", ["two more nodes", "three more nodes"]),
                            ("failure", ["node 3 killed", "node 3 back"])):
            with open(os.path.join(self.directory, cell, "events.csv"), encoding="utf-8") as handle:
                rows = [line.rstrip("\n").split(", ") for line in handle][1:]
            self.assertEqual([row[1] for row in rows], names)
            # A run of two seconds may be over before the nodes have joined.
            self.assertTrue({row[3] for row in rows} <= {"done", "not done at the end of the run"}, rows)
            if cell == "failure":
                self.assertEqual(rows[0][3], "done")

    def test_the_older_protocol_stands_beside_the_newer_one(self):
        tables = self.run_shipped("replication", SHIPPED["replication"])
        beside = [row["source"] for row in tables["figures"]
                  if row["cell"] == "bitcask" and row["unit"] == "ms" and row["published"]]
        self.assertEqual(beside, ["Riak 2.9.1, newer replication", "Riak 2.9.1, older protocol (riak_repl)"])

EVENTS = """{title, "events"}. {server, [{nodes, 3}, {program, "%s"}, {settings, ["ring_size=16"]}]}.
{load, [{driver, riakc_pb}, {mode, max}, {duration, infinity}, {riakc_pb_ips, {servers, pb}},
        {operations, [{put, 1}]}, {key_generator, {int_to_bin_bigendian, {partitioned_sequential_int, 50}}}]}.
{run, [{duration, 0.5}, {mode, {rate, 20}}, {concurrent, 3}, {driver, riakc_pb}, {report_interval, 1},
       {riakc_pb_ips, {servers, pb}}, {operations, [{get, 1}, {put, 1}]},
       {key_generator, {int_to_bin_bigendian, {uniform_int, 50}}}]}.
{events, [{"2s", ps, "%s > $QUOIT_BENCH_DIR/nodes"}, {"3s", kill, {kill, 2}}, {"5s", wrong, {kill, 2}},
          {"6s", back, {start, 2}}, {"12s", pause, {pause, 3}}, {"13s", resume, {resume, 3}},
          {"14s", more, {add, 1}}, {"10%%", mark}]}.
"""


class Servers(CampaignCase):
    def test_nodes_of_another_program_are_killed_started_paused_and_added(self):
        program = os.path.join(self.folder, "another-build")
        os.symlink(BINARY, program)
        command = "cat /proc/[0-9]*/cmdline | tr '\\\\0' '\\\\n' | grep -c %s" % program
        path = os.path.join(self.folder, "events.campaign")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(EVENTS % (program, command))
        status, said = self.run_whole(path)
        self.assertEqual(status, 0, said)
        with open(os.path.join(self.directory, "only", "events.csv"), encoding="utf-8") as handle:
            outcomes = dict(line.rstrip("\n").split(", ")[1::2] for line in handle)
        self.assertRegex(outcomes.pop("wrong"), "node 2 was killed by SIGKILL")
        self.assertEqual(outcomes, {
            "event": "outcome", "ps": "exit status: 0", "kill": "done", "back": "done", "pause": "done",
            "resume": "done", "more": "done", "mark": "mark"})
        with open(os.path.join(self.directory, "only", "nodes"), encoding="utf-8") as handle:
            # Three nodes, and the process that looks for them.
            self.assertGreaterEqual(int(handle.read()), 3)
        self.assertTrue(os.path.isdir(os.path.join(self.directory, "preparation", "only-load")))
        self.assert_nothing_runs()

    def test_servers_that_run_already_are_left_alone(self):
        path = os.path.join(self.folder, "running.campaign")
        with TemporaryNode(BINARY, []) as node:
            running = '{running, {["%s:%d"], ["%s:%d"]}}' % (node.pb + node.http)
            with open(path, "w", encoding="utf-8") as handle:
                handle.write((SMALL % "0.02").replace("{nodes, 1}, {engine, memory}", running))
            status, said = self.run_whole(path, "--cell", "two")
            self.assertEqual(status, 0, said)
            self.assertIn("two: 1 running server", said)
            self.assertEqual(node.process.poll(), None)
        self.assertEqual(self.ends(), {"two": "done"})


def add_shipped():
    for name, published in SHIPPED.items():
        if name in ("growth-and-failure", "replication"):
            continue
        test = "test_%s_runs_whole" % name.replace("-", "_")
        setattr(Shipped, test, lambda self, name=name, count=published: self.run_shipped(name, count))


class Ends(CampaignCase):
    def start_until(self, campaign, *words):
        """Starts a campaign, and waits until its output has each of these words."""
        process = subprocess.Popen(self.command(campaign), stdin=subprocess.DEVNULL, text=True,
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wanted = list(words)
        for line in process.stdout:
            if wanted and wanted[0] in line:
                wanted.pop(0)
            if not wanted:
                return process
        self.fail("the campaign ended: %s" % process.wait())

    def test_a_killed_campaign_goes_on_with_the_cell_that_was_cut_off(self):
        campaign = self.small("1")
        process = self.start_until(campaign, "Cell 2 of 3", " op/s | ")
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_nothing_runs()
        before = self.json("state.json")["cells"]
        self.assertEqual([cell["label"] for cell in before], ["one"])
        left = os.path.join(self.directory, "two", "summary.csv")
        self.assertTrue(os.path.exists(left), "half a run is left")
        shorter = self.small()
        status, said = self.run_whole(shorter)
        self.assertEqual(status, 1, said)
        self.assertIn("another version of it", said)
        status, said = self.run_whole(self.small("1"), "--cell", "three")
        self.assertEqual(status, 0, said)
        self.assertEqual(self.ends(), {"one": "done", "three": "done"})
        self.assertEqual(self.json("state.json")["cells"][0], before[0], "what was done is not run again")
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("servers-")], [],
                         "the data of the killed servers is removed")
        process = self.start_until(self.small("1"), "1 of 3 cells to run", "Cell 1 of 1: two", " op/s | ")
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        self.assertEqual(process.wait(60), 1, said)
        self.assertIn("Interrupted: 1 of 3 cells are left", said)
        self.assertNotIn("two", self.ends(), "a run that was cut short is none")
        self.assert_nothing_runs()
        page = self.page()
        self.assertIn("2 of 3 cells done", page.text)

    def test_ctrl_c_ends_the_nodes_and_the_next_call_finishes(self):
        campaign = self.small()
        process = self.start_until(campaign, "Cell 2 of 3")
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        self.assertEqual(process.wait(60), 1, said)
        self.assert_nothing_runs()
        status, said = self.run_whole(campaign)
        self.assertEqual(status, 0, said)
        self.assertIn("2 of 3 cells to run", said)
        self.assertEqual(set(self.ends().values()), {"done"})
        self.assertIn("published 50 (a source, with <b>)", said)
        page = self.page()
        self.assertIn("a source, with <b>", page.text, "texts are no markup")
        status, said = self.run_whole(campaign)
        self.assertEqual(status, 0, said)
        self.assertIn("0 of 3 cells to run", said)
        done = subprocess.run([BINARY, "bench", "report", self.directory], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("name the directory of one of its cells", done.stdout)

    def test_a_node_that_does_not_start_fails_its_cell_and_no_other(self):
        path = os.path.join(self.folder, "bad.campaign")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write((SMALL % "0.02").replace("{engine, memory}", "{engine, {axis, engine}}")
                         .replace("{matrix, [", "{matrix, [{engine, [stone, memory]}, "))
        status, said = self.run_whole(path, "--cell", "*-one", "--cell", "memory-two", "--keep-data")
        self.assertEqual(status, 1, said)
        self.assertEqual(self.ends(), {"stone-one": "failed", "memory-one": "done", "memory-two": "done"})
        for cell in ("stone-one", "memory-one"):
            log = os.path.join(self.directory, "data", cell, "cluster-1", "dev1", "log")
            self.assertGreater(os.path.getsize(log), 0, "logs are kept where that is asked for")
        self.assertRegex(said, r"(?s)Cell stone-one is failed: .*storage_backend = stone")
        self.assert_nothing_runs()


add_shipped()

if __name__ == "__main__":
    if chromium.find() is None:
        print("passed unseen: there is no Chromium on this machine, so pages were parsed and not opened")
    sys.exit(unittest_runner.run(sys.modules[__name__]))
