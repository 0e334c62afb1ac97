"""Attention by the cost model's first choice: nothing is refused for what the assembler spills."""

import unittest

from command import CommandTest, needs_nvrtc

# Widths of rows and settings whose choices are near the limit of registers.
NEAR = [
    (32, "window_left=200,window_right=0"),
    (64, "window_left=200,window_right=0"),
    (64, "causal=first,dropout=0.1"),
    (96, "bias=shared"),
    (128, "dropout=0.1"),
    (192, "bias=shared"),
    (256, "causal=first"),
    (256, "mask=own"),
]


@needs_nvrtc
class Defaults(CommandTest):
    def test_first_choices_do_not_spill(self):
        for width, settings in NEAR:
            with self.subTest(width=width, settings=settings):
                done = self.run_command("compile", "--op=attention", f"--shape=2x16x1024x{width}",
                                        "--dtype=bf16", f"--set={settings}", "--backward",
                                        "--arch=sm_90a")
                self.assertNotIn("refused", done.error + done.out)


if __name__ == "__main__":
    unittest.main()
