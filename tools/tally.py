"""Adds up what the stages of tools/test ran: cases of GoogleTest, lit and unittest inside ctest's
tests, other tests as one each, and every stage that counts nothing itself as one check.
Prints the stages, what the build had left out, why tests were skipped and how many of each, and as
its last line `N passed, N failed, N skipped`."""

import collections
import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree as tree

COUNTED = {"run_tests", "run_sanitized"}  # stages whose tests are in a JUnit file
WIDTH = 100


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
    """(passed, failed, skipped) of one of ctest's tests."""
    failed = case.get("status") == "fail" or case.find("failure") is not None
    skipped = case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
    inner = count_output(case.findtext("system-out") or "")
    if inner is None or sum(inner) == 0:
        return (0, 1, 0) if failed else (0, 0, 1) if skipped else (1, 0, 0)
    passed, bad, left_out = inner
    if failed and bad == 0:  # crashed after its cases, or before their summary
        bad = 1
    return passed, bad, left_out


def reasons_of(text):
    """Why a test's output says that cases were skipped, a reason for each."""
    reasons = re.findall(r": Skipped\n(.*?)\n+\[  SKIPPED \]", text, re.S)  # GoogleTest
    reasons += re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", text, re.M)  # unittest
    reasons += re.findall(r"^skipped: (.*)$", text, re.M)  # a script that exits with 77
    return [" ".join(reason.split()) for reason in reasons]


def reasons_of_case(case, skipped):
    """As many reasons as cases were skipped; what told none goes by its name."""
    reasons = reasons_of(case.findtext("system-out") or "")[:skipped]
    return reasons + [f"{case.get('name')} does not say why"] * (skipped - len(reasons))


def show(title, lines):
    if lines:
        print(f"\n{title}")
    for line in lines:
        print(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="           "))


def main(folder):
    total = [0, 0, 0]
    why = collections.Counter()
    for file in sorted(folder.glob("*.xml")):
        for case in tree.parse(file).getroot().iter("testcase"):
            counts = count_case(case)
            total = [a + b for a, b in zip(total, counts)]
            why.update(reasons_of_case(case, counts[2]))
    print("\n== Summary")
    for line in (folder / "stages").read_text().splitlines():
        title, status, name = line.split("\t")
        print(f"{'passed' if status == '0' else 'FAILED'}  {title}")
        # A counted stage that failed before any test ran is still one failure.
        if name not in COUNTED or (status != "0" and total[1] == 0):
            total[0 if status == "0" else 1] += 1
    left_out = folder / "left-out"
    show("Left out of the build, with its tests:",
         left_out.read_text().splitlines() if left_out.exists() else [])
    show("Skipped:", [f"{count:7,}  {reason}" for reason, count in why.most_common()])
    print(f"\n{total[0]} passed, {total[1]} failed, {total[2]} skipped")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
