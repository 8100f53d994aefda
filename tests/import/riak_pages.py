"""Reads the tables on the page for users of Riak, so that tests can check what they promise."""
import os
import re

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "coming-from-riak.md")
GROUPS = ("cluster", "handoff", "bucket-type", "security", "config")
SUMMARY = ("_mean", "_median", "_95", "_99", "_100")


def rows(heading):
    """Yields the cells of each row of the tables below a heading."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    start = text.index("\n## %s\n" % heading)
    section = text[start + 1:].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def each_of(name):
    """Expands `a_{b,c}` to a_b and a_c."""
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    start, end = name[:found.start()], name[found.end():]
    return [one for part in found.group(1).split(",") for one in each_of(start + part + end)]


def statistics():
    """Returns what the page says about each statistic: same, other, 0 or missing."""
    told = {}
    for names, here in rows("Statistics"):
        word = here.split(":")[0].strip("| ")
        assert word in ("same", "other", "0", "missing"), here
        for pattern, marks in re.findall(r"`([^`]+)`([^`]*)", names):
            for name in each_of(pattern):
                variants = [name + end for end in SUMMARY] if marks.startswith(" T") else [name]
                if "(+_total)" in marks:
                    variants.append(name + "_total")
                told.update(dict.fromkeys(variants, word))
    return told


def commands():
    """Returns the commands of riak-admin and riak on the page, as lists of words."""
    with open(PAGE, encoding="utf-8") as file:
        section = file.read().split("\n## riak-admin and riak\n")[1].split("\n## ")[0]
    tables = section.split("| riak | here |")
    found = {}
    for program, table in zip(("riak-admin", "riak"), tables):
        found[program] = []
        for line in table.splitlines():
            if line.startswith("| `"):
                found[program] += _commands_of(line.split("|")[1])
    return found


def _commands_of(cell):
    """Expands a cell: "`cluster join`, `leave`" stands for cluster join and cluster leave."""
    group = []
    for text in re.findall(r"`([^`]+)`", cell):
        words = [word for word in text.split() if word != "..." and not word.startswith("-")]
        if words and words[0] in GROUPS and (len(words) > 1 or not group):
            group = words[:1]
            yield words
        elif words:
            yield group + words[:1]


def settings():
    """Yields (pattern, word) for each key or family of keys in the table of settings."""
    for names, here in rows("Settings"):
        word = re.match(r"kept|changed|no meaning|refused", here.strip("| "))
        assert word, here
        for pattern in re.findall(r"`([^`]+)`", names):
            for one in each_of(pattern):
                yield one, word.group()


def row_of(key, patterns):
    """Returns the pattern that applies to a key: its own, or the longest of a family; None if there is
    no pattern."""
    matching = [pattern for pattern in patterns
                if pattern == key or (pattern.endswith("*") and key.startswith(pattern[:-1]))]
    return max(matching, key=lambda pattern: (pattern == key, len(pattern)), default=None)
