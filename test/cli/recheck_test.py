"""bench, verify and regress: a store's choices run again on the simulated device."""

import contextlib
import json
import os
import sqlite3
import unittest

from command import LAYER_NORM, CommandTest

SIMULATED = "--device=simulated"


class Recheck(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("w.txt", "layer_norm 64x128 bf16 50%\nsoftmax 8192x256 f32 50%\n")
        # What the model ranks first is slow here, so that the choices are others.
        jobs = self.tune("--effort=none", "--store=first.db", SIMULATED)
        slow = {job["schedule"]: 1.5 for job in jobs}
        self.simulation = {"slower": slow}
        jobs = self.tune("--effort=quick", "--store=tuned.db", self.changed())
        self.jobs = {job["label"]: job for job in jobs}
        self.norm = self.jobs["layer_norm 64x128 bf16"]
        self.default = [s for s in slow]

    def tune(self, *arguments):
        return self.run_json("tune", "--workload=w.txt", "--jobs=1", *arguments)["jobs"]

    def changed(self, **changes):
        """The device that the store was made on, with changes."""
        path = self.write("device.json", json.dumps({**self.simulation, **changes}))
        return f"--device=simulated:{path}"

    def choices(self, verb, *arguments, code=0, device=None):
        document = self.run_json(verb, "tuned.db", *arguments, device or self.changed(), code=code)
        return {choice["label"]: choice for choice in document["choices"]}

    def test_bench(self):
        choices = self.choices("bench")
        self.assertEqual(set(choices), set(self.jobs))
        for label, choice in choices.items():
            self.assertEqual(choice["schedule"], self.jobs[label]["schedule"])
            self.assertNotEqual(choice["default"]["schedule"], choice["schedule"])
            chosen = choice["chosen"]
            self.assertLess(chosen["ratio_low"], chosen["ratio_high"])
            self.assertLess(chosen["ratio_high"], 1)
            self.assertAlmostEqual(chosen["microseconds"], self.jobs[label]["microseconds"],
                                   delta=0.05 * chosen["microseconds"])
            self.assertLess(choice["copy"]["microseconds"], chosen["microseconds"])
            self.assertGreater(choice["roofline_microseconds"], 0)
        out = self.run_command("bench", "tuned.db", self.norm["key"][:9], self.changed()).out
        self.assertIn("layer_norm", out)
        self.assertNotIn("softmax", out)

    def test_only_record_writes(self):
        def copy():
            return self.run_json("report", "tuned.db", "--ops=layer_norm")["lines"][0]["copy_us"]
        self.choices("bench")
        self.assertIsNone(copy())
        self.choices("bench", "--record")
        self.assertGreater(copy()["value"], 0)
        self.assertIn("copy of as many bytes: ",
                      self.run_command("explain", self.norm["key"], "--store=tuned.db").out)
        self.run_command("cache", "doctor", "tuned.db")

    def test_verify(self):
        for choice in self.choices("verify", "--all").values():
            self.assertTrue(choice["passed"])
        wrong = self.changed(faults={self.norm["schedule"]: {"kind": "wrong result"}})
        choices = self.choices("verify", "--all", device=wrong, code=4)
        self.assertFalse(choices[self.norm["label"]]["passed"])
        self.assertIn("wrong result", choices[self.norm["label"]]["problem"])
        self.assertTrue(choices["softmax 8192x256 f32"]["passed"])
        self.refuses("verify", "tuned.db", self.norm["key"][:9], wrong, code=4,
                     says=["layer_norm", "wrong result"])

    def test_a_wrong_kernel_is_withdrawn(self):
        crash = self.changed(faults={self.norm["schedule"]: {"kind": "crash"}})
        self.choices("verify", "--all", device=crash, code=4)
        # Two keys, each also for the general function: what is wrong for one is for the other.
        self.assertEqual(len(self.run_json("cache", "ls", "tuned.db")["choices"]), 4)
        self.choices("verify", "--all", "--record", device=crash, code=4)
        left = self.run_json("cache", "ls", "tuned.db")["choices"]
        self.assertEqual({choice["label"].split()[0] for choice in left}, {"softmax"})
        self.assertEqual(len(left), 2)
        self.refuses("verify", "tuned.db", self.norm["key"], self.changed(),
                     says="nothing is chosen")

    def test_regress(self):
        for choice in self.choices("regress").values():
            self.assertEqual(choice["regression"], "")
            self.assertGreater(choice["recorded"]["microseconds"], 0)
        slow = self.changed(aged={self.norm["schedule"]: 1.2})
        choices = self.choices("regress", device=slow, code=6)
        self.assertIn("recorded are", choices[self.norm["label"]]["regression"])
        self.assertEqual(choices["softmax 8192x256 f32"]["regression"], "")
        self.refuses("regress", "tuned.db", slow, code=6, says=["layer_norm", "tune --again"])
        self.choices("regress", "--tolerance=0.5", device=slow)
        other = self.changed(aged={self.norm["schedule"]: 1.2}, driver="simulated 2")
        choices = self.choices("regress", device=other, code=6)
        self.assertIn("with driver simulated 1", choices[self.norm["label"]]["regression"])
        fast = self.changed(aged={schedule: 0.4 for schedule in self.default})
        choices = self.choices("regress", device=fast, code=6)
        self.assertIn("of the default's time", choices[self.norm["label"]]["regression"])

    def test_exported_stores_are_enough(self):
        self.run_command("cache", "export", "tuned.db", "-o", "part.db")
        os.rename(self.folder / "part.db", self.folder / "tuned.db")
        self.choices("regress")
        self.choices("verify", "--all")

    def test_what_cannot_be_run(self):
        hangs = self.changed(faults={self.norm["schedule"]: {"kind": "crash", "while_timing": True}})
        self.refuses("bench", "tuned.db", hangs, says=["layer_norm", "ended by signal"])
        self.refuses("bench", "tuned.db", "ffff0000", SIMULATED, code=5, says="0 of the keys")
        self.refuses("bench", "none.db", SIMULATED, says="there is no store")
        self.refuses("regress", "tuned.db", "--device=tpu", code=2, says="none of gpu, simulated")
        self.refuses("regress", "tuned.db", "--rounds=7", code=2, says="7")
        self.refuses("verify", "tuned.db", SIMULATED, code=2, says="KEYs or --all")
        self.refuses("verify", "tuned.db", "00", "--all", SIMULATED, code=2, says="one of them")
        self.write("bad.json", "{")
        self.refuses("bench", "tuned.db", "--device=simulated:bad.json",
                     says="describes no simulated device")
        if not os.path.exists("/dev/nvidiactl"):
            self.refuses("bench", "tuned.db", says="libcuda")
        with contextlib.closing(sqlite3.connect(self.folder / "tuned.db")) as store:
            store.execute("UPDATE artifact SET cubin = zeroblob(100)")
            store.commit()
        self.refuses("verify", "tuned.db", "--all", SIMULATED, code=7, says="cubin")
        (self.folder / "bad.db").write_bytes((self.folder / "tuned.db").read_bytes()[:9000])
        for verb in ["bench", "regress"]:
            self.refuses(verb, "bad.db", SIMULATED, code=7, says="is damaged")

    def test_keys_of_other_devices_are_left_out(self):
        self.run_command("tune", *LAYER_NORM, "--store=tuned.db", "--effort=none")
        self.assertEqual(len(self.choices("bench")), 2)
        other = [c["key"] for c in self.run_json("cache", "ls", "tuned.db")["choices"]
                 if c["device"] != "simulated"]
        self.refuses("bench", "tuned.db", other[0], SIMULATED,
                     says=["is for H200", "at hand is simulated"])
        self.run_command("tune", *LAYER_NORM, "--store=other.db", "--effort=none")
        self.refuses("bench", "other.db", SIMULATED, code=5, says="was chosen for simulated")


if __name__ == "__main__":
    unittest.main()
