"""What kernel-compile says to bad input: what is wrong with its numbers, and what is allowed."""

import json
import subprocess
import unittest

from command import GATE, LAYER_NORM, CommandTest, needs_nvrtc

SOFTMAX = """func.func @f(%x: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = kiln.softmax %x {scale = 1.0 : f32} : tensor<?x128xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
"""


def layer_norm(x="tensor<?x128xbf16>", gamma="tensor<128xf32>"):
    return f"""func.func @f(%x: {x}, %gamma: {gamma}, %beta: tensor<128xf32>)
    -> ({x}, tensor<?xf32>, tensor<?xf32>) {{
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {{eps = 1.0e-05 : f32}}
      : ({x}, {gamma}, tensor<128xf32>) -> ({x}, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : {x}, tensor<?xf32>, tensor<?xf32>
}}
"""


def schedule(**changes):
    fields = {"lanes": 16, "vector": 8, "rows": 1, "threads": 128, "blocks": 1, "grid": "one_shot",
              "keep": "registers", "launch": "plain", **changes}
    return "#kiln.schedule<" + ", ".join(f"{k} = {v}" for k, v in fields.items()) + ">"


class Modules(CommandTest):
    def refuses_text(self, text, says, *arguments):
        path = self.write("bad.mlir", text)
        return self.refuses("compile", path, "--emit=cuda", *arguments, says=says)

    def test_malformed(self):
        done = self.refuses_text(GATE.replace("arith.mulf", "arith.mulf oops"), "error")
        self.assertRegex(done.error, r"bad\.mlir:2:\d+")

    def test_empty_and_binary(self):
        self.refuses_text("", "bad.mlir")
        (self.folder / "binary.mlir").write_bytes(bytes(range(256)) * 40)
        self.refuses("compile", self.folder / "binary.mlir", says="binary.mlir")

    def test_unknown_op(self):
        self.refuses_text(GATE.replace("arith.mulf", "arith.mulk"), "arith.mulk")

    def test_wrong_shape(self):
        done = self.refuses_text(layer_norm(gamma="tensor<64xf32>"), ["64", "128"])
        self.assertRegex(done.error, r"bad\.mlir:\d+:\d+")

    def test_wrong_rank(self):
        self.refuses_text(layer_norm(gamma="tensor<1x128xf32>"), "gamma")

    def test_wrong_dtype(self):
        self.refuses_text(layer_norm(x="tensor<?x128xi32>"), "i32")

    def test_no_gradient(self):
        text = GATE.replace("arith.mulf", "arith.remf")
        done = self.refuses_text(text, "arith.remf", "--backward")
        self.assertRegex(done.error, r"bad\.mlir:2:\d+")

    def test_unknown_function(self):
        self.refuses_text(GATE, ["nosuch", "gate"], "--function=nosuch")

    def test_places_of_what_is_no_function(self):
        for text, says in [("func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> {\n"
                            "  %y = math.exp %x : tensor<*xf32>\n"
                            "  return %y : tensor<*xf32>\n}", "bad.mlir:1:14: error: argument 0"),
                           ("func.func @f(%x: tensor<?x8xf32>) {\n  return\n}",
                            "bad.mlir:1:1: error: 'f' returns nothing"),
                           ("func.func @f(%x: tensor<?x0xf32>) -> tensor<?x0xf32> {\n"
                            "  %y = math.exp %x : tensor<?x0xf32>\n"
                            "  return %y : tensor<?x0xf32>\n}",
                            "bad.mlir:2:8: error: rows of 0 elements"),
                           ("(" * 20000, "bad.mlir:1:201: error: brackets")]:
            for direction in [[], ["--backward"]]:
                with self.subTest(says):
                    self.refuses_text(text, says, *direction)

    def test_too_many_rows(self):
        for verb in ["compile", "plan", "inspect"]:
            with self.subTest(verb):
                self.refuses(verb, "--op=softmax", "--shape=2147483649x8",
                             says="has 2147483649 rows, a kernel counts up to 2147483648")
        path = self.write("gate.mlir", GATE)
        for verb in ["run", "plan", "inspect"]:
            for rows in ["3000000000", "99999999999999999"]:
                with self.subTest(verb):
                    self.refuses(verb, path, f"--sizes={rows}",
                                 says=[" rows, a kernel counts up to 2147483648"])

    def test_names_reach_no_terminal(self):
        """Neither as they are nor in the text that is compiled."""
        self.refuses_text(GATE.replace("@gate", '@"a\\1B]0;x\\07"'), r"'a\x1b]0;x\x07'")
        self.refuses_text(GATE.replace("arith.mulf", '"\\1B[31m"'), r"bad.mlir:2:")
        done = self.refuses("compile", "bad\x1b[31m.mlir", says=r"bad\x1b[31m.mlir")
        self.assertNotIn("\x1b", done.error)
        workload = self.write("w.txt", "gate.mlir 8 - 50% function=\x1b[31m\n"
                              "soft\x1bmax 8x8 f32 10%\n")
        self.write("gate.mlir", GATE)
        done = self.run_command("compile", f"--workload={workload}", "--emit=cuda", "-o", "out",
                                code=1)
        self.assertNotIn("\x1b", done.out + done.error)
        json.loads(self.run_command("compile", f"--workload={workload}", "--emit=cuda", "-o", "out",
                                    "--json", code=1).out)

    def test_missing_file(self):
        self.refuses("compile", "nosuch.mlir", says=["nosuch.mlir", "No such file"])


class Options(CommandTest):
    def test_unknown_arch(self):
        self.refuses("compile", *LAYER_NORM, "--arch=sm_61", code=2, says=["sm_61", "sm_90a"])

    def test_unknown_op(self):
        self.refuses("compile", "--op=layernorm", "--shape=8x8", code=2,
                     says=["layernorm", "layer_norm"])

    def test_bad_shape(self):
        for shape in ["8xbad", "8x", "", "-4x8", "99999999999999999999x8"]:
            with self.subTest(shape):
                self.run_command("compile", "--op=layer_norm", f"--shape={shape}",
                                 code=2 if shape == "" else 1)

    def test_bad_setting(self):
        attention = ["compile", "--op=attention", "--shape=2x4x8x16", "--emit=cuda"]
        for setting, says in [("casual=last", "did you mean 'causal'?"),
                              ("causal=yes", "allowed is first or last"),
                              ("causal", "'causal' is no setting: a name and a value"),
                              ("key_heads=3", "heads of query, key and value are [4, 3, 3]"),
                              ("keys=8,keys=9", "is given 'keys' twice")]:
            with self.subTest(setting):
                self.refuses(*attention, f"--set={setting}", says=says)
        self.refuses("compile", "--op=softmax", "--shape=8x8", "--set=causal=last",
                     says="op 'softmax' has no settings")
        self.refuses("compile", "--op=attention", "--shape=8x8", says="give heads x queries x width")
        workload = self.write("w.txt", "attention 2x4x8x16 bf16 1 casual=last\n")
        self.refuses("plan", f"--workload={workload}", says="did you mean 'causal'?")

    def test_bad_dtype(self):
        self.refuses("compile", "--op=layer_norm", "--shape=8x8", "--dtype=fp4", code=2,
                     says=["fp4", "bf16"])

    def test_unknown_stage(self):
        path = self.write("a.mlir", GATE)
        self.refuses("compile", path, "--from=nosuch", code=2, says=["nosuch", "scheduled"])


class Schedules(CommandTest):
    def test_malformed(self):
        self.refuses("compile", *LAYER_NORM, "--schedule=#kiln.schedule<lanes = >", says="schedule")

    def test_too_much_shared_memory(self):
        # Two rows of 13,376 floats in shared memory: 107,008 bytes.
        text = SOFTMAX.replace("128", "13376")
        asked = schedule(lanes=128, vector=4, rows=2, keep="shared")
        done = self.refuses("compile", self.write("wide.mlir", text), "--emit=cuda",
                            "--arch=sm_86", f"--schedule={asked}", code=3,
                            says="sm_86 allows 101376 a block")
        self.assertRegex(done.error, r"\d+ bytes of shared memory asked")

    def test_too_many_threads(self):
        asked = schedule(threads=2048)
        self.refuses("compile", *LAYER_NORM, "--emit=cuda", f"--schedule={asked}", code=1,
                     says=["2048", "1024"])

    def test_too_many_registers(self):
        asked = schedule(threads=1024, blocks=8)
        self.refuses("compile", *LAYER_NORM, "--emit=cuda", f"--schedule={asked}", code=3,
                     says=["8192", "2048"])


class Workloads(CommandTest):
    def test_bad_lines_are_told_and_the_rest_is_done(self):
        path = self.write("w.txt", "# comment\n"
                          "layer_norm 64x128 bf16 50%\n"
                          "layer_norm 64xwide bf16 10%\n"
                          "layer_norm 64x128\n"
                          "nosuch_op 64x128 f32 10%\n"
                          "layer_norm 64x128 f32 140%\n"
                          "softmax 64x128 f32 0.1\n")
        done = self.refuses("compile", f"--workload={path}", "--emit=cuda", "-o", "out", code=1,
                            says=["w.txt:3: ", "w.txt:4: ", "nosuch_op", "w.txt:6: "])
        self.assertNotIn("w.txt:2:", done.error)
        names = sorted(path.name for path in (self.folder / "out").iterdir())
        self.assertEqual(names, ["layer_norm_64x128_bf16.cu", "softmax_64x128_f32.cu"])


class Surroundings(CommandTest):
    def test_nvrtc_missing(self):
        self.refuses("compile", *LAYER_NORM, "--nvrtc=/nonexistent/libnvrtc.so.13",
                     says="/nonexistent/libnvrtc.so.13")
        self.run_command("compile", *LAYER_NORM, "--nvrtc=/nonexistent/libnvrtc.so.13",
                         "--emit=cuda")  # the text needs none

    @needs_nvrtc
    def test_truncated_cubin(self):
        self.run_command("compile", *LAYER_NORM, "-o", "whole.cubin")
        self.run_command("inspect", "whole.cubin")
        whole = (self.folder / "whole.cubin").read_bytes()
        for length in [0, 3, 64, len(whole) // 3, len(whole) // 2, len(whole) - 1]:
            (self.folder / "cut.cubin").write_bytes(whole[:length])
            with self.subTest(length):
                self.refuses("inspect", "cut.cubin", says="cut.cubin")

    @unittest.skipIf(subprocess.run(["sh", "-c", "nvidia-smi -L"], capture_output=True)
                     .returncode == 0, "this machine has a GPU")
    @needs_nvrtc
    def test_no_gpu(self):
        self.refuses("run", *LAYER_NORM, "--target=gpu", says="error")


if __name__ == "__main__":
    unittest.main()
