"""train_alphafold and predict_alphafold as a person meets them: a run on a folder of proteins, its
files, going on bit by bit, also after a signal, predictions and their files, and refusals. Run by
ctest with TRAIN_ALPHAFOLD, PREDICT_ALPHAFOLD and ALPHAFOLD_FEATURES naming the programs."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

import small_protein

TRAIN = os.environ["TRAIN_ALPHAFOLD"]
PREDICT = os.environ["PREDICT_ALPHAFOLD"]
FEATURES = os.environ["ALPHAFOLD_FEATURES"]
SMALL = ["--model=tiny", "--crop=16", "--msa-clusters=6", "--extra-msa=6", "--recycling=2",
         "--device=cpu", "--workers=1", "--log-every=1", "--warmup=5", "--clip=1"]


def tensors_of(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.data = pathlib.Path(folder.name) / "proteins"
        small_protein.write(cls.data, "1abc")
        small_protein.write(cls.data, "2xyz", sequence="GSHWLKKAEDIVRQYFTN", turn=96.0)
        cls.features = pathlib.Path(folder.name) / "features"
        subprocess.run([FEATURES, f"--structures={cls.data}", f"--alignments={cls.data}",
                        f"--output={cls.features}"], check=True, capture_output=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "run"

    def call(self, command, status=0, environment=None):
        run = subprocess.run(command, capture_output=True, text=True,
                             env={**os.environ, **(environment or {})})
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout if status == 0 else run.stderr

    def train(self, *flags, status=0, out=None, data=None, environment=None):
        return self.call([TRAIN, f"--data={data or self.features}", f"--out={out or self.out}",
                          *SMALL, *flags], status, environment)

    def predict(self, *flags, status=0, weights=None):
        return self.call([PREDICT, f"--weights={weights or self.out / 'weights.safetensors'}",
                          f"--out={self.folder / 'predicted'}", "--device=cpu", *flags], status)

    @staticmethod
    def log(out):
        return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]

    def losses(self, out=None):
        return [line["loss"] for line in self.log(out or self.out) if "loss" in line]


class Training(Commands):
    def test_a_protein_is_learnt_from_its_files(self):
        flags = ["--chains=1abc_A", "--dropout=0", "--learning-rate=3e-3", "--recycling=1",
                 "--crop=24", "--seed=2"]
        said = self.train("--steps=150", *flags, data=self.data)
        self.assertIn("run/features: 2 chains made, 0 there already, 0 left out", said)
        self.assertIn("0.03 M parameters, 1 chains to train on, on cpu", said)
        log = self.log(self.out)
        self.assertEqual([line["step"] for line in log], list(range(1, 151)))
        mean = lambda key, part: sum(line[key] for line in part) / len(part)
        self.assertLess(mean("loss", log[-10:]), 0.7 * mean("loss", log[:10]))
        self.assertGreater(mean("lddt_ca", log[-10:]), mean("lddt_ca", log[:10]) + 0.2)
        for key in ("norm", "rate", "seconds", "waited_seconds", "peak_bytes"):
            self.assertGreaterEqual(log[-1][key], 0)
        for term in ("fape_backbone", "torsion", "masked_msa"):
            self.assertIn(term, log[-1]["terms"])
        said = self.train("--steps=151", "--resume=latest", *flags, data=self.data)
        self.assertIn("0 chains made, 2 there already", said)
        self.assertIn("from step 150", said)

    def test_a_resumed_run_goes_on_bit_by_bit(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        self.train("--steps=7", "--batch=2", "--recompute=blocks", out=whole)
        flags = ["--batch=2", "--recompute=blocks", "--workers=3"]
        self.train("--steps=7", "--checkpoint-every=3", "--keep=9", *flags, out=parts)
        (parts / "log.jsonl").unlink()
        said = self.train(f"--resume={parts}/step-000003.safetensors", "--steps=7", *flags,
                          out=parts)
        self.assertIn("from step 3", said)
        self.assertEqual(self.losses(parts), self.losses(whole)[3:])
        self.assertEqual(tensors_of(parts / "step-000007.safetensors"),
                         tensors_of(whole / "step-000007.safetensors"))

    def test_a_signal_ends_in_a_checkpoint(self):
        whole = self.folder / "whole"
        process = subprocess.Popen([TRAIN, f"--data={self.features}", f"--out={self.out}", *SMALL,
                                    "--steps=1000000"], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step      3/"):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 0, rest)
        stopped, = self.out.glob("step-*.safetensors")
        self.assertIn(stopped.name, rest)
        done = int(stopped.stem.split("-")[1])
        self.train(f"--steps={done + 2}", "--resume=latest")
        self.train(f"--steps={done + 2}", out=whole)
        name = f"step-{done + 2:06}.safetensors"
        self.assertEqual(self.losses(), self.losses(whole))
        self.assertEqual(tensors_of(self.out / name), tensors_of(whole / name))

    def test_kiln_changes_roundings_only(self):
        self.train("--steps=3", "--recycling=1")
        on = self.folder / "on"
        said = self.train("--steps=3", "--recycling=1", "--kiln=on", out=on,
                          environment={"KILN_PLACE": "cpu"})
        self.assertIn("native_layer_norm ", said)
        for one, other in zip(self.losses(), self.losses(on), strict=True):
            self.assertAlmostEqual(one, other, delta=2e-3 * one)

    def test_kiln_resumes_bit_by_bit(self):
        flags = ["--kiln=on", "--recycling=1", "--checkpoint-every=2", "--keep=9"]
        place = {"KILN_PLACE": "cpu"}
        self.train("--steps=4", *flags, environment=place)
        again = self.folder / "again"
        self.train("--steps=4", f"--resume={self.out}/step-000002.safetensors", *flags, out=again,
                   environment=place)
        self.assertEqual(tensors_of(again / "step-000004.safetensors"),
                         tensors_of(self.out / "step-000004.safetensors"))

    def test_validation_by_averages(self):
        log = self.folder / "here.jsonl"
        said = self.train("--steps=4", f"--validation={self.data}", "--evaluate-every=2",
                          "--evaluate-proteins=2", f"--log={log}")
        self.assertEqual(said.count("validation: loss"), 2)
        found = [line["validation"] for line in map(json.loads, log.read_text().splitlines())
                 if "validation" in line]
        for one in found:
            self.assertEqual(set(one), {"loss", "lddt_ca", "drmsd", "gdt_ts", "gdt_ha"})
        self.assertTrue((self.out / "validation" / "1abc_A.features").exists())

    def test_finetuning_begins_with_weights(self):
        self.train("--steps=2")
        fine = self.folder / "fine"
        self.train("--steps=1", "--stage=finetune", "--precision=bf16",
                   f"--weights={self.out / 'weights.safetensors'}", out=fine)
        self.assertIn("violation", self.log(fine)[0]["terms"])
        self.assertNotIn("violation", self.log(self.out)[0]["terms"])
        begun, before = self.log(fine)[0]["terms"], self.log(self.out)[-1]["terms"]
        for term in ("distogram", "plddt"):
            self.assertAlmostEqual(begun[term], before[term], delta=0.3)

    def test_bench_and_profile(self):
        lines = [json.loads(line) for line in self.call(
            [TRAIN, "--bench=1", *SMALL, "--profile=3"]).splitlines()]
        steps = [line for line in lines if "passes" in line]
        self.assertEqual([line["passes"] for line in steps], [1, 2])
        for line in steps:
            self.assertGreater(line["step_ms"], 0)
            self.assertGreater(line["peak_memory_gib"], 0)
        parts = {line["part"]: line for line in lines if "part" in line}
        self.assertEqual(parts["evoformer_block"]["count"], 2)
        for name in ("embedders", "template_embedder", "extra_msa_block", "structure_module"):
            self.assertGreater(parts[name]["backward_ms"], 0)
        self.train("--steps=1", "--profile=3")
        self.assertEqual(len(self.losses()), 1, "profiled steps are none of the run's")

    def test_what_is_wrong_is_said(self):
        empty = self.folder / "empty"
        empty.mkdir()
        for flags, said in [
                (["--crop=3"], "--crop=3: at least 4 residues"),
                (["--crop=-1"], "--crop=-1: at least 0"),
                (["--msa-clusters=-4"], "--msa-clusters=-4: at least 0"),
                (["--extra-msa=0"], "--extra-msa=0: at least 1 row"),
                (["--recycling=0"], "--recycling=0: at least 1"),
                (["--workers=0"], "--workers=0: at least 1"),
                (["--model=huge"], "--model=huge: allowed are model_1"),
                (["--stage=last"], "--stage=last: allowed are initial, finetune"),
                (["--precision=fp8"], "--precision=fp8: allowed are fp32"),
                (["--kiln=maybe"], "--kiln=maybe: allowed are off, on, verify"),
                (["--recompute=all"], "--recompute=all: allowed are none, blocks"),
                (["--dropout=2"], "--dropout=2: must lie in 0 to 1"),
                (["--graphs"], "CUDA graphs need a GPU and the run is on cpu"),
                (["--graphs", "--recompute=blocks"], "CUDA graphs need a GPU"),
                (["--record-shapes=shapes.txt"], "--kiln=off: no kernel of Kiln's is asked for"),
                (["--graphs", "--kiln=verify"], "compared on the host"),
                (["--resume=latest"], "holds no checkpoint"),
                (["--resume=a", "--weights=b"], "a run begins with one of them"),
                (["--weights=none.safetensors"], "none.safetensors"),
                (["--chains=9zzz_A"], "--chains: there is no '9zzz_A' among 2 chains"),
                (["--validation=/nowhere"], "/nowhere is no folder that is there"),
                (["--learning-rate=-1"], "--learning-rate=-1: must lie in")]:
            with self.subTest(flags):
                self.assertIn(said, self.train("--steps=2", *flags, status=1))
        self.assertIn("/nowhere is no folder that is there", self.train(status=1, data="/nowhere"))
        self.assertIn("there is no structure", self.train(status=1, data=empty))
        self.assertIn("--data=FOLDER", self.call([TRAIN], 1))
        self.assertIn("--nonsense", self.train("--nonsense", status=2))
        config = self.folder / "config.json"
        config.write_text('{"stepps": 3}')
        self.assertIn("'stepps' is no option", self.train(f"--config={config}", status=1))
        self.assertIn("train_alphafold --config=", self.call([TRAIN, "--help"]))

    def test_files_that_do_not_fit_are_refused(self):
        self.train("--steps=1")
        self.assertIn("holds checkpoints of a run, up to step-000001.safetensors: go on with "
                      "--resume=latest", self.train("--steps=1", status=1))
        file = self.folder / "file"
        file.touch()
        self.assertIn(f"the folder {file} cannot be made: Not a directory",
                      self.train("--steps=1", status=1, out=file))
        checkpoint = self.out / "step-000001.safetensors"
        other = self.train("--model=small", "--steps=2", "--resume=latest", status=1)
        self.assertIn("another model than the options make: evoformer_blocks 2 and 4, ", other)
        self.assertIn("config.json has its options", other)
        data = checkpoint.read_bytes()
        cut = self.folder / "cut.safetensors"
        for damaged in (data[:-5], data[:100], b"", b"\xff" * 64):
            cut.write_bytes(damaged)
            self.assertIn("cut.safetensors", self.train(f"--resume={cut}", status=1))
            self.assertIn("cut.safetensors", self.predict(f"--features={self.features}", status=1,
                                                          weights=cut))
        weights = self.out / "weights.safetensors"
        self.assertIn("weights.safetensors", self.train(f"--resume={weights}", status=1))
        spoiled = self.folder / "spoiled"
        spoiled.mkdir()
        feature = (self.features / "1abc_A.features").read_bytes()
        (spoiled / "1abc_A.features").write_bytes(feature[:-7])
        self.assertIn("1abc_A.features", self.train("--steps=1", data=spoiled, status=1))

    def test_losses_that_are_not_finite_end_the_run(self):
        said = self.train("--learning-rate=1000", "--warmup=0", "--clip=0", "--steps=60", status=1)
        self.assertIn("10 steps in a row had losses that are not finite", said)
        self.assertIn("try a smaller --learning-rate than 1000", said)


class Prediction(Commands):
    def test_files_of_a_prediction(self):
        self.train("--steps=2")
        structure = self.data / "1abc.cif"
        said = self.predict(f"--structures={structure}", f"--alignments={self.data}",
                            "--recycling=2")
        self.assertIn("1abc_A", said)
        self.assertIn("lDDT-CA", said)
        base = self.folder / "predicted" / "1abc_A"
        figures = json.loads(base.with_suffix(".json").read_text())
        self.assertEqual(figures["sequence"], small_protein.SEQUENCE)
        self.assertEqual(figures["truth"]["residues"], len(small_protein.SEQUENCE))
        for name in ("lddt_ca", "gdt_ts", "gdt_ha"):
            self.assertTrue(0 <= figures["truth"][name] <= 1)
        self.assertGreater(figures["truth"]["drmsd"], 0)
        self.assertEqual(len(figures["plddt"]), len(small_protein.SEQUENCE))
        atoms = [line for line in base.with_suffix(".pdb").read_text().splitlines()
                 if line.startswith("ATOM")]
        for line in atoms:
            confidence = figures["plddt"][int(line[22:26]) - 1]
            self.assertAlmostEqual(float(line[60:66]), confidence, delta=0.006)
        # What was written is read again as a structure, with every atom where it was put.
        again = self.folder / "again"
        told = json.loads(self.call([FEATURES, f"--structures={base}.cif",
                                     f"--alignments={again}", f"--output={again}", "--single",
                                     "--json"]))
        self.assertEqual(told["made"][0]["residues"], len(small_protein.SEQUENCE))
        self.assertEqual(told["made"][0]["resolved"], len(small_protein.SEQUENCE))

    def test_a_prediction_is_its_own_truth(self):
        self.train("--steps=2")
        predicted = self.folder / "predicted"
        self.predict(f"--features={self.features}", "--chains=1abc_A", "--seed=3")
        self.call([FEATURES, f"--structures={predicted}/1abc_A.cif", f"--alignments={self.data}",
                   f"--output={self.folder}/truth", "--single"])
        # The same features but for the truth, which is what the same weights predict.
        name, = (self.folder / "truth").iterdir()
        said = self.predict(f"--features={self.folder}/truth", f"--chains={name.stem}", "--seed=3")
        self.assertIn("residues", said)
        figures = json.loads((predicted / f"{name.stem}.json").read_text())
        self.assertEqual(figures["truth"]["residues"], len(small_protein.SEQUENCE))

    def test_a_sequence_alone(self):
        self.train("--steps=1")
        fasta = self.folder / "target.fasta"
        fasta.write_text(">target\nMKVXLAAG\n>bad name\nACDE\n")
        self.predict(f"--sequences={fasta}")
        figures = json.loads((self.folder / "predicted" / "target.json").read_text())
        self.assertEqual(figures["sequence"], "MKVXLAAG")
        self.assertIsNone(figures["truth"])
        atoms = (self.folder / "predicted" / "target.pdb").read_text()
        self.assertNotIn("UNK A   4 ", "".join(line for line in atoms.splitlines(True)
                                              if line.startswith("ATOM")))
        fasta.write_text(">target\nMKV\n>target\nACDE\n")
        said = self.predict(f"--sequences={fasta}", status=1)
        self.assertIn("left out: target: 2 chains have this name", said)
        self.assertIn("no protein is left to predict", said)

    def test_weights_go_out_under_their_names(self):
        self.train("--steps=2")
        out = self.folder / "openfold.safetensors"
        self.predict(f"--export={out}", weights=self.out / "step-000002.safetensors")
        self.assertEqual(tensors_of(out), tensors_of(self.out / "weights.safetensors"))
        self.assertIn("structure_module.ipa.linear_q.weight", tensors_of(out))
        # And in again: the same prediction, also where the file does not say its size.
        first = self.predict(f"--features={self.features}")
        data = out.read_bytes()
        length, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        del header["__metadata__"]
        bare = json.dumps(header).encode()
        bare += b" " * (-len(bare) % 8)
        out.write_bytes(struct.pack("<Q", len(bare)) + bare + data[8 + length:])
        self.assertEqual(self.predict(f"--features={self.features}", "--model=tiny", weights=out),
                         first)

    def test_what_is_wrong_is_said(self):
        self.train("--steps=1")
        for flags, said in [([], "there is no protein"),
                            (["--features=/nowhere"], "/nowhere"),
                            ([f"--features={self.features}", "--sequences=a.fasta"],
                             "holds proteins already"),
                            (["--sequences=none.fasta"], "none.fasta"),
                            ([f"--structures={self.data}", "--alignments=/nowhere"],
                             "--alignments=/nowhere is no folder"),
                            ([f"--features={self.features}", "--chains=q"], "there is no 'q'"),
                            ([f"--features={self.features}", "--recycling=0"],
                             "--recycling=0: at least 1")]:
            with self.subTest(flags):
                self.assertIn(said, self.predict(*flags, status=1))
        self.assertIn("--weights=FILE is needed", self.call([PREDICT], 1))
        self.assertIn("--nonsense", self.predict("--nonsense", status=2))
        self.assertIn("none.safetensors", self.predict(f"--features={self.features}", status=1,
                                                       weights="none.safetensors"))
        tiny = self.out / "weights.safetensors"
        other = self.folder / "other.safetensors"
        data = tiny.read_bytes()
        other.write_bytes(data.replace(b'"model":"{', b'"modem":"{'))  # then it is a model_1's
        self.assertIn("other.safetensors", self.predict(f"--features={self.features}", status=1,
                                                        weights=other))


if __name__ == "__main__":
    unittest.main()
