"""Checkpoints, which compute a part of the forward again and expect to find it unchanged, around the first
calls of a shape, whose kernel arrives between the two. Exit code 77: no torch here. Usage: arrival_test.py
LIBKILN_TORCH [unittest's arguments]"""

import os
import subprocess
import sys
import unittest

try:
    import torch
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PLACE = "gpu" if DEVICE == "cuda" else "cpu"
functional = torch.nn.functional
kiln = torch.ops.kiln
widths = iter(range(1001, 2000))


def autocast_as_for_cuda():
    """On CPUs autocast leaves norms and softmax in the type of their input. The library that is returned has
    to live on."""
    below = torch._C._ExcludeDispatchKeyGuard
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, cudnn=True):
        with below(keys):
            return functional.layer_norm(x.float(), shape, weight, bias, eps)

    def softmax(x, dim, dtype=None):
        with below(keys):
            return functional.softmax(x, dim, dtype=dtype or torch.float)
    library = torch.library.Library("aten", "IMPL")
    library.impl("layer_norm", layer_norm, "AutocastCPU")
    library.impl("softmax.int", softmax, "AutocastCPU")
    return library


def dropped(x):
    return torch.native_dropout(x, 0.3, True)[0]


class Checkpoints(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        kiln.enable(f"mode=use strict=0 place={PLACE}")
        dropped(torch.ones(8, device=DEVICE))

    def tearDown(self):
        kiln.disable()

    def step(self, function, dtype, reentrant, under_autocast=False):
        """Forward before there is a kernel, backward when it is there: the result, and gradients of the input
        of the function. The same without a checkpoint."""
        x = torch.randn(70, next(widths), device=DEVICE).to(dtype).requires_grad_()

        def result(run):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=under_autocast):
                return run()
        torch.manual_seed(2)
        y = result(lambda: checkpoint(function, x, use_reentrant=reentrant))
        kiln.wait()
        y.sum().backward()
        torch.manual_seed(2)
        plain = result(lambda: function(x))
        return x, y.detach(), x.grad, plain.detach(), torch.autograd.grad(plain.sum(), x)[0]

    def test_dropout_draws_what_it_drew(self):
        for reentrant in (True, False):
            for deterministic in (True, False):
                torch.use_deterministic_algorithms(deterministic)
                x, y, gradient, again, _ = self.step(dropped, torch.float, reentrant)
                torch.use_deterministic_algorithms(False)
                self.assertTrue(torch.equal(y == 0, gradient == 0))
                self.assertTrue(torch.equal(y, again))  # the hundredth call's are the first call's
                self.assertLess(abs((y == 0).float().mean().item() - 0.3), 0.02)

    def test_what_is_saved_does_not_change(self):
        t = torch.randint(1000, (70,), device=DEVICE)

        def weight(x):
            return torch.ones(x.shape[-1], device=DEVICE)
        cases = [
            (lambda x: functional.cross_entropy(x, t), torch.bfloat16, False),
            (lambda x: functional.cross_entropy(x, t, reduction="none"), torch.float, False),
            (lambda x: functional.cross_entropy(x.sin(), t, label_smoothing=0.1), torch.half, False),
            (lambda x: functional.rms_norm(x, x.shape[-1:], weight(x)), torch.bfloat16, False),
            (lambda x: functional.layer_norm(x, x.shape[-1:], weight(x)), torch.bfloat16, True),
            (lambda x: functional.softmax(x, -1).square(), torch.bfloat16, True),
        ]
        for function, dtype, under_autocast in cases:
            for reentrant in (True, False):
                x, y, gradient, again, expected = self.step(function, dtype, reentrant, under_autocast)
                torch.testing.assert_close(y, again, rtol=1.6e-2, atol=1e-5)
                torch.testing.assert_close(gradient, expected, rtol=3e-2, atol=2e-5)
                self.assertEqual(y.dtype, again.dtype)

    def test_numbers_of_saved_tensors(self):
        """Their number, shapes and dtypes, before and after."""
        t = torch.randint(1000, (70,), device=DEVICE)
        for function, under_autocast in ((lambda x: functional.cross_entropy(x, t), False),
                                         (lambda x: functional.layer_norm(x, x.shape[-1:]), True),
                                         (lambda x: functional.softmax(x, -1), True)):
            x = torch.randn(70, next(widths), device=DEVICE).bfloat16().requires_grad_()

            def saved():
                kept = []

                def pack(tensor):
                    kept.append((tuple(tensor.shape), tensor.dtype))
                    return tensor
                with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), \
                        torch.autocast(DEVICE, torch.bfloat16, enabled=under_autocast):
                    y = function(x)
                y.sum().backward()
                return kept, type(y.grad_fn).__name__, y.dtype, y.stride()
            first = saved()
            kiln.wait()
            self.assertEqual(saved(), first)

    def test_kept_gradients_are_nobodys(self):
        """Hooks that give the same tensor twice, and a graph that is kept."""
        t = torch.randint(1000, (70,), device=DEVICE)
        x = torch.randn(70, next(widths), device=DEVICE).requires_grad_()
        functional.cross_entropy(x, t)
        kiln.wait()
        kept = []

        def pack(tensor):
            kept.append(tensor)
            return len(kept) - 1
        with torch.autograd.graph.saved_tensors_hooks(pack, kept.__getitem__):
            loss = functional.cross_entropy(x, t)
        before = [tensor.clone() for tensor in kept]
        (loss * 3).backward()
        for tensor, copy in zip(kept, before):
            self.assertTrue(torch.equal(tensor, copy))

    @unittest.skipUnless(DEVICE == "cuda", "the host target compiles when it launches")
    def test_without_any_compiler_aten_draws_from_the_first_call_on(self):
        program = f"""
import torch
torch.ops.load_library({LIBRARY!r})
x = torch.ones(64, 1024, device="cuda")
def draw():
    torch.manual_seed(1)
    return torch.native_dropout(x, 0.5, True)[1]
plain = draw()
torch.ops.kiln.enable("mode=use")
for _ in range(2):
    assert torch.equal(draw(), plain)
    torch.ops.kiln.wait()
assert "no kernel that draws masks" in torch.ops.kiln.report()"""
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             env={**os.environ, "KILN_NVRTC": "/nowhere/libnvrtc.so"})
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    LIBRARY = sys.argv[1]
    AUTOCAST = autocast_as_for_cuda() if DEVICE == "cpu" else None
    torch.ops.load_library(LIBRARY)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
