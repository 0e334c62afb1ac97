"""Kiln under PyTorch: norms, softmaxes, losses, dropouts and activations run on tuned kernels.

    import kiln
    kiln.enable("mode=use")
    ...                      # train as before
    print(kiln.report())     # which ops ran on whose kernels, and why

Importing it loads libkiln_torch into the torch that is installed, which must be of the minor version
and with the CUDA that Kiln was built for; ImportError says what is there and what is wanted. Nothing
changes before enable(), or KILN_ENABLE=1 in the environment. The package is a whole installed Kiln:
the command kernel-compile, a store of kernels tuned on an H200, and, for C++, headers and a CMake
package below `cmake_prefix_path`.
"""

import importlib.metadata
import pathlib

from ._load import load

__all__ = ["cmake_prefix_path", "disable", "enable", "report", "wait"]
__version__ = importlib.metadata.version("kiln")

#: For find_package(kiln CONFIG) in C++ projects: -DCMAKE_PREFIX_PATH=...
cmake_prefix_path = str(pathlib.Path(__file__).parent)

_ops = load()


def enable(options: str = "") -> None:
    """Puts Kiln's kernels under torch's ops, from here on and in all threads.

    `options` are words NAME=VALUE parted by blanks. What is not named is taken from the environment
    (KILN_MODE, KILN_OPS and so on), else the first value below. May be called again with others.

    mode=use        kernels of the stores, else the cost model's choice, compiled in the background
    mode=verify     torch runs too and results are compared: slow
    mode=tune       tunes new shapes in the background into the store `cache`
    mode=off        torch
    ops=LIST        "layer_norm,softmax": only these; "-gelu": all but it. Families (layer_norm,
                    rms_norm, softmax, log_softmax, cross_entropy, dropout, gelu, silu) or ATen's
                    names. Without it: all
    cache=FILE      a store to take kernels from and to keep them in
    log=FILE        what is compiled and what is not taken; "stderr" too
    strict=0        1: what would fall back to torch is an error, and kernels are waited for
    place=gpu       tensors on GPUs; cpu: those of the CPU, on Kiln's host target, slowly, to try
                    things out without a GPU; needs a C++ compiler

    Raises RuntimeError for an option that there is not, naming those that there are. Without a GPU
    nothing is taken, and report() says so.
    """
    _ops.enable(options)


def disable() -> None:
    """Back to torch's kernels, until the next enable()."""
    _ops.disable()


def wait() -> None:
    """Returns when every kernel asked for so far is compiled: before a graph is captured, say."""
    _ops.wait()


def report() -> str:
    """A table: which ops were called on which shapes, how often Kiln's kernels ran, why not else."""
    return _ops.report()
