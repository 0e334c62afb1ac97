"""README's two commands in their order: tools/demo configures where there is no LibTorch yet, and
what tools/test installs after it is found by the same build folder. In a clean copy of the sources,
by the functions that both scripts call; nothing is compiled."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])


def without_venv(environment):
    """The environment of a shell in which .venv is not active."""
    venv = environment.get("VIRTUAL_ENV", str(SOURCE / ".venv"))
    path = [p for p in environment["PATH"].split(":") if not p.startswith(venv)]
    kept = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}
    return {**kept, "PATH": ":".join(path)}


ENVIRONMENT = without_venv(os.environ)


def has_torch_of_its_own():
    program = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    return subprocess.run(["python3", "-c", program], env=ENVIRONMENT).returncode == 0


class Order(unittest.TestCase):
    def setUp(self):
        self.clone = pathlib.Path(tempfile.mkdtemp(prefix="kiln-setup-"))
        self.addCleanup(shutil.rmtree, self.clone, ignore_errors=True)
        files = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard"], capture_output=True, text=True, check=True)
        for name in filter(None, files.stdout.split("\0")):
            if (SOURCE / name).is_file() and not name.endswith(".db"):
                (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(SOURCE / name, self.clone / name)
        (self.clone / "autotune/stores").mkdir(exist_ok=True)
        (self.clone / "autotune/stores/h200.db").touch()  # what is installed must be there

    def shell(self, command):
        done = subprocess.run(["bash", "-c", f"source tools/setup.sh; {command}"], cwd=self.clone,
                              env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def configured(self):
        """What the build folder has: names of targets, and the lines of what was left out."""
        self.shell('configure "$root/build" && build "$root/build" build.ninja')
        targets = self.shell('ninja -C "$root/build" -t targets all')
        names = {line.split(":")[0] for line in targets.splitlines()}
        return names, (self.clone / "build/left-out").read_text()

    @unittest.skipIf(has_torch_of_its_own(), "the system's python3 has a torch")
    @unittest.skipUnless((SOURCE / ".venv").exists(), "no .venv to install LibTorch from")
    def test_what_is_installed_later_is_found(self):
        targets, left_out = self.configured()
        self.assertIn("kernel-compile", targets)
        self.assertNotIn("kiln_torch", targets)
        self.assertIn("libkiln_torch, kiln-baseline, train_lm: there is no LibTorch", left_out)

        (self.clone / ".venv").symlink_to((SOURCE / ".venv").resolve())
        targets, left_out = self.configured()
        for name in ["kernel-compile", "kiln_torch", "kiln-baseline", "train_lm", "torch_tests"]:
            self.assertIn(name, targets)
        self.assertNotIn("libkiln_torch", left_out)


if __name__ == "__main__":
    unittest.main()
