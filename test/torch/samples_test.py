"""PyTorch's own sample inputs of the routed ops, and of those made of them: as they come, with gaps in
memory, and transposed, in every dtype that PyTorch names for the device. Results and gradients beside
those from before the routers were there; what Kiln does not take must be the same bit by bit. Exit
code 77: no torch here. Usage: samples_test.py LIBKILN_TORCH [unittest's arguments]"""

import contextlib
import sys
import unittest

try:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_leaves
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)

NAMES = {"nn.functional.layer_norm", "native_layer_norm", "nn.functional.rms_norm", "softmax",
         "nn.functional.softmin", "log_softmax", "nn.functional.cross_entropy", "nn.functional.gelu",
         "nn.functional.silu", "nn.functional.dropout", "native_dropout_backward"}
TAKEN = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# Of a row of one element ATen's gradient is what rounding leaves, 1e-5, where 0 is right.
TOLERANCES = {torch.float32: 3e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
ROUTED = ["native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm",
          "_fused_rms_norm_backward", "_softmax", "_softmax_backward_data", "_log_softmax",
          "_log_softmax_backward_data", "gelu", "gelu_backward", "silu", "silu_backward",
          "native_dropout_backward"]


def transposed(sample):
    def turn(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() < 2:
            return tensor
        turned = tensor.detach().mT.contiguous().mT
        return turned.requires_grad_(tensor.requires_grad)
    return sample.transform(turn)


class Case:
    """One call of an op, and what it gave before the routers were there."""

    def __init__(self, op, dtype, label, sample):
        self.op, self.dtype, self.sample = op, dtype, sample
        self.label = f"{op.formatted_name} {dtype} {label}: {sample.summary()}"
        self.plain = self.run()

    def run(self):
        """Results, then gradients for fixed cotangents."""
        if "dropout" in self.op.name:
            torch.manual_seed(0)
        sample = self.sample
        results = [one for one in tree_leaves(self.op(sample.input, *sample.args, **sample.kwargs))
                   if isinstance(one, torch.Tensor)]
        leaves = [one for one in tree_leaves((sample.input, sample.args, sample.kwargs))
                  if isinstance(one, torch.Tensor) and one.requires_grad]
        outputs = [one for one in results if one.requires_grad]
        if not leaves or not outputs:
            return results
        cotangents = [torch.linspace(-1, 1.5, one.numel(), device=one.device).to(one.dtype)
                      .view(one.shape) for one in outputs]
        gradients = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
        return [one.detach() for one in results] + list(gradients)

    def check(self, test):
        ours = self.run()
        test.assertEqual(len(ours), len(self.plain))
        for mine, theirs in zip(ours, self.plain):
            test.assertEqual(mine is None, theirs is None)
            if theirs is None:
                continue
            if self.draws():  # another mask: the same where both have kept an element
                both = (mine != 0) & (theirs != 0)
                mine, theirs = mine * both, theirs * both
            torch.testing.assert_close(  # values, sizes, strides, dtype, device
                mine, theirs, equal_nan=True, check_stride=True, **self.tolerances_of(theirs))

    def draws(self):
        return self.op.name == "nn.functional.dropout" and not self.on_cpu()

    def tolerances_of(self, theirs):
        tolerance = TOLERANCES.get(self.dtype, 0)
        if "rms_norm" in self.op.name and self.on_cpu():
            # A kernel takes the place of ATen's formula, for all dtypes.
            tolerance = max(tolerance, 1e-6)
        largest = theirs.abs().nan_to_num(0, 0).max().item() if theirs.numel() else 0
        return {"rtol": tolerance, "atol": tolerance * (1 + largest) if tolerance else 0}

    def on_cpu(self):
        return any(isinstance(one, torch.Tensor) and one.device.type == "cpu"
                   for one in tree_leaves((self.sample.input, self.sample.args)))


def cases_of(op, device):
    differentiable = op.supported_backward_dtypes(device)
    for dtype in sorted(op.supported_dtypes(device), key=str):
        samples = list(op.sample_inputs(device, dtype, requires_grad=dtype in differentiable))
        if device == "cpu" and dtype.itemsize == 2:
            samples = samples[::2]  # each shape is a kernel more for the host's compiler
        for sample in samples:
            yield Case(op, dtype, "as it comes", sample)
            if dtype in TAKEN or device != "cpu":  # others are refused whatever their strides
                yield Case(op, dtype, "with gaps", sample.noncontiguous())
                yield Case(op, dtype, "transposed", transposed(sample))


def refusal_of(op, wrong):
    sample = wrong.sample_input
    try:
        op(sample.input, *sample.args, **sample.kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return type(error), str(error)
    return None


class SampleInputs(unittest.TestCase):
    def agree(self, device, place):
        ops = [op for op in op_db if op.name in NAMES]
        self.assertEqual({op.name for op in ops}, NAMES)
        cases = [case for op in ops for case in cases_of(op, device)]
        wrong = [(op, one) for op in ops if op.error_inputs_func for one in op.error_inputs(device)]
        refusals = [refusal_of(op, one) for op, one in wrong]
        try:
            torch.ops.kiln.enable("mode=use strict=1 place=" + place)  # every kernel that there can be
            for case in cases:
                if case.dtype in TAKEN:
                    with contextlib.suppress(RuntimeError):  # it is not taken
                        case.run()
            torch.ops.kiln.enable("mode=use strict=0 place=" + place)
            for case in cases:
                with self.subTest(case.label):
                    case.check(self)
            for (op, one), refusal in zip(wrong, refusals):
                self.assertEqual(refusal_of(op, one), refusal, op.name)
            report = torch.ops.kiln.report().splitlines()
        finally:
            torch.ops.kiln.disable()
        for name in ROUTED:
            for dtype in TAKEN.values():
                used = sum(int(line[62:73]) for line in report
                           if line.startswith(name + " ") and f" {dtype} " in line[:52])
                self.assertGreater(used, 0, f"{name} {dtype}")
        print(f"{len(cases)} calls on {device}")

    def test_on_cpu(self):
        self.agree("cpu", "cpu")

    @unittest.skipUnless(torch.cuda.is_available(), "this LibTorch sees no GPU")
    def test_on_gpu(self):
        self.agree("cuda", "gpu")


if __name__ == "__main__":
    torch.ops.load_library(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
