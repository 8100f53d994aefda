"""A page as a browser sees it: headless Chromium, where the machine has one."""
import html
import json
import re
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
# A browser that asks nobody anything, and keeps nothing.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--enable-logging=stderr", "--window-size=1280,2000")
SECONDS = 120


def find():
    """The browser's path; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def dump(browser, page, dark=False):
    """The document after its scripts have run, and what they said on the console."""
    scheme = "--blink-settings=preferredColorScheme=%d" % (0 if dark else 1)
    profile = tempfile.mkdtemp(prefix="quoit-test-")
    try:
        command = [browser, *FLAGS, scheme, "--user-data-dir=" + profile, "--dump-dom",
                   "file://" + page]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    finally:
        # Its helpers may still be at their last files.
        shutil.rmtree(profile, ignore_errors=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def probe(browser, page, script, copy, dark=False):
    """What the JavaScript function `script` gives on a copy of the page at `copy`.

    Gives (the function's result, the document afterwards, the lines of the console).
    """
    with open(page, encoding="utf-8") as handle:
        text = handle.read()
    call = "<script>document.body.dataset.probe = JSON.stringify((%s)());</script></body>" % script
    head, _, tail = text.rpartition("</body>")
    with open(copy, "w", encoding="utf-8") as handle:
        handle.write(head + call + tail)
    document, console = dump(browser, copy, dark)
    found = re.search(r'<body data-probe="([^"]*)"', document)
    if not found:
        raise AssertionError("the page's probe did not run: %s" % (console or document[:500]))
    return json.loads(html.unescape(found.group(1))), document, console
