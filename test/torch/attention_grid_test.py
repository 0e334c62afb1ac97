"""scaled_dot_product_attention by the rule and over the grid of FlashAttention's own tests (Dao et al.,
FlashAttention, tests/test_flash_attn.py): against the formula in fp32, of the same bf16 or fp16 inputs, the
largest error of the output and of each gradient is at most twice that of the formula in bf16 or fp16, whose
products are in another order. A test for each width of heads, of a slice of the grid, on a CPU on the host
target; KILN_WHOLE_GRID=1 takes all of it on a GPU, which compiles some thousand kernels on one core, about
three seconds a case; KILN_GRID_PART=2/16 takes the third of sixteen parts, so that as many processes share
the work. Calls without a mask whose heads share keys get one more dimension in front, since Kiln leaves
those of four dimensions to ATen on a GPU. Exit code 77: no torch here.
Usage: attention_grid_test.py LIBKILN_TORCH [unittest's arguments, such as -k width_064]"""

import itertools
import os
import re
import sys
import unittest
import zlib
from collections import Counter
from typing import NamedTuple

os.environ["KILN_FIRST_CHECK"] = "0"  # compared with fp32 here
try:
    import torch
except ImportError as error:
    print("skipped:", error, "in", sys.executable)
    sys.exit(77)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PLACE = "gpu" if DEVICE == "cuda" else "cpu"
IS_WHOLE = DEVICE == "cuda" and os.environ.get("KILN_WHOLE_GRID") == "1"
BATCH = 4 if DEVICE == "cuda" else 1
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
KEY_HEADS = {"multi-head": 6, "grouped": 3, "multi-query": 1}  # of six heads of queries
WIDTHS = (32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256)
LENGTHS = ((113, 203), (113, 211), (128, 217), (108, 256), (256, 512), (512, 256), (1024, 1024),
           (1023, 1024), (1024, 1023), (2048, 2048))  # of queries and keys
NAMES = ("output", "dq", "dk", "dv")
ROUTES = ("scaled_dot_product_attention", "attention_backward")
ROW = re.compile(rf"^({'|'.join(ROUTES)}) +(\S.*?) +(\d+) +(\d+)  (.*)$", re.MULTILINE)
# Where each query sees one key, gradients of query and key are zero, and so they are in bf16. A kernel finds
# them as differences of sums that it adds up in another order: of numbers of about ten, in fp32.
ABSOLUTE = 1e-5
PART = os.environ.get("KILN_GRID_PART", "0/1")
if not re.fullmatch(r"\d+/\d+", PART) or not int(PART.split("/")[0]) < int(PART.split("/")[1]):
    sys.exit(f"KILN_GRID_PART={PART}: it must be a part and a number of parts, 0/16 to 15/16")
LEAST_SHARE = 0.95  # of the calls of a width, which have Kiln's kernels both ways


class Case(NamedTuple):
    width: int
    dtype: str
    heads: str
    causal: bool
    window: bool
    queries: int
    keys: int

    def __str__(self):
        forms = [form for form in ("causal", "window") if getattr(self, form)]
        return " ".join([f"{self.queries}x{self.keys}", f"width {self.width}", self.dtype, self.heads, *forms])


def cases_of(width):
    """Of the slice two, which differ in dtype and in all else but the width. Those of all widths have each
    kind of heads, each pair of forms and each of the three shortest lengths several times."""
    forms = list(itertools.product((False, True), repeat=2))
    if IS_WHOLE:
        part, parts = map(int, PART.split("/"))
        grid = itertools.islice(itertools.product(DTYPES, KEY_HEADS, forms, LENGTHS), part, None, parts)
    else:
        at = WIDTHS.index(width)
        grid = [(dtype, list(KEY_HEADS)[(at + i) % 3], forms[(at + i) % 4], LENGTHS[(at // 3 + i) % 3])
                for i, dtype in enumerate(DTYPES)]
    return [Case(width, dtype, heads, *form, *lengths) for dtype, heads, form, lengths in grid]


class Inputs:
    """Of a case, the same whenever they are made; rows of all heads beside each other, as models have them."""

    def __init__(self, case):
        self.case = case
        made = torch.Generator(DEVICE).manual_seed(zlib.crc32(str(case).encode()))

        def rows(count, heads):
            return torch.randn(BATCH, count, heads, case.width, generator=made, device=DEVICE,
                               dtype=DTYPES[case.dtype]).transpose(1, 2)
        shared = KEY_HEADS[case.heads]
        self.leaves = [rows(case.queries, 6), rows(case.keys, shared), rows(case.keys, shared)]
        self.cotangent = rows(case.queries, 6)
        sides = torch.randint(case.keys, (2,), generator=made, device=DEVICE).tolist()
        self.seen = self.mask_of(*sides)

    def mask_of(self, left, right):
        """True where a query sees a key: the first query stands at the first key."""
        queries = torch.arange(self.case.queries, device=DEVICE).unsqueeze(-1)
        keys = torch.arange(self.case.keys, device=DEVICE)
        seen = torch.ones_like(keys >= queries)
        if self.case.causal:
            seen &= keys <= queries
        if self.case.window:
            seen &= (keys >= queries - left) & (keys <= queries + right)
        return seen

    def results(self, function, dtype=None):
        """The output, and the gradients of query, key and value."""
        leaves = [one.to(dtype or one.dtype).detach().requires_grad_() for one in self.leaves]
        y = function(*leaves)
        return [y.detach(), *torch.autograd.grad(y, leaves, self.cotangent.to(y.dtype))]


def formula(inputs, scale_first):
    """A query that sees no key gets zeros, as from SDPA."""
    def call(q, k, v):
        k, v = (one.repeat_interleave(q.size(1) // one.size(1), 1) for one in (k, v))
        scale = q.size(-1) ** -0.5
        scores = (q * scale) @ k.mT if scale_first else (q @ k.mT) * scale
        probabilities = torch.softmax(scores.masked_fill(~inputs.seen, float("-inf")), -1)
        return probabilities.masked_fill(~inputs.seen.any(-1, keepdim=True), 0) @ v
    return call


def by_sdpa(inputs):
    """A mask says what is causal too, because SDPA takes one or the other."""
    case = inputs.case

    def call(*tensors):
        shared = case.heads != "multi-head"
        leading = shared and not case.window
        y = torch.nn.functional.scaled_dot_product_attention(
            *(one.unsqueeze(0) if leading else one for one in tensors),
            attn_mask=inputs.seen if case.window else None,
            is_causal=case.causal and not case.window, enable_gqa=shared)
        return y.squeeze(0) if leading else y
    return call


def calls_of_report():
    """Calls with Kiln's kernels by direction, and those without by the reason that the report has."""
    used, left = Counter(), Counter()
    for op, label, calls, by_kiln, text in ROW.findall(torch.ops.kiln.report()):
        used[op] += int(by_kiln)
        left[f"{op}: {text}" if text.startswith("not taken: ") else f"{op} of {label}: {text}"] += (
            int(calls) - int(by_kiln))
    return used, left


def errors_of(ours, exact):
    return [(mine.float() - right).abs().max().item() for mine, right in zip(ours, exact, strict=True)]


class Grid(unittest.TestCase):
    calls, taken, reasons = 0, 0, Counter()
    worst = {}  # ratio of errors, and its case, by width and dtype

    def setUp(self):
        torch.ops.kiln.enable(f"mode=use place={PLACE} strict=0")
        self.addCleanup(torch.ops.kiln.disable)

    @classmethod
    def tearDownClass(cls):
        print(f"\n{cls.taken} of {cls.calls} cases by Kiln, forward and backward")
        for reason, count in cls.reasons.most_common():
            print(f"{count} left to ATen: {reason}")
        print("largest errors as multiples of the formula's in the same type (at most 2):")
        for (width, dtype), (ratio, what) in sorted(cls.worst.items()):
            print(f"  width {width:3} {dtype}: {ratio:.3f}, {what}")

    def is_by_kiln(self, before):
        used, left = calls_of_report()
        taken = all(used[op] > before[0][op] for op in ROUTES)
        Grid.calls += 1
        Grid.taken += taken
        if not taken:
            Grid.reasons.update((left - before[1]).keys() or ["counted nowhere"])
        return taken

    def check(self, case):
        """Whether Kiln computed it."""
        inputs = Inputs(case)
        before = calls_of_report()
        ours = inputs.results(by_sdpa(inputs))
        taken = self.is_by_kiln(before)
        torch.ops.kiln.disable()  # the formulas have softmax
        exact = inputs.results(formula(inputs, scale_first=False), torch.float)
        theirs = inputs.results(formula(inputs, scale_first=True))
        torch.ops.kiln.enable(f"mode=use place={PLACE} strict=0")
        for name, error, bound in zip(NAMES, errors_of(ours, exact), errors_of(theirs, exact)):
            with self.subTest(f"{name} of {case}"):
                if taken:
                    ratio = error / (bound + ABSOLUTE / 2)
                    among = Grid.worst.get((case.width, case.dtype), (0, ""))
                    Grid.worst[case.width, case.dtype] = max(among, (ratio, f"{name} of {case}"))
                self.assertLessEqual(error, 2 * bound + ABSOLUTE,
                                     f"{name} of {case}: error {error:.3g}, of the formula in {case.dtype} "
                                     f"{bound:.3g}, computed by {'Kiln' if taken else 'ATen'}")
        return taken

    def run_width(self, width):
        cases = cases_of(width)
        for case in cases:  # ATen's, while kernels are compiled
            inputs = Inputs(case)
            inputs.results(by_sdpa(inputs))
        torch.ops.kiln.wait()
        taken = sum([self.check(case) for case in cases])
        self.assertGreaterEqual(taken, LEAST_SHARE * len(cases),
                                f"by Kiln {taken} of {len(cases)}; {dict(Grid.reasons)}")


for one in WIDTHS:
    setattr(Grid, f"test_width_{one:03}", lambda self, width=one: self.run_width(width))


if __name__ == "__main__":
    torch.ops.load_library(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
