"""Installs the official Riak clients from their registries into `.test-env`.

Each environment is made once and kept. A file in it holds the digest of its recipe; if the recipe
changes, the environment is made again. A lock keeps two runs from making the same environment at
once.
"""
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time

from support import riak_patches

TRIES = 3
PAUSE_SECONDS = 3

PYTHON_PACKAGES = ["protobuf==6.33.0", "six==1.17.0", "basho_erlastic==2.1.1"]
RIAK_PACKAGE = "riak==2.7.0"
KUBERNETES_PACKAGE = "kubernetes-validate==1.31.0"


class Unavailable(Exception):
    """An environment could not be made. The text says what to do."""


def python_environment(root):
    """Returns the Python program of an environment with the Riak client. Makes it if necessary."""
    version = "%d.%d" % sys.version_info[:2]
    folder = os.path.join(root, ".test-env", "python-" + version)
    recipe = _digest(PYTHON_PACKAGES + [RIAK_PACKAGE, riak_patches.recipe()])
    python = os.path.join(folder, "bin", "python")

    def make():
        _make_python(folder)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        words = "the Riak client for Python cannot be had from PyPI; check the network, or name " \
                "a mirror with PIP_INDEX_URL"
        _run_retried(pip + PYTHON_PACKAGES, words)
        _run_retried(pip + ["--no-deps", RIAK_PACKAGE], words)
        found = subprocess.run([python, "-c", "import sysconfig; "
                                "print(sysconfig.get_paths()['purelib'])"],
                               stdout=subprocess.PIPE, text=True, check=True)
        riak_patches.apply(os.path.join(found.stdout.strip(), "riak"))

    _make_once(folder, recipe, make)
    return python


def kubernetes_validate(root):
    """Returns the program that checks manifests against the schemas of Kubernetes. Makes it if
    necessary."""
    version = "%d.%d" % sys.version_info[:2]
    folder = os.path.join(root, ".test-env", "kubernetes-" + version)

    def make():
        _make_python(folder)
        pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet",
               "--disable-pip-version-check"]
        _run_retried(pip + [KUBERNETES_PACKAGE],
                     "the schemas of Kubernetes (%s) cannot be had from PyPI; check the network, or name a "
                     "mirror with PIP_INDEX_URL" % KUBERNETES_PACKAGE)

    _make_once(folder, _digest([KUBERNETES_PACKAGE]), make)
    return os.path.join(folder, "bin", "kubernetes-validate")


def _make_python(folder):
    _run([sys.executable, "-m", "venv", folder],
         "Python cannot make virtual environments; on Debian and Ubuntu install python3-venv")


def node_modules(root):
    """Returns the folder of an environment with the Riak client for Node.js. Makes it if necessary.

    None if there is no Node.js on this machine.
    """
    if not shutil.which("node") or not shutil.which("npm"):
        return None
    source = os.path.join(root, "tests", "node_client")
    folder = os.path.join(root, ".test-env", "node")
    names = ["package.json", "package-lock.json"]
    texts = []
    for name in names:
        with open(os.path.join(source, name), encoding="utf-8") as handle:
            texts.append(handle.read())

    def make():
        os.makedirs(folder, exist_ok=True)
        for name in names:
            shutil.copy(os.path.join(source, name), os.path.join(folder, name))
        _run_retried(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error",
                      "--ignore-scripts", "--prefix", folder],
                     "the Riak client for Node.js cannot be had from the npm registry; check the "
                     "network, or name a mirror with npm_config_registry")

    _make_once(folder, _digest(texts), make)
    return os.path.join(folder, "node_modules")


def _make_once(folder, recipe, make):
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    stamp = os.path.join(folder, "made-by")
    with _lock(folder + ".lock"):
        try:
            with open(stamp, encoding="utf-8") as handle:
                if handle.read() == recipe:
                    return
        except FileNotFoundError:
            pass
        shutil.rmtree(folder, ignore_errors=True)
        make()
        with open(stamp, "w", encoding="utf-8") as handle:
            handle.write(recipe)


@contextlib.contextmanager
def _lock(path):
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _run_retried(command, words):
    for attempt in range(1, TRIES + 1):
        try:
            return _run(command, words)
        except Unavailable:
            if attempt == TRIES:
                raise
            print("  attempt %d of %d failed; trying again" % (attempt, TRIES), flush=True)
            time.sleep(PAUSE_SECONDS)


def _run(command, words):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        tail = "\n".join(done.stdout.strip().splitlines()[-8:])
        raise Unavailable("%s\n(%s)\n%s" % (words, " ".join(command), tail))
