"""Adds up what the stages of tools/test ran: cases of GoogleTest, lit and unittest inside ctest's
tests, other tests as one each, and every stage that counts nothing itself as one check.
Prints the stages and, as its last line, `N passed, N failed, N skipped`."""

import pathlib
import re
import sys
import xml.etree.ElementTree as tree

COUNTED = {"run_tests", "run_sanitized"}  # stages whose tests are in a JUnit file


def number(pattern, text):
    return sum(int(n) for n in re.findall(pattern, text))


def count_output(text):
    """Cases that a test's own runner tells of as (passed, failed, skipped), or None."""
    if re.search(r"^\[==========\]", text, re.M):  # GoogleTest
        return (
            number(r"\[  PASSED  \] (\d+) test", text),
            number(r"\[  FAILED  \] (\d+) test", text),
            number(r"\[  SKIPPED \] (\d+) test", text),
        )
    if re.search(r"^Total Discovered Tests: \d+", text, re.M):  # lit
        line = r"^\s+{}\s*: (\d+)"
        counts = {
            word: sum(int(n) for n in re.findall(line.format(word), text, re.M))
            for word in ("Passed", "Expectedly Failed", "Failed", "Unexpectedly Passed",
                         "Unresolved", "Timed Out", "Unsupported", "Skipped")
        }
        return (
            counts["Passed"] + counts["Expectedly Failed"],
            counts["Failed"] + counts["Unexpectedly Passed"] + counts["Unresolved"]
            + counts["Timed Out"],
            counts["Unsupported"] + counts["Skipped"],
        )
    ran = re.search(r"^Ran (\d+) tests? in", text, re.M)  # unittest
    if ran:
        bad = number(r"(?:failures|errors)=(\d+)", text)
        skipped = number(r"skipped=(\d+)", text)
        return int(ran[1]) - bad - skipped, bad, skipped
    return None


def count_case(case):
    failed = case.get("status") == "fail" or case.find("failure") is not None
    skipped = case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
    inner = count_output(case.findtext("system-out") or "")
    if inner is None or sum(inner) == 0:
        return (0, 1, 0) if failed else (0, 0, 1) if skipped else (1, 0, 0)
    passed, bad, left_out = inner
    if failed and bad == 0:  # crashed after its cases, or before their summary
        bad = 1
    return passed, bad, left_out


def main(folder):
    total = [0, 0, 0]
    for file in sorted(folder.glob("*.xml")):
        for case in tree.parse(file).getroot().iter("testcase"):
            total = [a + b for a, b in zip(total, count_case(case))]
    print("\n== Summary")
    for line in (folder / "stages").read_text().splitlines():
        title, status, name = line.split("\t")
        print(f"{'passed' if status == '0' else 'FAILED'}  {title}")
        # A counted stage that failed before any test ran is still one failure.
        if name not in COUNTED or (status != "0" and total[1] == 0):
            total[0 if status == "0" else 1] += 1
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")


main(pathlib.Path(sys.argv[1]))
