"""Misspelt words: what is allowed in their place, and the nearest of it."""

import unittest

from command import GATE, LAYER_NORM, CommandTest


class CommandLine(CommandTest):
    def suggests(self, *arguments, word, code=2):
        self.refuses(*arguments, code=code, says=f"did you mean '{word}'?")

    def test_verbs(self):
        self.suggests("complie", word="compile")
        self.suggests("compile-", word="compile")
        self.suggests("cache", "mereg", word="merge")
        self.suggests("Tune", word="tune")

    def test_options(self):
        self.suggests("compile", "--dtyp=bf16", word="--dtype")
        self.suggests("compile", *LAYER_NORM, "--bakward", word="--backward")
        self.suggests("compile", *LAYER_NORM, "--save_temps=x", word="--save-temps")
        self.suggests("cache", "ls", "a.db", "--op=gelu", word="--ops")

    def test_values(self):
        self.suggests("compile", "--op=layernorm", "--shape=8x8", word="layer_norm")
        self.suggests("compile", "--op=gelu", "--shape=8x8", "--dtype=bf61", word="bf16")
        self.suggests("compile", *LAYER_NORM, "--arch=sm90", word="sm_90a")
        self.suggests("compile", *LAYER_NORM, "--emit=cdua", word="cuda")
        self.suggests("compile", "a.mlir", "--from=schedule", word="scheduled")
        self.suggests("tune", *LAYER_NORM, "--effort=quik", word="quick")
        self.suggests("tune", *LAYER_NORM, "--device=simulate", word="simulated")
        self.suggests("run", *LAYER_NORM, "--target=hots", word="host")
        self.suggests("report", "a.db", "--format=htlm", word="html")

    def test_nothing_is_near(self):
        for words in (["paint"], ["compile", "--colour"], ["---"],
                      ["compile", "--=x"], [""], ["compile", "-x"], ["compile", *LAYER_NORM, "--emit=pdf"],
                      ["compile", *LAYER_NORM, "--emit=" + "cuda" * 100]):
            with self.subTest(words):
                self.assertNotIn("did you mean", self.run_command(*words, code=2).error)

    def test_hidden_verbs_are_not_told(self):
        for word in ("worke", "generat"):
            error = self.run_command(word, code=2).error
            self.assertNotIn("did you mean", error)
            self.assertNotIn("worker", error)

    def test_in_workloads(self):
        self.write("w.txt", "layernorm 8x8 f32 1\nlayer_norm 8x8 bf61 1\n"
                            "layer_norm 8x8 f32 1 forward,bakward\n")
        done = self.run_command("plan", "--workload=w.txt", code=1)
        self.assertIn("did you mean 'layer_norm'?", done.error)
        self.assertIn("w.txt:2: 'bf61'", done.error)
        self.assertIn("did you mean 'bf16'?", done.error)
        self.assertIn("did you mean 'backward'?", done.error)


class Texts(CommandTest):
    """Names in MLIR: errors with their place (more of them in test/diagnostics/misspelt.mlir)."""

    def refuses_text(self, text, *says, arguments=()):
        path = self.write("bad.mlir", text)
        self.refuses("compile", path, "--emit=cuda", *arguments, says=says)

    def test_operations_and_attributes(self):
        first = GATE.replace("%x: tensor<?x128xf32>", "%x: tensor<?x128xf32> {kiln.oldre}")
        self.refuses_text(first, "bad.mlir:1:17: error: unknown attribute 'kiln.oldre'",
                          "kiln.older", "did you mean 'kiln.older'?")
        self.refuses_text(GATE.replace("mulf %x, %g", 'mulf %x, %g {kiln.fues = "a"}'),
                          "bad.mlir:2:8: error: 'arith.mulf' op unknown attribute 'kiln.fues'",
                          "did you mean 'kiln.fuse'?")
        self.refuses_text(GATE.replace("arith.mulf", "kiln.swigul"), "bad.mlir:2:8: error: ",
                          "did you mean 'kiln.swiglu'?")

    def test_functions(self):
        self.refuses_text(GATE, "no function @gaet", "did you mean 'gate'?",
                          arguments=["--function=gaet"])

    def test_schedules(self):
        self.refuses("compile", *LAYER_NORM, "--emit=cuda", "--schedule=#kiln.schedule<lanse = 4>",
                     says=["1:16: error: unknown knob 'lanse'", "did you mean 'lanes'?"])


if __name__ == "__main__":
    unittest.main()
