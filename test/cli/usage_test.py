"""Help, versions, wrong usage and JSON of kernel-compile."""

import json
import re
import unittest

from command import GATE, LAYER_NORM, SOURCE, CommandTest, needs_nvrtc, verbs

VERBS = ["compile", "plan", "inspect", "run", "tune", "explain", "report", "bench", "verify",
         "regress", "cache", "doctor"]


class Usage(CommandTest):
    def test_help_lists_the_verbs(self):
        out = self.run_command("--help").out
        for verb in VERBS:
            self.assertIn(verb, out)

    def test_each_verb_has_an_example(self):
        for verb in VERBS:
            out = self.run_command(verb, "--help").out
            self.assertIn("Example:", out)
            self.assertIn(f"kernel-compile {verb}", out)

    def test_help_is_readable(self):
        """Options begin in the third column and their texts in the 29th, also those that wrap, and
        no line is wider than 100; -h comes last."""
        for verb in verbs():
            out = self.run_command(*verb["path"][1:], "--help").out
            head, _, _ = out.partition("Example:")
            with self.subTest(verb["path"]):
                for line in head.splitlines()[2:]:
                    self.assertLessEqual(len(line), 100, line)
                    if line and not line.endswith(":"):
                        self.assertRegex(line, r"^(  \S.{24}| {28})\S|^  \S.{25,}$")
                self.assertRegex(head.rstrip().splitlines()[-1], "^  -h, --help  ")
                for option in verb["options"]:
                    self.assertIn(option["names"][-1], head)

    def test_help_lists_the_words_of_closed_lists(self):
        closed = {}
        for verb in verbs():
            out = " ".join(self.run_command(*verb["path"][1:], "--help").out.split())
            for option in verb["options"]:
                if option["words"]:
                    self.assertIn(": " + ", ".join(option["words"]), out)
                    closed[option["names"][-1]] = option["words"]
        self.assertEqual(closed["--dtype"], ["f32", "bf16", "f16"])
        self.assertEqual(closed["--from"], ["fused", "scheduled", "emittable", "cuda"])
        self.assertLessEqual({"--op", "--arch", "--emit", "--target", "--effort", "--format",
                              "--device", "--rounds"}, set(closed))

    def test_every_op_of_the_list_can_be_made_and_is_in_the_dialect(self):
        compile_ = next(verb for verb in verbs() if verb["path"][-1] == "compile")
        ops = next(o["words"] for o in compile_["options"] if o["names"] == ["--op"])
        made = set()
        for path in (SOURCE / "dialect" / "ops").glob("*.td"):
            text = path.read_text()
            if "let function" in text or "asFunction()" in text:
                made.add(re.search(r'def Kiln_\w+ : \w+<"(\w+)"', text)[1])
        self.assertEqual(set(ops), made)
        for op in ops:
            self.run_command("compile", f"--op={op}", "--shape=2x8x128", "--emit=mlir", "-o", "a")

    def test_version(self):
        self.assertRegex(self.run_command("--version").out, r"^\d+\.\d+\.\d+\n$")

    def test_usage_errors_exit_with_2(self):
        for arguments in [[], ["--nonsense"], ["compile"], ["compile", "--op=layer_norm"],
                          ["compile", "a.mlir", "--op=layer_norm"], ["unknown-verb"],
                          ["compile", "a.mlir", "--emit=pdf"], ["run", "a.mlir", "--target=tpu"],
                          ["run", *LAYER_NORM, "--time"],
                          ["compile", "--workload=w.txt", "--backward"]]:
            with self.subTest(arguments):
                self.run_command(*arguments, code=2)

    def test_standard_input(self):
        done = self.run_command("compile", "-", "--emit=cuda", input=GATE.encode())
        self.assertIn("KILN_KERNEL", done.out)

    def test_same_text_twice(self):
        first = self.run_command("compile", *LAYER_NORM, "--emit=cuda").out
        self.assertEqual(first, self.run_command("compile", *LAYER_NORM, "--emit=cuda").out)



class Json(CommandTest):
    def test_errors_are_json_too(self):
        document = self.run_json("compile", "--op=layer_norm", "--shape=8xbad", code=1)
        self.assertEqual(document["error"]["kind"], "input")
        self.assertIn("8xbad", document["error"]["message"])

    def test_wrong_usage_is_json_in_every_order(self):
        for words, says in [(["complie"], "complie"), (["compile", "--dtyp=bf16"], "--dtyp"),
                            (["compile"], "nothing to compile"), ([], "needs a verb"),
                            (["compile", "--emit=cdua", "a.mlir"], "cdua"),
                            (["compile", "a.mlir", "--op=gelu"], "--op"),
                            (["compile", "--op=gelu"], "--shape"),
                            (["tune", *LAYER_NORM, "--budget=soon"], "soon"),
                            (["run", *LAYER_NORM, "--time"], "--time"),
                            (["plan", *LAYER_NORM, "--keep=0"], "--keep"),
                            (["cache", "ls"], "STORE"), (["verify", "a.db"], "KEY")]:
            for at in range(len(words) + 1):
                with self.subTest(words, at=at):
                    done = self.run_command(*words[:at], "--json", *words[at:], code=2)
                    error = json.loads(done.out)["error"]
                    self.assertEqual(error["kind"], "usage")
                    if "behind the verb" not in error["message"]:  # --json itself was wrong
                        self.assertIn(says, error["message"])
                    self.assertIn(error["message"], done.error)

    def test_no_json_unless_asked(self):
        done = self.run_command("compile", "--dtyp=bf16", code=2)
        self.assertEqual(done.out, "")
        done = self.run_command("compile", "--dtyp=bf16", "--", "--json", code=2)
        self.assertEqual(done.out, "")

    def test_doctor(self):
        for finding in self.run_json("doctor")["findings"]:
            self.assertIn(finding["state"], ["found", "missing", "broken"])
            if finding["state"] != "found":
                self.assertTrue(finding["cost"], finding)

    def test_doctor_has_lines_that_can_be_read(self):
        out = self.run_command("doctor").out
        self.assertNotIn("\\x0a", out)
        for line in out.splitlines():
            self.assertRegex(line, r"^[A-Z]?[\w+ ]+ +(found|missing|broken) |^ {20}")

    def test_plan(self):
        kernels = self.run_json("plan", *LAYER_NORM)["jobs"][0]["kernels"]
        for kernel in kernels:
            fell = sum(rejection["count"] for rejection in kernel["rejections"])
            self.assertEqual(kernel["considered"], kernel["feasible"] + fell)
            self.assertGreater(kernel["feasible"], 0)
            times = [candidate["microseconds"] for candidate in kernel["best"]]
            self.assertEqual(times, sorted(times))

    @needs_nvrtc
    def test_compile_and_inspect(self):
        job = self.run_json("compile", *LAYER_NORM)["jobs"][0]
        self.assertGreater(job["kernels"][0]["registers"], 0)
        self.assertEqual(job["kernels"][0]["spill_store_bytes"], 0)
        kernel = self.run_json("inspect", *LAYER_NORM)["kernels"][0]
        self.assertEqual(kernel["registers"], job["kernels"][0]["registers"])
        self.assertGreaterEqual(kernel["bytes_read"], 64 * 128 * 2)


if __name__ == "__main__":
    unittest.main()
