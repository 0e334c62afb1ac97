#!/usr/bin/env python3
"""ATen and torch.compile on the entries of a workload file, timed as bench/rows times Kiln, and
ATen's errors against fp64 on the inputs of bench/errors.

  python3 bench/peers_rows.py [--workload=FILE] [--json=FILE] [--no-compile] [--seconds=100]
                              [--compilers=N] [--tiny]

Needs torch only. Without a GPU it measures the errors and no times. torch.compile is left out for
what remains once --seconds are over; --compilers=N processes compile side by side before that. It
writes what its function returns: of LayerNorm's forward only y, where Kiln and ATen also write mean
and rstd.
--tiny takes 8 rows of at most 64 columns, on a CPU too, and checks that ATen and torch.compile get
equal functions: it shows that everything works; its times say nothing.
"""
import math
import os
import re
import sys
import time
from typing import NamedTuple

import torch

from peers_errors import errors_of
from peers_ops import DTYPES, bytes_moved, case_of
from peers_timing import (DEVICE, Work, compiled_first, copies, figures, header, in_turns,
                          parser_of, sets_for, shown, write)


class Entry(NamedTuple):
    """`what`, `shape` and `dtype` as bench/rows names them; the rest as numbers."""
    what: str
    shape: str
    dtype: str  # "-": the file's
    direction: str
    share: float
    rows: int
    width: int
    torch_dtype: torch.dtype

    def key(self):
        return {key: getattr(self, key) for key in ("what", "shape", "dtype", "direction")}


def entries_of_line(fields, folder):
    what, shape, dtypes, share = fields[:4]
    sizes = [] if shape == "-" else [int(size) for size in shape.split("x")]
    part = float(share[:-1]) / 100 if share.endswith("%") else float(share)
    types = {dtype: DTYPES.get(dtype) for dtype in dtypes.split(",")}
    if what.endswith(".mlir"):  # the width and dtype of its first tensor with rows
        with open(os.path.join(folder, what), encoding="utf-8") as file:
            width, dtype = re.search(r"tensor<\?x(\d+)x(\w+)>", file.read()).groups()
        what, types = what[:-len(".mlir")], {"-": DTYPES[dtype]}
        sizes.append(int(width))
    options = ",".join(fields[4:]).split(",")
    for direction in ("forward", "backward"):
        if direction in options or (direction == "forward" and "backward" not in options):
            for name, dtype in types.items():
                yield Entry(what, shape, name, direction, part, math.prod(sizes[:-1]), sizes[-1],
                            dtype)


def read_entries(path):
    """Each once with the sum of its shares, in the file's order."""
    entries = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            for entry in entries_of_line(fields, os.path.dirname(path)) if fields else []:
                known = entries.get(tuple(entry.key().values()), entry._replace(share=0))
                entries[tuple(entry.key().values())] = known._replace(
                    share=known.share + entry.share)
    return list(entries.values())


def made_smaller(entry):
    return entry._replace(rows=min(entry.rows, 8), width=min(entry.width, 64))


def make_sets(case, entry, count):
    normal = lambda *shape: torch.randn(*shape, device=DEVICE, dtype=entry.torch_dtype)
    return [case.make(normal, entry.rows, entry.width, entry.torch_dtype) for _ in range(count)]


def measure(entry, compiled):
    """One line a source for an entry; `compiled`: torch.compile too."""
    base = {**entry.key(), "share": entry.share}
    case = case_of(entry.what, entry.direction)
    if not case:
        return [{"source": "aten", **base, "trouble": "no peer is known (peers_ops.py)"}]
    moved = bytes_moved(case, entry.rows, entry.width, entry.torch_dtype)
    count, launches = sets_for(moved)
    sets = make_sets(case, entry, count)
    functions = {"aten": case.aten}
    if compiled:
        torch._dynamo.reset()
        functions["torch.compile"] = torch.compile(case.compiled or case.aten, dynamic=False)
    lines, works = [], {}
    for source, function in functions.items():
        try:  # a missing C compiler or Triton shows here, and what torch lacks on a CPU
            works[source] = Work(function, sets, launches)
        except Exception as error:
            lines.append({"source": source, **base, "trouble": str(error)[:300]})
    *times, node, kernel = in_turns([*works.values(), *copies(moved, count, launches)])
    for source, samples in zip(works, times):
        lines.append({"source": source, **base, **figures(samples, node, kernel, moved),
                      "sets": count})
    return lines


def compile_one(entry):
    """Compiles an entry's function and calls it once."""
    if case := case_of(entry.what, entry.direction):
        torch._dynamo.reset()
        arguments = make_sets(case, entry, 1)[0]
        torch.compile(case.compiled or case.aten, dynamic=False)(*arguments)


def disagreement(entry):
    """Of ATen's function and the one that torch.compile gets; empty if there is none to speak of,
    or nothing to compare."""
    case = case_of(entry.what, entry.direction)
    if not case or not case.compiled or case.random:
        return ""
    arguments = make_sets(case, entry, 1)[0]
    try:
        results = case.aten(*arguments)
    except NotImplementedError:
        return ""  # not on this device
    others = case.compiled(*arguments)
    as_list = lambda value: list(value) if isinstance(value, (tuple, list)) else [value]
    for one, other in zip(as_list(results), as_list(others)):
        if not torch.allclose(one.float(), other.float(), rtol=0.05, atol=0.02):
            return f"ATen and torch.compile get different functions: {one} and {other}"
    return ""


def weighted(timings):
    """Means by share, one a source, dtype and direction; only of what is complete."""
    wanted, sums = {}, {}
    for line in timings:
        group = (line["dtype"], line["direction"])
        wanted.setdefault(group, set()).add((line["what"], line["shape"]))
        if "microseconds" in line:
            sums.setdefault((line["source"], *group), []).append(line)
    result = []
    for (source, *group), lines in sums.items():
        if {(line["what"], line["shape"]) for line in lines} != wanted[tuple(group)]:
            continue
        share = sum(line["share"] for line in lines)
        own, copy = (sum(line["share"] * line[key] for line in lines) / share
                     for key in ("microseconds", "copy_us"))
        result.append({"source": source, "dtype": group[0], "direction": group[1], "share": share,
                       "microseconds": own, "copy_us": copy, "ratio_to_copy": own / copy})
    return result


def parse():
    parser = parser_of(__doc__, "bench/workloads/alphafold_layernorm.txt")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=100)
    return parser.parse_args()


def main():
    given = parse()
    torch.manual_seed(0)
    entries = read_entries(given.workload)
    if given.tiny:
        entries = [made_smaller(entry) for entry in entries]
    entries = compiled_first(entries, compile_one, given)
    if given.part:
        return
    started = time.monotonic()
    report = header(workload=given.workload, timings=[], weighted=[], errors=[])
    for entry in entries:
        if entry.what == "layer_norm" and entry.dtype != "-":
            report["errors"] += errors_of(entry)
    wrong = 0
    for entry in entries if DEVICE == "cuda" or given.tiny else []:
        compiled = not given.no_compile and time.monotonic() - started < given.seconds
        for line in measure(entry, compiled):
            print(shown(line), flush=True)
            report["timings"].append(line)
        if given.tiny and (why := disagreement(entry)):
            print(f"{entry.what} {entry.direction}: {why}")
            wrong += 1
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        if given.json:
            write(given.json, {**report, "weighted": weighted(report["timings"])})
    report["weighted"] = weighted(report["timings"])
    for line in report["weighted"]:
        print("weighted {source} {dtype} {direction}: {microseconds:.2f} us, copy {copy_us:.2f} us, "
              "{ratio_to_copy:.3f} of the copy".format(**line))
    if given.json:
        write(given.json, report)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
