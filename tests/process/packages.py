"""Packages of the program: built, installed into a root directory of their own, and started from there."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import client_libraries, unittest_runner  # noqa: E402
from support.node import Node, binary_from_environment  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(binary_from_environment())
TOOL = os.path.join(os.path.dirname(BINARY), "quoit-package")
SECONDS = 120
FIRST_ANSWER_SECONDS = 10


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS, text=True, **options)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(TOOL):
            raise AssertionError("%s is not built" % TOOL)
        folder = tempfile.TemporaryDirectory(prefix="quoit-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        # A debug build is too large to pack in a test. A script that runs it takes its place.
        program = os.path.join(cls.folder, "quoit")
        with open(program, "w", encoding="utf-8") as handle:
            handle.write('#!/bin/sh\nexec "%s" "$@"\n' % BINARY)
        os.chmod(program, 0o755)
        done = run(TOOL, "--binary", program, "--out", cls.folder, cwd=ROOT)
        assert done.returncode == 0, done.stdout
        cls.files = {name.rsplit(".", 1)[1]: os.path.join(cls.folder, name) for name in os.listdir(cls.folder)
                     if "." in name}

    def install(self):
        """Installs the deb into a root directory of its own. Returns the directory."""
        root = os.path.join(self.folder, "root")
        admin = os.path.join(self.folder, "dpkg")
        for directory in ("updates", "info"):
            os.makedirs(os.path.join(admin, directory))
        for name in ("status", "available"):
            open(os.path.join(admin, name), "w", encoding="utf-8").close()
        os.mkdir(root)
        done = run("dpkg", "--instdir=" + root, "--admindir=" + admin,
                   "--log=" + os.path.join(self.folder, "log"),
                   "--force-not-root", "--force-script-chrootless", "--install", self.files["deb"])
        self.assertEqual(done.returncode, 0, done.stdout)
        return root

    @unittest.skipUnless(shutil.which("dpkg"), "there is no dpkg on this machine")
    def test_the_deb_is_installed_started_and_answers_within_seconds(self):
        began = time.monotonic()
        root = self.install()
        program = os.path.join(root, "usr/bin/quoit")
        data = os.path.join(self.folder, "node", "data")
        os.makedirs(data)
        flags = ["--config", os.path.join(root, "etc/quoit/quoit.conf")]
        with Node(program, data, flags=flags) as node:
            node.start()
            at = ["--url", "unix:" + data]
            self.assertEqual(run(program, "put", "b/k", "hello", *at).returncode, 0)
            self.assertEqual(run(program, "get", "b/k", *at).stdout, "hello")
            self.assertLess(time.monotonic() - began, FIRST_ANSWER_SECONDS)
            node.stop()
        pages = os.listdir(os.path.join(root, "usr/share/man/man1"))
        self.assertIn("quoit.1.gz", pages)
        self.assertIn("quoit-serve.1.gz", pages)
        if shutil.which("man"):
            page = os.path.join(root, "usr/share/man/man1/quoit-status.1.gz")
            plain = {**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"}
            done = run("man", "--warnings", "-l", page, env=plain)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("needs attention", " ".join(done.stdout.split()))
            self.assertNotIn("warning:", done.stdout)
        self.check_unit(root)
        bash = os.path.join(root, "usr/share/bash-completion/completions/quoit")
        self.assertEqual(run("bash", "-n", bash).returncode, 0)

    def check_unit(self, root):
        """Checks the systemd unit with systemd's own tool, with the program's path replaced."""
        if not shutil.which("systemd-analyze"):
            return
        with open(os.path.join(root, "usr/lib/systemd/system/quoit.service"), encoding="utf-8") as handle:
            unit = handle.read().replace("/usr/bin/quoit", os.path.join(root, "usr/bin/quoit"))
        unit = unit.replace("Documentation=man:quoit(1) man:quoit-serve(1)\n", "")
        path = os.path.join(self.folder, "quoit.service")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(unit)
        done = run("systemd-analyze", "verify", path)
        told = [line for line in done.stdout.splitlines() if "quoit.service" in line]
        self.assertEqual(told, [], done.stdout)

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian on this machine")
    def test_debians_checker_of_packages_has_nothing_to_say(self):
        done = run("lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning",
                   self.files["deb"])
        self.assertEqual((done.returncode, done.stdout.strip()), (0, ""))

    def test_the_image_is_a_layout_whose_digests_are_right(self):
        with tarfile.open(self.files["tar"]) as image:
            blobs = {member.name: image.extractfile(member).read() for member in image if member.isfile()}
        for name, content in blobs.items():
            if name.startswith("blobs/sha256/"):
                self.assertEqual(hashlib.sha256(content).hexdigest(), name.rsplit("/", 1)[1])
        self.assertEqual(json.loads(blobs["oci-layout"]), {"imageLayoutVersion": "1.0.0"})

        def blob(described):
            content = blobs["blobs/" + described["digest"].replace(":", "/")]
            self.assertEqual(len(content), described["size"])
            return content

        manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        layer = gzip.decompress(blob(manifest["layers"][0]))
        digest = "sha256:" + hashlib.sha256(layer).hexdigest()
        self.assertEqual(config["rootfs"]["diff_ids"], [digest])
        self.assertEqual(config["config"]["User"], "10001:10001")
        self.assertEqual(config["config"]["StopSignal"], "SIGTERM")
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            program, data = files.getmember("usr/bin/quoit"), files.getmember("var/lib/quoit")
            self.assertEqual((program.mode, program.uid), (0o755, 0))
            self.assertEqual((data.mode, data.uid, data.isdir()), (0o750, 10001, True))
            self.assertNotIn("bin/sh", files.getnames())

    def test_the_manifests_fit_the_schemas_of_kubernetes(self):
        try:
            program = client_libraries.kubernetes_validate(ROOT)
        except client_libraries.Unavailable as missing:
            self.fail(str(missing))
        manifests = os.path.join(ROOT, "packaging", "kubernetes", "quoit.yaml")
        done = run(program, "--strict", manifests)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("passed"), 4, done.stdout)
        # An unknown field must be an error; otherwise this test checks nothing.
        with open(manifests, encoding="utf-8") as handle:
            text = handle.read().replace("serviceName:", "serviceNane:")
        wrong = os.path.join(self.folder, "wrong.yaml")
        with open(wrong, "w", encoding="utf-8") as handle:
            handle.write(text)
        self.assertNotEqual(run(program, "--strict", wrong).returncode, 0)

    def test_the_rpm_is_one_and_the_licences_name_what_is_in_the_program(self):
        with open(self.files["rpm"], "rb") as handle:
            self.assertEqual(handle.read(4), b"\xed\xab\xee\xdb")
        if shutil.which("rpm"):
            listed = run("rpm", "-qpl", self.files["rpm"]).stdout
            self.assertIn("/usr/lib/systemd/system/quoit.service", listed)
        with open(self.files["txt"], encoding="utf-8") as handle:
            licences = handle.read()
        self.assertIn("\ntokio ", licences)
        self.assertIn("Apache License", licences)
        self.assertNotIn("\nproptest ", licences)

    def test_the_same_input_gives_the_same_bytes(self):
        again = os.path.join(self.folder, "again")
        done = run(TOOL, "--binary", os.path.join(self.folder, "quoit"), "--out", again, cwd=ROOT)
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in os.listdir(again):
            with open(os.path.join(again, name), "rb") as one:
                with open(os.path.join(self.folder, name), "rb") as two:
                    self.assertTrue(one.read() == two.read(), name)


if __name__ == "__main__":
    sys.exit(unittest_runner.run(sys.modules[__name__]))
