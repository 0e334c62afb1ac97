"""What the assembler makes of waits for asynchronous copies: no load from shared memory stands
between the end of the copies and the wait, where it would read what has not arrived. Of a kernel
that ptxas 13.0 had broken, and of every kernel that ships. Skips without NVRTC or a disassembler."""
import glob
import os
import re
import shutil
import subprocess
import sysconfig
import unittest

from command import SOURCE, CommandTest, needs_nvrtc

PACKAGES = sysconfig.get_path("purelib")
COPIES, ENDS = re.compile(r"\bLDGSTS\b"), re.compile(r"\bLDGDEPBAR\b")
WAITS = re.compile(r"\bDEPBAR\.LE SB0, (\w+)")  # until so many groups are left
LOADS = re.compile(r"\bLDS\S* R\d")  # into a register that counts


def disassembler():
    bundled = glob.glob(f"{os.environ.get('VIRTUAL_ENV', PACKAGES)}/**/nvdisasm", recursive=True)
    return shutil.which("nvdisasm") or (bundled or [None])[0]


def loads_before_waits(text):
    """Of one disassembled cubin: loads behind an LDGDEPBAR and before its DEPBAR while copies are
    under way, and the waits."""
    loads, waits, is_copying, is_ended = [], 0, False, False
    for line in text.splitlines():
        if COPIES.search(line):
            is_copying = True
        elif ENDS.search(line):
            is_ended = True
        elif found := WAITS.search(line):
            waits, is_ended = waits + is_ended, False
            is_copying = is_copying and int(found.group(1), 16) > 0
        elif is_copying and is_ended and LOADS.search(line):
            loads.append(line.strip())
    return loads, waits


class Waits(CommandTest):
    def setUp(self):
        super().setUp()
        self.tool = disassembler()
        if not self.tool:
            self.skipTest("no nvdisasm in PATH or among the Python packages")

    def check(self, cubin):
        text = subprocess.run([self.tool, "-c", cubin], capture_output=True, text=True, check=True)
        loads, waits = loads_before_waits(text.stdout)
        self.assertEqual(loads, [], cubin)
        return waits

    def test_a_load_before_its_wait_is_found(self):
        text = "LDGSTS.E [R1] ;\n LDGDEPBAR ;\n LDS.U16 R17, [R26] ;\n DEPBAR.LE SB0, 0x0 ;\n LDS R1, [R2] ;"
        self.assertEqual(loads_before_waits(text), (["LDS.U16 R17, [R26] ;"], 1))

    @needs_nvrtc
    def test_rows_of_a_thread_in_shared_memory(self):
        self.run_command("compile", f"{SOURCE}/test/cli/copies.mlir", "-o", "f.cubin",
                         "--schedule=#kiln.schedule<lanes = 8, vector = 1, rows = 8, threads = 64, "
                         "blocks = 1, grid = one_shot, keep = shared, launch = programmatic>")
        self.assertGreater(self.check(self.folder / "f.cubin"), 0)

    def test_kernels_that_ship(self):
        waits = 0
        for workload in ("alphafold_layernorm", "language_model_rows", "routed_rows"):
            self.run_command("compile", f"--workload={SOURCE}/bench/workloads/{workload}.txt",
                             f"--store={SOURCE}/autotune/stores/h200.db", "--strict",
                             "-o", workload)
            for cubin in sorted((self.folder / workload).glob("*.cubin")):
                waits += self.check(cubin)
        self.assertGreater(waits, 20)


if __name__ == "__main__":
    unittest.main()
