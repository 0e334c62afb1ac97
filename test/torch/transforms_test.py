"""cross_entropy_loss is taken above autograd, and others by autocast, where what traces, wraps or casts
tensors passes by: each must see what it sees without Kiln. Exit code 77: no torch here. Usage: transforms_test.py LIBKILN_TORCH
[unittest's arguments]"""

import sys
import unittest

try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def loss_of(x, t):
    return torch.nn.functional.cross_entropy(x, t, label_smoothing=0.1)


def calls(taken):
    """Of the loss: those that Kiln took, or those that it did not."""
    report = [line for line in torch.ops.kiln.report().splitlines()
              if line.startswith("cross_entropy_loss ")]
    used = sum(int(line[62:73]) for line in report)
    return used if taken else sum(int(line[51:62]) for line in report) - used


class Transforms(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.x = torch.randn(80, 1000, device=DEVICE)
        self.t = torch.randint(1000, (80,), device=DEVICE)

    def compare(self, call, taken, **tolerances):
        """`taken`: whether Kiln takes the loss; None: it does not come so far."""
        torch.ops.kiln.disable()
        theirs = call()
        torch.ops.kiln.enable("mode=use place=" + ("gpu" if DEVICE == "cuda" else "cpu"))
        call()
        torch.ops.kiln.wait()
        before = calls(taken)
        ours = call()
        if taken is not None:
            self.assertGreater(calls(taken), before)
        torch.ops.kiln.disable()
        torch.testing.assert_close(ours, theirs, **tolerances)
        return ours

    def test_plain(self):
        def call():
            x = self.x.clone().requires_grad_()
            loss = loss_of(x, self.t)
            return loss.detach(), torch.autograd.grad(loss, x)[0]
        self.compare(call, taken=True)

    def test_autocast(self):
        for dtype in (torch.bfloat16, torch.float16):
            def call(dtype=dtype):
                x = self.x.to(dtype).requires_grad_()
                with torch.autocast(DEVICE, dtype=dtype):
                    loss = loss_of(x, self.t)
                return loss.detach(), torch.autograd.grad(loss, x)[0]
            loss, gradient = self.compare(call, taken=True, rtol=1e-2, atol=1e-5)
            self.assertEqual((loss.dtype, gradient.dtype), (torch.float32, dtype))

    def test_autocasts_types(self):
        functional = torch.nn.functional
        x, w = self.x.bfloat16(), torch.rand(1000, device=DEVICE)
        for call in (lambda: functional.layer_norm(x, (1000,)),
                     lambda: functional.layer_norm(x, (1000,), w.bfloat16(), w.bfloat16()),
                     lambda: functional.rms_norm(x, (1000,), w),
                     lambda: functional.rms_norm(x, (1000,)),
                     lambda: functional.rms_norm(x, (1000,), w.bfloat16()),
                     lambda: functional.softmax(x, -1), lambda: functional.log_softmax(x, -1),
                     lambda: functional.softmax(x, -1, dtype=torch.bfloat16)):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                self.compare(call, taken=None, rtol=1.6e-2, atol=1e-4)  # dtypes too

    def test_rms_norm_of_two_types(self):
        x, w = self.x.bfloat16(), torch.rand(1000, device=DEVICE)

        def norm(x):
            return torch.nn.functional.rms_norm(x, (1000,), w, 1e-5)
        for call in (lambda: torch.func.grad(lambda x: norm(x).float().square().sum())(x),
                     lambda: torch.func.vmap(norm)(x.view(2, 40, 1000)),
                     lambda: torch.func.jvp(norm, (x,), (x.cos(),))):
            self.compare(call, taken=None, rtol=1.6e-2, atol=1e-2)

        def traced():
            return str(make_fx(norm)(x).graph)
        torch.ops.kiln.disable()
        theirs = traced()
        torch.ops.kiln.enable("place=" + ("gpu" if DEVICE == "cuda" else "cpu"))
        self.assertEqual(traced(), theirs)
        torch.ops.kiln.disable()

    def test_gradient_of_a_gradient(self):
        def call():
            x = self.x.clone().requires_grad_()
            first, = torch.autograd.grad(loss_of(x, self.t), x, create_graph=True)
            return torch.autograd.grad(1e4 * first.square().sum(), x)[0]
        self.compare(call, taken=True)

    def test_many_gradients_at_once(self):
        def call():
            x = self.x.clone().requires_grad_()
            losses = torch.nn.functional.cross_entropy(x, self.t, reduction="none")
            return torch.autograd.grad(losses, x, torch.eye(80, device=DEVICE)[:3],
                                       is_grads_batched=True)[0]
        self.compare(call, taken=True)

    def test_functions_of_functions(self):
        self.compare(lambda: torch.func.grad(loss_of)(self.x, self.t), taken=False)
        halves = self.x.view(2, 40, 1000).repeat(1, 2, 1), self.t.view(2, 40).repeat(1, 2)
        self.compare(lambda: torch.func.vmap(loss_of)(*halves), taken=None)
        self.compare(lambda: torch.func.jvp(lambda x: loss_of(x, self.t), (self.x,),
                                            (torch.ones_like(self.x),)), taken=False)

    def test_tangents(self):
        def call():
            with torch.autograd.forward_ad.dual_level():
                x = torch.autograd.forward_ad.make_dual(self.x, self.x.cos())
                return torch.autograd.forward_ad.unpack_dual(loss_of(x, self.t)).tangent
        self.compare(call, taken=False)

    def test_fake_tensors(self):
        def call():
            with FakeTensorMode() as mode:
                x = mode.from_tensor(self.x).requires_grad_()
                loss = loss_of(x, mode.from_tensor(self.t))
                loss.backward()
            return str(loss.shape), str(loss.dtype), str(x.grad.shape)
        torch.ops.kiln.disable()
        theirs = call()
        torch.ops.kiln.enable("place=" + ("gpu" if DEVICE == "cuda" else "cpu"))
        before = calls(taken=False)
        self.assertEqual(call(), theirs)
        self.assertGreater(calls(taken=False), before)
        torch.ops.kiln.disable()

    def test_traced_graphs(self):
        def call():
            return str(make_fx(loss_of)(self.x, self.t).graph)
        torch.ops.kiln.disable()
        theirs = call()
        torch.ops.kiln.enable("place=" + ("gpu" if DEVICE == "cuda" else "cpu"))
        self.assertEqual(call(), theirs)
        self.assertIn("_log_softmax", theirs)
        torch.ops.kiln.disable()

    def test_without_gradients(self):
        def call():
            with torch.no_grad():
                return loss_of(self.x, self.t)
        self.compare(call, taken=True)
        with torch.inference_mode():  # below autograd: what it is composed of
            torch.ops.kiln.enable("place=" + ("gpu" if DEVICE == "cuda" else "cpu"))
            torch.testing.assert_close(loss_of(self.x, self.t), call())
            torch.ops.kiln.disable()


if __name__ == "__main__":
    torch.ops.load_library(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
