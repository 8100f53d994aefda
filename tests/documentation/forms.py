"""Checks the names in commands that are not run: make targets, chores, options, files, tests."""
import functools
import os
import re
import shlex

from documentation.pages import ROOT

PLACEHOLDER = re.compile(r"^[A-Z_:|\[\].-]+$")


@functools.lru_cache(maxsize=None)
def sources(*folders):
    """Returns the contents of all source files in these folders."""
    texts = []
    for folder in folders:
        for directory, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".rs", ".py", ".toml")):
                    with open(os.path.join(directory, name), encoding="utf-8") as handle:
                        texts.append(handle.read())
    return "\n".join(texts)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as handle:
        return handle.read()


def faults(text):
    """Returns descriptions of the names in a command that do not exist."""
    words = shlex.split(text, comments=True)
    while words and re.match(r"^\w+=", words[0]):
        words.pop(0)
    for head, check in (("make", of_make), ("cargo", of_cargo), ("python3", of_python)):
        if words and (words[0] == head or head == "python3" and words[0].endswith("/python")):
            return list(check(words[1:]))
    return []


def of_make(words):
    for word in words:
        if "=" not in word and not re.search(r"^%s:" % re.escape(word), read("Makefile"), re.MULTILINE):
            yield "the Makefile has no target %s" % word


def of_cargo(words):
    if words[0] == "xtask":
        yield from of_xtask(words[1:])
        return
    for flag, value in zip(words, words[1:]):
        if flag in ("-p", "--package") and not os.path.isdir(os.path.join(ROOT, "crates", value)):
            yield "there is no crate %s" % value
        if flag == "--profile" and "[profile.%s]" % value not in read("Cargo.toml"):
            yield "there is no profile %s" % value
        if flag == "--example" and not any(
                os.path.exists(os.path.join(ROOT, "crates", crate, "examples", value + ".rs"))
                for crate in os.listdir(os.path.join(ROOT, "crates"))):
            yield "there is no example %s" % value


def of_xtask(words):
    program = sources("xtask/src", "crates/quoit-perf", "crates/quoit-sim", "crates/quoit-core/examples",
                      "crates/quoit-store/examples", "fuzz", "tests/torture", "benchmarks")
    if '"%s"' % words[0] not in sources("xtask/src"):
        yield "there is no chore %s" % words[0]
    if words[0] == "bench" and len(words) > 1 and not words[1].startswith("-"):
        if '"%s"' % words[1] not in read("xtask/src/bench.rs"):
            yield "there is no benchmark %s" % words[1]
    for word in words[1:]:
        name = word.partition("=")[0]
        # An option counts as known if the source contains it, or contains the parser's field of that name.
        if word.startswith("--") and name not in program and \
                not re.search(r"\b%s\b" % name[2:].replace("-", "_"), program):
            yield "nothing reads the option %s" % name


def of_python(words):
    script, names = words[0], words[1:]
    path = os.path.join(ROOT, script)
    if not os.path.exists(path):
        yield "there is no %s" % script
        return
    source = read(script)
    if script == "tests/run.py":
        for name in names:
            if '("%s",' % name not in source and not name.startswith("-"):
                yield "there is no part %s" % name
        return
    for name in names:
        if name.startswith("--"):
            if '"%s"' % name not in source:
                yield "%s has no option %s" % (script, name)
        elif PLACEHOLDER.match(name) or name.startswith(("-", "target/")):
            continue
        elif "/" in name:
            if not os.path.exists(os.path.join(ROOT, name)):
                yield "there is no %s" % name
        elif script.startswith("tests/") and script.endswith("run.py"):
            for part in name.split("."):
                # The tests of a client run over both protocols.
                if re.sub("Over(Pb|Http)$", "", part) not in source:
                    yield "%s has no test %s" % (script, name)
