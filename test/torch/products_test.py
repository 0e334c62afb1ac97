"""Products of matrices by tuned algorithms, each step in a process of its own, as programs have it: one
tunes into a file, the next reads it before anything of CUDA is there, and both compute the same.
Exit code 77: no torch here, or no GPU. Usage: products_test.py LIBKILN_TORCH"""

import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)


def sums_of(library, options):
    """What a program prints of its products, by LibTorch, and by Kiln with these options."""
    program = f"""
import torch
torch.ops.load_library({library!r})
torch.ops.kiln.enable({options!r})
torch.manual_seed(3)
x = torch.randn(4, 512, 384, device="cuda", dtype=torch.bfloat16, requires_grad=True)
layer = torch.nn.Linear(384, 640, device="cuda", dtype=torch.bfloat16)
last = torch.nn.Linear(384, 256, device="cuda", dtype=torch.bfloat16)
y = last(torch.nn.functional.gelu(layer(x)) @ layer.weight)
y.square().mean().backward()
print([tensor.double().sum().item() for tensor in (y, x.grad, layer.weight.grad, layer.bias.grad)])
print(torch.ops.kiln.report())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{options}: ended with {run.returncode}\n{run.stdout}{run.stderr}")
    sums, report = run.stdout.split("\n", 1)
    return json.loads(sums), report


def main():
    library = os.path.abspath(sys.argv[1])
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "products.json")
        tuned, _ = sums_of(library, f"ops=softmax products={file} tune_products=1")
        with open(file, encoding="utf-8") as written:
            products = json.load(written)["products"]
        again, report = sums_of(library, f"ops=softmax products={file}")
        plain, _ = sums_of(library, "ops=softmax")
    assert len(products) >= 5, products
    assert tuned == again, (tuned, again)
    assert "product" in report, report
    for ours, theirs in zip(tuned, plain, strict=True):
        assert abs(ours - theirs) <= 1e-2 * max(abs(theirs), 1.0), (tuned, plain)


if __name__ == "__main__":
    main()
