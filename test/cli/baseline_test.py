"""kiln-baseline: ATen's times, here of the CPU and for keys that no GPU has, meet Kiln's in tuning."""

import contextlib
import json
import os
import sqlite3
import subprocess
import unittest

from command import CommandTest

BASELINE = os.environ["KILN_BASELINE"]
SIMULATED = ["--device=simulated", "--jobs=1", "--effort=quick"]
WORKLOAD = """softmax     64x128   f32    20%  forward,backward
softmax     64x128   f32    10%  backward,no_read_ahead
layer_norm  64x128   f32    10%  forward
layer_norm  64x128   f32    10%  forward   # another place of the same
layer_norm  64x128   bf16   10%  forward   # weights are fp32: not what ATen has
silu        64x1024  bf16   10%  forward
swiglu      64x128   f32    30%  forward
"""


class Baseline(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("w.txt", WORKLOAD)

    def baseline(self, *arguments, code=0):
        done = subprocess.run([BASELINE, *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def time_aten(self):
        done = self.baseline("--workload=w.txt", "--store=tuned.db", "--device=cpu", "--rounds=16",
                             "--json")
        return {line["label"]: line for line in json.loads(done.stdout)["lines"]}

    def tune(self):
        jobs = self.run_json("tune", "--workload=w.txt", "--store=tuned.db", *SIMULATED)["jobs"]
        return {job["label"]: job for job in jobs}

    def explain(self, *arguments):
        return self.run_json("explain", "--op=softmax", *arguments, "--store=tuned.db",
                             "--device=simulated")["keys"][0]

    def test_times_what_routers_would_replace(self):
        lines = self.time_aten()
        self.assertEqual(len(lines), 7)
        ops = {label: line["provider"].split()[-1] for label, line in lines.items()
               if "provider" in line}
        self.assertEqual(ops, {"softmax 64x128 f32": "_softmax",
                               "softmax 64x128 f32 backward": "_softmax_backward_data",
                               "softmax 64x128 f32 backward no_read_ahead":
                                   "_softmax_backward_data",
                               "layer_norm 64x128 f32": "native_layer_norm",
                               "silu 64x1024 bf16": "silu"})
        for label in ops:
            line = lines[label]
            self.assertGreater(line["low"], 0)
            self.assertLessEqual(line["low"], line["microseconds"])
            self.assertLessEqual(line["microseconds"], line["high"])
        for label in lines.keys() - ops.keys():
            self.assertIn("ATen has no op", lines[label]["none"])
        text = self.baseline("--workload=w.txt", "--store=tuned.db", "--device=cpu").stdout
        self.assertIn("native_layer_norm", text)

    def test_the_faster_one_is_chosen(self):
        self.time_aten()
        job = self.tune()["softmax 64x128 f32"]
        self.assertEqual(job["source"], "measured")  # no CPU is as fast as a simulated H200
        self.assertIn("_softmax", job["reason"])
        found = self.explain("--shape=64x128")
        self.assertIn("more than the choice beyond the intervals", found["choice"]["why_not_vendor"])
        self.assertTrue(self.tune()["softmax 64x128 f32"]["known"])

        # A library that is faster than any kernel, timed after the choice: tuning asks again.
        with contextlib.closing(sqlite3.connect(self.folder / "tuned.db")) as store:
            store.execute("UPDATE baseline SET median = 0.01, low = 0.009, high = 0.011, "
                          "at = at + 3600000000")
            store.commit()
        tuned = self.tune()
        job = tuned["softmax 64x128 f32"]
        self.assertEqual((job["source"], job["known"]), ("vendor", False), job)
        self.assertEqual(tuned["swiglu 64x128 f32"]["source"], "measured")
        for shape in (["--shape=64x128"], ["--shape=?x128", "--sizes=64"]):
            choice = self.explain(*shape)["choice"]
            self.assertEqual((choice["source"], choice["schedule"]), ("vendor", ""), choice)
            self.assertIn("not proven faster than the vendor", choice["reason"])
            self.assertIn("of aten", choice["reason"])

    def test_usage(self):
        help = self.baseline("--help").stdout
        self.assertIn("Example:", help)
        self.baseline("--workload=w.txt", code=2)
        self.baseline("--workload=w.txt", "--store=t.db", "--device=tpu", code=2)
        self.assertIn("none.txt", self.baseline("--workload=none.txt", "--store=t.db", "--device=cpu",
                                                code=1).stderr)
        if not os.path.exists("/dev/nvidiactl"):
            self.assertIn("GPU", self.baseline("--workload=w.txt", "--store=t.db", code=1).stderr)
            self.assertFalse((self.folder / "t.db").exists())


if __name__ == "__main__":
    unittest.main()
