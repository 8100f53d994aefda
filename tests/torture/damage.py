"""Damage to the files of a stopped node, chosen by a seed."""
import os
import re

KINDS = ("flip", "truncate", "remove", "swap")
# Files without content. Damage to them has no effect.
EMPTY = ("LOCK", "RESERVE")


class Damage:
    """One damage: `apply` does it, `text` describes it."""

    def __init__(self, random, data_dir, kind=None, wanted=None):
        self.random = random
        self.data_dir = data_dir
        self.kind = kind or random.choice(KINDS)
        groups = kinds_of_files(data_dir, wanted)
        if self.kind == "swap":
            groups = {name: files for name, files in groups.items() if len(files) > 1} or groups
        files = sorted(draw(random, groups))
        self.path = random.choice(files)
        self.others = [path for path in files if path != self.path]
        self.text = ""

    def apply(self):
        if self.kind == "swap" and not self.others:
            self.kind = "flip"
        getattr(self, self.kind)()
        self.text = "%s of %s" % (self.text, os.path.relpath(self.path, self.data_dir))
        return self

    def flip(self):
        used = used_bytes(self.path)
        at, bit = self.random.randrange(used), self.random.randrange(8)
        with open(self.path, "r+b") as handle:
            handle.seek(at)
            byte = handle.read(1)[0]
            handle.seek(at)
            handle.write(bytes([byte ^ 1 << bit]))
        self.text = "flip of bit %d at byte %d of %d" % (bit, at, used)

    def truncate(self):
        used = used_bytes(self.path)
        to = self.random.randrange(used)
        os.truncate(self.path, to)
        self.text = "truncation to %d of %d bytes" % (to, used)

    def remove(self):
        os.unlink(self.path)
        self.text = "removal"

    def swap(self):
        other = self.random.choice(sorted(self.others))
        aside = self.path + ".aside"
        os.rename(self.path, aside)
        os.rename(other, self.path)
        os.rename(aside, other)
        self.text = "swap with %s" % os.path.basename(other)


def draw(random, groups):
    """Chooses the files of a kind: sometimes any kind, so that small files get their share, else
    weighted by size."""
    names = sorted(groups)
    if random.randrange(2):
        return groups[random.choice(names)]
    sizes = [sum(used_bytes(path) for path in groups[name]) for name in names]
    return groups[random.choices(names, sizes)[0]]


def kinds_of_files(data_dir, wanted=None):
    """Groups paths by kind of file: names that differ only in numbers are of one kind."""
    groups = {}
    for folder, _, names in os.walk(data_dir):
        for name in names:
            path = os.path.join(folder, name)
            kind = re.sub("[0-9]+", "N", os.path.relpath(path, data_dir))
            if name in EMPTY or os.path.getsize(path) == 0 or wanted and wanted not in kind:
                continue
            groups.setdefault(kind, []).append(path)
    return groups


def used_bytes(path):
    """Returns the size of a file without the zeros at its end, with which some files are preallocated."""
    with open(path, "rb") as handle:
        return max(1, len(handle.read().rstrip(b"\0")))
