"""What the tests of kernel-compile share: running it in an empty folder, and some modules."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["KERNEL_COMPILE"]
SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])
LAYER_NORM = ["--op=layer_norm", "--shape=64x128", "--dtype=bf16"]

GATE = """func.func @gate(%x: tensor<?x128xf32>, %g: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = arith.mulf %x, %g : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
"""

# A sum over lists and what depends on it: two kernels.
LISTS = """func.func @scaled(%x: tensor<?xf32> {kiln.list}, %most: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<f32>) {
  %square = arith.mulf %x, %x : tensor<?xf32>
  %sum = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %norm = math.sqrt %sum : tensor<f32>
  %factor = arith.divf %most, %norm : tensor<f32>
  %all = kiln.broadcast %factor dims [] like %x : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %y = arith.mulf %x, %all : tensor<?xf32>
  return %y, %norm : tensor<?xf32>, tensor<f32>
}
"""


def has_nvrtc():
    out = subprocess.run([COMMAND, "doctor", "--json"], capture_output=True, text=True).stdout
    return any(f["name"] == "NVRTC" and f["state"] == "found" for f in json.loads(out)["findings"])


needs_nvrtc = unittest.skipUnless(has_nvrtc(), "no NVRTC on this machine")


class CommandTest(unittest.TestCase):
    """Each test runs in an empty folder, `self.folder`."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def run_command(self, *arguments, code=0, **options):
        """Runs the command, checks its exit code; what it did as a CompletedProcess."""
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        if "input" in options:
            options.pop("stdin")
        done = subprocess.run([COMMAND, *map(str, arguments)], stderr=subprocess.PIPE,
                              cwd=self.folder, timeout=300, **options)
        out = (done.stdout or b"").decode(errors="replace")
        error = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{arguments}\n{out}\n{error}")
        done.out, done.error = out, error
        return done

    def run_json(self, *arguments, code=0):
        """As run_command with --json; the one JSON document on the standard output."""
        return json.loads(self.run_command(*arguments, "--json", code=code).out)

    def refuses(self, *arguments, says, code=1, **options):
        """The command fails with that code and a message that holds all of `says`."""
        done = self.run_command(*arguments, code=code, **options)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.error)
        self.assertNotIn("terminate called", done.error)
        return done
