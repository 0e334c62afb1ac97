"""Where kernel-compile writes: whole files or none, and a clear word when that fails."""

import json
import pathlib
import re
import resource
import signal
import subprocess
import time
import unittest

from command import COMMAND, GATE, LAYER_NORM, SOURCE, CommandTest, needs_nvrtc


class Output(CommandTest):
    def test_emit_to_a_file(self):
        self.run_command("compile", *LAYER_NORM, "--emit=cuda", "-o", "kernel.cu")
        printed = self.run_command("compile", *LAYER_NORM, "--emit=cuda").out
        self.assertEqual((self.folder / "kernel.cu").read_text(), printed)

    @needs_nvrtc
    def test_formats(self):
        self.run_command("compile", *LAYER_NORM, "-o", "kernel.cubin")
        self.assertTrue((self.folder / "kernel.cubin").read_bytes().startswith(b"\x7fELF"))
        self.assertIn(".target sm_90a", self.run_command("compile", *LAYER_NORM, "--emit=ptx").out)
        self.assertIn("schedule(<lanes = ", self.run_command("compile", *LAYER_NORM, "--emit=mlir").out)
        self.assertIn("registers", self.run_command("compile", *LAYER_NORM, "--emit=json").out)

    def test_unwritable(self):
        for path in ["nosuch/folder/kernel.cu", "/proc/kernel.cu", "."]:
            with self.subTest(path):
                self.refuses("compile", *LAYER_NORM, "--emit=cuda", "-o", path, says="cannot write")

    def test_unwritable_folder_of_a_workload(self):
        self.write("file", "")
        workload = self.write("w.txt", "layer_norm 64x128 f32 1\n")
        self.refuses("compile", f"--workload={workload}", "--emit=cuda", "-o", "file/out",
                     says="cannot create the folder 'file/out'")

    def test_full_disk(self):
        self.refuses("compile", *LAYER_NORM, "--emit=cuda", "-o", "/dev/full", says="No space left")
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        with open("/dev/full", "wb") as full:
            self.refuses("compile", *LAYER_NORM, "--emit=cuda", stdout=full, says="cannot write")

    def test_disk_full_halfway_keeps_the_old_file(self):
        self.write("kernel.cu", "old")
        limit = 256
        self.refuses("compile", *LAYER_NORM, "--emit=cuda", "-o", "kernel.cu", says="cannot write",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual((self.folder / "kernel.cu").read_text(), "old")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["kernel.cu"])

    @needs_nvrtc
    def test_interrupted_run_leaves_whole_files_only(self):
        workload = SOURCE / "bench/workloads/alphafold_layernorm.txt"
        for stop, wait in [(signal.SIGINT, 0.2), (signal.SIGTERM, 0.5), (signal.SIGKILL, 0.9)]:
            out = self.folder / f"out-{stop.name}"
            process = subprocess.Popen([COMMAND, "compile", f"--workload={workload}", "-o", out],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       cwd=self.folder)
            time.sleep(wait)
            process.send_signal(stop)
            self.assertNotEqual(process.wait(timeout=60), 2)
            for path in out.iterdir() if out.exists() else []:
                self.assertEqual(path.suffix, ".cubin")
                self.run_command("inspect", path)


OLDER = """
func.func @sum(%x: tensor<?x64xf32> {kiln.older}, %z: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = arith.addf %x, %z : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
"""
SCHEDULE = ("#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 4, "
            "grid = one_shot, keep = registers, launch = {}>")


class Inspect(CommandTest):
    @needs_nvrtc
    def test_promises_of_whoever_launches(self):
        module = self.write("sum.mlir", OLDER)
        for launch, older in [("older_first", ["x"]), ("programmatic", [])]:
            words = ["inspect", module, "--sizes=4", "--schedule=" + SCHEDULE.format(launch)]
            self.assertEqual(json.loads(self.run_command(*words, "--json").out)["older_inputs"], older)
            said = "before the predecessor in the stream has ended: x. They must"
            self.assertEqual(said in self.run_command(*words).out, bool(older))


class SaveTemps(CommandTest):
    def test_stages_can_be_edited_and_resumed(self):
        module = self.write("gate.mlir", GATE)
        self.run_command("compile", module, "--emit=cuda", "--save-temps=stages", "-o", "first.cu")
        scheduled = next((self.folder / "stages").glob("2-*"))
        self.run_command("compile", scheduled, "--from=scheduled", "--emit=cuda", "-o", "again.cu")
        first, again = ((self.folder / name).read_text() for name in ["first.cu", "again.cu"])
        locations = re.compile(r"^\s*// .*:\d+$", re.M)  # they name the file that was read
        self.assertEqual(locations.sub("", first), locations.sub("", again))

    def test_edited_cuda_is_what_comes_out(self):
        module = self.write("gate.mlir", GATE)
        self.run_command("compile", module, "--emit=cuda", "-o", "gate.cu")
        edited = (self.folder / "gate.cu").read_text() + "// edited by hand\n"
        self.write("gate.cu", edited)
        done = self.run_command("compile", "gate.cu", "--from=cuda", "--emit=cuda")
        self.assertEqual(done.out, edited)


if __name__ == "__main__":
    unittest.main()
