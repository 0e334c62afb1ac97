"""explain and report on a store that was tuned on the simulated device."""

import csv
import io
import json
import os
import unittest

from command import LAYER_NORM, CommandTest

SIMULATED = ["--device=simulated", "--store=tuned.db"]


class TunedStore(CommandTest):
    def setUp(self):
        super().setUp()
        jobs = self.run_json("tune", *LAYER_NORM, *SIMULATED, "--jobs=1", "--effort=quick")["jobs"]
        self.key = jobs[0]["key"]
        self.job = jobs[0]


class Explain(TunedStore):
    def explain(self, *arguments, code=0):
        keys = self.run_json("explain", *arguments, "--store=tuned.db", code=code)["keys"]
        self.assertEqual(len(keys), 1)
        return keys[0]

    def test_by_key_and_by_op(self):
        by_key = self.explain(self.key[:10])
        self.assertEqual(by_key, self.explain(*LAYER_NORM, "--device=simulated"))
        choice = by_key["choice"]
        self.assertEqual(choice["layer"], "project")
        self.assertEqual(choice["source"], "measured")
        self.assertEqual(choice["schedule"], self.job["schedule"])
        self.assertEqual(choice["time"]["microseconds"], self.job["microseconds"])
        self.assertRegex(choice["when"], r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$")
        self.assertIn("not measured", choice["why_not_vendor"])
        self.assertEqual(by_key["fields"]["device"], "simulated")
        self.assertEqual(by_key["search"]["feasible"], self.job["feasible"])
        self.assertTrue(by_key["search"]["ended"])
        self.assertEqual(by_key["roofline_limit"], "bytes")
        self.assertLess(by_key["runner_up"]["ratio_low"], by_key["runner_up"]["ratio_high"])
        model = by_key["model"][0]
        self.assertGreaterEqual(model["microseconds"], max(model["moving"], model["waiting"]))
        self.assertIn("constraints: registers", [r["reason"] for r in by_key["rejections"]])

    def test_text(self):
        out = self.run_command("explain", self.key[:10], "--store=tuned.db").out
        for text in [self.key[:12], "project layer: measured", "of the roofline (bytes)", "runner-up:",
                     "default:", "copy of as many bytes: not measured", "why not the vendor's",
                     "search: ended after", "cost model of", "rejected:", "driver simulated 1"]:
            self.assertIn(text, out)

    def test_workload(self):
        self.write("w.txt", "layer_norm 64x128 bf16,f32 100%\n")
        document = self.run_json("explain", "--workload=w.txt", *SIMULATED, code=5)
        self.assertEqual(["choice" in key for key in document["keys"]], [True, False])

    def test_a_miss_names_what_differs(self):
        miss = self.explain(*LAYER_NORM, code=5)["miss"]
        self.assertIn("device is '", miss)
        self.assertIn("has 'simulated'", miss)
        miss = self.explain("--op=softmax", "--shape=64x128", "--device=simulated", code=5)["miss"]
        self.assertIn("function is '", miss)

    def test_what_only_the_model_chose(self):
        self.run_command("tune", "--op=softmax", "--shape=64x128", *SIMULATED, "--effort=none")
        key = self.explain("--op=softmax", "--shape=64x128", "--device=simulated")
        self.assertEqual(key["choice"]["source"], "model")
        self.assertIsNone(key["choice"]["time"])
        self.assertIn("by the cost model", key["choice"]["reason"])

    def test_pinned(self):
        self.run_command("cache", "pin", "tuned.db", self.key)
        self.assertEqual(self.explain(self.key)["choice"]["source"], "pinned")

    def test_layers_of_the_surroundings(self):
        done = self.run_command("explain", self.key[:8],
                                env={**os.environ, "KILN_PINNED": str(self.folder / "tuned.db")})
        self.assertIn("pinned layer:", done.out)

    def test_refusals(self):
        self.refuses("explain", "ffff0000ffff", "--store=tuned.db", code=5,
                     says=["0 of the keys in 1 layers", "--store"])
        self.refuses("explain", self.key, "--store=none.db", says="there is no store")
        (self.folder / "bad.db").write_bytes((self.folder / "tuned.db").read_bytes()[:9000])
        self.refuses("explain", self.key, "--store=bad.db", code=7, says="is damaged")
        self.refuses("explain", code=2, says="nothing to compile")
        self.refuses("explain", "none.mlir", "--store=tuned.db", says="none.mlir")


class Report(TunedStore):
    def test_formats(self):
        document = self.run_json("report", "tuned.db")
        line = document["lines"][0]
        self.assertEqual(line["chosen_us"]["value"], self.job["microseconds"])
        self.assertEqual(line["feasible"], self.job["feasible"])
        self.assertEqual(line["best_so_far"][-1][0], max(s for s, _ in line["best_so_far"]))
        self.assertGreater(line["default_us"]["value"], 0)
        self.assertEqual(document["summary"]["choices"], 1)
        self.assertEqual(document, json.loads(
            self.run_command("report", "tuned.db", "--format=json").out))
        markdown = self.run_command("report", "tuned.db").out
        self.assertIn("| layer_norm 64x128 bf16 |", markdown)
        self.assertIn("- default within 1.10 times the choice:", markdown)
        rows = list(csv.DictReader(io.StringIO(
            self.run_command("report", "tuned.db", "--format=csv").out)))
        self.assertEqual(rows[0]["key"], self.key)
        self.assertEqual(rows[0]["schedule"], self.job["schedule"])
        self.run_command("report", "tuned.db", "--format=html", "-o", "page.html")
        page = (self.folder / "page.html").read_text()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertIn(self.job["schedule"].replace("<", "&lt;"), page)

    def test_what_was_shipped_tells_as_much(self):
        self.run_command("cache", "export", "tuned.db", "-o", "part.db")
        line = self.run_json("report", "part.db")["lines"][0]
        for known in ["chosen_us", "default_us", "roofline_us", "place_by_model", "tried"]:
            self.assertIsNotNone(line[known], known)

    def test_the_limit_of_a_roofline_is_named(self):
        """Products of 128 elements limit more than the exponential of their score."""
        self.run_command("tune", "--op=attention", "--shape=2x8x1024x128", "--dtype=bf16", *SIMULATED,
                         "--effort=quick")
        lines = {line["label"].split()[0]: line
                 for line in self.run_json("report", "tuned.db")["lines"]}
        self.assertEqual(lines["layer_norm"]["roofline_limit"], "bytes")
        product = lines["attention"]
        self.assertEqual(product["roofline_limit"], "tensor cores")
        self.assertAlmostEqual(product["roofline_us"],
                               4 * 16 * 1024**2 * 128 / (132 * 1830 * 4096), delta=1e-3)
        out = self.run_command("report", "tuned.db").out
        self.assertRegex(out, r"\| attention .* % \(tensor cores\) \|")
        self.assertRegex(out, r"\| layer_norm .* \d+ % \|")
        self.assertIn("% of the roofline (tensor cores)",
                      self.run_command("explain", product["key"][:12], "--store=tuned.db").out)
        for verb in ["plan", "inspect"]:
            out = self.run_command(verb, "--op=attention", "--shape=2x8x1024x32", "--dtype=bf16").out
            self.assertRegex(out, r"roofline by[^\0]* exponentials\s")

    def test_selection(self):
        self.assertEqual(self.run_json("report", "tuned.db", "--ops=softmax")["lines"], [])
        self.assertEqual(len(self.run_json("report", "tuned.db", "--arch=sm_90a")["lines"]), 1)

    def test_refusals(self):
        self.refuses("report", "none.db", says="there is no store")
        self.refuses("report", "tuned.db", "--format=pdf", code=2, says="pdf")
        self.refuses("report", "tuned.db", "-o", "/proc/none/page", says="/proc/none/page")
        (self.folder / "bad.db").write_bytes((self.folder / "tuned.db").read_bytes()[:9000])
        self.refuses("report", "bad.db", code=7, says="is damaged")


if __name__ == "__main__":
    unittest.main()
