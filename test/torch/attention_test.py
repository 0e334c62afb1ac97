"""scaled_dot_product_attention from Python: PyTorch's own sample inputs of it, a small block of a language
model with checkpoints and autocast, and what traces or wraps tensors. Exit code 77: no torch here.
Usage: attention_test.py LIBKILN_TORCH [unittest's arguments]"""

import os
import sys
import unittest

os.environ["KILN_FIRST_CHECK"] = "0"  # compared with fp64 here
try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PLACE = "place=" + ("gpu" if DEVICE == "cuda" else "cpu")
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
attention = torch.nn.functional.scaled_dot_product_attention


def used(op="scaled_dot_product_attention"):
    lines = torch.ops.kiln.report().splitlines()
    return sum(int(line[62:73]) for line in lines if line.startswith(op + " "))


class Attention(unittest.TestCase):
    def tearDown(self):
        torch.ops.kiln.disable()

    def by_kiln(self, call, options="strict=1"):
        """With kernels, however many calls there are."""
        torch.ops.kiln.enable(f"mode=use {PLACE} {options}")
        try:
            return call()
        finally:
            torch.ops.kiln.disable()

    def assert_near(self, ours, exact, dtype, what=""):
        for mine, right in zip(ours, exact, strict=True):
            self.assertEqual(mine.shape, right.shape, what)
            error = (mine.double() - right.double()).abs().max().item() if mine.numel() else 0
            largest = right.abs().max().item() if mine.numel() else 0
            self.assertLessEqual(error, TOLERANCES[dtype] * (1 + largest), what)


class SampleInputs(Attention):
    def run_sample(self, sample, dtype=None):
        def leaf(one):
            if not isinstance(one, torch.Tensor) or not one.is_floating_point():
                return one
            return one.detach().to(dtype or one.dtype).requires_grad_(one.requires_grad)
        inputs = [leaf(one) for one in (sample.input, *sample.args)]
        named = {name: leaf(one) for name, one in sample.kwargs.items()}
        y = attention(*inputs, **named)
        leaves = [one for one in (*inputs, *named.values())
                  if isinstance(one, torch.Tensor) and one.requires_grad]
        dy = torch.linspace(-1, 1.5, y.numel(), device=y.device).view(y.shape).to(y.dtype)
        return [y.detach(), *torch.autograd.grad(y, leaves, dy)]

    def test_samples(self):
        op, = (op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")
        taken = 0
        for dtype in TOLERANCES:
            samples = list(op.sample_inputs(DEVICE, dtype, requires_grad=True))
            for sample in samples if dtype == torch.float32 else samples[::5]:
                if sample.kwargs.get("dropout_p"):
                    continue  # other masks than ATen's
                with self.subTest(sample.summary()):
                    before = used()
                    ours = self.by_kiln(lambda one=sample: self.run_sample(one), "strict=0")
                    torch.ops.kiln.wait()
                    again = self.by_kiln(lambda one=sample: self.run_sample(one), "strict=0")
                    taken += used() > before
                    with sdpa_kernel(SDPBackend.MATH):
                        exact = self.run_sample(sample, torch.float64)
                    self.assert_near(ours, exact, dtype, "first " + sample.summary())
                    self.assert_near(again, exact, dtype, sample.summary())
        self.assertGreater(taken, 10)


class Block(torch.nn.Module):
    """A pre-norm block as small language models write it."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(),
                                       torch.nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for one in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class LanguageModel(Attention):
    def step(self, dropout, checkpoints=None, autocast=False):
        torch.manual_seed(0)
        blocks = torch.nn.ModuleList(Block(32, 4, dropout) for _ in range(2)).to(DEVICE)
        x = torch.randn(2, 13, 32, device=DEVICE).requires_grad_()
        torch.manual_seed(1)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
            y = x
            for block in blocks:
                y = (block(y) if checkpoints is None
                     else checkpoint(block, y, use_reentrant=checkpoints == "reentrant"))
            loss = y.float().square().mean()
        loss.backward()
        return [loss.detach(), x.grad, *(one.grad for one in blocks.parameters())]

    def test_trains_as_with_aten(self):
        for autocast in False, True:
            theirs = self.step(0, autocast=autocast)
            before = used("attention_backward")
            ours = self.by_kiln(lambda: self.step(0, autocast=autocast))
            self.assertEqual(used("attention_backward"), before + 2)
            self.assert_near(ours, theirs, torch.bfloat16 if autocast else torch.float32)

    def test_checkpoints_draw_what_was_drawn(self):
        first = self.by_kiln(lambda: self.step(0.2), "strict=0")
        for checkpoints in None, "reentrant", "not":
            ours = self.by_kiln(lambda: self.step(0.2, checkpoints), "strict=0")
            self.assert_near(ours, first, torch.float32, checkpoints)
            torch.ops.kiln.wait()

    def test_what_is_saved_does_not_depend_on_kernels(self):
        def saved():
            packed = []
            x, bias = torch.randn(2, 2, 9, 18, device=DEVICE), torch.randn(9, 9, device=DEVICE)
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda one: packed.append((one.shape, one.dtype, one.stride())) or one,
                    lambda one: one):
                y = attention(x.requires_grad_(), x, x, bias.requires_grad_(), dropout_p=0.1)
                torch.autograd.grad(y.sum(), (x, bias))
            return packed
        def busy_first():
            for width in range(20, 32):  # the compiler has other things to do
                torch.nn.functional.layer_norm(torch.randn(2, width, device=DEVICE), [width])
            return saved()
        before = used()
        first = self.by_kiln(busy_first, "strict=0")
        self.assertEqual(used(), before)
        self.assertEqual(self.by_kiln(saved), first)
        self.assertEqual(used(), before + 1)

    def test_heads_that_share_keys(self):
        q, k = torch.randn(2, 6, 7, 8, device=DEVICE), torch.randn(2, 2, 9, 8, device=DEVICE)

        def call(dtype):
            leaves = [one.to(dtype).clone().requires_grad_() for one in (q, k, k)]
            y = attention(*leaves, enable_gqa=True)
            return [y.detach(), *torch.autograd.grad(y.square().sum(), leaves)]
        before = used()
        ours = self.by_kiln(lambda: call(torch.float32))
        self.assertEqual(used(), before + 1)
        self.assert_near(ours, call(torch.float64), torch.float32)


class Layouts(Attention):
    """Where operands, results and gradients begin anywhere."""

    def setUp(self):
        torch.manual_seed(3)

    def same(self, tensors, call, dtype):
        """`call(*tensors)`: of leaves."""
        def run(to):
            leaves = [one.detach().to(to).requires_grad_() for one in tensors]
            y = call(*leaves)
            dy = torch.linspace(-1, 1.5, y.numel(), device=DEVICE).view(y.shape).to(to)
            return [y.detach(), *torch.autograd.grad(y, leaves, dy)]
        with sdpa_kernel(SDPBackend.MATH):
            exact = run(torch.float64)
        before = used()
        first = self.by_kiln(lambda: run(dtype), "strict=0")  # by ATen, if there is no kernel yet
        torch.ops.kiln.wait()
        ours = self.by_kiln(lambda: run(dtype))
        self.assertGreater(used(), before)
        self.assert_near(first, exact, dtype, "first")
        self.assert_near(ours, exact, dtype)

    def test_parts_of_one_tensor_with_gaps(self):
        for width, padded in ((3, 4), (5, 8), (12, 16)):
            packed = torch.randn(2, 16, 3, 2, padded, device=DEVICE)
            for dtype in (torch.float32, torch.bfloat16):
                self.same([packed], lambda x, width=width: attention(
                    *(x[..., :width][:, :, i].transpose(1, 2) for i in range(3))), dtype)

    def test_calls_of_several_biases_at_odd_places(self):
        for width, value_width, rows in ((32, 32, 683), (12, 12, 684), (32, 4, 683)):
            q = torch.randn(2, 3, 1, rows, width, device=DEVICE)
            k = torch.randn(2, 3, 1, 512, width, device=DEVICE)
            v = torch.randn(2, 3, 1, 512, value_width, device=DEVICE)
            bias = torch.randn(2, 1, 1, rows, 512, device=DEVICE)
            self.same([q, k, v, bias], lambda q, k, v, b: attention(q, k, v, b), torch.bfloat16)

    def test_what_hooks_give_back_at_odd_places(self):
        def pack(one):
            arena = torch.empty(one.numel() + 1, dtype=one.dtype, device=one.device)
            return arena[1:].copy_(one.flatten()).view(one.shape)

        def hooked(*operands):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
                return attention(*operands)
        self.same([torch.randn(2, 2, 9, 8, device=DEVICE) for _ in range(3)], hooked, torch.float32)

    def test_a_mask_made_in_inference_mode(self):
        with torch.inference_mode():
            mask = torch.ones(10, 10, dtype=torch.bool, device=DEVICE).tril()
        self.same([torch.randn(2, 2, 10, 8, device=DEVICE) for _ in range(3)],
                  lambda q, k, v: attention(q, k, v, mask), torch.float32)


class HiddenByNumbers(Attention):
    """A float mask hides whole rows and single keys, by -inf, and by numbers as programs use them."""

    def run_one(self, dtype, width, number, batch, heads, rows):
        torch.manual_seed(4)
        q, k, v, dy = (torch.randn(batch, heads, rows, width, device=DEVICE).to(dtype)
                       for _ in range(4))
        bias = torch.randn(1, heads, rows, rows, device=DEVICE)
        seen = torch.arange(rows, device=DEVICE) % 7 != 3
        bias[:, :, ~seen] = number
        bias[:, :, :, 5::9] = number
        bias = bias.to(dtype)
        dy = dy * seen[:, None]  # as programs that hide queries have it

        def ours():
            leaves = [one.clone().requires_grad_() for one in (q, k, v, bias)]
            y = attention(*leaves[:3], attn_mask=leaves[3])
            return [y.detach(), *torch.autograd.grad(y, leaves, dy)]
        found = self.by_kiln(ours)
        leaves = [one.double().requires_grad_() for one in (q, k, v, bias)]
        open_rows = torch.where(seen[:, None], leaves[3], 0.0)
        scores = leaves[0] @ leaves[1].transpose(-1, -2) / width ** 0.5 + open_rows
        y = scores.softmax(-1) @ leaves[2]
        exact = [y.detach(), *torch.autograd.grad(y, leaves, dy.double())]
        if number > -float("inf") and not (dtype != torch.float32 and number < -1e37):
            mean = v.double().mean(-2, keepdim=True).expand_as(y)[:, :, ~seen]
            spread = (found[0].double()[:, :, ~seen] - mean).abs().max().item()
            if number <= -1e9:
                self.assertLess(spread, TOLERANCES[dtype])
        for one in found:
            self.assertTrue(one.isfinite().all())
        for i in (0, 1, 4):
            found[i], exact[i] = found[i][:, :, seen], exact[i][:, :, seen]
        self.assert_near(found, exact, dtype, f"{dtype} {width} {number} {rows}")

    def test_all(self):
        for dtype in TOLERANCES:
            lowest = torch.finfo(dtype).min
            for number in (-float("inf"), -1e4, -1e9, -3e9, -1e12, -1e30, lowest):
                if lowest <= number or number == -float("inf"):
                    for width in (8, 16, 32, 64):
                        with self.subTest(dtype=dtype, number=number, width=width):
                            self.run_one(dtype, width, number, 2, 2, 37)
                            if width < 64 and dtype == torch.bfloat16:  # blocks hold the bias
                                self.run_one(dtype, width, number, 40, 4, 128)


class Transforms(Attention):
    def setUp(self):
        torch.manual_seed(2)
        self.x = torch.randn(2, 2, 10, 8, device=DEVICE)

    def same(self, call, taken):
        with sdpa_kernel(SDPBackend.MATH):
            theirs = call()
        before = used()
        for _ in range(2):
            with sdpa_kernel(SDPBackend.MATH):
                ours = self.by_kiln(call, "strict=0")
            torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-4)
            torch.ops.kiln.wait()
        self.assertEqual(used() > before, taken)

    def test_gradients_of_gradients_and_many_at_once(self):
        def second():
            x = self.x.clone().requires_grad_()
            first, = torch.autograd.grad(attention(x, x, x).sum(), x, create_graph=True)
            return torch.autograd.grad(first.square().sum(), x)[0]

        def many():
            x = self.x.clone().requires_grad_()
            y = attention(x, x, x)
            return torch.autograd.grad(y, x, torch.stack((y.detach(), y.detach().cos())),
                                       is_grads_batched=True)[0]
        self.same(second, taken=True)
        self.same(many, taken=True)

    def test_functions_of_functions(self):
        self.same(lambda: torch.func.grad(lambda x: attention(x, x, x).sum())(self.x), taken=False)
        self.same(lambda: torch.vmap(lambda x: attention(x, x, x))(self.x), taken=False)
        self.same(lambda: torch.func.jvp(lambda x: attention(x, x, x), (self.x,), (self.x,))[1],
                  taken=False)

    def test_compiled_and_exported(self):
        class Module(torch.nn.Module):
            def forward(self, x):
                return attention(x, x, x)
        compiled = torch.compile(Module(), backend="aot_eager")
        self.same(lambda: compiled(self.x), taken=False)
        graph = str(torch.export.export(Module(), (self.x,)).graph)
        ours = self.by_kiln(lambda: str(torch.export.export(Module(), (self.x,)).graph), "strict=0")
        self.assertEqual(ours, graph)

    def test_nested(self):
        rows = [torch.randn(2, n, 8, device=DEVICE) for n in (5, 7)]

        def call():
            nested = torch.nested.nested_tensor(rows)
            return torch.nested.to_padded_tensor(attention(nested, nested, nested), 0.0)
        self.same(call, taken=False)


if __name__ == "__main__":
    torch.ops.load_library(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
