"""The workload of dropout's masks has the texts that programs ask a store for."""
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["KILN_SOURCE"])


def words(text):
    """Without comments and line ends."""
    return re.sub(r"//[^\n]*", "", text).split()


def asked_for(bits):
    """What runtime/Mask.cpp writes: the literals of its text, one behind the other."""
    source = (SOURCE / "runtime/Mask.cpp").read_text()
    function = re.search(r"std::string moduleOf\(int bits\) \{(.*?)\n\}", source, re.S).group(1)
    text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', function)).replace(r"\n", "\n")
    return text.replace("{{", "{").replace("}}", "}").replace("bits {}", f"bits {bits}")


class Masks(unittest.TestCase):
    def test_texts_are_the_same(self):
        for bits in (16, 32):
            shipped = SOURCE / f"bench/workloads/training/mask_{bits}.mlir"
            self.assertEqual(words(shipped.read_text()), words(asked_for(bits)))

    def test_rows_are_the_same(self):
        rows = re.search(r"tunedRows = (\d+);", (SOURCE / "runtime/Mask.cpp").read_text()).group(1)
        workload = (SOURCE / "bench/workloads/training/masks.txt").read_text()
        self.assertEqual(re.findall(r"^mask_\d+\.mlir +(\d+)", workload, re.M), [rows, rows])


if __name__ == "__main__":
    unittest.main()
