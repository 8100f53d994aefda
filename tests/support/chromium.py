"""Renders a page in headless Chromium, if the machine has it."""
import html
import json
import re
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The browser makes no requests of its own, and stores nothing.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--enable-logging=stderr", "--window-size=1280,2000")
SECONDS = 120


def find():
    """Returns the browser's path; None if there is no browser."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def dump(browser, page, dark=False):
    """Returns the document after its scripts have run, and the lines of the console."""
    scheme = "--blink-settings=preferredColorScheme=%d" % (0 if dark else 1)
    profile = tempfile.mkdtemp(prefix="quoit-test-")
    try:
        command = [browser, *FLAGS, scheme, "--user-data-dir=" + profile, "--dump-dom",
                   "file://" + page]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    finally:
        # The browser's helper processes may still write their last files.
        shutil.rmtree(profile, ignore_errors=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def probe(browser, page, script, copy, dark=False):
    """Runs the JavaScript function `script` on a copy of the page at `copy`.

    Returns (the function's result, the document afterwards, the lines of the console).
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
