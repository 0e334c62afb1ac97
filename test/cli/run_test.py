"""kernel-compile run on the host target: verdicts, exit code 4, .npy files in and out."""

import ast
import struct
import unittest

from command import GATE, LAYER_NORM, LISTS, CommandTest


def npy(shape, values):
    header = str({"descr": "<f4", "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(values)}f", *values))


def values_of(data):
    length = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    body = data[10 + length:]
    return header["shape"], struct.unpack(f"<{len(body) // 4}f", body)


class Host(CommandTest):
    def test_agrees_with_fp64(self):
        for arguments in [LAYER_NORM, [*LAYER_NORM, "--backward"],
                          ["--op=softmax", "--shape=5x33"]]:
            with self.subTest(arguments):
                job = self.run_json("run", *arguments, "--target=host")["jobs"][0]
                self.assertTrue(job["passed"])
                self.assertTrue(job["repeatable"])

    def test_attention(self):
        for arguments in [["--shape=2x4x19x16", "--set=causal=last,key_heads=2,bias=shared"],
                          ["--shape=?x2x?x8", "--set=mask=keys", "--set=keys=?", "--sizes=2x9x20"],
                          ["--shape=2x21x8", "--set=sequences=3,keys=30", "--backward"]]:
            with self.subTest(arguments):
                job = self.run_json("run", "--op=attention", "--dtype=bf16", *arguments)["jobs"][0]
                self.assertTrue(job["passed"], job)
                self.assertTrue(job["repeatable"])
                self.assertEqual(job["compared_row_of"], 1)
        self.assertIn("key_heads=2", self.run_json(
            "run", "--op=attention", "--shape=4x9x8", "--set=key_heads=2")["jobs"][0]["label"])

    def test_more_attention_than_the_host_computes(self):
        done = self.run_command("run", "--op=attention", "--shape=8x16x4096x64", code=1)
        self.assertIn("takes 2.7e+11 multiply-adds at these sizes", done.error)

    def test_run_time_sizes(self):
        module = self.write("gate.mlir", GATE)
        for rows in [0, 1, 37]:
            job = self.run_json("run", module, f"--sizes={rows}")["jobs"][0]
            self.assertEqual(job["outputs"][0]["shape"], [rows, 128])

    def test_no_rows(self):
        """Nothing to compute and nothing to time, but no failure."""
        for arguments in [["--op=layer_norm", "--shape=0x64"],
                          ["--op=layer_norm", "--shape=0x64", "--backward"]]:
            done = self.run_command("run", *arguments)
            self.assertNotIn("nan", done.out)
            self.assertIn("agrees", done.out)
        for verb in ["plan", "inspect"]:
            self.assertNotIn("nan", self.run_command(verb, "--op=softmax", "--shape=0x64").out)
        module = self.write("gate.mlir", GATE)
        for arguments in [["--op=softmax", "--shape=0x64"], [module, "--sizes=0"]]:
            done = self.run_command("tune", *arguments, "--store=tuned", "--device=simulated",
                                    code=3)
            self.assertIn("there is nothing to time", done.out)

    def test_sums_of_rows_that_are_all_the_same(self):
        """Of the kernel that adds them up only a shape says how many there are."""
        rows = "tensor<?x24xf32>"
        module = self.write("f.mlir", f"""func.func @f(%x: {rows}) -> tensor<24xf32> {{
  %s = math.sin %x : {rows}
  %t = kiln.reduce sum %s dims [0, 1] : {rows} -> tensor<f32>
  %b = kiln.broadcast %t dims [] like %x : tensor<f32>, {rows} -> {rows}
  %a = arith.addf %b, %x : {rows}
  %y = kiln.reduce sum %a dims [0] : {rows} -> tensor<24xf32>
  return %y : tensor<24xf32>
}}
""")
        for rows in [1, 9, 200]:
            done = self.run_command("run", module, "--backward", f"--sizes={rows}",
                                    "--target=host")
            self.assertIn("agrees", done.out)

    def test_functions_of_several_kernels_because_of_their_length(self):
        kind = "tensor<?x64xf32>"
        chain = f"func.func @f(%v0: {kind}) -> {kind} {{\n"
        for i in range(330):
            op = ["tanh", "sin"][i % 2]
            chain += f"  %v{i + 1} = math.{op} %v{i} : {kind}\n"
        chain += f"  return %v330 : {kind}\n}}\n"
        total = "func.func @f(" + ", ".join(f"%a{i}: {kind}" for i in range(70)) + f") -> {kind} {{\n"
        for i in range(1, 70):
            total += f"  %v{i} = arith.addf {'%a0' if i == 1 else f'%v{i - 1}'}, %a{i} : {kind}\n"
        total += f"  return %v69 : {kind}\n}}\n"
        # v + exp(-v) / 64: all values are needed again, and gradients stay near 1.
        steps = (f"func.func @f(%v0: {kind}) -> {kind} {{\n"
                 "  %c = arith.constant dense<0.015625> : tensor<f32>\n"
                 f"  %s = kiln.broadcast %c dims [] like %v0 : tensor<f32>, {kind} -> {kind}\n")
        for i in range(250):
            steps += (f"  %n{i} = arith.negf %v{i} : {kind}\n  %e{i} = math.exp %n{i} : {kind}\n"
                      f"  %p{i} = arith.mulf %e{i}, %s : {kind}\n"
                      f"  %v{i + 1} = arith.addf %v{i}, %p{i} : {kind}\n")
        steps += f"  return %v250 : {kind}\n}}\n"
        for text, direction in [(chain, []), (chain, ["--backward"]), (total, []), (steps, []),
                                (steps, ["--backward"])]:
            job = self.run_json("run", self.write("long.mlir", text), "--sizes=5",
                                *direction)["jobs"][0]
            self.assertTrue(job["passed"] and job["repeatable"], job)

    def test_names_of_all_kinds(self):
        """C++'s words, macros, the device library's and the compiler's own names."""
        names = ["main", "int", "wchar_t", "static_cast", "__attribute__", "KILN_DEVICE", "errno",
                 "row_count", "Tile", "expf", "divide_by", "std", "kiln", "threadIdx", "_x", "a b",
                 "\\C3\\A9", "../x", "i", "size0", "NULL", "lines", "partials", "at", "u8"]
        kind = "tensor<?x64xf32>"
        text = ("func.func @host_runtime(" +
                ", ".join(f'%a{i}: {kind} {{kiln.name = "{n}"}}' for i, n in enumerate(names)) +
                f") -> {kind} {{\n  %v0 = math.exp %a0 : {kind}\n")
        for i in range(1, len(names)):
            text += f"  %v{i} = arith.addf %v{i - 1}, %a{i} : {kind}\n"
        text += f"  return %v{len(names) - 1} : {kind}\n}}\n"
        self.assertTrue(self.run_json("run", self.write("names.mlir", text), "--sizes=3")
                        ["jobs"][0]["passed"])

    def test_names_of_results_stay_in_their_folder(self):
        text = GATE.replace("-> tensor<?x128xf32>",
                            '-> (tensor<?x128xf32> {kiln.name = "../../evil"})')
        module = self.write("gate.mlir", text)
        self.run_command("run", module, "--sizes=3", "--outputs=in/out")
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        self.assertEqual({path.parent for path in files}, {self.folder, self.folder / "in/out"})
        self.write("w.txt", 'gate.mlir 3 - 50% function=../../gate\n')
        self.write("gate.mlir", GATE.replace("@gate", '@"../../gate"'))
        self.run_command("compile", "--workload=w.txt", "--emit=cuda", "-o", "in/cuda",
                         "--save-temps=in/temps")
        self.assertEqual(len(list((self.folder / "in/cuda").iterdir())), 1)
        self.assertEqual(len(list((self.folder / "in/temps").iterdir())), 1)

    def test_lists(self):
        module = self.write("lists.mlir", LISTS)
        job = self.run_json("run", module)["jobs"][0]
        self.assertTrue(job["passed"] and job["repeatable"], job)
        self.assertEqual([output["name"] for output in job["outputs"]], ["norm", "y"])
        (self.folder / "x.npy").write_bytes(npy((3, 128), [1.0] * 384))
        self.refuses("run", module, "--input=x.npy", says="is over lists of tensors")

    def test_npy_in_and_out(self):
        module = self.write("gate.mlir", GATE)
        x = [float(i % 7) for i in range(3 * 128)]
        (self.folder / "x.npy").write_bytes(npy((3, 128), x))
        (self.folder / "g.npy").write_bytes(npy((3, 128), [2.0] * len(x)))
        self.run_command("run", module, "--input=x.npy", "--input=g.npy", "--outputs=results")
        result = next((self.folder / "results").glob("*.npy")).read_bytes()
        self.assertEqual(values_of(result), ((3, 128), tuple(2 * value for value in x)))

    def test_bad_npy(self):
        module = self.write("gate.mlir", GATE)
        (self.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00")
        self.refuses("run", module, "--input=x.npy", "--input=x.npy", says="x.npy")
        (self.folder / "y.npy").write_bytes(npy((2, 64), [0.0] * 128))
        self.refuses("run", module, "--input=y.npy", "--input=y.npy", says=["64", "128"])

    def test_wrong_kernel_is_found(self):
        module = self.write("gate.mlir", GATE)
        other = self.write("other.mlir", GATE.replace("mulf", "addf"))
        self.run_command("compile", module, "--emit=cuda", "-o", "gate.cu")
        self.run_command("run", "gate.cu", "--from=cuda", f"--reference={module}", "--sizes=4")
        self.refuses("run", "gate.cu", "--from=cuda", f"--reference={other}", "--sizes=4", code=4,
                     says="fp64 says")


if __name__ == "__main__":
    unittest.main()
