"""ATen's errors against fp64 on the layer_norm entries of a workload file, on the inputs that
bench/errors draws for Kiln.
"""
import torch

from peers_ops import DTYPES, EPSILON, layer_norm, layer_norm_backward
from peers_timing import DEVICE

ERROR_ROWS = 4096

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
    """One line an output of ATen: few rows are drawn several times, as bench/errors does."""
    rows = min(entry.rows, ERROR_ROWS)
    draws = min(max(ERROR_ROWS // max(rows, 1), 1), 16)
    lines = []
    for parts in zip(*(errors_of_draw(entry, rows, number) for number in range(draws))):
        lines.append({**parts[0], "draws": draws,
                      "max_abs": max(part["max_abs"] for part in parts),
                      "rms": (sum(part["rms"] ** 2 for part in parts) / draws) ** 0.5})
    return lines


def errors_of_draw(entry, rows, number):
    width, dtype, first = entry.width, DTYPES[entry.dtype], 4 * number
    x = drawn(first + 1, rows * width).view(rows, width).to(dtype)
    gamma = drawn(first + 2, width, 0.125, 1.0).to(dtype)
    beta = drawn(first + 3, width, 0.125).to(dtype)
    dy = drawn(first + 4, rows * width).view(rows, width).to(dtype)
    exact_x, exact_gamma = x.double(), gamma.double()
    mean = exact_x.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(((exact_x - mean) ** 2).mean(-1, keepdim=True) + EPSILON)
    on = lambda *tensors: (tensor.to(DEVICE) for tensor in tensors)
    if entry.direction == "forward":
        names = ("y", "mean", "rstd")
        exact = ((exact_x - mean) * rstd * exact_gamma + beta.double(), mean, rstd)
        results = layer_norm(*on(x, gamma, beta))
    else:
        names = ("dx", "dgamma", "dbeta")
        kept = layer_norm(*on(x[:1], gamma, beta))[1].dtype  # fp32; on the CPU maybe the input's
        saved = mean.to(kept), rstd.to(kept)
        mean, rstd = (tensor.double() for tensor in saved)
        normal, weighted_dy = (exact_x - mean) * rstd, dy.double() * exact_gamma
        exact = (rstd * (weighted_dy - weighted_dy.mean(-1, keepdim=True)
                         - normal * (weighted_dy * normal).mean(-1, keepdim=True)),
                 (dy.double() * normal).sum(0), dy.double().sum(0))
        results = layer_norm_backward(*on(dy, x, gamma, beta, *saved))
    lines = []
    for name, result, reference in zip(names, results, exact):
        difference = result.cpu().double().view(reference.shape) - reference
        lines.append({"source": "aten", **entry.key(), "rows": rows, "output": name,
                      "output_dtype": {v: k for k, v in DTYPES.items()}[result.dtype],
                      "max_abs": difference.abs().max().item(),
                      "rms": difference.square().mean().sqrt().item()})
    return lines
