"""Help, versions, wrong usage, JSON and colours of kernel-compile."""

import os
import pty
import subprocess
import unittest

from command import COMMAND, GATE, LAYER_NORM, SOURCE, CommandTest, needs_nvrtc

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

    def test_readme_shows_what_is_tested(self):
        readme = (SOURCE / "README.md").read_text()
        for path in ["bench/workloads/gate.mlir", "test/package/project/gate.cpp"]:
            self.assertIn((SOURCE / path).read_text().strip(), readme, path)


class Json(CommandTest):
    def test_errors_are_json_too(self):
        document = self.run_json("compile", "--op=layer_norm", "--shape=8xbad", code=1)
        self.assertEqual(document["error"]["kind"], "input")
        self.assertIn("8xbad", document["error"]["message"])

    def test_doctor(self):
        for finding in self.run_json("doctor")["findings"]:
            self.assertIn(finding["state"], ["found", "missing", "broken"])
            if finding["state"] != "found":
                self.assertTrue(finding["cost"], finding)

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


class Colours(CommandTest):
    def on_terminal(self, environment):
        ours, theirs = pty.openpty()
        done = subprocess.run([COMMAND, "doctor"], stdout=theirs, stderr=subprocess.PIPE,
                              cwd=self.folder, timeout=60,
                              env={**os.environ, "TERM": "xterm", **environment})
        os.close(theirs)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = os.read(ours, 1 << 16)
        os.close(ours)
        return text

    def test_only_on_a_terminal(self):
        self.assertNotIn("\033", self.run_command("doctor").out)
        self.assertIn(b"\033[", self.on_terminal({"NO_COLOR": ""}))

    def test_no_color(self):
        self.assertNotIn(b"\033[", self.on_terminal({"NO_COLOR": "1"}))


if __name__ == "__main__":
    unittest.main()
