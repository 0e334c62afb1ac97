#!/usr/bin/env python3
"""Data-parallel steps on 8 to 2048 GPUs, on paper: what a step costs beyond one GPU's, from bytes and
a few constants, each of which a measurement replaces.

  python3 bench/scale.py [--parameters=969e6] [--gradient-bytes=4] [--forward-ms=35] [--backward-ms=70]
                         [--bucket-mib=25] [--json]

The model. Sums are hierarchical, as NCCL's are: reduce-scatter within a machine of g GPUs, an all-reduce
of each g-th part between m machines, all-gather within. With bus bandwidth B and latency a of a hop,
  within     2 (g - 1) (bytes / (g B_in) + a_in)
  between    the lesser of  ring 2 (m - 1) (bytes / (g m B_out) + a_out)
                       and  tree 2 (bytes / (g B_out) + log2(m) (a_out + piece / B_out))
A bucket is sent when its gradients are there, evenly over the backward, behind the one before it; what
ends after the backward is exposed. A GPU that sends computes slower by `interference`. The slowest of n
GPUs sets the pace: jitter times sqrt(2 ln n) of a step, the expected greatest of n normal deviations.

Constants not measured here, from public tables: B_in 340 GB/s over NVLink 4 without multicast (ring,
256 MiB), B_out 45 GB/s a GPU over 400 Gb/s links, a_in 3 us, a_out 8 us, interference 3 %, jitter 0.3 %.
"""
import argparse
import json
import math


def sum_seconds(size, ranks, given):
    """An all-reduce of so many bytes."""
    inside = min(ranks, given.per_machine)
    machines = math.ceil(ranks / given.per_machine)
    b_in, b_out = given.inner_gb * 1e9, given.outer_gb * 1e9
    a_in, a_out = given.inner_us * 1e-6, given.outer_us * 1e-6
    seconds = 2 * (inside - 1) * (size / (inside * b_in) + a_in)
    if machines > 1:
        part = size / inside
        ring = 2 * (machines - 1) * (part / (machines * b_out) + a_out)
        piece = min(part, 512 * 1024)
        tree = 2 * (part / b_out + math.log2(machines) * (a_out + piece / b_out))
        seconds += min(ring, tree)
    return seconds


def step_of(ranks, given):
    """Seconds: of all sums, of what is exposed, of the step; and the step's efficiency."""
    forward, backward = given.forward_ms / 1e3, given.backward_ms / 1e3
    size = given.parameters * given.gradient_bytes
    bucket = given.bucket_mib * 2**20
    count = max(1, math.ceil(size / bucket))
    sums = [sum_seconds(size / count, ranks, given)] * count if ranks > 1 else [0.0] * count
    slowed = backward * (1 + given.interference * min(1, sum(sums) / backward))
    end = 0.0
    for index, seconds in enumerate(sums):
        ready = slowed * (index + 1) / count
        end = max(end, ready) + seconds
    exposed = end - slowed if ranks > 1 else 0.0
    waits = (forward + slowed) * given.jitter * (math.sqrt(2 * math.log(ranks)) if ranks > 1 else 0)
    alone = forward + backward + given.optimizer_ms / 1e3
    step = forward + slowed + exposed + waits + given.optimizer_ms / 1e3
    return {"ranks": ranks, "sums_ms": sum(sums) * 1e3, "exposed_ms": exposed * 1e3,
            "waits_ms": waits * 1e3, "step_ms": step * 1e3, "efficiency": alone / step}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("parameters", 969e6), ("gradient-bytes", 4), ("forward-ms", 35.0),
                        ("backward-ms", 70.0), ("optimizer-ms", 6.5), ("bucket-mib", 25.0),
                        ("inner-gb", 340.0), ("outer-gb", 45.0), ("inner-us", 3.0),
                        ("outer-us", 8.0), ("interference", 0.03), ("jitter", 0.003)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--per-machine", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [step_of(ranks, given) for ranks in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)]
    if given.json:
        for row in rows:
            print(json.dumps(row))
        return
    print(f"{'GPUs':>6} {'sums ms':>9} {'exposed':>9} {'waits':>7} {'step ms':>9} {'efficiency':>11}")
    for row in rows:
        print(f"{row['ranks']:>6} {row['sums_ms']:>9.2f} {row['exposed_ms']:>9.2f} "
              f"{row['waits_ms']:>7.2f} {row['step_ms']:>9.2f} {100 * row['efficiency']:>9.1f} %")


if __name__ == "__main__":
    main()
