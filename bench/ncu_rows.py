#!/usr/bin/env python3
"""What Nsight Compute says of the kernels that a store has chosen, as a table: what keeps a row of
bench/results from a copy's time.

  python3 bench/ncu_rows.py STORE LABEL... [--build=build] [--ncu=ncu]

LABELs are keys' as `kernel-compile cache ls STORE` prints them: "softmax 8192x50304 bf16 backward".
Each kernel is compared with fp64 and profiled on fewer rows than the label says, one launch at a
time: its clocks and its tail are not those of bench/rows, and its time is no result.
"""
import argparse
import json
import os
import re
import subprocess
import sys

SECTIONS = ("SpeedOfLight", "Occupancy", "LaunchStats", "SchedulerStats", "WarpStateStats")
FIGURES = {"Duration": "us", "DRAM Throughput": "DRAM %", "One or More Eligible": "issue slots %",
           "Achieved Occupancy": "warps resident %", "Registers Per Thread": "registers",
           "Waves Per SM": "waves"}
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
ELEMENTS = 1 << 24  # of a tensor: so many take seconds in fp64
WIDE_ROWS = 1056  # several waves of blocks of one row


def choices_of(kernel_compile, store):
    listed = subprocess.run([kernel_compile, "cache", "ls", store, "--json"], check=True,
                            capture_output=True, text=True)
    return {choice["label"]: choice for choice in json.loads(listed.stdout)["choices"]}


def run_arguments(choice, workloads):
    """What `kernel-compile run` takes for a choice, with fewer rows."""
    words = choice["label"].split()
    rows, width = map(int, re.search(r"\[(\d+)x(?:\d+x)*(\d+)\]", choice["tensors"]).groups())
    rows = min(rows, max(WIDE_ROWS, ELEMENTS // width))
    if len(words) > 1 and "x" in words[1]:
        what = [f"--op={words[0]}", f"--shape={rows}x{width}", f"--dtype={words[2]}"]
    else:
        what = [os.path.join(workloads, words[0] + ".mlir"), f"--sizes={rows}"]
    backward = ["--backward"] if words[-1] == "backward" else []
    return [*what, *backward, f"--schedule={choice['schedule']}"]


def kernels_of(text):
    """The figures of each kernel's first launch, by its name, in ncu's printed details."""
    kernels, figures = {}, None
    for line in text.splitlines():
        if started := re.match(r"\s+(\w+) \(\d+, \d+, \d+\)x\(\d+, \d+, \d+\)", line):
            is_new = started[1] not in kernels
            figures = {} if is_new else None
            if is_new:
                kernels[started[1]] = figures
        for metric, name in FIGURES.items() if figures is not None else ():
            if found := re.match(rf"\s+{re.escape(metric)}\s+(\S*)\s+([\d.,]+)\s*$", line):
                value = float(found[2].replace(",", ""))
                figures.setdefault(name, value * MICROSECONDS.get(found[1], 1.0))
    return kernels


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    parser.add_argument("labels", nargs="+", metavar="LABEL")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ncu", default="ncu")
    return parser.parse_args()


def main():
    given = parse()
    kernel_compile = os.path.join(given.build, "bin", "kernel-compile")
    workloads = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads")
    choices = choices_of(kernel_compile, given.store)
    if unknown := [label for label in given.labels if label not in choices]:
        sys.exit(f"ncu_rows.py: {given.store} has no choice for {', '.join(map(repr, unknown))}; "
                 "kernel-compile cache ls lists what it has")
    sections = [word for section in SECTIONS for word in ("--section", section)]
    print(f"| key | kernel | {' | '.join(FIGURES.values())} |")
    print("|---|---" + "|---:" * len(FIGURES) + "|")
    failed = False
    for label in given.labels:
        run = subprocess.run([given.ncu, *sections, "--launch-count", "2", kernel_compile, "run",
                              "--target=gpu", *run_arguments(choices[label], workloads)],
                             capture_output=True, text=True)
        kernels = kernels_of(run.stdout)
        if run.returncode or not kernels:
            print(f"{label}: {(run.stderr or run.stdout).strip()[-500:]}", file=sys.stderr)
            failed = True
        for kernel, figures in kernels.items():
            values = (f"{figures[name]:g}" if name in figures else "-" for name in FIGURES.values())
            print(f"| {label} | {kernel} | {' | '.join(values)} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
