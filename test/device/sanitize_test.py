"""sanitize.sh with a sanitizer and programs that stand in for the real ones: every test is dealt out
once, from one seed, and a finding, a failure or silence of any process fails the whole.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["KILN_SOURCE"]) / "test/device/sanitize.sh"

SANITIZER = """#!/usr/bin/env bash
while [[ $1 != */* ]]; do [[ $1 != --tool ]] || tool=$2; shift; done
"$@" || code=$?
case $1 in *random_tests) [[ ${GTEST_SHARD_INDEX:-} != "${FINDS_IN:-}" ]] || { hazards=3; code=1; };; esac
[[ -n ${SILENT:-} ]] || case $tool in
  racecheck) echo "========= RACECHECK SUMMARY: ${hazards:-0} hazards displayed (${hazards:-0} errors, 0 warnings)";;
  *) echo "========= ERROR SUMMARY: ${hazards:-0} errors";;
esac
exit ${code:-0}
"""
PROGRAM = """#!/usr/bin/env bash
echo "$(basename $0) $* $GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS of $KILN_RANDOM_SEED+$KILN_RANDOM_COUNT" >> "$RECORD"
echo "[  PASSED  ] ${PASSES:-5} tests."
[[ -z ${SKIPS:-} ]] || echo "[  SKIPPED ] $SKIPS tests."
exit ${FAILS:-0}
"""


class Sanitize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        self.write("compute-sanitizer", SANITIZER)
        for program in ("device_tests", "random_tests", "numerics_tests"):
            self.write(program, PROGRAM)

    def write(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def sanitize(self, *arguments, **variables):
        record = self.folder / "record"
        record.write_text("")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GTEST")}
        environment |= {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "RECORD": str(record)}
        result = subprocess.run(["bash", SCRIPT, str(self.folder), *arguments],
                                env=environment | variables, capture_output=True, text=True)
        return result, record.read_text().splitlines()

    def test_device_tests_alone(self):
        result, lines = self.sanitize()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(lines), 4)
        self.assertTrue(all(line.startswith("device_tests ") for line in lines))

    def test_what_is_drawn_is_dealt_out(self):
        result, lines = self.sanitize("40", "3")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        drawn = [line for line in lines if not line.startswith("device_tests ")]
        self.assertEqual(len(drawn), 2 * 3 * 3, "two tools, three kinds of tests, three processes")
        self.assertEqual(len({line.split(" of ")[1] for line in drawn}), 1, "one seed")
        for slice in range(3):
            self.assertEqual(sum(f" {slice}/3 of " in line for line in drawn), 6)
        self.assertIn("racecheck of attentions: 15 passed, 0 skipped, 0 findings", result.stdout)

    def test_a_finding_of_one_process_fails(self):
        result, _ = self.sanitize("40", "3", FINDS_IN="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("racecheck of functions: 15 passed, 0 skipped, 3 findings, 1 of 3", result.stdout)
        self.assertIn("RACECHECK SUMMARY: 3 hazards", result.stdout)

    def test_failures_and_silence_fail(self):
        for trouble in ({"FAILS": "1"}, {"SILENT": "1"}, {"PASSES": "0", "SKIPS": "5"}):
            result, _ = self.sanitize("40", "2", SANITIZE_DEVICE_TESTS="0", **trouble)
            self.assertEqual(result.returncode, 1, trouble)

    def test_options(self):
        result, lines = self.sanitize("9", "2", SANITIZE_DEVICE_TESTS="0", SANITIZE_TOOLS="racecheck",
                                      KILN_RANDOM_SEED="77", SANITIZE_LOGS=str(self.folder / "logs"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(lines), 6)
        self.assertTrue(all(line.endswith(" of 77+9") for line in lines))
        self.assertEqual(len(list((self.folder / "logs").iterdir())), 6)
        self.assertEqual(self.sanitize("many")[0].returncode, 2)


if __name__ == "__main__":
    unittest.main()
