"""What a terminal gets, and what pipes and files get: colours, folded tables, progress, quiet ends."""

import os
import re
import subprocess
import unittest

from command import COMMAND, GATE, LAYER_NORM, CommandTest

CODES = re.compile(r"\x1b\[[0-9;]*[mK]")


class Colours(CommandTest):
    def test_only_on_a_terminal(self):
        self.assertNotIn("\033", self.run_command("doctor").out)
        self.assertIn("\033[", self.on_terminal("doctor", environment={"NO_COLOR": ""}))

    def test_no_color(self):
        self.assertNotIn("\033[", self.on_terminal("doctor", environment={"NO_COLOR": "1"}))


class Tables(CommandTest):
    def setUp(self):
        super().setUp()
        self.write("w.txt", "layer_norm 64x128 bf16,f32 0.5 forward,backward\n"
                            "log_softmax 4096x1024 bf16 0.5 forward,backward\n")
        self.run_command("tune", "--workload=w.txt", "--device=simulated", "--store=a.db",
                         "--effort=quick")
        self.wide = self.run_command("cache", "ls", "a.db").out
        self.tables = [["cache", "ls", "a.db"], ["plan", *LAYER_NORM],
                       ["bench", "a.db", "--device=simulated"]]

    def shown(self, *arguments, **options):
        return CODES.sub("", self.on_terminal(*arguments, **options)).split("\r")[-1]

    def test_fold_to_the_width(self):
        for columns in (60, 80, 100):
            for words in self.tables:
                with self.subTest(words, columns=columns):
                    out = self.shown(*words, columns=columns)
                    for line in out.splitlines():
                        self.assertLessEqual(len(line), columns, out)

    def test_nothing_is_lost(self):
        """Whatever the width, the same words are there; a column that follows below stands beside
        the key of its row."""
        words = sorted(set(self.wide.split()))
        for columns in (60, 80, 100):
            self.assertEqual(sorted(set(self.shown(*self.tables[0], columns=columns).split())),
                             words)
        key = self.wide.splitlines()[1].split()[0]
        folded = self.shown(*self.tables[0], columns=60).splitlines()
        self.assertEqual(sum(line.startswith(key + " ") for line in folded), 2, folded)
        self.assertEqual(sum(line.startswith("key ") for line in folded), 2, folded)

    def test_text_wraps_within_its_column(self):
        out = self.shown("plan", *LAYER_NORM, columns=80).splitlines()
        at = next(i for i, line in enumerate(out) if line.endswith("schedule"))
        left = out[at].index("schedule")
        self.assertEqual(out[at + 2][:left].strip(), "", out)
        self.assertRegex(out[at + 2][left:], r"^\w+ = |^= |^\w+,", out)

    def test_columns_is_obeyed(self):
        narrow = self.shown(*self.tables[0], columns=200, environment={"COLUMNS": "60"})
        self.assertEqual(narrow, self.shown(*self.tables[0], columns=60))
        self.assertEqual(self.shown(*self.tables[0], columns=200, environment={"COLUMNS": "none"}),
                         self.shown(*self.tables[0], columns=200))

    def test_pipes_and_files_get_a_line_a_row(self):
        choices = len(self.run_json("cache", "ls", "a.db")["choices"])
        self.assertEqual(len(self.wide.splitlines()), choices + 1)
        self.assertGreater(max(map(len, self.wide.splitlines())), 100)
        self.assertEqual(self.shown(*self.tables[0], columns=500), self.wide)
        done = self.run_command(*self.tables[0], env={"COLUMNS": "60"})
        self.assertEqual(done.out, self.wide)

    def test_help_folds_too(self):
        for columns in (60, 80):
            for line in self.shown("compile", "--help", columns=columns).split("Example:")[0].split("\n"):
                self.assertLessEqual(len(line), columns)


class Progress(CommandTest):
    LINE = r"\[\d+/40\] gelu \d+x128 f32, \d+ s, about \d+ s left"

    def test_jobs_tell_elapsed_and_remaining_time(self):
        self.write("w.txt", "".join(f"gelu {i}x128 f32 0.01\n" for i in range(1, 41)))
        words = ["compile", "--workload=w.txt", "--emit=cuda", "-o", "out"]
        out = self.on_terminal(*words, columns=100)
        self.assertIn("[0/40], 0 s", out)
        self.assertRegex(out, self.LINE)
        self.assertTrue(out.rstrip("\n").endswith("\r\033[K"), out[-200:])  # nothing stays
        self.assertEqual(self.run_command(*words).error, "")

    def test_its_line_is_never_wrapped(self):
        self.write("w.txt", "".join(f"gelu {i}x128 f32 0.01\n" for i in range(1, 41)))
        out = self.on_terminal("compile", "--workload=w.txt", "--emit=cuda", "-o", "out", columns=30)
        lines = CODES.sub("", out).split("\r")
        self.assertLessEqual(max(map(len, lines)), 29)
        self.assertRegex(out, r"\d+ s, about \d+ s left")  # the times stay, the label is cut

    def test_tune(self):
        out = self.on_terminal("tune", *LAYER_NORM, "--device=simulated", "--store=a.db",
                               "--effort=quick", columns=160)
        self.assertRegex(out, r"0/1 keys.*, \d+ s")


class ClosedPipes(CommandTest):
    def test_end_quietly(self):
        """As a program that SIGPIPE ends: nothing is said, and a shell sees 128 + 13."""
        self.write("gate.mlir", GATE)
        for words in (["compile", "gate.mlir", "--emit=cuda"], ["plan", *LAYER_NORM], ["--help"],
                      ["doctor", "--json"], ["compile", "--help"], ["generate", "man"],
                      ["compile", "--dtyp=x", "--json"]):
            with self.subTest(words):
                reads, writes = os.pipe()
                os.close(reads)
                done = self.run_command(*words, code=141, stdout=writes)
                os.close(writes)
                self.assertEqual(done.error.count("\n"), 2 if "--dtyp=x" in words else 0)

    def test_in_a_shell(self):
        done = subprocess.run(["bash", "-c", f"{COMMAND} generate man | head -1"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)

    def test_files_are_written_all_the_same(self):
        done = subprocess.run(
            ["bash", "-c", f'{COMMAND} compile {" ".join(LAYER_NORM)} --emit=cuda -o a.cu | true'],
            cwd=self.folder, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("KILN_KERNEL", (self.folder / "a.cu").read_text())

    def test_errors_without_a_standard_error(self):
        reads, writes = os.pipe()
        os.close(reads)
        done = subprocess.run([COMMAND, "compile", "nosuch.mlir"], stderr=writes,
                              stdout=subprocess.DEVNULL, cwd=self.folder, timeout=60)
        os.close(writes)
        self.assertEqual(done.returncode, 1)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for words in (["--help"], ["generate", "bash"], ["doctor"]):
                self.refuses(*words, stdout=full, says="cannot write to the standard output")


if __name__ == "__main__":
    unittest.main()
