#!/usr/bin/env python3
"""Replication: two clusters of four nodes, linked both ways; how late a write is readable on the other one.

    benchmarks/replication.py --binary target/dist/quoit [--seconds 60] [--engines bitcask,leveled,leveldb]

For each engine it starts two clusters by `quoit dev-cluster`, runs the load of a published comparison
against one of them, scaled down, without links and then with links both ways, and writes the figures to
`index.html` in the results directory, beside the published ones. The runs' own reports are linked from there.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import webbrowser

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "tests")]

from support.node import die_with_parent  # noqa: E402

# Weights, values and key generators of the published run; its 100 workers, 800 000 records and 48 hours
# scaled down to a machine that runs two clusters and the load.
CONFIG = """{mode, max}. {report_interval, 1}. {concurrent, %(workers)d}. {driver, basho_bench_driver_nhs}.
{key_generator, {eightytwenty_int, 100000}}. {value_generator, {semi_compressible, 8000, 2000, 10, 0.2}}.
{alwaysget, {800, 400, key_order}}. {unique, {8000, skew_order}}. {node_name, demo}.
{pb_ips, [%(one)s]}. %(other)s {http_ips, [%(http)s]}.
{operations, [{alwaysget_pb, 460}, {alwaysget_updatewithout2i, 200}, {put_unique, 148}, %(check)s
{get_unique, 190}]}.
"""
# Mean milliseconds from the acknowledged put until it was readable, of Riak on two clusters of four machines.
PUBLISHED = {"bitcask": "14.18 (older protocol: 97.79)", "leveled": "4.26",
             "leveldb": "3.70 (older protocol: 4.60)"}
NODES = 4
START_SECONDS = 120


class DevCluster:
    """`quoit dev-cluster` with a source queue, until its context ends."""

    def __init__(self, binary, folder, name, engine):
        self.ready = os.path.join(folder, name + ".json")
        command = [binary, "dev-cluster", str(NODES), "--base-dir", os.path.join(folder, name),
                   "--ready-file", self.ready]
        for setting in ("storage_backend=" + engine, "ring_size=64", "replrtq_enablesrc=enabled",
                        "replrtq_srcqueue=out:block_rtq"):
            command += ["--set", setting]
        self.log = open(os.path.join(folder, name + ".log"), "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, preexec_fn=die_with_parent)

    def __enter__(self):
        limit = time.monotonic() + START_SECONDS
        while not os.path.exists(self.ready):
            if self.process.poll() is not None or time.monotonic() > limit:
                self.__exit__()
                raise SystemExit("a cluster did not start; see %s" % self.log.name)
            time.sleep(0.1)
        with open(self.ready, encoding="utf-8") as handle:
            self.nodes = json.load(handle)["nodes"]
        return self

    def __exit__(self, *_details):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def erlang(self, protocol):
        """The addresses as a configuration has them."""
        pairs = [node[protocol].rsplit(":", 1) for node in self.nodes]
        return ", ".join('{"%s", %s}' % (host, port) for host, port in pairs)


def link(binary, sink, source):
    peers = [node["pb"] + ":pb" for node in source.nodes]
    repl = [binary, "repl", "--url"]
    subprocess.run(repl + ["http://" + source.nodes[0]["http"], "queue", "add", "out", "any", "--all"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(repl + ["http://" + sink.nodes[0]["http"], "sink", "add", "out"] + peers + ["--all"],
                   check=True, stdout=subprocess.DEVNULL)


def run(binary, results, name, seconds, workers, one, other):
    """Runs the load; means of latencies in milliseconds, by operation."""
    check = "{put_unique_checkrepl, 2}," if other else ""
    http = one.erlang("http")
    config = os.path.join(results, name + ".config")
    with open(config, "w", encoding="utf-8") as handle:
        second = "{replpb_ips, [%s]}." % other.erlang("pb") if other else ""
        handle.write(CONFIG % {"one": one.erlang("pb"), "other": second,
                               "http": http, "check": check, "workers": workers})
    subprocess.run([binary, "bench", config, "-d", results, "-n", name, "--duration", "%ds" % seconds],
                   check=True)
    return {operation: latencies(os.path.join(results, name, operation + "_latencies.csv"))
            for operation in ("put-unique", "put-unique-checkrepl")}


def latencies(path):
    """Mean, median and 99th percentile in milliseconds, over all rows, weighted by their counts."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as handle:
        rows = [{key.strip(): float(value) for key, value in row.items()}
                for row in csv.DictReader(handle)]
    count = sum(row["n"] for row in rows)
    if not count:
        return None
    return {name: sum(row[name] * row["n"] for row in rows) / count / 1000
            for name in ("mean", "median", "99th")}


def page(rows):
    cells = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % cell for cell in row) for row in rows)
    return """<!doctype html><meta charset="utf-8"><title>Replication</title>
<style>body{font:15px sans-serif;margin:2em}td,th{padding:.3em .8em;border-bottom:1px solid #ccc}</style>
<h1>Replication between two clusters of four nodes</h1>
<p>Milliseconds. "Readable" is the put and the time until the other cluster shows it, less the plain put.</p>
<table><tr><th>engine<th>put, no link: mean<th>put, linked: mean<th>median<th>99th
<th>readable after: mean<th>published mean<th>reports</tr>%s</table>""" % cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default="target/dist/quoit")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--engines", default="bitcask,leveled,leveldb")
    parser.add_argument("--results", default="bench-results/replication")
    parser.add_argument("--no-browser", action="store_true")
    arguments = parser.parse_args()
    binary, results = os.path.abspath(arguments.binary), os.path.abspath(arguments.results)
    os.makedirs(results, exist_ok=True)
    shown = lambda figures, name: "%.2f" % figures[name] if figures else "-"
    rows = []
    for engine in arguments.engines.split(","):
        with tempfile.TemporaryDirectory(prefix="quoit-replication-") as folder, \
                DevCluster(binary, folder, "one", engine) as one, \
                DevCluster(binary, folder, "other", engine) as other:
            plain = run(binary, results, engine + "-alone", arguments.seconds, arguments.workers, one, None)
            link(binary, other, one)
            link(binary, one, other)
            linked = run(binary, results, engine + "-linked", arguments.seconds, arguments.workers, one,
                         other)
        put, checked = linked["put-unique"], linked["put-unique-checkrepl"]
        late = "%.2f" % (checked["mean"] - put["mean"]) if put and checked else "-"
        reports = " ".join('<a href="%s-%s/report.html">%s</a>' % (engine, kind, kind)
                           for kind in ("alone", "linked"))
        rows.append([engine, shown(plain["put-unique"], "mean"), shown(put, "mean"),
                     shown(put, "median"), shown(put, "99th"), late, PUBLISHED.get(engine, "-"), reports])
        print("%s: put %s ms, readable on the other cluster %s ms later" % (engine, shown(put, "mean"), late))
    index = os.path.join(results, "index.html")
    with open(index, "w", encoding="utf-8") as handle:
        handle.write(page(rows))
    print(index)
    if not arguments.no_browser:
        webbrowser.open("file://" + index)


if __name__ == "__main__":
    main()
