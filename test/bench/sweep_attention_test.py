"""bench/sweep_attention.py in tiny sizes on a CPU: every cell of every source has times, Kiln's too,
whose kernels the host target executes; what does not fit is a cell that says so; and wrong options
are refused."""
import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    print("bench_sweep_attention needs torch, which is not installed")
    sys.exit(77)  # ctest shows the test as skipped

BENCH = os.path.join(os.environ["KILN_SOURCE"], "bench")
SCRIPT = os.path.join(BENCH, "sweep_attention.py")
LIBRARY = os.environ.get("KILN_TORCH_LIBRARY", "")
sys.path.insert(0, BENCH)
import sweep_attention as sweep  # noqa: E402


def run(*arguments, folder=None):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          check=False, cwd=folder)


def here(*arguments):
    """The exit code and the report of a run in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sweep.json")
        with mock.patch.object(sys, "argv", [SCRIPT, "--tiny", f"--json={path}", *arguments]), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            try:
                sweep.main()
            except SystemExit as end:
                code = int(end.code)
        with open(path, encoding="utf-8") as file:
            return code, json.load(file)


class Cells(unittest.TestCase):
    def check_times(self, cells):
        for cell in cells:
            self.assertNotIn("trouble", cell)
            for direction in "forward", "backward", "both":
                self.assertGreater(cell["microseconds"][direction], 0, cell)
            self.assertGreaterEqual(cell["replays"], 3)

    def check_errors(self, errors, sources):
        """Tolerances are of a few roundings of numbers near 1."""
        self.assertEqual({line["source"] for line in errors}, sources)
        for line in errors:
            for name in "o", "dq", "dk", "dv":
                self.assertLess(line[name], 0.1 if line["dtype"] == "bf16" else 1e-4, line)

    def check_script(self, sources, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("sweep.json", "sweep.md")]
            result = run("--tiny", f"--sources={','.join(sources)}", f"--json={files[0]}",
                         f"--markdown={files[1]}", *arguments)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(files[0], encoding="utf-8") as file:
                report = json.load(file)
            with open(files[1], encoding="utf-8") as file:
                self.assertEqual(file.read(), result.stdout)
        self.check_times(report["cells"])
        keys = {(cell["dtype"], cell["width"], cell["length"], cell["source"])
                for cell in report["cells"]}
        self.assertEqual(len(keys), len(report["cells"]))
        self.assertEqual(len(keys), 2 * 2 * 2 * len(sources))
        for row in "16 x 32", "16 x 64", "32 x 32", "32 x 64":
            self.assertEqual(result.stdout.count(f"| {row} |"), 2)
        return report, result

    def test_torch_alone(self):
        report, _ = self.check_script(["eager", "sdpa"])
        self.check_errors(report["errors"], {"sdpa"})

    @unittest.skipUnless(LIBRARY, "Kiln's library for torch is not built")
    def test_kiln(self):
        report, result = self.check_script(["sdpa", "kiln"], f"--library={LIBRARY}")
        self.check_errors(report["errors"], {"sdpa", "kiln"})
        for cell in report["cells"]:
            if cell["source"] == "kiln":
                self.assertEqual(cell["by_kiln"], [True, True], cell)
        self.assertIn("| width x length | sdpa | kiln | kiln, TFLOP/s |", result.stdout)

    def test_one_compilation_serves_all_lengths(self):
        """Also where a length is as large as the width."""
        compiler = functools.partial(torch.compile, backend="aot_eager")
        torch._dynamo.utils.counters.clear()
        with mock.patch.object(torch, "compile", compiler):
            code, report = here("--sources=torch.compile", "--widths=16", "--lengths=16,24,40",
                                "--heads=3", "--dtypes=fp32")
        self.assertEqual(code, 0, report)
        self.check_times(report["cells"])
        self.assertEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 1)

    def test_formula_is_the_operation(self):
        call = sweep.make_inputs(sweep.Cell("fp32", 16, 24, 3), "eager")
        for ours, right in zip(sweep.both_of(sweep.eager, *call), sweep.both_of(sweep.by_sdpa, *call)):
            torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)


class Trouble(unittest.TestCase):
    def with_eager(self, function):
        lengths = []

        def eager(q, k, v):
            lengths.append(q.shape[-2])
            return function(q, k, v)
        with mock.patch.object(sweep, "eager", eager):
            return lengths, *here("--sources=eager,sdpa", "--widths=16", "--lengths=16,32,64",
                                  "--dtypes=bf16")

    def test_what_does_not_fit_is_a_cell(self):
        def short_rows(q, k, v):
            if q.shape[-2] > 16:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB.")
            return sweep.by_sdpa(q, k, v)
        lengths, code, report = self.with_eager(short_rows)
        self.assertEqual(code, 0)
        self.assertEqual(lengths.count(32), 1)
        self.assertNotIn(64, lengths)  # which needs more
        cells = {(cell["source"], cell["length"]): cell for cell in report["cells"]}
        self.assertEqual(len(cells), 6)
        for (source, length), cell in cells.items():
            expected = "out of memory" if source == "eager" and length > 16 else None
            self.assertEqual(cell.get("trouble"), expected)
            self.assertEqual(sweep.shown(cell) == "out of memory", bool(expected))

    def test_other_errors_do_not_end_the_run(self):
        def no_32(q, k, v):
            if q.shape[-2] == 32:
                raise RuntimeError("no kernel | for\n32 rows")
            return sweep.by_sdpa(q, k, v)
        lengths, code, report = self.with_eager(no_32)
        self.assertEqual(code, 1)
        self.assertIn(64, lengths)
        trouble, = (cell for cell in report["cells"] if "trouble" in cell)
        self.assertEqual(trouble["trouble"], "RuntimeError: no kernel | for 32 rows")
        self.assertEqual(sweep.shown(trouble), r"RuntimeError: no kernel \| for 32 rows")

    def test_what_is_cut_off_keeps_its_cells(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sweep.json")
            script = ("import sys; import sweep_attention as sweep\n"
                      "def eager(q, k, v):\n"
                      "    assert q.shape[-2] != 64 or sys.exit(3)\n"
                      "    return sweep.by_sdpa(q, k, v)\n"
                      "sweep.eager = eager; sweep.main()")
            result = subprocess.run([sys.executable, "-c", script, "--tiny", "--sources=eager",
                                     f"--json={path}"], check=False, capture_output=True,
                                    env={**os.environ, "PYTHONPATH": BENCH})
            self.assertEqual(result.returncode, 3, result.stderr)
            with open(path, encoding="utf-8") as file:
                self.assertEqual([cell["length"] for cell in json.load(file)["cells"]], [32])

    def test_wrong_options_are_refused(self):
        for argument, expected in [
                ("--sources=eager,fast", "no 'fast'; known are eager, sdpa, torch.compile, kiln"),
                ("--dtypes=fp64", "no 'fp64'; known are bf16, fp32"),
                ("--widths=16,512", "'16,512': allowed are numbers from 1 to 256"),
                ("--lengths=long", "'long': allowed are numbers from 2 to 1048576"),
                ("--heads=0", "--heads=0: at least 1"),
                ("--library=nowhere.so", "no library 'nowhere.so'; build the target kiln_torch")]:
            result = run("--tiny", argument)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(expected, result.stderr)

    def test_without_a_library_kiln_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            for sources, code in ("sdpa,kiln", 0), ("kiln", 1):
                result = run("--tiny", f"--sources={sources}", folder=folder)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn("left out: kiln, since its library does not load", result.stderr)
                self.assertNotIn("kiln, TFLOP/s", result.stdout)


if __name__ == "__main__":
    unittest.main()
