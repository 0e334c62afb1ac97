"""alphafold_features as a command: files in, cache out, its output and exit codes, what it says of
files that it cannot use, and several of them at once."""

import gzip
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

COMMAND = os.environ["ALPHAFOLD_FEATURES"]


def proteins():
    """The folder with real proteins, or None."""
    if "KILN_DATA" in os.environ:
        return pathlib.Path(os.environ["KILN_DATA"]) / "proteins"
    source = pathlib.Path(os.environ["KILN_SOURCE"])
    for folder in (source, *source.parents):
        if (folder / "shared/data/proteins").exists():
            return folder / "shared/data/proteins"
    return None


def run(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


class Command(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.alignments = self.folder / "alignments"
        (self.alignments / "one").mkdir(parents=True)
        (self.alignments / "one" / "a.a3m").write_text(">q\nACDEFG\n>h\nACDEFW\n")
        self.fasta = self.folder / "targets.fasta"
        self.fasta.write_text(">one\nACDEFG\n")
        self.output = self.folder / "cache"

    def build(self, *more):
        return run(f"--sequences={self.fasta}", f"--alignments={self.alignments}",
                   f"--output={self.output}", *more)

    def test_makes_once(self):
        first, second, again = self.build(), self.build(), self.build("--again")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertIn("one              6 residues,     0 resolved,      2 rows,  0 templates\n"
                      "1 made, 0 there already, 0 left out\n", first.stdout)
        self.assertEqual(second.stdout, "0 made, 1 there already, 0 left out\n")
        self.assertIn("1 made", again.stdout)
        (self.alignments / "one" / "b.a3m").write_text(">q\nACDEFG\n>h\nAADEFW\n")
        self.assertIn("3 rows", self.build().stdout, "other files make another chain")

    def test_json(self):
        (self.alignments / "one" / "bad.sto").write_bytes(b"\x00\x01rubbish")
        made = self.build("--json")
        self.assertEqual(made.returncode, 1)
        told = json.loads(made.stdout)
        self.assertEqual([(one["name"], one["msa_rows"]) for one in told["made"]], [("one", 2)])
        self.assertEqual(len(told["left_out"]), 1)
        self.assertTrue(told["left_out"][0]["what"].endswith("bad.sto"))
        self.assertIn("bad.sto:1: ", told["left_out"][0]["why"])

    def test_names_what_it_cannot_use(self):
        self.fasta.write_text(">one\nACDEFG\n>two\nACD\n>../three\nACD\n")
        structures = self.folder / "structures"
        structures.mkdir()
        (structures / "broken.cif").write_text("data_x\nloop_\n_a.b\n")
        whole = gzip.compress(b"data_1abc\n" + b"_a.b c\n" * 1000)
        (structures / "cut.cif.gz").write_bytes(whole[:-10])
        (structures / "notes.txt").write_text("not looked at")
        (self.alignments / "one" / "empty.a3m").write_text("")
        (self.alignments / "one" / "other.a3m").write_text(">q\nWWWWWW\n")
        made = self.build(f"--structures={structures}")
        self.assertEqual(made.returncode, 1)
        self.assertIn("1 made, 0 there already, 6 left out", made.stdout)
        for text in ("two: there is no alignment of it in ", "'../three' cannot name a chain",
                     "broken.cif:", "cut.cif.gz: the gzipped data is cut off",
                     "empty.a3m: it is of no chain of one: it is empty",
                     "other.a3m: it is of no chain of one: its first sequence has W at residue 1"):
            self.assertIn(text, made.stderr)
        single = self.build("--single")
        self.assertIn("two              3 residues,     0 resolved,      1 rows", single.stdout)

    def test_names_of_two_chains_are_left_out(self):
        """Whichever comes first: neither the other's features nor those of an earlier call stay."""
        self.assertEqual(self.build().returncode, 0)
        self.fasta.write_text(">one\nACDEFG\n>two\nACDE\n>one\nACDEFGH\n")
        made = self.build("--single")
        self.assertEqual(made.returncode, 1)
        self.assertIn("two ", made.stdout)
        self.assertIn("1 made, 0 there already, ", made.stdout)
        self.assertIn(f"left out: one: 2 chains have this name, of {self.fasta}, {self.fasta}; name "
                      "them differently, or leave all but one out", made.stderr)
        self.assertEqual([path.stem for path in self.output.glob("*.features")], ["two"])

    def test_wrong_calls(self):
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("--help").returncode, 0)
        self.assertIn("alphafold_features --structures=", run("--help").stdout)
        nothing = run(f"--alignments={self.alignments}", f"--output={self.output}")
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("there is no structure (*.cif, *.cif.gz) and no sequence", nothing.stderr)
        missing = self.build("--structures=/nowhere")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("--structures=/nowhere is not there", missing.stderr)

    def test_several_at_once(self):
        for i in range(30):
            folder = self.alignments / f"s{i}"
            folder.mkdir()
            (folder / "a.a3m").write_text(">q\nACDEFG\n" + ">h\nACDEF-\n" * 50)
        self.fasta.write_text("".join(f">s{i}\nACDEFG\n" for i in range(30)))
        arguments = [COMMAND, f"--sequences={self.fasta}", f"--alignments={self.alignments}",
                     f"--output={self.output}", "--again"]
        running = [subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True) for _ in range(4)]
        for one in running:
            out, error = one.communicate(timeout=120)
            self.assertEqual((one.returncode, error), (0, ""))
            self.assertIn("30 made", out)
        self.assertEqual(len(list(self.output.iterdir())), 30, "nothing else is left behind")
        self.assertIn("30 there already", self.build().stdout)

    @unittest.skipUnless(proteins(), "no real proteins: KILN_DATA names the folder with proteins/")
    def test_real_proteins(self):
        data = proteins()
        made = run(f"--structures={data}", f"--alignments={data}", f"--output={self.output}",
                   f"--templates={data / 'pdb70_query73/templates'}", "--json")
        told = json.loads(made.stdout)
        self.assertEqual([one["name"] for one in told["made"]], ["102m_A", "1k1a_A", "5zyh_A"])
        self.assertEqual(made.returncode, 1, "others have no alignment")
        for one in told["left_out"]:
            self.assertIn("there is no alignment of it in", one["why"])


if __name__ == "__main__":
    unittest.main()
