"""How peers are timed: CUDA graphs of launches that rotate through inputs and outputs larger than
the L2, replayed in turns with a copy's, as bench/rows times Kiln. On a CPU, to show that a script
works, each function is called a few times and timed as it stands.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    torch.set_num_threads(1)
REPLAYS = 25 if DEVICE == "cuda" else 3
HOST_SAMPLES = 9
L2_BYTES = torch.cuda.get_device_properties(0).L2_cache_size if DEVICE == "cuda" else 0


def sets_for(moved):
    """How many sets of tensors a function rotates through, and launches in a graph."""
    sets = max(4, min(64, 12 * L2_BYTES // max(moved, 1) + 1))
    return sets, max(sets, 20 if moved < 10 * L2_BYTES else 4)


class Work:
    """Launches of `function` over all sets in turn. Every launch's results stay alive, so no two
    launches write the same memory. `stream`: where the sets were made, if autograd goes on there."""

    def __init__(self, function, sets, launches, stream=None):
        self.launches, self.results, self.graph = launches, [], None
        self.kept = (function, sets)  # a graph does not keep the tensors that it reads
        if DEVICE == "cpu":
            self.replay = lambda: [function(*sets[i % len(sets)]) for i in range(launches)]
            self.replay()
            return
        stream = stream or torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for i in range(3):  # compiled, tuned, with its state
                function(*sets[i % len(sets)])
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for i in range(launches):
                self.results.append(function(*sets[i % len(sets)]))
        self.replay = self.graph.replay


def copies(moved, sets, launches):
    """A copy of `moved` bytes, half read and half written, by memcpy and by a kernel."""
    pairs = [tuple(torch.randn(max(moved // 8, 1), device=DEVICE) for _ in range(2))
             for _ in range(sets)]
    return [Work(lambda a, b: b.copy_(a), pairs, launches),
            Work(lambda a, b: torch.neg(a, out=b), pairs, launches)]


def in_turns(works, replays=REPLAYS):
    """Times of a launch in microseconds, one list a work; the host does not wait in between."""
    for _ in range(2):
        for work in works:
            work.replay()
    spans = []
    for _ in range(replays):
        for work in works:
            if DEVICE == "cpu":
                start = time.perf_counter()
                work.replay()
                spans.append((time.perf_counter() - start) * 1e6)
                continue
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work.replay()
            end.record()
            spans.append((start, end))
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        spans = [start.elapsed_time(end) * 1e3 for start, end in spans]
    return [[span / work.launches for span in spans[i::len(works)]]
            for i, work in enumerate(works)]


def host_time(function, sets):
    """Samples of what a call costs the host, in microseconds: enqueued without waiting, few enough
    calls for the queue to take them all."""
    calls, samples = (200 if DEVICE == "cuda" else 3), []
    for _ in range(HOST_SAMPLES):
        synchronize()
        start = time.perf_counter()
        for i in range(calls):
            function(*sets[i % len(sets)])
        samples.append((time.perf_counter() - start) * 1e6 / calls)
    synchronize()
    return samples


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def figures(samples, copy_node, copy_kernel, moved):
    """The part of a report's line that is measured."""
    median, node, kernel = map(statistics.median, (samples, copy_node, copy_kernel))
    copy = min(node, kernel)
    return {"microseconds": median, "lowest": min(samples), "highest": max(samples),
            "copy_us": copy, "copy_kernel_us": kernel, "copy_node_us": node,
            "ratio_to_copy": median / copy, "bytes": moved, "GBps": moved / median * 1e-3,
            "replays": len(samples)}


def shown(line):
    """A line of a report, for people."""
    name = "{source:14s} {what}/{shape}/{dtype}/{direction}: ".format(**line)
    if "trouble" in line:
        return name + line["trouble"]
    name += "{microseconds:.2f} us".format(**line)
    return name if "copy_us" not in line else name + (
        ", copy {copy_us:.2f} us, {ratio_to_copy:.3f} of the copy".format(**line))


def parser_of(documentation, workload):
    """What all scripts take that measure peers on a workload file."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--workload", default=workload)
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--compilers", type=int, default=0, metavar="N",
                        help="so many processes fill torch.compile's cache before the first cell")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # I/N: compile every N-th from the I-th
    return parser


def compiled_first(entries, compile_one, given):
    """What of `entries` this process measures. Compiling takes longer than measuring and has time
    for one core only: with --compilers the script first runs so many times side by side, each with
    a part of the entries, into torch's cache on disk."""
    if given.part:
        first, step = map(int, given.part.split("/"))
        for entry in entries[first::step]:
            try:
                compile_one(entry)
            except Exception as error:  # measuring meets it again, and reports it
                print(f"{entry.what}: {str(error)[:300]}", file=sys.stderr)
        return []
    one_thread = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, *sys.argv, f"--part={i}/{given.compilers}"],
                                env=one_thread, stdout=subprocess.DEVNULL)
               for i in range(given.compilers)]
    for process in running:
        process.wait()
    return entries


def header(**more):
    return {"source": "peers", "version": f"torch {torch.__version__}",
            "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "none",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": " ".join([os.path.basename(sys.executable), *sys.argv]), **more}


def write(path, report):
    """Whole or not at all: a run that is cut off leaves what the last complete line left."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
        file.write("\n")
    os.replace(path + ".part", path)
