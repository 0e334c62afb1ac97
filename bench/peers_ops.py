"""What the peers of bench/rows compute: for each row of a workload file the tensors, the function
as ATen's kernels run it, and, where another form suits it better, the one that torch.compile gets.

A backward takes what autograd would have saved for it. Names are those of the files or ops.
"""
import re
from typing import Callable, NamedTuple, Optional

import torch
from torch.nn import functional

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
EPSILON = 1e-5
aten = torch.ops.aten


class Case(NamedTuple):
    """`full`, `row`, `column`, `wide`: what Kiln reads and writes, as tensors of the full size, bytes
    a row and bytes a column beside them, and tensors in fp32; a mask of bytes counts as its part of
    a tensor."""
    make: Callable  # (normal, rows, width, dtype) -> arguments; normal(*shape): random numbers
    aten: Callable
    full: float
    row: int = 0
    column: int = 0
    compiled: Optional[Callable] = None  # None: the same function
    random: bool = False  # results differ from run to run
    wide: int = 0


def of_same_shape(count):
    return lambda normal, rows, width, dtype: tuple(normal(rows, width) for _ in range(count))


# LayerNorm and RMSNorm.

def layer_norm(x, gamma, beta):
    return aten.native_layer_norm(x, [x.shape[-1]], gamma, beta, EPSILON)


def plain_layer_norm(x, gamma, beta):
    return functional.layer_norm(x, (x.shape[-1],), gamma, beta, EPSILON)


def layer_norm_backward(dy, x, gamma, beta, mean, rstd):
    return aten.native_layer_norm_backward(dy, x, [x.shape[-1]], mean, rstd, gamma, beta,
                                           [True, True, True])


def plain_layer_norm_backward(dy, x, gamma, beta, mean, rstd):
    normal = (x.float() - mean) * rstd
    weighted = dy.float() * gamma.float()
    dx = rstd * (weighted - weighted.mean(-1, keepdim=True)
                 - normal * (weighted * normal).mean(-1, keepdim=True))
    return (dx.to(x.dtype), (dy.float() * normal).sum(0).to(gamma.dtype),
            dy.float().sum(0).to(beta.dtype))


def make_layer_norm(normal, rows, width, dtype):
    return normal(rows, width), normal(width), normal(width)


def make_layer_norm_backward(normal, rows, width, dtype):
    x, gamma, beta = make_layer_norm(normal, rows, width, dtype)
    return (normal(rows, width), x, gamma, beta, *layer_norm(x, gamma, beta)[1:])


def rms_norm(x, gamma):
    return functional.rms_norm(x, (x.shape[-1],), gamma, EPSILON)


def rms_norm_backward(dy, x, gamma, rstd):
    return aten._fused_rms_norm_backward(dy, x, [x.shape[-1]], rstd, gamma, [True, True])


def plain_rms_norm_backward(dy, x, gamma, rstd):
    normal = x.float() * rstd
    weighted = dy.float() * gamma.float()
    dx = rstd * (weighted - normal * (weighted * normal).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy.float() * normal).sum(0).to(gamma.dtype)


def make_rms_norm_backward(normal, rows, width, dtype):
    x = normal(rows, width)
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + EPSILON)
    return normal(rows, width), x, normal(width), rstd


def residual_rms_norm(x, r, gamma):
    z = x + r
    return z, rms_norm(z, gamma)


# Softmax and cross-entropy. ATen keeps the loss in the dtype of the logits; torch.compile's fp32 is
# free, and what a trainer asks for.

def softmax(x):
    return torch.softmax(x, -1)


def softmax_backward(dy, y):
    return aten._softmax_backward_data(dy, y, -1, y.dtype)


def of_gradient_and_result(forward):
    return lambda normal, rows, width, dtype: (normal(rows, width), forward(normal(rows, width)))


def log_softmax(x):
    return torch.log_softmax(x, -1)


def log_softmax_backward(dy, y):
    return aten._log_softmax_backward_data(dy, y, -1, y.dtype)


def masked_softmax(s, mask):
    return torch.softmax((s * 0.125).masked_fill(~mask, -torch.inf), -1)


def masked_softmax_backward(dp, p):
    return softmax_backward(dp, p) * 0.125


def make_masked_softmax(normal, rows, width, dtype):
    return normal(rows, width), normal(rows, width) > -1


def make_targets(normal, rows, width):
    return torch.randint(width, (rows,), device=normal(1).device)


def cross_entropy(x, target):
    return functional.cross_entropy(x, target, reduction="none")


def plain_cross_entropy(x, target):
    return functional.cross_entropy(x.float(), target, reduction="none")


def log_softmax_gradient(log_p, target, dloss):
    total = torch.ones((), dtype=log_p.dtype, device=log_p.device)
    d = aten.nll_loss_backward(dloss.to(log_p.dtype), log_p, target, None, 0, -100, total)
    return aten._log_softmax_backward_data(d, log_p, -1, log_p.dtype)


def cross_entropy_backward(x, log_p, target, lse, dloss):
    return log_softmax_gradient(log_p, target, dloss)


def plain_cross_entropy_backward(x, log_p, target, lse, dloss):
    hit = torch.arange(x.shape[-1], device=x.device) == target[:, None]
    return (((x.float() - lse[:, None]).exp() - hit.float()) * dloss[:, None]).to(x.dtype)


def make_cross_entropy(normal, rows, width, dtype):
    return normal(rows, width), make_targets(normal, rows, width)


def make_cross_entropy_backward(normal, rows, width, dtype):
    x = normal(rows, width)
    return (x, torch.log_softmax(x, -1), make_targets(normal, rows, width),
            torch.logsumexp(x.float(), -1), normal(rows).float())


def cross_entropy_with_gradient(x, target, scale):
    log_p = torch.log_softmax(x, -1)
    loss = functional.nll_loss(log_p, target, reduction="none")
    return loss, log_softmax_gradient(log_p, target, scale.expand(x.shape[0]))


def plain_cross_entropy_with_gradient(x, target, scale):
    lse = torch.logsumexp(x.float(), -1)
    loss = lse - x.gather(1, target[:, None])[:, 0].float()
    return loss, plain_cross_entropy_backward(x, None, target, lse, scale.expand(x.shape[0]))


def make_cross_entropy_with_gradient(normal, rows, width, dtype):
    x, target = make_cross_entropy(normal, rows, width, dtype)
    return x, target, torch.full((), 1 / 8192, device=x.device)


def cross_entropy_loss(x, target):
    return functional.cross_entropy(x, target)


def plain_cross_entropy_loss(x, target):
    return functional.cross_entropy(x.float(), target).to(x.dtype)


def cross_entropy_loss_with_gradient(x, target):
    log_p = torch.log_softmax(x, -1)
    share = torch.full((x.shape[0],), 1 / x.shape[0], device=x.device)
    return functional.nll_loss(log_p, target), log_softmax_gradient(log_p, target, share)


def plain_cross_entropy_loss_with_gradient(x, target):
    share = torch.full((), 1 / x.shape[0], device=x.device)
    losses, gradient = plain_cross_entropy_with_gradient(x, target, share)
    return losses.mean().to(x.dtype), gradient


# What autocast to bf16 computes in fp32: RMSNorm since its weight is.

def in_autocast(function):
    def inside(x, *more):
        with torch.autocast(x.device.type, torch.bfloat16):
            return function(x, *more)
    return inside


# Gates, and dropout with what surrounds it.

def gate(x, g, bias):
    return x * torch.sigmoid(g + bias)


def gate_backward(dy, x, s):
    dg = aten.sigmoid_backward(dy * x, s)
    return dy * s, dg, dg.sum(0)


def make_gate(normal, rows, width, dtype):
    return normal(rows, width), normal(rows, width), normal(width)


def make_gate_backward(normal, rows, width, dtype):
    return normal(rows, width), normal(rows, width), torch.sigmoid(normal(rows, width))


def swiglu(g, up):
    return functional.silu(g) * up


def swiglu_backward(dy, g, up, s):
    return aten.silu_backward(dy * up, g), dy * s


def plain_swiglu_backward(dy, g, up, s):
    return aten.silu_backward(dy * up, g), dy * functional.silu(g)


def make_swiglu_backward(normal, rows, width, dtype):
    dy, g, up = (normal(rows, width) for _ in range(3))
    return dy, g, up, functional.silu(g)


def bias_dropout_residual(x, bias, r):
    return functional.dropout(x + bias, 0.25) + r


def bias_dropout_residual_layer_norm(x, bias, r, gamma, beta):
    z = functional.dropout(x + bias, 0.1) + r
    return (z, *layer_norm(z, gamma, beta))


def make_bias_residual(norms):
    return lambda normal, rows, width, dtype: (
        normal(rows, width), normal(width), normal(rows, width),
        *(normal(width) for _ in range(norms)))


# Dropout, with the mask as bytes that autograd keeps.

DROPPED = 0.1


def dropout(x):
    return aten.native_dropout(x, DROPPED, True)


def dropout_backward(dy, kept):
    return aten.native_dropout_backward(dy, kept, 1 / (1 - DROPPED))


def make_dropout_backward(normal, rows, width, dtype):
    return normal(rows, width), normal(rows, width) > -1


FORWARD, BACKWARD = "forward", "backward"
CASES = {
    ("layer_norm", FORWARD): Case(make_layer_norm, layer_norm, 2, 8, 8, plain_layer_norm),
    ("layer_norm", BACKWARD): Case(make_layer_norm_backward, layer_norm_backward, 3, 8, 12,
                                   plain_layer_norm_backward),
    ("rms_norm", FORWARD): Case(
        lambda normal, rows, width, dtype: (normal(rows, width), normal(width)), rms_norm, 2, 4, 2),
    ("rms_norm", BACKWARD): Case(make_rms_norm_backward, rms_norm_backward, 3, 4, 4,
                                 plain_rms_norm_backward),
    ("residual_rms_norm", FORWARD): Case(
        lambda normal, rows, width, dtype: (*(normal(rows, width) for _ in range(2)), normal(width)),
        residual_rms_norm, 4, 4, 2),
    ("softmax", FORWARD): Case(of_same_shape(1), softmax, 2),
    ("softmax", BACKWARD): Case(of_gradient_and_result(softmax), softmax_backward, 3),
    ("log_softmax", FORWARD): Case(of_same_shape(1), log_softmax, 2),
    ("log_softmax", BACKWARD): Case(of_gradient_and_result(log_softmax), log_softmax_backward, 3),
    ("gelu", FORWARD): Case(of_same_shape(1), functional.gelu, 2),
    ("gelu", BACKWARD): Case(of_same_shape(2), aten.gelu_backward, 3),
    ("silu", FORWARD): Case(of_same_shape(1), functional.silu, 2),
    ("silu", BACKWARD): Case(of_same_shape(2), aten.silu_backward, 3),
    ("dropout", FORWARD): Case(of_same_shape(1), dropout, 2.5, random=True),
    ("dropout", BACKWARD): Case(make_dropout_backward, dropout_backward, 2.5),
    ("dropout_backward", FORWARD): Case(make_dropout_backward, dropout_backward, 2.5),
    ("masked_softmax", FORWARD): Case(make_masked_softmax, masked_softmax, 2.5),
    ("masked_softmax", BACKWARD): Case(of_gradient_and_result(softmax), masked_softmax_backward,
                                       3),
    ("cross_entropy", FORWARD): Case(make_cross_entropy, cross_entropy, 1, 16,
                                     compiled=plain_cross_entropy),
    ("cross_entropy", BACKWARD): Case(make_cross_entropy_backward, cross_entropy_backward, 2, 20,
                                      compiled=plain_cross_entropy_backward),
    ("cross_entropy_with_gradient", FORWARD): Case(
        make_cross_entropy_with_gradient, cross_entropy_with_gradient, 2, 12,
        compiled=plain_cross_entropy_with_gradient),
    ("cross_entropy_loss", FORWARD): Case(make_cross_entropy, cross_entropy_loss, 1, 8,
                                          compiled=plain_cross_entropy_loss),
    ("cross_entropy_loss_with_gradient", FORWARD): Case(
        make_cross_entropy, cross_entropy_loss_with_gradient, 2, 8,
        compiled=plain_cross_entropy_loss_with_gradient),
    ("layer_norm_in_autocast", FORWARD): Case(make_layer_norm, in_autocast(plain_layer_norm), 1, 0, 8,
                                              wide=1),
    ("rms_norm_in_autocast", FORWARD): Case(
        lambda normal, rows, width, dtype: (normal(rows, width), normal(width).float()),
        in_autocast(rms_norm), 2, 0, 4),
    ("softmax_in_autocast", FORWARD): Case(of_same_shape(1), in_autocast(softmax), 1, wide=1),
    ("gate", FORWARD): Case(make_gate, gate, 3, 0, 4),
    ("gate", BACKWARD): Case(make_gate_backward, gate_backward, 5, 0, 8),
    ("swiglu", FORWARD): Case(of_same_shape(2), swiglu, 3),
    ("swiglu", BACKWARD): Case(make_swiglu_backward, swiglu_backward, 5,
                               compiled=plain_swiglu_backward),
    ("bias_dropout_residual", FORWARD): Case(make_bias_residual(0), bias_dropout_residual, 3, 0, 2,
                                             random=True),
    ("bias_dropout_residual_layer_norm", FORWARD): Case(
        make_bias_residual(2), bias_dropout_residual_layer_norm, 4, 8, 6, random=True),
}


def case_of(what, direction):
    """None: no peer is known. A file's name may end with its dtype and its width."""
    return CASES.get((re.sub(r"(_bf16|_f32)?_\d+$", "", what), direction))


def bytes_moved(case, rows, width, dtype):
    return (int(case.full * rows * width * dtype.itemsize) + case.wide * rows * width * 4
            + case.row * rows + case.column * width)
