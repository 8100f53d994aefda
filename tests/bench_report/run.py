"""Tests of the results of `quoit bench`: complete files after failures, and the report in a browser."""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE)]

from support import chromium, unittest_runner  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402
from support.pb import Connection  # noqa: E402

CONFIG = """{mode, {rate, 400}}. {concurrent, 4}. {driver, null}. {report_interval, 1}.
{operations, [{do_something, 5}, {{x, '<b>'}, do_something_else, 1}, {an_error, 1}]}.
"""
SUMMARY = "elapsed, window, total, successful, failed\n"
LATENCIES = "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n"
# Enough for the tables of a short run, not for its logs and reports.
FILE_BYTES_MAX = 800


class BenchCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.results = os.path.join(folder.name, "results")
        self.write("test.config", CONFIG)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as handle:
            handle.write(text)

    def read(self, name):
        with open(os.path.join(self.results, "run", name), encoding="utf-8") as handle:
            return handle.read()

    def bench(self, duration):
        return [binary_from_environment(), "bench", self.path("test.config"), "-d", self.results,
                "-n", "run", "--duration", duration]

    def report(self, *arguments):
        """Runs `quoit bench report`. Returns its exit status and its output."""
        done = subprocess.run([binary_from_environment(), "bench", "report", *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertNotIn("panicked", done.stdout)
        return done.returncode, done.stdout

    def assert_whole_rows(self, name, cell_count):
        text = self.read(name)
        self.assertTrue(text.endswith("\n"), name)
        for line in text.splitlines():
            self.assertEqual(len(line.split(", ")), cell_count, line)


class FullScreen(BenchCase):
    def test_the_view_shows_the_run_and_q_ends_it_in_good_order(self):
        """Runs in a terminal of its own: the view takes over the screen and gives it back, and the
        results are there."""
        pid, terminal = pty.fork()
        if pid == 0:
            # Tests run without a terminal, so TERM is not set. The program needs it.
            os.environ["TERM"] = "xterm-256color"
            os.execv(binary_from_environment(), self.bench("infinity") + ["--view"])
        self.addCleanup(os.close, terminal)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        shown, has_quit, deadline = b"", False, time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                shown += os.read(terminal, 65536)
            except OSError:
                break
            # The view has shown a second with its failures.
            if not has_quit and b"do_something" in shown and b"went_wrong" in shown:
                os.write(terminal, b"q")
                has_quit = True
        self.assertTrue(has_quit, shown[-2000:])
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, shown[-2000:])
        enter, leave = shown.find(b"\x1b[?1049h"), shown.rfind(b"\x1b[?1049l")
        self.assertTrue(0 <= enter < leave, shown[:200])
        for text in ["measuring", "op/s", "went_wrong", "q  ends the run"]:
            self.assertIn(text, shown[enter:leave].decode(errors="replace"))
        # The messages of the run are printed again after the view has ended.
        self.assertIn("Interrupted: finishing the operations in flight.", shown[leave:].decode())
        self.assertIn("Report: ", shown[leave:].decode())
        self.assert_whole_rows("summary.csv", 5)

    def test_without_a_terminal_the_view_is_refused(self):
        done = subprocess.run(self.bench("1s") + ["--view"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--view needs a terminal, and the standard output is not a terminal", done.stdout)
        self.assertFalse(os.path.exists(self.results))


class BadEnds(BenchCase):
    def test_an_interrupted_run_finishes_its_files_and_reports(self):
        process = subprocess.Popen(self.bench("infinity"), stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if " op/s | " in line:
                break
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        self.assertEqual(process.wait(60), 0, said)
        self.assertIn("Test interrupted after", said)
        self.assert_whole_rows("summary.csv", 5)
        self.assert_whole_rows("do-something_latencies.csv", 11)
        self.assertIn("went_wrong", self.read("errors.csv"))
        self.assertIn(">interrupted</li>", self.read("report.html"))
        self.assertTrue(self.read("summary.svg").rstrip().endswith("</svg>"))

    def test_a_run_goes_on_without_room_and_says_what_is_missing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))

        # Python ignores SIGXFSZ, and the child must ignore it too.
        done = subprocess.run(self.bench("3s"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, preexec_fn=limit,
                              restore_signals=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("The run goes on"), 1, done.stdout)
        self.assertIn("Test completed after 0:03", done.stdout)
        self.assertIn("the results are incomplete, missing: ", done.stderr)
        self.assertRegex(done.stderr, r"do-something\.hlog \(\d intervals?\)")
        self.assertIn("the report", done.stderr)
        self.assert_whole_rows("summary.csv", 5)
        left = os.listdir(os.path.join(self.results, "run"))
        self.assertFalse([name for name in left if name.endswith(".part")], left)

    def test_a_results_directory_that_cannot_be_made_is_named(self):
        self.results = self.path("test.config", "below-a-file")
        done = subprocess.run(self.bench("1s"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(self.results, done.stderr)
        self.assertIn("-d", done.stderr)


class ForPrograms(BenchCase):
    def run_json(self, *arguments):
        """Returns the lines of JSON on standard output, and the text on standard error."""
        done = subprocess.run([binary_from_environment(), "bench", *arguments, "--format", "json"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_the_standard_output_has_json_alone_whatever_the_run_prints(self):
        self.write("test.config", """{mode, {rate, 50}}. {concurrent, 2}. {driver, null}.
            {operations, [{print_key, 1}, {print_key_and_value, 1}]}. {value_generator, {fixed_bin, 9}}.
            {key_generator, {to_str, "key-~w", {uniform_int, 5}}}. {value_generator_source_size, 1000}.
            {pre_hook, {shell, "echo said-before"}}. {post_hook, {shell, "echo said-after"}}.
            {events, [{"100ms", said, "echo said-meanwhile"}]}. {zzz, 1}.
            """)
        out, told = self.run_json(self.path("test.config"), "-d", self.results, "--duration", "1500ms")
        kinds = [json.loads(line)["type"] for line in out.splitlines()]
        self.assertEqual(kinds, ["row"] * (len(kinds) - 1) + ["summary"], out)
        for text in ("said-before", "said-after", "said-meanwhile", "key-", "`zzz` is not known"):
            self.assertIn(text, told)

    def test_a_comparison_that_runs_first_has_its_answer_alone(self):
        config = self.path("test.config")
        out, told = self.run_json("compare", config, config, "--repeat", "1", "--duration", "6s",
                                  "-d", self.results)
        [compared] = json.loads(out)
        self.assertEqual(len(compared["base"]["runs"]), 1)
        self.assertIn("run-01", told)


class WatchedServers(BenchCase):
    def test_what_a_server_uses_stands_beside_the_latencies(self):
        with TemporaryNode(binary_from_environment(), []) as node, closed_port() as closed:
            done = subprocess.run(
                [binary_from_environment(), "bench", "pb://%s:%d" % node.pb, "--put", "100", "--rate", "500",
                 "--workers", "2", "-t", "4s", "-d", self.results, "-n", "run",
                 "--watch", "%s:%d" % node.http, "--watch", closed],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("%s was not watched: " % closed, done.stdout)
        header, *rows = [line.split(", ") for line in self.read("servers.csv").splitlines()]
        rows = [dict(zip(header, row)) for row in rows]
        self.assertGreaterEqual(len(rows), 2, done.stdout)
        for row in rows:
            self.assertEqual(row["server"], "%s:%d" % node.http)
            self.assertGreater(float(row["resident"]), 1e6)
        self.assertGreater(sum(float(row["cpu"]) for row in rows), 0)
        self.assertGreater(float(rows[-1]["disk"]), 0)
        page = self.read("report.html")
        self.assertRegex(page, r"for each successful operation: [\d.,\s]+ us of processor time")
        self.assertIn('id="server-cpu-about"', page)


EVENTS = """{mode, {rate, 100}}. {concurrent, 2}. {driver, riakc_pb}. {report_interval, 1}.
{operations, [{put, 1}]}. {key_generator, {int_to_bin_bigendian, {uniform_int, 100}}}.
{value_generator, {fixed_bin, 100}}. {riakc_pb_ips, [{"127.0.0.1", %d}]}. {riakc_pb_replies, 1}.
{events, [{"1s", phase}, {"6s", stop, "kill -STOP %d; sleep 2; kill -CONT %d"},
          {"12s", broken, "exit 3"}, {"1h", never, "true"}]}.
"""


class Events(BenchCase):
    def test_a_server_that_is_stopped_by_an_event_is_noticed_and_recovers(self):
        with TemporaryNode(binary_from_environment(), []) as node:
            self.write("test.config", EVENTS % (node.pb[1], node.process.pid, node.process.pid))
            done = subprocess.run(self.bench("14s"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=90)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the command of the event broken ended with: exit status: 3", done.stdout)
        self.assertIn("the run ended before its event never", done.stdout)
        rows = [line.split(", ") for line in self.read("events.csv").splitlines()]
        outcomes = {row[1]: row[3] for row in rows}
        self.assertEqual(outcomes, {"event": "outcome", "phase": "mark", "stop": "exit status: 0",
                                    "broken": "exit status: 3"})
        page = self.read("report.html")
        row = re.search(r"<tr><td>stop</td>.*?</tr>", page).group(0)
        noticed, recovered = re.search(r"<td>([\d.]+) s</td><td>([\d.]+ s|not over)</td>", row).groups()
        # The seconds count from the event, not from the start of the run.
        self.assertLess(float(noticed), 3.5, row)
        # On a busy machine there may be no three calm seconds before the next event.
        self.assertTrue(recovered == "not over" or float(recovered.split()[0]) >= 1, row)
        self.assertIn('class="mark-name"', page)


class Traces(BenchCase):
    HEADER = "time,operation,key,value_size\n"

    def replay(self, node, text, *options):
        self.write("trace.csv", text)
        return subprocess.run(
            [binary_from_environment(), "bench", "pb://%s:%d/b" % node.pb, "--trace", self.path("trace.csv"),
             "--workers", "3", "-d", self.results, "-n", "run%d" % len(os.listdir(self.folder)), *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    def test_a_trace_is_replayed_with_its_keys_sizes_and_times(self):
        lines = ["%.2f,put,user %d,%d" % (number / 50, number, 10 * number) for number in range(1, 101)]
        # By their times these operations come after the puts, no matter which worker is free.
        lines += ["6.0,get,user 7,", "6.5,delete,user 8,", "7.0,get,nobody,", "7.5,put,large,3000000"]
        with TemporaryNode(binary_from_environment(), []) as node:
            began = time.monotonic()
            done = self.replay(node, self.HEADER + "\n".join(lines) + "\n", "--speed", "5")
            took = time.monotonic() - began
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("a trace at 5 times its speed", done.stdout)
            self.assertGreater(took, 7.48 / 5, "operations wait for their times")
            for name, count in (("get", 2), ("put", 101), ("delete", 1)):
                self.assertRegex(done.stdout, r"(?m)^%s +%d " % (name, count))
            with Connection(node.pb) as pb:
                for number in (1, 50, 100):
                    value, = pb.get("b", "user %d" % number)
                    self.assertEqual(len(value), 10 * number)
                self.assertEqual(len(pb.get("b", "large")[0]), 3000000)
                self.assertFalse(pb.get("b", "user 8"))

    def test_a_trace_ends_the_run_at_a_line_that_is_none(self):
        with TemporaryNode(binary_from_environment(), []) as node:
            text = self.HEADER + "0,put,a,10\n0.1,fly,b,\n0.2,put,c,10\n"
            done = self.replay(node, text, "--speed", "max")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn('trace.csv:3: operation is "fly"', done.stdout)
            with Connection(node.pb) as pb:
                self.assertEqual(len(pb.get("b", "a")[0]), 10)
                self.assertFalse(pb.get("b", "c"))
            done = self.replay(node, "x,y\n")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("trace.csv:1: the first line is neither", done.stdout)
            done = self.replay(node, text, "--rate", "5")
            self.assertIn("leave out --rate", done.stdout)


@contextlib.contextmanager
def closed_port():
    """Yields the address of a port on which no server listens and which no other process can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield "127.0.0.1:%d" % held.getsockname()[1]


class OtherDirectories(BenchCase):
    def test_a_directory_without_results_is_refused(self):
        status, said = self.report(self.folder)
        self.assertEqual(status, 1)
        self.assertIn("holds no results of a run", said)
        status, said = self.report(self.path("nowhere"))
        self.assertEqual(status, 1)
        self.assertIn("nowhere cannot be read", said)

    def test_what_basho_bench_left_is_reported(self):
        self.write("summary.csv", SUMMARY + "10.000142, 10.000142, 21, 20, 1\n20.0, 9.9")
        self.write("get_latencies.csv",
                   LATENCIES + "10.000142, 10.000142, 15, 1, 15.5, 10, 20, 30, 40, 50, 1\n")
        status, said = self.report(self.folder)
        self.assertEqual(status, 0, said)
        self.assertIn("summary.csv:3: the last line is cut off", said)
        self.assertIn("errors.csv is missing", said)
        for name in ("summary.svg", "report.html"):
            self.assertTrue(os.path.getsize(self.path(name)) > 1000, name)

    def test_a_broken_line_is_named(self):
        self.write("summary.csv", SUMMARY + "10.0, 10.0, 21, many, 1\n")
        status, said = self.report(self.folder)
        self.assertEqual(status, 1)
        self.assertIn("summary.csv:2: successful is \"many\"", said)


# A script that measures each drawing of the page in the browser.
SIZES = """() => [...document.querySelectorAll("figure[data-plot] svg")].map((svg) => ({
  paths: [...svg.querySelectorAll("path.line")].map((path) => {
    const box = path.getBBox();
    return [box.width, box.height, getComputedStyle(path).stroke];
  }),
  height: svg.getBoundingClientRect().height,
  cells: [...svg.querySelectorAll("path.heat")].filter((path) => path.getBBox().width > 0).length,
  fill: getComputedStyle(svg.querySelector(".ground")).fill,
  text: svg.textContent,
}))"""
# A script that clicks the second column's head twice, and moves the pointer to the middle of the first
# plot.
USE = """() => {
  const column = document.querySelectorAll("table.sortable th button")[1];
  const counts = () => [...document.querySelectorAll("table.sortable")[0].tBodies[0].rows]
    .map((row) => Number(row.cells[1].dataset.value));
  column.click();
  const descending = counts();
  column.click();
  const svg = document.querySelector("figure[data-plot] svg");
  const box = svg.getBoundingClientRect();
  const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2};
  svg.dispatchEvent(new PointerEvent("pointermove", at));
  const readout = document.querySelector(".readout");
  const pointed = readout.textContent;
  svg.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
  return {descending, ascending: counts(), pointed, moved: readout.textContent,
          sort: document.querySelectorAll("table.sortable th")[1].getAttribute("aria-sort"),
          loaded: performance.getEntriesByType("resource").map((entry) => entry.name)};
}"""


class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = chromium.find()
        if cls.browser is None:
            print("passed unseen: there is no Chromium on this machine, so the report was not "
                  "looked at; install chromium to look")
            return
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        config = os.path.join(cls.folder, "test.config")
        with open(config, "w", encoding="utf-8") as handle:
            handle.write(CONFIG)
        command = [binary_from_environment(), "bench", config, "-d", cls.folder, "-n", "run",
                   "--duration", "4s"]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                       timeout=60)
        cls.page = os.path.join(cls.folder, "run", "report.html")

    def probe(self, script, dark=False):
        return chromium.probe(self.browser, self.page, script,
                              os.path.join(self.folder, "probe.html"), dark)

    def test_every_plot_is_drawn_in_light_and_dark(self):
        if self.browser is None:
            return
        strokes = []
        for dark, ground in ((False, "rgb(255, 255, 255)"), (True, "rgb(19, 26, 38)")):
            plots, document, _ = self.probe(SIZES, dark)
            # Throughput, two successful operations, the heat map, percentiles of operations and of delays.
            self.assertEqual(len(plots), 6)
            self.assertGreater(plots[3]["cells"], 3, "the heat map has shades")
            for plot in plots:
                self.assertGreater(plot["height"], 100)
                self.assertEqual(plot["fill"], ground)
                self.assertTrue(plot["paths"], plot)
                for width, height, _ in plot["paths"]:
                    self.assertGreater(width, 100, plot)
            self.assertGreater(plots[1]["paths"][0][1], 5, "latencies differ")
            self.assertIn("99.9 %", plots[1]["text"])
            self.assertIn("{x,'&lt;b&gt;'}", document)
            strokes.append(plots[0]["paths"][0][2])
        self.assertNotEqual(strokes[0], strokes[1], "colours follow the theme")

    def test_tables_sort_and_values_are_read_out(self):
        if self.browser is None:
            return
        used, _, console = self.probe(USE)
        self.assertEqual(used["descending"], sorted(used["descending"], reverse=True))
        self.assertEqual(used["ascending"], sorted(used["ascending"]))
        self.assertEqual(len(used["ascending"]), 3)
        self.assertEqual(used["sort"], "ascending")
        self.assertRegex(used["pointed"], r"^at 0:0\d.*ok[\d\u202f.]+ /s")
        self.assertNotEqual(used["moved"], used["pointed"])
        self.assertEqual(used["loaded"], [], "the page loads nothing")
        self.assertEqual(console, [])

    def test_the_chart_is_a_picture(self):
        if self.browser is None:
            return
        chart = os.path.join(self.folder, "run", "summary.svg")
        document, console = chromium.dump(self.browser, chart)
        self.assertEqual(document.count('class="heading"'), 5)
        self.assertNotIn("parsererror", document)
        self.assertEqual(console, [])


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
