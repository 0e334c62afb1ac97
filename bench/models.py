#!/usr/bin/env python3
"""Training steps of whole models in Python: Hugging Face's transformers from random weights, and torch's
own encoder. fp32 weights with bf16 autocast, forward, backward and a step of AdamW (fused), one batch:
eager, with Kiln (one line, nothing of the model changes), with torch.compile, and with both.

  python3 bench/models.py [--models=gpt2,vit,encoder,qwen2,llama,modernbert,t5,bert]
                          [--modes=eager,kiln,compile,both] [--steps=20] [--json=FILE]
                          [--library=build/lib/libkiln_torch.so] [--device=cuda] [--tiny]

Prints Markdown: times of a step, peaks of memory, and, from profiles of some steps more, the share of
the GPU's time that routed ops have in eager and what it promises: the step without what Kiln's kernels
save of it. KILN_CACHE names a store of tuned kernels. Steps without Kiln and with it take turns in one
process, since the host is faster at some times than at others: eager ones in one, compiled ones in
another. Needs a GPU and transformers; --device=cpu --tiny shows on a CPU that everything works, and
its times say nothing.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import torch

from model_shares import ROUTED, times_by_family
from model_zoo import MODELS, NEED_NOTHING
from peers_timing import header, write

MODES = ("eager", "kiln", "compile", "both")
PARTS = (("eager", "kiln"), ("compile", "both"))  # of a process each, in which modes take turns
WARMUP, PROFILED, TURN = 5, 3, 2


def step_of(case, compiled, device):
    """A function that trains on the batch and returns the loss."""
    model = torch.compile(case.model, dynamic=False) if compiled else case.model
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast(device, torch.bfloat16):
            loss = case.call(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def switch(mode, given):
    """Kiln on or off, for the steps that follow."""
    if mode in ("kiln", "both"):
        torch.ops.kiln.enable("place=cpu" if given.device == "cpu" else "")
    elif hasattr(torch.ops.kiln, "disable"):
        torch.ops.kiln.disable()


def warmed_up(step, with_kiln):
    """What is compiled once is: by torch.compile at the first step, by Kiln in the background."""
    for _ in range(WARMUP):
        step()
    if with_kiln:
        torch.ops.kiln.wait()
        for _ in range(WARMUP):
            step()


def step_times(step, steps, device):
    """Milliseconds of each step, and the last loss."""
    if device == "cpu":
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - start) * 1e3)
        return times, loss.item()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    marks[0].record()
    for mark in marks[1:]:
        loss = step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])], loss.item()


def measure(name, modes, given):
    """Lines of cells, measured in turns of few steps, whose order alternates: hosts are faster at some times
    than at others. So what a mode gains over the first one is the median of turns beside each other."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    if {"kiln", "both"} & set(modes):
        torch.ops.load_library(os.path.abspath(given.library))
    case = MODELS[name](given.tiny, given.device)
    case.model.train()
    step = step_of(case, modes[0] in ("compile", "both"), given.device)
    cells = {mode: {"turns": [], "peak": 0.0} for mode in modes}
    for mode in modes:
        switch(mode, given)
        warmed_up(step, mode in ("kiln", "both"))
    for done in range(0, given.steps, TURN):
        order = list(cells.items())
        for mode, cell in order if done // TURN % 2 == 0 else reversed(order):
            switch(mode, given)
            step()
            times, cell["loss"] = step_times(step, min(TURN, given.steps - done), given.device)
            cell["turns"].append(times)
            if given.device == "cuda":
                cell["peak"] = max(cell["peak"], torch.cuda.max_memory_allocated() / 2**30)
    lines = [line_of(name, mode, cell, case, step, given) for mode, cell in cells.items()]
    first, *others = cells.values()
    for line, cell in zip(lines[1:], others):
        line["gain_over"] = {modes[0]: statistics.median(
            sum(a) / sum(b) for a, b in zip(first["turns"], cell["turns"]))}
    return lines


def line_of(name, mode, cell, case, step, given):
    times = [step_time for turn in cell["turns"] for step_time in turn]
    line = {"model": name, "mode": mode, "batch": case.size, "steps": given.steps,
            "parameters": sum(p.numel() for p in case.model.parameters()),
            "step_ms": statistics.median(times), "lowest": min(times), "highest": max(times),
            "loss": cell["loss"], "peak_memory_gib": cell["peak"]}
    switch(mode, given)
    if mode in ("eager", "kiln"):  # compiled kernels are of many ops
        line["kernels_ms"] = times_by_family(step, PROFILED, given.device)
    if mode in ("kiln", "both"):
        line["report"] = torch.ops.kiln.report()
    return line


def in_own_process(name, modes):
    run = subprocess.run([sys.executable, *sys.argv, f"--part={name}:{'+'.join(modes)}"],
                         capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"model"')]
    if run.returncode == 0 and lines:
        return lines
    last = (run.stderr.strip() or f"ended with {run.returncode}").splitlines()[-1]
    return [{"model": name, "mode": mode, "trouble": last[:300]} for mode in modes]


def figure(line, key, form="{:.1f}"):
    return form.format(line[key]) if key in line else "-"


def routed_in(times):
    """Milliseconds of kernels of all routed ops."""
    return sum(times.get(family, 0.0) for family in ROUTED)


def promises(eager, kiln):
    """The share of routed ops in eager, and the gain that Kiln's times of them promise."""
    if "kernels_ms" not in eager:
        return ["-", "-"]
    theirs = eager["kernels_ms"]
    share = f"{routed_in(theirs) / theirs['all']:.1%}"
    if "kernels_ms" not in kiln:
        return [share, "-"]
    saved = routed_in(theirs) - routed_in(kiln["kernels_ms"])
    return [share, f"{eager['step_ms'] / (eager['step_ms'] - saved):.3f}"]


def gain(cell, eager):
    """Over eager: in turns, or of processes apart by their medians."""
    if "step_ms" not in cell or "step_ms" not in eager:
        return "-"
    return f"{cell.get('gain_over', {}).get('eager', eager['step_ms'] / cell['step_ms']):.3f}"


def model_row(name, cells):
    """A line of the table of models."""
    eager = cells.get("eager", {})
    gains = [gain(cells.get(mode, {}), eager) for mode in MODES[1:]]
    any_line = next((cell for cell in cells.values() if "batch" in cell), {})
    return [name, figure(any_line, "parameters", "{:,}"), any_line.get("batch", "-"),
            *(figure(cells.get(mode, {}), "step_ms", "{:.2f}") for mode in MODES), *gains,
            *promises(eager, cells.get("kiln", {})),
            " / ".join(figure(cells.get(mode, {}), "peak_memory_gib") for mode in MODES)]


def family_rows(name, cells):
    """Lines of the table of routed ops."""
    theirs, ours = (cells.get(mode, {}).get("kernels_ms") for mode in ("eager", "kiln"))
    if not theirs or not ours:
        return
    for family in ROUTED:
        if family in theirs:
            after = ours.get(family, 0.0)
            yield [name, family, f"{theirs[family] / theirs['all']:.1%}", f"{theirs[family]:.3f}",
                   f"{after:.3f}", f"{theirs[family] / after:.2f}" if after > 0 else "-"]


def table(titles, rows):
    return "\n".join("| " + " | ".join(row) + " |"
                     for row in [titles, ["---"] + ["---:"] * (len(titles) - 1), *rows])


def markdown(lines, given):
    cells = {}
    for line in lines:
        cells.setdefault(line["model"], {})[line["mode"]] = line
    parts = [f"Medians of {given.steps} steps, in ms; gains over eager, Kiln's in turns "
             "beside each other; memory in GiB, in the order of the modes.",
             table(["model", "parameters", "batch", *MODES, *(f"{mode}, gain" for mode in MODES[1:]),
                    "routed ops' share", "promised gain", "peak memory"],
                   [model_row(name, modes) for name, modes in cells.items()]),
             "Routed ops, ms of kernels a step:",
             table(["model", "op", "share in eager", "eager", "Kiln", "speed-up"],
                   [row for name, modes in cells.items() for row in family_rows(name, modes)])]
    for line in lines:
        written = [text for text in line.get("report", "").splitlines()
                   if "a norm written out" in text]
        if written and line["mode"] == "kiln":
            _, shape, dtype, calls, *_ = written[0].split()
            parts.append(f"{line['model']} writes norms out in single ops ({shape} {dtype}, {calls} "
                         "calls), which Kiln does not take.")
    parts += [f"{line['model']}, {line['mode']}: {line['trouble']}"
              for line in lines if "trouble" in line]
    return "\n\n".join(parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--library", default="build/lib/libkiln_torch.so")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="two narrow layers, a few tokens")
    parser.add_argument("--json")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # MODEL:MODE+MODE, measured in this process
    given = parser.parse_args()
    given.models, given.modes = given.models.split(","), given.modes.split(",")
    for kind, named, known in ("model", given.models, MODELS), ("mode", given.modes, MODES):
        for word in named:
            if word not in known:
                parser.error(f"no {kind} '{word}'; known are {', '.join(known)}")
    if given.steps < 1:
        parser.error(f"--steps={given.steps}: at least 1")
    if not os.path.exists(given.library) and {"kiln", "both"} & set(given.modes):
        parser.error(f"no library '{given.library}'; build the target kiln_torch, or name it by "
                     "--library")
    return given


def main():
    given = parse()
    if given.part:
        name, modes = given.part.split(":")
        for line in measure(name, modes.split("+"), given):
            print(json.dumps(line))
        return
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("models.py: torch sees no GPU; --device=cpu --tiny shows that everything works")
    if not importlib.util.find_spec("transformers"):
        missing = [name for name in given.models if name not in NEED_NOTHING]
        given.models = [name for name in given.models if name in NEED_NOTHING]
        if missing:
            print(f"left out, since transformers is not installed (pip install transformers): "
                  f"{', '.join(missing)}", file=sys.stderr)
    report = header(steps=given.steps, tiny=given.tiny, lines=[])
    for name in given.models:
        for modes in PARTS:
            wanted = [mode for mode in modes if mode in given.modes]
            for line in in_own_process(name, wanted) if wanted else []:
                report["lines"].append(line)
                print(f"{name} {line['mode']}: "
                      f"{line.get('trouble') or figure(line, 'step_ms') + ' ms'}",
                      file=sys.stderr, flush=True)
            if given.json:
                write(given.json, report)
    print(markdown(report["lines"], given))
    sys.exit(any("trouble" in line for line in report["lines"]))


if __name__ == "__main__":
    main()
