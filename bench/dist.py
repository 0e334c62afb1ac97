#!/usr/bin/env python3
"""What bench/dist.cpp measures, by Python's torch: all_reduce, and a language model's training step
without sums, in plain modes, under DistributedDataParallel, with ZeroRedundancyOptimizer, and by
fully_shard (FSDP2). The same lines of JSON, from rank 0.

  torchrun --nproc-per-node=2 bench/dist.py --what=sweep [--device=cpu] [--most-mib=1024]
  torchrun --nproc-per-node=2 bench/dist.py --what=steps --model=tiny --batch=4 --context=64
                                            [--steps=200] [--precision=bf16]
  torchrun --nproc-per-node=2 bench/dist.py --what=buckets ...
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from peers_lm import SIZES, Transformer

WARMUP = 5


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def reduced(value, op, device):
    one = torch.tensor([value], dtype=torch.double, device=device)
    dist.all_reduce(one, op)
    return one.item()


def show(line):
    if dist.get_rank() == 0:
        print(json.dumps(line), flush=True)


def sweep(given, device):
    n, size = dist.get_world_size(), 1024
    while size <= given.most_mib << 20:
        tensor = torch.ones(size // 4, device=device)
        few, many = (64, 1024) if device.type == "cuda" else (1, 64)  # MiB, as dist.cpp has it
        times = 200 if size < few << 20 else 20 if size < many << 20 else 5
        for _ in range(5):
            dist.all_reduce(tensor)
        synchronize(device)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(tensor)
        synchronize(device)
        seconds = reduced((time.perf_counter() - begin) / times, dist.ReduceOp.MAX, device)
        rate = size / seconds / 1e9
        show({"what": "all-reduce", "source": "Python", "ranks": n, "device": str(device),
              "bytes": size, "microseconds": seconds * 1e6, "algorithm_gb_per_s": rate,
              "bus_gb_per_s": rate * 2 * (n - 1) / n})
        size *= 4


def sum_up(model, mode):
    """What CS336 calls naive and flat."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if mode == "flat":
        flat = torch._utils._flatten_dense_tensors(gradients)
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, mean in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients)):
            gradient.copy_(mean)
    else:
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()


def steps(given, device, mode, bucket_mib):
    width, hidden, layers, heads = SIZES[given.model]
    torch.manual_seed(1)
    model = Transformer(given.vocabulary, given.context, width, hidden, layers, heads).to(device)
    trained = model
    if mode in ("overlapped", "sharded"):
        trained = DistributedDataParallel(model, bucket_cap_mb=bucket_mib,
                                          gradient_as_bucket_view=True)
    if mode == "fully-sharded":
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if given.precision == "bf16" else None,
            reduce_dtype=torch.float32)
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in [*model.layers, model]:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    if mode == "sharded":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4,
                                            fused=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(100 + dist.get_rank())
    mean = {"forward_ms": 0.0, "backward_ms": 0.0, "step_ms": 0.0}
    for step in range(-WARMUP, given.steps):
        synchronize(device)
        dist.barrier()
        begin = time.perf_counter()
        tokens = torch.randint(given.vocabulary, (given.batch, given.context + 1)).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=given.precision == "bf16"):
            logits = trained(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        synchronize(device)
        forward = time.perf_counter() - begin
        loss.backward()
        if mode in ("flat", "per-parameter"):
            sum_up(model, mode)
        synchronize(device)
        backward = time.perf_counter() - begin - forward
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        whole = time.perf_counter() - begin
        here = [reduced(value, dist.ReduceOp.MIN, device) for value in (forward, backward, whole)]
        if step >= 0:
            for name, value in zip(mean, here):
                mean[name] += value * 1e3 / given.steps
    show({"what": "step", "source": "Python", "mode": mode, "bucket_mib": bucket_mib,
          "model": given.model, "parameters": sum(p.numel() for p in model.parameters()),
          "batch": given.batch, "context": given.context, "precision": given.precision,
          "ranks": dist.get_world_size(), "device": str(device), "steps": given.steps, **mean,
          **({"peak_gib": torch.cuda.max_memory_allocated() / 2**30} if device.type == "cuda"
             else {})})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=["sweep", "steps", "buckets"], default="sweep")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--most-mib", type=int, default=1024)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--modes",
                        default="none,per-parameter,flat,overlapped,sharded,fully-sharded")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.device(given.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if given.what == "sweep":
        sweep(given, device)
    elif given.what == "steps":
        for mode in given.modes.split(","):
            steps(given, device, mode, 25)
    else:
        for mib in (1, 10, 25, 100, 1000):
            steps(given, device, "overlapped", mib)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
