"""The table joins what reports say of the same work: text, JSON and picture."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

SOURCE = os.environ["KILN_SOURCE"]


def line(source, what, micros, copy, **more):
    return {"source": source, "what": what, "shape": "8x64", "dtype": "bf16",
            "direction": "forward", "share": 0.25, "microseconds": micros, "copy_us": copy, **more}


def report(*timings):
    return {"version": "v", "device": "a GPU", "date": "today", "command": "c",
            "timings": list(timings)}


class Table(unittest.TestCase):
    def run_table(self, *reports):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{i}.json") for i in range(len(reports))]
            for path, content in zip(paths, reports):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(content, file)
            joined, picture = (os.path.join(folder, name) for name in ("out.json", "out.svg"))
            run = subprocess.run([sys.executable, os.path.join(SOURCE, "bench", "table.py"), *paths,
                                  f"--json={joined}", f"--svg={picture}"], capture_output=True,
                                 text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(joined, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            return run.stdout, rows, xml.dom.minidom.parse(picture)

    def test_joins_by_what_shape_dtype_and_direction(self):
        text, rows, picture = self.run_table(
            report(line("kiln", "softmax", 10.0, 9.0), line("kiln", "gate", 30.0, 30.0)),
            report(line("aten", "softmax", 40.0, 8.0), line("torch.compile", "softmax", 20.0, 8.5),
                   line("aten", "gate", 60.0, 31.0)))
        self.assertIn("| softmax 8x64 | 25.00% | 10.00 | 40.00 | 20.00 | 8.00 | 0.500 | 1.250 |",
                      text)
        self.assertIn("| **weighted** | **50.00%** | **20.00** | **50.00** | **-** |", text)
        softmax = next(row for row in rows if row["what"] == "softmax")
        self.assertEqual(softmax["microseconds"],
                         {"kiln": 10.0, "aten": 40.0, "torch.compile": 20.0})
        self.assertEqual((softmax["ratio_to_best_peer"], softmax["copy_us"]), (0.5, 8.0))
        self.assertEqual(len(picture.getElementsByTagName("rect")), 1 + 3 + 7)

    def test_what_is_slower_than_aten_is_named(self):
        host = {"direction": "forward, host"}
        without_copy = lambda *given: {key: value for key, value in line(*given, None, **host).items()
                                       if key != "copy_us"}
        kiln = report(line("kiln", "softmax", 10.0, 9.0), line("kiln", "gelu", 10.1, 9.0),
                      without_copy("kiln", "softmax", 6.0))
        aten = report(line("aten", "softmax", 40.0, 9.0), line("aten", "gelu", 10.0, 9.0),
                      without_copy("aten", "softmax", 5.0))
        text, _, _ = self.run_table(kiln, aten)
        self.assertIn("## bf16 forward, host (µs)", text)
        self.assertIn("| softmax 8x64 | 25.00% | 6.00 | 5.00 | - | 1.200 | - |", text)
        self.assertIn("1 of 3 cells are slower than ATen by more than 2%.", text)
        self.assertIn("| softmax 8x64, bf16 forward, host | 1.200 |", text)
        text = self.run_table(report(line("kiln", "gelu", 10.1, 9.0)),
                              report(line("aten", "gelu", 10.0, 9.0)))[0]
        self.assertIn("0 of 1 cells are slower", text)
        self.assertNotIn("| cell |", text)
        self.assertNotIn("Kiln beside ATen", self.run_table(kiln)[0])

    def test_rows_without_shares_have_no_weighted_row(self):
        text, rows, _ = self.run_table(
            report(line("kiln", "adamw", 10.0, 9.0, share=None, direction="step")),
            report(line("fused", "adamw", 20.0, 9.0, share=None, direction="step")))
        self.assertIn("| adamw 8x64 | - | 10.00 | 20.00 | 9.00 | 0.500 | 1.111 |", text)
        self.assertNotIn("weighted", text)
        self.assertEqual(len(rows), 1)

    def test_trouble_is_told(self):
        text, rows, _ = self.run_table(
            report(line("kiln", "gate", 10.0, 9.0)),
            report({key: value for key, value in line("torch.compile", "gate", 0, 0).items()
                    if key not in ("microseconds", "copy_us")} | {"trouble": "no compiler"}))
        self.assertIn("torch.compile, gate 8x64: no compiler", text)
        self.assertEqual(rows[0]["trouble"], {"torch.compile": "no compiler"})


if __name__ == "__main__":
    unittest.main()
