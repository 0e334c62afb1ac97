"""What stands beside Kiln's attention: the peers' functions agree, every entry of the workload files
has a time, and the table says who is faster."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("bench_attention needs torch, which is not installed")
    sys.exit(77)  # ctest shows the test as skipped

SOURCE = os.environ["KILN_SOURCE"]
BENCH = os.path.join(SOURCE, "bench")
sys.path.insert(0, BENCH)
import peers_attention as peers  # noqa: E402
import table_attention  # noqa: E402

WORKLOADS = os.path.join(BENCH, "workloads", "attention")


def run(script, *options):
    done = subprocess.run([sys.executable, os.path.join(BENCH, script), *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Peers(unittest.TestCase):
    def test_functions_agree(self):
        torch.manual_seed(0)
        for bias in True, False:
            entry = peers.Entry("triangle", "2", "-", "forward", False, 2, 3, 24, 16, bias)
            inputs = [t if t is None else t.float() for t in peers.make_inputs(entry, False)]
            wanted = peers.eager(*inputs)
            for function in peers.by_sdpa, peers.by_flex:
                torch.testing.assert_close(function(*inputs), wanted, rtol=1e-4, atol=1e-4)

    def test_every_entry_has_a_time(self):
        for name, count in ("language_models.txt", 48), ("alphafold.txt", 24):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "report.json")
                run("peers_attention.py", "--tiny", "--no-compile", f"--json={path}",
                    f"--workload={os.path.join(WORKLOADS, name)}")
                with open(path, encoding="utf-8") as file:
                    timings = json.load(file)["timings"]
            self.assertEqual(len(timings), count)
            for line in timings:
                self.assertGreater(line.get("microseconds", 0), 0, line)


class Kiln(unittest.TestCase):
    program = os.environ.get("KILN_BENCH_ATTENTION", "")

    @unittest.skipUnless(program, "the measuring program is not built")
    def test_programs_with_all_sizes_in_their_text_are_verified(self):
        """Of more heads than files are verified with."""
        with tempfile.TemporaryDirectory() as folder:
            workload, report = (os.path.join(folder, name) for name in ("w.txt", "report.json"))
            with open(workload, "w", encoding="utf-8") as file:
                file.write("attention  24x1x16x16  bf16  100%  forward,backward causal=last\n")
            done = subprocess.run([self.program, "--list", "--verify=all", f"--json={report}",
                                   f"--workload={workload}"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(report, encoding="utf-8") as file:
                timings = json.load(file)["timings"]
        self.assertEqual([line["verified"] for line in timings], [True, True], timings)


class Table(unittest.TestCase):
    line = {"what": "attention", "shape": "4x16x4096x128", "dtype": "bf16", "direction": "forward"}

    def reports(self):
        causal = {**self.line, "settings": {"causal": "last"}}
        head = {"version": "1", "device": "none", "date": "today", "command": "it"}
        own = [{**self.line, "source": "kiln", "microseconds": 50.0, "TFLOPs": 800.0},
               {**causal, "source": "kiln", "microseconds": 200.0, "TFLOPs": 100.0}]
        other = [{**self.line, "source": "cudnn", "microseconds": 100.0, "TFLOPs": 400.0},
                 {**self.line, "source": "fa4", "microseconds": 400.0, "TFLOPs": 100.0},
                 {**causal, "source": "cudnn", "microseconds": 50.0, "TFLOPs": 400.0},
                 {**causal, "source": "fa4", "trouble": "out of\n memory"}]
        return {**head, "timings": own}, {**head, "timings": other}

    def test_ratios_are_to_the_best_peer(self):
        rows = table_attention.rows_of(self.reports())
        ratios = [table_attention.ratio(lines) for lines in rows.values()]
        self.assertEqual(ratios, [2.0, 0.25])

    def test_text(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, report in enumerate(self.reports()):
                paths.append(os.path.join(folder, f"{i}.json"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    json.dump(report, file)
            text = run("table_attention.py", *paths)
        self.assertIn("| 4x16x4096x128 | 800 | 400 | 100 | 2.00 |", text)
        self.assertIn("| 4x16x4096x128 causal | 100 | 400 | - | 0.25 |", text)
        self.assertIn("Geometric mean 0.707 of 2 cells; 1 are below 1.", text)
        self.assertIn("FA4, 4x16x4096x128 causal forward: out of memory", text)


if __name__ == "__main__":
    unittest.main()
