#!/usr/bin/env python3
"""Is anything slower than it was? Runs `rows` or `compile_time` of two builds in turns on one machine
and prints the ratio of each cell:
    builds.py OLD NEW [--program=rows] [--rounds=3] [--workload=FILE]... [-- what the program takes]
OLD and NEW are folders with bin/ and lib/. A cell is slower where its median is by more than --allowed
and its best round is behind the worst of OLD, so that noise is not called slower; then the exit code
is 1. Cells are compared with as many as both builds have; others are named.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def cells_of(report):
    """Microseconds by cell, of a report of rows or of Google Benchmark."""
    if "benchmarks" in report:
        return {cell["name"]: cell["real_time"] * UNITS[cell["time_unit"]]
                for cell in report["benchmarks"] if not cell.get("error_occurred")}
    return {" ".join([cell["what"], cell["shape"], cell["dtype"], cell["direction"],
                      *(f"{name}={value}" for name, value in cell.get("settings", {}).items())]):
            cell["microseconds"] for cell in report["timings"] if "microseconds" in cell}


def run(build, options, workload):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        command = [str(build / "bin" / options.program), *options.arguments]
        if options.program == "rows":
            command += [f"--json={path}"] + ([f"--workload={workload}"] if workload else [])
        else:
            command += [f"--benchmark_out={path}", "--benchmark_out_format=json"]
        libraries = f"{build / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        result = subprocess.run(command, env=os.environ | {"LD_LIBRARY_PATH": libraries},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not path.exists():
            sys.exit(f"builds.py: {' '.join(command)} ended with {result.returncode}: {result.stderr}")
        return cells_of(json.loads(path.read_text()))


def is_slower(old, new, allowed):
    return statistics.median(new) > allowed * statistics.median(old) and min(new) > max(old)


def compare(old, new, allowed):
    """Prints a line a cell; how many are slower."""
    slower = 0
    width = max(map(len, old | new), default=0)
    print(f"{'cell':{width}}  {'old us':>9}  {'new us':>9}  ratio")
    for cell in sorted(old | new):
        if cell not in old or cell not in new:
            print(f"{cell:{width}}  only in {'new' if cell in new else 'old'}")
            continue
        before, now = statistics.median(old[cell]), statistics.median(new[cell])
        worse = is_slower(old[cell], new[cell], allowed)
        slower += worse
        print(f"{cell:{width}}  {before:9.2f}  {now:9.2f}  {now / before:.3f}"
              f"{'  slower' if worse else ''}")
    ratios = [statistics.median(new[cell]) / statistics.median(old[cell]) for cell in old if cell in new]
    if not ratios:
        sys.exit("builds.py: the builds have no cell in common")
    print(f"{len(ratios)} cells, {statistics.geometric_mean(ratios):.4f} of the old time in the "
          f"geometric mean, {min(ratios):.3f} to {max(ratios):.3f}; {slower} slower")
    return slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--program", default="rows", choices=["rows", "compile_time"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", action="append", help="of rows; several times, if you like")
    parser.add_argument("--allowed", type=float, default=1.02)
    argv = sys.argv[1:]
    at = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:at])
    options.arguments = argv[at + 1:]
    times = {"old": {}, "new": {}}
    for number in range(options.rounds):
        order = ["old", "new"] if number % 2 == 0 else ["new", "old"]
        for workload in options.workload or [None]:
            for which in order:
                for cell, value in run(getattr(options, which), options, workload).items():
                    times[which].setdefault(cell, []).append(value)
    sys.exit(1 if compare(times["old"], times["new"], options.allowed) else 0)


if __name__ == "__main__":
    main()
