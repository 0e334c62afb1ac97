"""What all of the references are made of: linear maps, norms, softmax, parameters by name."""

import torch

LN_EPS = 1e-5


def sub(p, prefix):
    """Parameters of a part, without the part's name."""
    return {k[len(prefix) + 1:]: v for k, v in p.items() if k.startswith(prefix + ".")}


def linear(p, name, x):
    y = torch.einsum("...i,oi->...o", x, p[name + ".weight"])
    return y + p[name + ".bias"] if name + ".bias" in p else y


def layer_norm(p, name, x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + LN_EPS) * p[name + ".weight"] + p[name + ".bias"]


def softmax(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def one_hot(index, size):
    return (index[..., None] == torch.arange(size)).double()
