#!/usr/bin/env python3
"""Peers of bench/attention on its workload files: attention of language models by cuDNN and by
ATen's flash kernel (both through scaled_dot_product_attention) and by FlashAttention-4 where it can
be imported; AlphaFold's, with a bias of pairs that has a gradient and a mask of keys, as eager ops,
by torch.compile, by scaled_dot_product_attention and by FlexAttention.

  python3 bench/peers_attention.py [--workload=FILE] [--json=FILE] [--only=TEXT] [--no-compile]
                                   [--compilers=N] [--tiny]

Every function is replayed as a CUDA graph of launches that rotate through sets larger than the L2;
a backward is autograd's with its forward done before. --only takes entries whose name has the text
in it. --tiny takes few heads and short rows, on a CPU too: it shows that the script works.
"""
import statistics
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from peers_timing import (DEVICE, L2_BYTES, Work, compiled_first, header, in_turns, parser_of,
                          write)

try:
    from flash_attn.cute import flash_attn_func
except Exception as error:  # not installed, or not for this GPU
    flash_attn_func, WHY_NO_FA4 = None, f"{type(error).__name__}: {error}"[:200]

# Functions of workloads/attention/alphafold.mlir: heads, rows, width, whether there is a bias.
ALPHAFOLD = {"triangle": (4, 256, 32, True), "triangle_384": (4, 384, 32, True),
             "msa_row": (8, 256, 32, True), "msa_row_extra": (8, 256, 8, True),
             "msa_column": (8, 132, 32, False), "template_triangle": (4, 256, 16, True)}


class Entry(NamedTuple):
    """`what` and `shape` as bench/attention names them, then sizes."""
    what: str
    shape: str
    dtype: str
    direction: str
    causal: bool
    batch: int
    heads: int
    rows: int
    width: int
    bias: bool

    def key(self):
        key = {name: getattr(self, name) for name in ("what", "shape", "dtype", "direction")}
        return {**key, "settings": {"causal": "last"}} if self.causal else key

    def operations(self):
        """By the usual count; 0 where nobody counts so."""
        if self.what != "attention":
            return 0
        whole = 4 * self.batch * self.heads * self.rows ** 2 * self.width
        return whole * (0.5 if self.causal else 1) * (2.5 if self.direction == "backward" else 1)


def read_entries(path):
    entries = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            if not fields:
                continue
            what, shape, dtype = fields[:3]
            options = ",".join(fields[4:]).split(",")
            sizes = [int(size) for size in shape.split("x")]
            if what.endswith(".mlir"):
                what = next(o for o in options if o.startswith("function=")).split("=")[1]
                sizes = [*sizes, *ALPHAFOLD[what]]
            else:
                sizes.append(False)
            entries += [Entry(what, shape, dtype, direction, "causal=last" in options, *sizes)
                        for direction in ("forward", "backward") if direction in options]
    return entries


# Functions of (q, k, v, bias, mask), in the layout [batch, heads, rows, width].

def eager(q, k, v, bias, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + mask
    return torch.matmul(torch.softmax(scores if bias is None else scores + bias, -1), v)


def by_sdpa(q, k, v, bias, mask):
    return functional.scaled_dot_product_attention(q, k, v,
                                                   attn_mask=mask if bias is None else bias + mask)


def by_flex(q, k, v, bias, mask):
    from torch.nn.attention.flex_attention import flex_attention

    def shifted(score, batch, head, row, key):
        shift = mask[batch, 0, 0, key]
        return score + (shift if bias is None else shift + bias[0, head, row, key])
    return flex_attention(q, k, v, score_mod=shifted)


def by_backend(backend, causal):
    def attend(q, k, v, *_):
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return attend


def by_fa4(causal):
    def attend(q, k, v, *_):  # rows before heads in memory; only shapes are transposed here
        result = flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), causal=causal)
        return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)
    return attend


def functions_of(entry, compiled):
    if entry.what == "attention" and DEVICE == "cpu":
        return {"math": by_backend(SDPBackend.MATH, entry.causal)}
    if entry.what == "attention":
        peers = {"cudnn": by_backend(SDPBackend.CUDNN_ATTENTION, entry.causal),
                 "aten flash": by_backend(SDPBackend.FLASH_ATTENTION, entry.causal)}
        return {**peers, "fa4": by_fa4(entry.causal)} if flash_attn_func else peers
    peers = {"aten": eager, "sdpa": by_sdpa}
    if compiled:
        torch._dynamo.reset()
        peers |= {"torch.compile": torch.compile(eager, dynamic=False),
                  "flex": torch.compile(by_flex, dynamic=False)}
    return peers


def make_inputs(entry, rows_first):
    def normal(*shape):
        return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)

    def heads():
        if rows_first:  # of FlashAttention
            return normal(entry.batch, entry.rows, entry.heads, entry.width).transpose(1, 2)
        return normal(entry.batch, entry.heads, entry.rows, entry.width)
    needs = entry.direction == "backward"
    q, k, v = (heads().requires_grad_(needs) for _ in range(3))
    bias = mask = None
    if entry.what != "attention":
        mask = torch.zeros(entry.batch, 1, 1, entry.rows, device=DEVICE, dtype=torch.bfloat16)
    if entry.bias:
        bias = normal(1, entry.heads, entry.rows, entry.rows).requires_grad_(needs)
    return q, k, v, bias, mask


def make_set(entry, function, source):
    inputs = make_inputs(entry, source == "fa4")
    if entry.direction == "forward":
        return inputs
    result = function(*inputs)
    wanted = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    return result, wanted, torch.randn_like(result)


def call_of(entry, function):
    if entry.direction == "forward":
        def forward(*inputs):
            with torch.no_grad():
                return function(*inputs)
        return forward
    return lambda result, wanted, gradient: torch.autograd.grad(result, wanted, gradient,
                                                                retain_graph=True)


def samples_of(entry, function, source):
    """Microseconds of a launch, one a replay."""
    moved = entry.batch * entry.heads * entry.rows * entry.width * 2 * \
        (4 if entry.direction == "forward" else 8)
    count = max(4, min(16, 3 * L2_BYTES // moved + 1))
    if DEVICE == "cpu":
        sets = [make_set(entry, function, source) for _ in range(count)]
        return in_turns([Work(call_of(entry, function), sets, count)])[0]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # autograd's backward runs where its forward ran
        sets = [make_set(entry, function, source) for _ in range(count)]
    torch.cuda.synchronize()
    work = Work(call_of(entry, function), sets, count, stream)
    once = in_turns([work], replays=1)[0][0] * count
    return in_turns([work], replays=max(5, min(25, int(2e5 / once))))[0]


def measure(entry, compiled):
    for source, function in functions_of(entry, compiled).items():
        line = {"source": source, **entry.key()}
        try:
            samples = samples_of(entry, function, source)
            median = statistics.median(samples)
            line |= {"microseconds": median, "lowest": min(samples), "highest": max(samples),
                     "replays": len(samples)}
            if entry.operations():
                line["TFLOPs"] = entry.operations() / median * 1e-6
        except Exception as error:  # what a peer cannot do, and what does not fit
            line["trouble"] = f"{type(error).__name__}: {error}"[:300]
        yield line
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def compile_one(entry):
    """Into torch's cache on disk."""
    if entry.what != "attention":
        for source in ("torch.compile", "flex"):
            function = functions_of(entry, True)[source]
            made = make_set(entry, function, source)
            call_of(entry, function)(*made)


def shown(line):
    name = "{source:14s} {what}/{shape}/{direction}".format(**line)
    name += ",causal" if "settings" in line else ""
    if "trouble" in line:
        return f"{name}: {line['trouble']}"
    return f"{name}: {line['microseconds']:.2f} us" + (
        f", {line['TFLOPs']:.0f} TFLOP/s" if "TFLOPs" in line else "")


def parse():
    parser = parser_of(__doc__, "bench/workloads/attention/language_models.txt")
    parser.add_argument("--only", default="")
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def main():
    given = parse()
    torch.manual_seed(0)
    entries = [entry for entry in read_entries(given.workload)
               if given.only in f"{entry.what}/{entry.shape}/{entry.direction}"]
    if given.tiny:
        entries = [entry._replace(batch=2, heads=2, rows=32) for entry in entries]
    if not given.no_compile:
        entries = compiled_first(entries, compile_one, given)
    if given.part:
        return
    report = header(workload=given.workload, timings=[])
    if not flash_attn_func:
        print(f"no FlashAttention-4: {WHY_NO_FA4}")
    for entry in entries:
        for line in measure(entry, not given.no_compile):
            print(shown(line), flush=True)
            report["timings"].append(line)
        if given.json:
            write(given.json, report)


if __name__ == "__main__":
    main()
