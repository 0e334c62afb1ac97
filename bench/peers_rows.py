#!/usr/bin/env python3
"""ATen and torch.compile on the layer_norm entries of a workload file, timed as bench/rows times
Kiln (CUDA graphs of launches that rotate through inputs and outputs larger than the L2, replayed in
turns with a copy's), and ATen's errors against fp64 on the inputs of bench/errors.

  python3 bench/peers_rows.py [--workload=FILE] [--json=FILE] [--no-compile] [--seconds=100]

Needs torch only. Without a GPU it measures the errors and no times. torch.compile is left out for
what remains once --seconds are over. Its forward writes only y, Kiln's and ATen's also mean and
rstd: what it would need for a backward is not counted against it.
"""
import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time

import torch

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPSILON = 1e-5
ERROR_ROWS = 4096
REPLAYS = 25


def read_entries(path):
    """The entries, each once with the sum of its shares, in the file's order."""
    entries = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            if not fields or fields[0] != "layer_norm":
                continue
            _, shape, dtypes, share = fields[:4]
            options = fields[4].split(",") if len(fields) > 4 else ["forward"]
            part = float(share[:-1]) / 100 if share.endswith("%") else float(share)
            for direction in options:
                for dtype in dtypes.split(","):
                    key = (shape, dtype, direction)
                    entries[key] = entries.get(key, 0.0) + part
    return [(shape, dtype, direction, share)
            for (shape, dtype, direction), share in entries.items()]


def sizes_of(shape):
    *leading, width = map(int, shape.split("x"))
    return math.prod(leading), width


# What is timed.

def aten_forward(x, gamma, beta):
    return torch.native_layer_norm(x, [x.shape[-1]], gamma, beta, EPSILON)


def aten_backward(dy, x, gamma, beta, mean, rstd):
    return torch.ops.aten.native_layer_norm_backward(dy, x, [x.shape[-1]], mean, rstd, gamma, beta,
                                                     [True, True, True])


def plain_forward(x, gamma, beta):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), gamma, beta, EPSILON)


def plain_backward(dy, x, gamma, beta, mean, rstd):
    normal = (x.float() - mean) * rstd
    weighted = dy.float() * gamma.float()
    dx = rstd * (weighted - weighted.mean(-1, keepdim=True)
                 - normal * (weighted * normal).mean(-1, keepdim=True))
    return (dx.to(x.dtype), (dy.float() * normal).sum(0).to(gamma.dtype),
            dy.float().sum(0).to(beta.dtype))


def make_set(rows, width, dtype, direction):
    x = torch.randn(rows, width, device=DEVICE, dtype=dtype)
    gamma, beta = (torch.randn(width, device=DEVICE, dtype=dtype) for _ in range(2))
    if direction == "forward":
        return (x, gamma, beta)
    _, mean, rstd = aten_forward(x, gamma, beta)
    return (torch.randn_like(x), x, gamma, beta, mean, rstd)


def bytes_moved(rows, width, dtype, direction):
    """Read and written at least, as bench/rows counts them: parameters and statistics included."""
    activations = (2 if direction == "forward" else 3) * rows * width * dtype.itemsize
    return activations + 2 * rows * 4 + (2 if direction == "forward" else 3) * width * 4


# How it is timed.

def capture(function, sets, launches):
    """A graph of launches over all sets in turn; every launch's results stay alive, so no two
    launches write the same memory."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for arguments in sets[:3]:
            function(*arguments)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph, results = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for i in range(launches):
            results.append(function(*sets[i % len(sets)]))
    return graph, results


def replay(graphs, launches):
    """Times in microseconds, one list a graph; the graphs take turns, the host does not wait."""
    for _ in range(2):
        for graph, _ in graphs:
            graph.replay()
    events = []
    for _ in range(REPLAYS):
        for graph, _ in graphs:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            events.append((start, end))
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) * 1e3 / launches for start, end in events]
    return [times[i::len(graphs)] for i in range(len(graphs))]


def measure(entry, compiled):
    """One line a source for an entry; `compiled`: torch.compile too."""
    shape, dtype_name, direction, share = entry
    rows, width = sizes_of(shape)
    dtype = DTYPES[dtype_name]
    moved = bytes_moved(rows, width, dtype, direction)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(4, min(64, 12 * l2 // moved + 1))
    launches = max(count, 20)
    sets = [make_set(rows, width, dtype, direction) for _ in range(count)]
    forward = direction == "forward"
    line = {"what": "layer_norm", "shape": shape, "dtype": dtype_name, "direction": direction,
            "share": share}
    lines, sources = [], ["aten"]
    graphs = [capture(aten_forward if forward else aten_backward, sets, launches)]
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(plain_forward if forward else plain_backward, dynamic=False)
        try:  # a missing C compiler or Triton shows here
            graphs.append(capture(function, sets, launches))
            sources.append("torch.compile")
        except Exception as error:
            lines.append({"source": "torch.compile", **line, "trouble": str(error)[:300]})
    pairs = [tuple(torch.randn(moved // 8, device=DEVICE) for _ in range(2)) for _ in range(count)]
    graphs.append(capture(lambda a, b: b.copy_(a), pairs, launches))
    graphs.append(capture(lambda a, b: torch.neg(a, out=b), pairs, launches))
    *times, nodes, kernels = replay(graphs, launches)
    node, kernel = statistics.median(nodes), statistics.median(kernels)
    copy = min(node, kernel)
    for source, samples in zip(sources, times):
        median = statistics.median(samples)
        lines.append({
            "source": source, **line, "microseconds": median, "lowest": min(samples),
            "highest": max(samples), "copy_us": copy, "copy_kernel_us": kernel,
            "copy_node_us": node, "ratio_to_copy": median / copy, "bytes": moved,
            "GBps": moved / median * 1e-3, "sets": count, "replays": REPLAYS})
    return lines


def weighted(timings):
    """Means by share, one a source, dtype and direction; only of what is complete."""
    wanted, sums = {}, {}
    for line in timings:
        group = (line["dtype"], line["direction"])
        wanted.setdefault(group, set()).add(line["shape"])
        if "microseconds" in line:
            sums.setdefault((line["source"], *group), []).append(line)
    result = []
    for (source, *group), lines in sums.items():
        if {line["shape"] for line in lines} != wanted[tuple(group)]:
            continue
        share = sum(line["share"] for line in lines)
        own, copy = (sum(line["share"] * line[key] for line in lines) / share
                     for key in ("microseconds", "copy_us"))
        result.append({"source": source, "dtype": group[0], "direction": group[1], "share": share,
                       "microseconds": own, "copy_us": copy, "ratio_to_copy": own / copy})
    return result


# Errors against fp64.

def signed(constant):
    return constant - (1 << 64) if constant >> 63 else constant


def drawn(seed, count, scale=1.0, offset=0.0):
    """The numbers of `drawn` in bench/errors.cpp: a hash in wrapping 64-bit arithmetic, then one
    fp32 product; `scale` is a power of two."""
    start = seed * 0xBF58476D1CE4E5B9 % (1 << 64)
    h = torch.arange(count, dtype=torch.int64) * signed(0x9E3779B97F4A7C15) + signed(start)
    h ^= (h >> 32) & 0xFFFFFFFF
    h *= signed(0x94D049BB133111EB)
    h ^= (h >> 29) & ((1 << 35) - 1)
    total = sum((h >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
    return offset + scale * ((total - 131070).float() * (1.7320508 / 65536))


def errors_of(entry):
    """One line an output of ATen."""
    shape, dtype_name, direction, _ = entry
    rows, width = sizes_of(shape)
    rows, dtype = min(rows, ERROR_ROWS), DTYPES[dtype_name]
    x = drawn(1, rows * width).view(rows, width).to(dtype)
    gamma, beta = drawn(2, width, 0.125, 1.0).to(dtype), drawn(3, width, 0.125).to(dtype)
    dy = drawn(4, rows * width).view(rows, width).to(dtype)
    exact_x, exact_gamma = x.double(), gamma.double()
    mean = exact_x.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(((exact_x - mean) ** 2).mean(-1, keepdim=True) + EPSILON)
    on = lambda *tensors: (tensor.to(DEVICE) for tensor in tensors)
    if direction == "forward":
        names = ("y", "mean", "rstd")
        exact = ((exact_x - mean) * rstd * exact_gamma + beta.double(), mean, rstd)
        results = aten_forward(*on(x, gamma, beta))
    else:
        names = ("dx", "dgamma", "dbeta")
        kept = aten_forward(*on(x[:1], gamma, beta))[1].dtype  # fp32; on the CPU maybe the input's
        saved = mean.to(kept), rstd.to(kept)
        mean, rstd = (tensor.double() for tensor in saved)
        normal, weighted_dy = (exact_x - mean) * rstd, dy.double() * exact_gamma
        exact = (rstd * (weighted_dy - weighted_dy.mean(-1, keepdim=True)
                         - normal * (weighted_dy * normal).mean(-1, keepdim=True)),
                 (dy.double() * normal).sum(0), dy.double().sum(0))
        results = aten_backward(*on(dy, x, gamma, beta, *saved))
    lines = []
    for name, result, reference in zip(names, results, exact):
        difference = result.cpu().double().view(reference.shape) - reference
        lines.append({"source": "aten", "what": "layer_norm", "shape": shape, "dtype": dtype_name,
                      "direction": direction, "rows": rows, "output": name,
                      "output_dtype": {v: k for k, v in DTYPES.items()}[result.dtype],
                      "max_abs": difference.abs().max().item(),
                      "rms": difference.square().mean().sqrt().item()})
    return lines


def main():
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="bench/workloads/alphafold_layernorm.txt")
    parser.add_argument("--json")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=100)
    given = parser.parse_args()
    torch.manual_seed(0)
    entries = read_entries(given.workload)
    report = {"source": "peers", "version": f"torch {torch.__version__}",
              "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "none",
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "command": " ".join([os.path.basename(sys.executable), *sys.argv]),
              "workload": given.workload, "timings": [], "weighted": [], "errors": []}

    def write():
        report["weighted"] = weighted(report["timings"])
        if given.json:
            with open(given.json + ".part", "w", encoding="utf-8") as file:
                json.dump(report, file, indent=2)
                file.write("\n")
            os.replace(given.json + ".part", given.json)

    for entry in entries:
        report["errors"] += errors_of(entry)
    for entry in entries if DEVICE == "cuda" else []:
        compiled = not given.no_compile and time.monotonic() - started < given.seconds
        for line in measure(entry, compiled):
            shown = ("{source}: {trouble}" if "trouble" in line else
                     "{source:14s} layer_norm/{shape}/{dtype}/{direction}: {microseconds:.2f} us, "
                     "copy {copy_us:.2f} us, {ratio_to_copy:.3f} of the copy")
            print(shown.format(**line), flush=True)
            report["timings"].append(line)
        torch.cuda.empty_cache()
        write()
    write()
    for line in report["weighted"]:
        print("weighted {source} {dtype} {direction}: {microseconds:.2f} us, copy {copy_us:.2f} us, "
              "{ratio_to_copy:.3f} of the copy".format(**line))
    if not given.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
