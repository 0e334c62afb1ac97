"""ncu_rows.py: what it asks kernel-compile to run, and what it reads in Nsight Compute's text."""
import os
import sys
import unittest

SOURCE = os.environ["KILN_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "bench"))
import ncu_rows  # noqa: E402

DETAILS = """==PROF== Disconnected from process 1229
  kiln_norm (264, 1, 1)x(544, 1, 1), Context 1, Stream 13, Device 0, CC 9.0
    Metric Name             Metric Unit Metric Value
    DRAM Frequency                  Ghz         3.19
    DRAM Throughput                   %        44.19
    Duration                         us        17.89
    One or More Eligible                   %        62.48
    Registers Per Thread             register/thread              48
    Waves Per SM                                                1.50
    Achieved Occupancy                        %        47.88
  kiln_norm_columns (32, 1, 1)x(512, 1, 1), Context 1, Stream 13, Device 0, CC 9.0
    Duration                         ms        1,024.50
  kiln_norm (264, 1, 1)x(544, 1, 1), Context 1, Stream 14, Device 0, CC 9.0
    Duration                         us        99.00
"""


def choice(label, tensors):
    return {"label": label, "tensors": tensors, "schedule": "#kiln.schedule<lanes = 32>"}


class NcuRows(unittest.TestCase):
    def test_the_first_launch_of_each_kernel_is_read(self):
        kernels = ncu_rows.kernels_of(DETAILS)
        self.assertEqual(list(kernels), ["kiln_norm", "kiln_norm_columns"])
        self.assertEqual(kernels["kiln_norm"],
                         {"us": 17.89, "DRAM %": 44.19, "issue slots %": 62.48, "waves": 1.5,
                          "warps resident %": 47.88, "registers": 48})
        self.assertEqual(kernels["kiln_norm_columns"], {"us": 1024500.0})

    def test_rows_are_as_many_as_fp64_can_check_soon(self):
        run = lambda *what: ncu_rows.run_arguments(choice(*what), "w")
        schedule = "--schedule=#kiln.schedule<lanes = 32>"
        self.assertEqual(run("softmax 8192x50304 bf16 backward", "bf16[8192x50304]/16 -> ..."),
                         ["--op=softmax", "--shape=1056x50304", "--dtype=bf16", "--backward",
                          schedule])
        self.assertEqual(run("softmax 300x16 f32", "f32[300x16]/16 -> ..."),
                         ["--op=softmax", "--shape=300x16", "--dtype=f32", schedule])
        self.assertEqual(run("gate 65536", "bf16[65536x128]/16 f32[128]/16 -> ..."),
                         ["w/gate.mlir", "--sizes=65536", schedule])


if __name__ == "__main__":
    unittest.main()
