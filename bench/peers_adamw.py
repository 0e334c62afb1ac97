#!/usr/bin/env python3
"""torch's AdamW, foreach and fused, over the tensors of bench/adamw, with and without clipping to a
global norm: CUDA graphs of a step, replayed in turns with a copy of as many bytes as the update
moves.

  python3 bench/peers_adamw.py [--json=FILE] [--models=small,large] [--compile] [--tiny]

Needs torch only. --compile adds torch.compile of the foreach step, which takes minutes to compile.
--tiny takes tensors 100,000 times smaller, on a CPU too, to show that everything works.
"""
import argparse
import sys

import torch

from peers_timing import DEVICE, Work, copies, figures, header, in_turns, shown, write

MODELS = {"small": (768, 3072, 12), "large": (1280, 5120, 36)}  # width, hidden, layers
VOCABULARY = 10_000


def parameters_of(width, hidden, layers, vocabulary):
    """Elements of each parameter, as bench/adamw.cpp lists them."""
    square, wide = width * width, width * hidden
    layer = [width, *[square] * 4, width, *[wide] * 3]
    return [vocabulary * width, *layer * layers, width, vocabulary * width]


def step_of(sizes, fused, clips, compiled):
    """A function that updates all tensors once."""
    make = lambda size: torch.full((size,), 0.0115, device=DEVICE)
    tensors = [torch.nn.Parameter(make(size)) for size in sizes]
    for tensor in tensors:
        tensor.grad = make(tensor.numel())
    optimizer = torch.optim.AdamW(
        tensors, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
        foreach=not fused, fused=fused, capturable=DEVICE == "cuda")

    def step():
        if clips:
            torch.nn.utils.clip_grad_norm_(tensors, 1.0, foreach=True)
        optimizer.step()

    return torch.compile(step) if compiled else step


SOURCES = {"foreach": (False, False), "fused": (True, False), "torch.compile": (False, True)}


def measure(model, sizes, clips, source):
    elements = sum(sizes)
    moved = 28 * elements
    line = {"source": source, "what": "adamw", "shape": model, "dtype": "f32",
            "direction": "clip and step" if clips else "step", "tensors": len(sizes),
            "elements": elements}
    try:
        fused, compiled = SOURCES[source]
        torch._dynamo.reset()
        work = Work(step_of(sizes, fused, clips, compiled), [()], 4)
        times, node, kernel = in_turns([work, *copies(moved, 1, 4)])
    except Exception as error:
        return {**line, "trouble": str(error)[:300]}
    return {**line, **figures(times, node, kernel, moved + (4 * elements if clips else 0)),
            "copy_bytes": moved}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--models", default="small,large")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if DEVICE == "cpu" and not given.tiny:
        sys.exit("no GPU: only --tiny runs here")
    report = header(timings=[])
    for model in given.models.split(","):
        width, hidden, layers = MODELS[model]
        sizes = parameters_of(width, hidden, layers, VOCABULARY)
        if given.tiny:
            sizes = [max(size // 100_000, 1) for size in sizes]
        for clips in (False, True):
            for source in SOURCES if given.compile else ("foreach", "fused"):
                line = measure(model, sizes, clips, source)
                print(shown(line), flush=True)
                report["timings"].append(line)
                if DEVICE == "cuda":
                    torch.cuda.empty_cache()
                if given.json:
                    write(given.json, report)


if __name__ == "__main__":
    main()
