"""The summary of tools/test: how cases are counted, and that each skipped one has its reason."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.sax.saxutils as sax

SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])

GTEST = """[==========] Running 3 tests from 1 test suite.
[ RUN      ] A.first
/a/b.cpp:3: Skipped
no GPU: the driver
is not there

[  SKIPPED ] A.first (0 ms)
[ RUN      ] A.second
b.cpp:9: Skipped
no GPU: the driver is not there
[  SKIPPED ] A.second (0 ms)
[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.first
[  SKIPPED ] A.second
"""
UNITTEST = """test_a (x.A) ... ok
test_b (x.A) ... skipped 'no browser'
----
Ran 2 tests in 0.1s

OK (skipped=1)
"""


def case(name, text, status="run", inner=""):
    return (f'<testcase name="{name}" status="{status}">{inner}'
            f"<system-out>{sax.escape(text)}</system-out></testcase>")


class Tally(unittest.TestCase):
    def summary(self, cases, stages="Tests\t0\trun_tests\n", left_out=""):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tests.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            (folder / "stages").write_text(stages)
            (folder / "left-out").write_text(left_out)
            return subprocess.run([sys.executable, SOURCE / "tools/tally.py", folder],
                                  capture_output=True, text=True, check=True).stdout

    def test_skipped_cases_are_grouped_by_reason(self):
        out = self.summary([
            case("gtest", GTEST), case("python", UNITTEST),
            case("script", "skipped: no torch in python3\n", "notrun", "<skipped/>"),
            case("silent", "", "notrun", "<skipped/>")])
        for line in ["      2  no GPU: the driver is not there\n", "      1  no browser\n",
                     "      1  no torch in python3\n", "      1  silent does not say why\n"]:
            self.assertIn(line, out)
        self.assertTrue(out.endswith("\n2 passed, 0 failed, 5 skipped\n"), out)

    def test_what_the_build_left_out_is_named(self):
        out = self.summary([case("gtest", GTEST)], left_out="train_lm: there is no LibTorch\n")
        self.assertIn("Left out of the build, with its tests:\n  train_lm: there is no LibTorch\n",
                      out)
        self.assertNotIn("Left out", self.summary([case("gtest", GTEST)]))

    def test_stages_count_and_a_crash_is_a_failure(self):
        out = self.summary([case("crashed", GTEST, "fail", "<failure/>")],
                           "Format\t1\tcheck_format\nTests\t1\trun_tests\n")
        self.assertIn("FAILED  Format\nFAILED  Tests\n", out)
        self.assertTrue(out.endswith("1 passed, 2 failed, 2 skipped\n"), out)


if __name__ == "__main__":
    unittest.main()
