"""The library from Python: torch.ops.kiln, and KILN_ENABLE=1. Exit code 77: no torch here.
Usage: python_test.py LIBKILN_TORCH"""

import os
import subprocess
import sys

try:
    import torch
except ImportError:
    print("skipped: no torch in", sys.executable)
    sys.exit(77)


def train(steps=4):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.SiLU(),
                                torch.nn.Linear(24, 5), torch.nn.LogSoftmax(-1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(10, 8)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -model(x)[:, 2].mean()
        loss.backward()
        optimizer.step()
    return loss.item()


class WrittenOut(torch.nn.Module):
    """RMSNorm as transformers' T5 and Llama write it."""

    def __init__(self, width, cast_last):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16))
        self.cast_last = cast_last

    def forward(self, x):
        wide = x.to(torch.float32)
        y = (wide if self.cast_last else x) * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def check_written_norms():
    torch.ops.kiln.enable("place=cpu")
    calls = 0
    for norm in WrittenOut(40, True), WrittenOut(40, False):
        for x in torch.randn(2, 3, 40, dtype=torch.bfloat16), torch.randn(6, 40):
            norm(x.requires_grad_()).sum().backward()
            calls += 1
    plain = torch.nn.BatchNorm1d(40).train()
    plain(torch.randn(6, 40)).sum().backward()
    torch.rsqrt(torch.rand(6, 1))
    lines = [line for line in torch.ops.kiln.report().splitlines() if "a norm written out" in line]
    assert len(lines) == 1 and "6x40 Float" in lines[0], lines
    assert "torch.nn.functional.rms_norm" in lines[0], lines
    assert lines[0].split()[3:5] == [str(calls), "0"], lines
    torch.ops.kiln.disable()


def main(library):
    torch.ops.load_library(library)
    plain = train()
    assert "no routed op was called" in torch.ops.kiln.report()
    torch.ops.kiln.enable("place=cpu strict=0")
    train()
    torch.ops.kiln.wait()
    assert abs(train() - plain) < 1e-5
    report = torch.ops.kiln.report()
    for op in ["native_layer_norm", "native_layer_norm_backward", "_log_softmax",
               "_log_softmax_backward_data"]:
        lines = [line for line in report.splitlines() if line.startswith(op + " ")]
        assert any("the cost model's choice" in line for line in lines), (op, report)
    torch.ops.kiln.disable()
    assert train() == plain
    check_written_norms()
    try:
        torch.ops.kiln.enable("mode=fast")
        raise AssertionError("a wrong mode was accepted")
    except RuntimeError as error:
        assert "mode=fast: allowed are use, tune, verify, off and record" in str(error), error

    # From the environment, when the library is loaded; a mistake there stops nothing.
    program = f"import torch; torch.ops.load_library({library!r}); print(torch.ops.kiln.report())"
    for mode, expected in [("verify", "mode verify"), ("fast", "mode off")]:
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True, env={**os.environ, "KILN_ENABLE": "1", "KILN_MODE": mode})
        assert expected in run.stdout, run
        assert (mode == "fast") == ("not enabled: KILN_MODE=fast" in run.stderr), run.stderr
    # Without NVRTC kernels of a GPU cannot be compiled: ATen's run, and the report says why.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    program = f"""
import torch
torch.ops.load_library({library!r})
x = torch.randn(300, 1234, device={device!r})
plain = torch.log_softmax(x, 1)
torch.ops.kiln.enable("mode=use")
torch.log_softmax(x, 1)
torch.ops.kiln.wait()
assert torch.equal(torch.log_softmax(x, 1), plain)
print(torch.ops.kiln.report())"""
    run = subprocess.run([sys.executable, "-c", program],
                         capture_output=True, text=True, check=True,
                         env={**os.environ, "KILN_NVRTC": "/nowhere/libnvrtc.so"})
    expected = "no kernel: " if device == "cuda" else "nothing is taken on a GPU: "
    assert expected in run.stdout, run
    print("passed")


main(sys.argv[1])
