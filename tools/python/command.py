#!python
"""Runs the command of this name that the Python package kiln holds. Needs no torch; with one, NVRTC
is found in the wheels beside it."""

import importlib.util
import os
import pathlib
import sys


def folder(package):
    spec = importlib.util.find_spec(package)  # imports nothing
    return pathlib.Path(spec.submodule_search_locations[0]) if spec else None


if torch := folder("torch"):
    os.environ.setdefault("KILN_TORCH", str(torch))
command = folder("kiln") / "bin" / pathlib.Path(sys.argv[0]).name
os.execv(command, [str(command), *sys.argv[1:]])
