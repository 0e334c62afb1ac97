"""Values of options: names of dtypes that others use, values that are missing, sizes that are too
many."""

import json
import unittest

from command import GATE, LAYER_NORM, CommandTest, verbs

NAMES = {"f32": ["fp32", "float", "float32"], "f16": ["fp16", "half", "float16"],
         "bf16": ["bfloat16"]}


class DTypes(CommandTest):
    def test_usual_names_are_those_of_kiln(self):
        for name, others in NAMES.items():
            def job(dtype):
                return self.run_json("plan", "--op=gelu", "--shape=8x128", f"--dtype={dtype}",
                                     "--keep=1")["jobs"][0]
            expected = job(name)
            self.assertEqual(expected["label"], f"gelu 8x128 {name}")
            for other in others:
                with self.subTest(other):
                    self.assertEqual(job(other), expected)

    def test_in_workloads(self):
        self.write("ours.txt", "gelu 8x128 bf16,f32,f16 1\n")
        self.write("theirs.txt", "gelu 8x128 bfloat16,float,half 1\n")
        labels = [[job["label"] for job in self.run_json("plan", f"--workload={name}.txt")["jobs"]]
                  for name in ("ours", "theirs")]
        self.assertEqual(*labels)

    def test_stores_keep_one_name(self):
        stored = []
        for name in ("f16", "half"):
            self.run_command("tune", "--op=gelu", "--shape=64x128", f"--dtype={name}",
                             "--device=simulated", f"--store={name}.db", "--effort=none")
            stored.append([(choice["key"], choice["label"], choice["tensors"]) for choice in
                           self.run_json("cache", "ls", f"{name}.db")["choices"]])
        self.assertEqual(*stored)
        self.assertEqual(stored[0][0][1], "gelu 64x128 f16")

    def test_archs_too(self):
        for other in ("sm_90", "90a", "compute_90a"):
            self.assertEqual(self.run_json("plan", *LAYER_NORM, f"--arch={other}")["arch"], "sm_90a")


class MissingValues(CommandTest):
    def test_no_option_takes_another_for_its_value(self):
        count = 0
        for verb in verbs():
            for option in verb["options"]:
                if option["positional"] or not option["value"]:
                    continue
                for name in option["names"]:
                    words = [*verb["path"][1:], name]
                    with self.subTest(words):
                        done = self.run_command(*words, "--json", code=2)
                        message = json.loads(done.out)["error"]["message"]
                        self.assertTrue(message.startswith(f"{name} needs a value"), message)
                        for rest in (["-o", "x"], []):
                            self.refuses(*words, *rest, code=2, says=f"{name} needs a value")
                        if name.startswith("--"):
                            self.refuses(*words[:-1], f"{name}=", code=2, says="needs a value")
                    count += 1
        self.assertGreater(count, 100)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_that_of_an_output(self):
        self.refuses("compile", *LAYER_NORM, "-o", "--backward", code=2,
                     says=["-o needs a value", "'--backward'"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_dashes_that_are_values(self):
        done = self.run_command("compile", "-", "--emit", "cuda", "-o", "-", input=GATE.encode())
        self.assertIn("KILN_KERNEL", done.out)
        self.run_command("compile", *LAYER_NORM, "--emit=cuda", "--output=--json")
        self.assertTrue((self.folder / "--json").exists())

    def test_lists_take_no_store(self):
        self.run_command("tune", *LAYER_NORM, "--store=a.db", "--effort=none")
        choices = self.run_json("cache", "ls", "--ops", "layer_norm,gelu", "a.db")["choices"]
        self.assertEqual(len(choices), 1)


class Sizes(CommandTest):
    def test_too_many_are_refused(self):
        self.write("gate.mlir", GATE)
        for verb in ("run", "plan", "inspect"):
            with self.subTest(verb):
                self.refuses(verb, "gate.mlir", "--sizes=10x20x30",
                             says=["3 values are given", "10x20x30", "'gate' has 1",
                                   "dimension 0 of 'x'"])
        self.refuses("tune", "gate.mlir", "--sizes=10x20", "--device=simulated", "--store=a.db",
                     says=["2 values are given", "'gate' has 1"])
        self.run_command("run", "gate.mlir", "--sizes=10")

    def test_of_a_function_without_run_time_sizes(self):
        self.refuses("run", *LAYER_NORM, "--sizes=64", says=["1 value is given", "has none"])

    def test_one_each_or_one_for_all(self):
        words = ["run", "--op=softmax", "--shape=?x?x64"]
        self.run_command(*words, "--sizes=3x5")
        self.run_command(*words, "--sizes=4")
        self.refuses(*words, "--sizes=3x5x7",
                     says=["has 2: dimension 0 of 'x', dimension 1 of 'x'", "one for all"])
        self.refuses("run", "--op=softmax", "--shape=?x?x?x64", "--sizes=3x5", says="has 3")

    def test_shapes_of_ops(self):
        self.refuses("compile", "--op=cross_entropy", "--shape=128",
                     says=["'cross_entropy' has 1 size (128)", "2 or more", "row width"])
        self.refuses("compile", "--op=gelu", "--shape=8x?", says=["8x?", "the last size"])


if __name__ == "__main__":
    unittest.main()
