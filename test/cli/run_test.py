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

    def test_run_time_sizes(self):
        module = self.write("gate.mlir", GATE)
        for rows in [0, 1, 37]:
            job = self.run_json("run", module, f"--sizes={rows}")["jobs"][0]
            self.assertEqual(job["outputs"][0]["shape"], [rows, 128])

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
