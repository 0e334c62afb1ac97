#!/usr/bin/env python3
"""torch.compile on the cells of bench/routed: on the device timed as bench/routed times ATen and
Kiln, beside a copy, and what a call costs the host.

  python3 bench/peers_routed.py [--workload=FILE] [--json=FILE] [--seconds=400] [--compilers=N]
                                [--tiny]

Needs torch only, and a GPU. Compiling takes most of the time, less with --compilers=N processes
side by side before the first cell: cells come in the file's order, the most important first, and
those that do not fit into --seconds any more are left out, and named.
--tiny takes 8 rows of at most 64 columns, on a CPU too, and compiles nothing: it shows that every
cell has its function, and that it is ATen's; its times say nothing.
"""
import statistics
import sys
import time

import torch

from peers_ops import bytes_moved, case_of
from peers_rows import compile_one, disagreement, made_smaller, make_sets, read_entries
from peers_timing import (DEVICE, Work, compiled_first, copies, figures, header, host_time,
                          in_turns, parser_of, sets_for, shown, write)

SOURCE = "torch.compile"
HOST_ELEMENTS = 65536 * 128  # the host's cost does not depend on the size: measured at small ones


def with_host(line):
    return {**line, "direction": line["direction"] + ", host"}


def measure(entry, tiny):
    """Lines of one cell: device and, of a small one, host."""
    base = {"source": SOURCE, **entry.key(), "share": entry.share}
    case = case_of(entry.what, entry.direction)
    if not case:
        return [{**base, "trouble": "no peer is known (peers_ops.py)"}]
    moved = bytes_moved(case, entry.rows, entry.width, entry.torch_dtype)
    count, launches = sets_for(moved)
    sets = make_sets(case, entry, count)
    torch._dynamo.reset()
    function = case.compiled or case.aten
    if not tiny:
        function = torch.compile(function, dynamic=False)
    try:  # a missing C compiler or Triton shows here, and what torch lacks on a CPU
        work = Work(function, sets, launches)
    except Exception as error:
        return [{**base, "trouble": str(error)[:300]}]
    samples, node, kernel = in_turns([work, *copies(moved, count, launches)])
    lines = [{**base, **figures(samples, node, kernel, moved), "sets": count}]
    if entry.rows * entry.width <= HOST_ELEMENTS:
        host = host_time(function, sets)
        lines.append(with_host({**base, "microseconds": statistics.median(host),
                                "lowest": min(host), "highest": max(host)}))
    return lines


class Budget:
    """Whether one more cell fits, if it takes as long as the last."""

    def __init__(self, seconds):
        self.seconds, self.took = seconds, 0.0
        self.started = self.last = time.monotonic()

    def note(self):
        now = time.monotonic()
        self.took, self.last = now - self.last, now

    def is_left(self):
        return self.last - self.started + self.took <= self.seconds

    def left_out(self, entry):
        return {"source": SOURCE, **entry.key(), "share": entry.share,
                "trouble": f"left out: does not fit into --seconds={self.seconds:g}"}


def parse():
    parser = parser_of(__doc__, "bench/routed_cells.txt")
    parser.add_argument("--seconds", type=float, default=400)
    return parser.parse_args()


def main():
    given = parse()
    if DEVICE == "cpu" and not given.tiny:
        sys.exit("peers_routed.py: torch sees no GPU; --tiny shows on a CPU that it works")
    torch.manual_seed(0)
    entries = read_entries(given.workload)
    if given.tiny:
        entries = [made_smaller(entry) for entry in entries]
    entries = compiled_first(entries, compile_one, given)
    if given.part:
        return
    report, budget, wrong = header(workload=given.workload, timings=[]), Budget(given.seconds), 0
    for entry in entries:
        if not budget.is_left():
            report["timings"].append(budget.left_out(entry))
            continue
        lines = measure(entry, given.tiny)
        print(*map(shown, lines), sep="\n", flush=True)
        report["timings"] += lines
        if given.tiny and (why := disagreement(entry)):
            print(f"{entry.what} {entry.direction}: {why}")
            wrong += 1
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        budget.note()
        if given.json:
            write(given.json, report)
    skipped = sum("left out" in line.get("trouble", "") for line in report["timings"])
    print(f"{skipped} of {len(entries)} cells left out for want of time")
    if given.json:
        write(given.json, report)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
