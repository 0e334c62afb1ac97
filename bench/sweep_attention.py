#!/usr/bin/env python3
"""Causal self-attention of one batch as exercises on FlashAttention sweep it: times of the forward,
of the backward and of both, and the memory that they allocate. Four sources: the formula in eager
ops and by torch.compile, and scaled_dot_product_attention without Kiln and with it.

  python3 bench/sweep_attention.py [--widths=16,32,64,128] [--lengths=128,256,...,65536] [--heads=1]
                                   [--dtypes=bf16,fp32] [--sources=eager,sdpa,torch.compile,kiln]
                                   [--library=build/lib/libkiln_torch.so]
                                   [--json=FILE] [--markdown=FILE] [--tiny]

Calls are timed as a trainer makes them, with gradients wanted, each after a write of more than the
L2 cache. The host enqueues a call during that write; a short call of many launches takes the host's
time. The formula makes its mask itself, which torch.compile fuses. Kiln's kernels are waited for.
SDPA and Kiln are first compared with fp64, at a small length. --tiny takes few short rows, on a CPU
too: it shows that the script works, and its times say nothing.
"""
import argparse
import gc
import itertools
import re
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from models import switch, table
from peers_timing import DEVICE, L2_BYTES, header, in_turns, synchronize, write

SOURCES = ("eager", "sdpa", "torch.compile", "kiln")
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
DIRECTIONS = ("forward", "backward", "both")
LIBRARY = "build/lib/libkiln_torch.so"
CHECKED_LENGTH, COMPILED_LENGTH = 256, 4096
CELL_SECONDS, FEWEST, MOST = 0.25, 3, 25  # replays of a cell, as many as fit into the time
OUT_OF_MEMORY = "out of memory"


class Cell(NamedTuple):
    dtype: str
    width: int
    length: int
    heads: int

    def operations(self):
        """The usual count: 4 h s^2 d forward, half of it causal, and 2.5 times that backward."""
        return 3.5 * 2 * self.heads * self.length ** 2 * self.width


# Functions of query, key and value, in the layout [batch, heads, rows, width].
def eager(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    rows = torch.arange(q.shape[-2], device=q.device)
    scores = scores.masked_fill(rows > rows.unsqueeze(-1), float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


def by_sdpa(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def functions_of(sources):
    """New ones for a dtype and width, since one compilation serves all their lengths."""
    functions = {"eager": eager, "sdpa": by_sdpa, "kiln": by_sdpa}
    if "torch.compile" in sources:
        torch._dynamo.reset()
        functions["torch.compile"] = torch.compile(eager, dynamic=True)
    return {source: functions[source] for source in sources}


def make_inputs(cell, source):
    """Query, key and value, and the gradient of the output; the same whenever they are made."""
    torch.manual_seed(0)
    *inputs, gradient = (torch.randn(1, cell.heads, cell.length, cell.width, device=DEVICE,
                                     dtype=DTYPES[cell.dtype]) for _ in range(4))
    for tensor in inputs:
        tensor.requires_grad_()
        if source == "torch.compile":
            torch._dynamo.mark_dynamic(tensor, 2)
            torch._dynamo.mark_static(tensor, [0, 1, 3])
    return inputs, gradient


def both_of(function, inputs, gradient):
    output = function(*inputs)
    return output, *torch.autograd.grad(output, inputs, gradient)


def warmed_up(source, *call):
    """A call after which everything is compiled."""
    switch("kiln" if source == "kiln" else "eager", SimpleNamespace(device=DEVICE))
    both_of(*call)
    if source == "kiln":
        torch.ops.kiln.wait()
    return both_of(*call)


def calls_by_kiln():
    """How many forwards and backwards had Kiln's kernels."""
    report = torch.ops.kiln.report()
    return [sum(map(int, re.findall(rf"^{op} +\S+ \w+ +\d+ +(\d+) ", report, re.MULTILINE)))
            for op in ("scaled_dot_product_attention", "attention_backward")]


def once(*call):
    """Seconds of a forward and backward, and the MiB that they allocate, which only a GPU tells."""
    synchronize()
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before, start = torch.cuda.memory_allocated(), time.perf_counter()
    both_of(*call)
    synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    return time.perf_counter() - start, peak if DEVICE == "cuda" else None


def samples_of(function, inputs, gradient, replays):
    """Microseconds by direction; a backward is the forward's before it."""
    written = torch.empty(4 * L2_BYTES, device=DEVICE, dtype=torch.uint8)
    kept = []
    calls = (lambda: kept.append(function(*inputs)),
             lambda: torch.autograd.grad(kept.pop(), inputs, gradient),
             lambda: both_of(function, inputs, gradient))
    works = [SimpleNamespace(replay=replay, launches=1)
             for call in calls for replay in (written.zero_, call)]
    return dict(zip(DIRECTIONS, in_turns(works, replays)[1::2]))


def figures_of(cell, source, function):
    call = function, *make_inputs(cell, source)
    warmed_up(source, *call)
    line, before = {}, calls_by_kiln() if source == "kiln" else []
    seconds, line["peak_mib"] = once(*call)
    if before:
        line["by_kiln"] = [now > then for now, then in zip(calls_by_kiln(), before)]
    samples = samples_of(*call, max(FEWEST, min(MOST, int(CELL_SECONDS / (2 * seconds)))))
    for name, figure in ("microseconds", statistics.median), ("lowest", min), ("highest", max):
        line[name] = {direction: figure(times) for direction, times in samples.items()}
    return {**line, "replays": len(samples["both"]),
            "TFLOPs": cell.operations() / line["microseconds"]["both"] * 1e-6}


def trouble_of(error):
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, torch.OutOfMemoryError) or OUT_OF_MEMORY in text.lower():
        return OUT_OF_MEMORY  # a compiler may wrap it
    return " ".join(text.split())[:300]


def tried(line, function, *call):
    """The line with what the function finds, or with what kept it from that."""
    try:
        torch.cuda.empty_cache()
        return {**line, **function(*call)}
    except Exception as error:  # what a source cannot do, and what does not fit
        line = {**line, "trouble": trouble_of(error)}
    gc.collect()  # what the error's frames have kept
    return line


def errors_of(cell, source):
    """The largest errors of output and gradients against fp64."""
    inputs, gradient = make_inputs(cell, source)
    wide = [one.detach().double().requires_grad_() for one in inputs]
    with sdpa_kernel(SDPBackend.MATH):
        exact = warmed_up("sdpa", by_sdpa, wide, gradient.double())
    results = warmed_up(source, by_sdpa, inputs, gradient)
    return {name: (result.double() - right).abs().max().item()
            for name, result, right in zip(("o", "dq", "dk", "dv"), results, exact)}


def prepared(cell, given, report):
    """Functions for a dtype and width; Kiln's errors and SDPA's go into the report."""
    small, usual = (cell._replace(length=min(length, given.lengths[-1]))
                    for length in (CHECKED_LENGTH, COMPILED_LENGTH))
    for source in ["sdpa"] + ["kiln"] * ("kiln" in given.sources):
        line = {"source": source, **small._asdict()}
        report["errors"].append(tried(line, errors_of, small, source))
    functions = functions_of(given.sources)
    if "torch.compile" in functions:  # it chooses for what it sees first
        tried({}, figures_of, usual, "torch.compile", functions["torch.compile"])
    return functions


def sweep(given, report):
    """Yields each line that the report has got."""
    for dtype, width in itertools.product(given.dtypes, given.widths):
        functions = prepared(Cell(dtype, width, 0, given.heads), given, report)
        full = set()  # sources that need more than there is, and still more for longer ones
        for length, source in itertools.product(given.lengths, functions):
            cell = Cell(dtype, width, length, given.heads)
            line = {"source": source, **cell._asdict()}
            line = ({**line, "trouble": OUT_OF_MEMORY} if source in full else
                    tried(line, figures_of, cell, source, functions[source]))
            if line.get("trouble") == OUT_OF_MEMORY:
                full.add(source)
            report["cells"].append(line)
            yield line


def shown(line):
    """A cell of a table."""
    if "trouble" in line:
        return line["trouble"].replace("|", "\\|")
    text = " / ".join(f"{us:,.1f}" if us < 1000 else f"{us:,.0f}"
                      for us in line["microseconds"].values())
    text += "" if line["peak_mib"] is None else f", {line['peak_mib']:,.1f}"
    theirs = [way for way, ours in zip(DIRECTIONS, line.get("by_kiln", ())) if not ours]
    return f"{text} ({' and '.join(theirs)} by ATen)" if theirs else text


def markdown(report, given):
    parts = ["Microseconds of forward / backward / both, and MiB that forward and backward allocate "
             f"beyond the inputs; causal, one batch, heads: {given.heads}. TFLOP/s are of both."]
    titles = ["width x length", *given.sources, *(["kiln, TFLOP/s"] * ("kiln" in given.sources))]
    for dtype in given.dtypes:
        rows = {}
        for line in (line for line in report["cells"] if line["dtype"] == dtype):
            row = rows.setdefault(f"{line['width']} x {line['length']}", [])
            row.append(shown(line))  # in the order of the columns
            if line["source"] == "kiln":
                row.append(f"{line['TFLOPs']:.3g}" if "TFLOPs" in line else "-")
        parts += [f"## {dtype}", table(titles, [[name, *row] for name, row in rows.items()])]
    return "\n\n".join(parts) + "\n"


def names_of(known):
    """Reads a list with commas, as an option's value."""
    def read(text):
        words = text.split(",")
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"no '{unknown[0]}'; known are {', '.join(known)}")
        return [word for word in known if word in words]
    return read


def numbers_of(lowest, highest):
    def read(text):
        words = text.split(",")
        if not all(word.isdecimal() and lowest <= int(word) <= highest for word in words):
            raise argparse.ArgumentTypeError(f"'{text}': allowed are numbers from {lowest} to {highest}")
        return sorted({int(word) for word in words})
    return read


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=numbers_of(1, 256))
    parser.add_argument("--lengths", type=numbers_of(2, 2**20))
    parser.add_argument("--dtypes", type=names_of(DTYPES), default=list(DTYPES))
    parser.add_argument("--sources", type=names_of(SOURCES), default=list(SOURCES))
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--library", help=f"Kiln's; {LIBRARY} unless said otherwise")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--tiny", action="store_true", help="two short lengths of narrow heads")
    given = parser.parse_args()
    if given.heads < 1:
        parser.error(f"--heads={given.heads}: at least 1")
    given.widths = given.widths or ([16, 32] if given.tiny else [16, 32, 64, 128])
    given.lengths = given.lengths or ([32, 64] if given.tiny else [2**n for n in range(7, 17)])
    if given.library and not Path(given.library).exists():
        parser.error(f"no library '{given.library}'; build the target kiln_torch")
    return given


def main():
    given = parse()
    if DEVICE == "cpu" and not given.tiny:
        sys.exit("sweep_attention.py: torch sees no GPU; --tiny shows that everything works")
    if "kiln" in given.sources:
        try:
            torch.ops.load_library(str(Path(given.library or LIBRARY).absolute()))
        except OSError as error:
            given.sources.remove("kiln")
            print(f"left out: kiln, since its library does not load: {error}; build the target "
                  "kiln_torch, or name it by --library", file=sys.stderr)
    report = header(heads=given.heads, tiny=given.tiny, errors=[], cells=[],
                    fp32_products=torch.get_float32_matmul_precision())
    for line in sweep(given, report):
        rate = f", {line['TFLOPs']:.3g} TFLOP/s" if "TFLOPs" in line else ""
        print("{dtype} {width} x {length}, {source}: ".format(**line) + shown(line) + rate,
              file=sys.stderr, flush=True)
        if given.json:
            write(given.json, report)
    text = markdown(report, given)
    print(text, end="")
    if given.markdown:
        Path(given.markdown).write_text(text, encoding="utf-8")
    sys.exit({line.get("trouble", OUT_OF_MEMORY) for line in report["cells"]} != {OUT_OF_MEMORY})


if __name__ == "__main__":
    main()
