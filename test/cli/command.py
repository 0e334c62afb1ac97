"""What the tests of kernel-compile share: running it in an empty folder, and some modules."""

import fcntl
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import tempfile
import termios
import threading
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


def verbs():
    """What the parser has, as `generate json` prints it: every verb that can be run, without those
    that only have verbs of their own."""
    out = subprocess.run([COMMAND, "generate", "json"], capture_output=True, check=True).stdout

    def leaves(verb):
        return [verb] if not verb["verbs"] else [leaf for one in verb["verbs"] for leaf in leaves(one)]
    return leaves(json.loads(out))


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

    def on_terminal(self, *arguments, code=0, columns=80, environment=None):
        """Runs the command with a terminal of that width as its output and its errors; all that it
        wrote there."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        bare = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        process = subprocess.Popen([COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=theirs, stderr=theirs, cwd=self.folder,
                                   env={**bare, "TERM": "xterm", **(environment or {})})
        os.close(theirs)
        written = []

        def read():
            try:
                while block := os.read(ours, 1 << 16):
                    written.append(block)
            except OSError:  # the terminal has no writer any more
                pass
        reader = threading.Thread(target=read)
        reader.start()
        self.assertEqual(process.wait(timeout=300), code, b"".join(written))
        reader.join()
        os.close(ours)
        return b"".join(written).decode().replace("\r\n", "\n")

    def refuses(self, *arguments, says, code=1, **options):
        """The command fails with that code and a message that holds all of `says`."""
        done = self.run_command(*arguments, code=code, **options)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.error)
        self.assertNotIn("terminate called", done.error)
        return done
