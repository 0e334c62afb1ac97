#!/usr/bin/env python3
"""Training steps of train_lm's model in Python's torch, eager and torch.compile: the same sizes, SDPA,
fp32 weights with bf16 autocast, AdamW (fused) and clipping, random tokens. Prints the line of JSON of
`train_lm --bench` for each.

  python3 bench/peers_lm.py [--models=small:16,medium:16,large:8] [--context=1024] [--steps=20]
                            [--sources=eager,compile]

A model is NAME:BATCH. --models=tiny:2 --context=64 runs on a CPU, to show that everything works.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {"tiny": (64, 192, 2, 4), "small": (768, 3072, 12, 12), "medium": (1024, 4096, 24, 16),
         "large": (1280, 5120, 36, 20), "xl": (1600, 6400, 48, 25),
         "2.7b": (2560, 10240, 32, 32)}  # width, hidden, layers, heads
WARMUP = 5


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def rotate(x, cosine, sine):
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine),
                       -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.output = (linear(width, width) for _ in range(4))
        self.w1, self.w2, self.w3 = linear(width, hidden), linear(hidden, width), linear(width, hidden)

    def forward(self, x, cosine, sine):
        y = self.ln1(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(rotate(q, cosine, sine), rotate(k, cosine, sine), v,
                                                  is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(-2))
        y = self.ln2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Transformer(nn.Module):
    def __init__(self, vocabulary, context, width, hidden, layers, heads):
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, hidden, heads) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), linear(width, vocabulary)
        size = width // heads
        powers = torch.arange(0, size, 2, dtype=torch.double) / size
        angles = torch.arange(context, dtype=torch.double)[:, None] * 10000.0 ** -powers
        self.register_buffer("cosine", angles.cos().float())
        self.register_buffer("sine", angles.sin().float())

    def forward(self, tokens):
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(self.norm(x))


def step_of(model, batch, context, vocabulary):
    """A function that trains on the next random batch and returns the loss."""
    gains = [p for p in model.parameters() if p.dim() == 1]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": gains, "weight_decay": 0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)

    def step():
        tokens = torch.randint(vocabulary, (batch, context + 1)).to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(source, name, batch, given):
    width, hidden, layers, heads = SIZES[name]
    torch.manual_seed(1)
    model = Transformer(given.vocabulary, given.context, width, hidden, layers, heads).to(DEVICE)
    parameters = sum(p.numel() for p in model.parameters())
    step = step_of(torch.compile(model, dynamic=False) if source == "compile" else model, batch,
                   given.context, given.vocabulary)
    for _ in range(WARMUP):
        step()
    synchronize()
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    for _ in range(given.steps):
        loss = step()
    synchronize()
    seconds = (time.perf_counter() - start) / given.steps
    tokens = batch * given.context / seconds
    flops = (6 * (parameters - given.vocabulary * width) + 6 * layers * width * given.context)
    return {"source": f"Python {source}", "kiln": "off", "model": name, "parameters": parameters,
            "batch": batch, "accumulate": 1, "context": given.context,
            "vocabulary": given.vocabulary, "precision": "bf16", "recompute": False,
            "device": DEVICE, "steps": given.steps, "step_ms": seconds * 1e3,
            "tokens_per_second": tokens, "peak_tflops": given.peak_tflops,
            "mfu": tokens * flops / (given.peak_tflops * 1e12),
            "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else 0,
            "loss": loss.item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="small:16,medium:16,large:8")
    parser.add_argument("--sources", default="eager,compile")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peak-tflops", type=float, default=800)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    for model in given.models.split(","):
        name, batch = model.split(":")
        for source in given.sources.split(","):
            try:
                line = measure(source, name, int(batch), given)
            except torch.OutOfMemoryError as error:
                line = {"source": f"Python {source}", "model": name, "batch": int(batch),
                        "trouble": str(error).splitlines()[0]}
            print(json.dumps(line), flush=True)
            torch._dynamo.reset()
            if DEVICE == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
