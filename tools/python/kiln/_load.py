"""Loads libkiln_torch into a torch that it was built for, or says why that cannot be.

LibTorch's C++ interface changes with each minor version: a library built for another one would fail
with an undefined symbol at best.
"""

import importlib.metadata
import os
import pathlib
import sys

from . import _built_for

_LIBRARY = pathlib.Path(__file__).parent / "lib" / _built_for.LIBRARY


def _refusal(what: str) -> ImportError:
    """`what` is wrong; what is wanted, and the command that gets it."""
    wanted = f"torch {_built_for.TORCH}"
    command = f"{sys.executable} -m pip install 'torch=={_built_for.TORCH}.*'"
    if _built_for.CUDA:
        wanted += f" with CUDA {_built_for.CUDA.split('.')[0]} (a GPU is not needed to import it)"
        command += f" --index-url https://download.pytorch.org/whl/cu{_built_for.CUDA.replace('.', '')}"
    return ImportError(
        f"{what}; kiln {importlib.metadata.version('kiln')} was built for {wanted}. Run\n"
        f"    {command}\n"
        "or make a kiln for the torch that is there, with tools/wheel in Kiln's sources.",
        name="kiln", path=str(_LIBRARY))


def load():
    """The namespace torch.ops.kiln. Raises ImportError."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise _refusal(f"There is no torch in {sys.prefix}") from None
    there = f"torch {torch.__version__} in {pathlib.Path(torch.__file__).parent}"
    if torch.__version__.split(".")[:2] != _built_for.TORCH.split("."):
        raise _refusal(f"There is {there}")
    cuda = torch.version.cuda
    if _built_for.CUDA and not cuda:
        raise _refusal(f"There is {there}, built without CUDA")
    if _built_for.CUDA and cuda.split(".")[0] != _built_for.CUDA.split(".")[0]:
        raise _refusal(f"There is {there}, built with CUDA {cuda}")
    # Where NVRTC is: in the wheels that torch's wheel asks for.
    os.environ.setdefault("KILN_TORCH", str(pathlib.Path(torch.__file__).parent))
    try:
        torch.ops.load_library(str(_LIBRARY))
    except OSError as error:
        raise _refusal(f"There is {there}, and the loader says: {error}") from error
    return torch.ops.kiln
