"""The model of bench/scale.py where its answer is known."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import types
import unittest

SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])
spec = importlib.util.spec_from_file_location("scale", SOURCE / "bench" / "scale.py")
scale = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scale)


def given(**changed):
    values = {"parameters": 1e9, "gradient_bytes": 4, "forward_ms": 30.0, "backward_ms": 60.0,
              "optimizer_ms": 0.0, "bucket_mib": 25.0, "inner_gb": 300.0, "outer_gb": 50.0,
              "inner_us": 0.0, "outer_us": 0.0, "interference": 0.0, "jitter": 0.0, "per_machine": 8}
    return types.SimpleNamespace(**(values | changed))


class Scale(unittest.TestCase):
    def test_one_gpu_costs_nothing(self):
        self.assertEqual(scale.step_of(1, given())["efficiency"], 1)

    def test_a_sum_within_a_machine_is_by_bus_bandwidth(self):
        self.assertAlmostEqual(scale.sum_seconds(3e9, 8, given()), 2 * 7 / 8 * 3e9 / 300e9)

    def test_a_sum_that_takes_less_than_the_backward_is_hidden_but_for_the_last_bucket(self):
        row = scale.step_of(8, given())
        self.assertAlmostEqual(row["exposed_ms"], row["sums_ms"] / 153, delta=0.01)

    def test_a_sum_that_takes_longer_is_exposed(self):
        row = scale.step_of(8, given(inner_gb=30.0))
        self.assertAlmostEqual(row["exposed_ms"], row["sums_ms"] - 60, delta=1)

    def test_efficiency_falls_with_the_number(self):
        rows = [scale.step_of(8 << i, given(outer_us=8.0, jitter=0.003))["efficiency"]
                for i in range(9)]
        self.assertEqual(rows, sorted(rows, reverse=True))

    def test_the_table(self):
        out = subprocess.run([sys.executable, SOURCE / "bench" / "scale.py", "--json"],
                             capture_output=True, text=True, check=True).stdout
        self.assertEqual([json.loads(line)["ranks"] for line in out.splitlines()][-1], 2048)


if __name__ == "__main__":
    unittest.main()
