"""The commands of a page, with what they print there."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What the first word of a command is.
HEADS = ("curl", "quoit", "alias", "admin", "kill", "rm", "make", "target/release/quoit", "date", "cargo",
         "python3", "objcopy", "strip", "valgrind", "callgrind_annotate", "sudo", "podman", "promtool")
ASSIGNMENT = re.compile(r"^\w+=\S")


class Command:
    """A command as a page has it: its text, its line, and the lines below it that it prints."""

    def __init__(self, text, line):
        self.text = text
        self.line = line
        self.prints = []

    def matches(self, output):
        """Whether the output is what the page shows; `...` stands for any text."""
        wanted = [re.escape(line).replace(re.escape("..."), ".*") for line in self.prints]
        return re.fullmatch(r"\s*".join(wanted), output.strip(), re.DOTALL) is not None


def is_command(text):
    """Whether a line of a block is a command and not what one prints."""
    return text.split(" ", 1)[0] in HEADS or ASSIGNMENT.match(text) is not None


def commands(page):
    """All commands of a page, in order. Code that is no shell has no command at its beginning."""
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
            # Within quotes a command goes on over the ends of lines.
            current.text += "\n" + text
        elif is_command(text):
            current = Command(text, number)
            found.append(current)
        elif current is not None:
            current.prints.append(text)
    return found


def pages():
    """The pages whose commands are run: README and all of `docs` but decisions and designs."""
    docs = sorted(name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))
    return ["README.md"] + [os.path.join("docs", name) for name in docs]
