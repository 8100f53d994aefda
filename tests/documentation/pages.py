"""Extracts the commands of a page, with the output that the page shows for them."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# First words of commands.
HEADS = ("curl", "quoit", "alias", "admin", "kill", "rm", "make", "target/release/quoit", "date", "cargo",
         "python3", "objcopy", "strip", "valgrind", "callgrind_annotate", "sudo", "podman", "promtool")
ASSIGNMENT = re.compile(r"^\w+=\S")


class Command:
    """A command of a page: its text, its line, and the output lines below it."""

    def __init__(self, text, line):
        self.text = text
        self.line = line
        self.prints = []

    def matches(self, output):
        """Tells if the output is what the page shows. `...` on the page stands for any text."""
        wanted = [re.escape(line).replace(re.escape("..."), ".*") for line in self.prints]
        return re.fullmatch(r"\s*".join(wanted), output.strip(), re.DOTALL) is not None


def is_command(text):
    """Tells if a line of a block is a command and not output."""
    return text.split(" ", 1)[0] in HEADS or ASSIGNMENT.match(text) is not None


def commands(page):
    """Returns all commands of a page, in order. A block of other code does not begin with a command."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as handle:
        lines = handle.read().splitlines()
    found, current, is_fenced = [], None, False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        if is_fenced or not line.startswith("    ") or not line.strip():
            if not line.strip() or not line.startswith("    "):
                current = None
            continue
        text = line[4:]
        if current is not None and current.text.endswith("\\"):
            current.text = current.text[:-1].rstrip() + " " + text.strip()
        elif current is not None and current.text.count("'") % 2 == 1:
            # Inside quotes a command continues over line ends.
            current.text += "\n" + text
        elif is_command(text):
            current = Command(text, number)
            found.append(current)
        elif current is not None:
            current.prints.append(text)
    return found


def pages():
    """Returns the pages whose commands are run: README and the pages in `docs`, without its subfolders."""
    docs = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
    return ["README.md"] + [os.path.join("docs", name) for name in docs]
