"""train_lm as a person meets it: a run, its files, going on, samples, byte pairs, refusals, and
`kill -9` at any moment, which may cost the steps since the last checkpoint and nothing else.
Run by ctest with TRAIN_LM naming the program."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["TRAIN_LM"]
TEXT = pathlib.Path(__file__).parent / "shakespeare.txt"
SMALL = ["--width=16", "--hidden=32", "--layers=1", "--heads=2", "--context=16", "--batch=2",
         "--device=cpu"]


def header_of(path):
    """The header of a safetensors file, whose elements must fill it to its end."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    assert 8 + length + end == path.stat().st_size, f"{path} is not whole"
    return header


class TrainLm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "run"

    def train(self, *flags, status=0, data=TEXT, environment={}):
        run = subprocess.run([PROGRAM, f"--data={data}", f"--out={self.out}", *SMALL, *flags],
                             capture_output=True, text=True, env=os.environ | environment)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout if status == 0 else run.stderr

    def test_kernels_that_no_store_has_measured_are_written_for_the_tuner(self):
        list_ = self.folder / "lm.txt"
        place = {"KILN_PLACE": "cpu", "KILN_CACHE": str(self.folder / "empty.db")}
        self.train("--steps=2", "--kiln=on", f"--record-shapes={list_}", environment=place)
        jobs = [line for line in list_.read_text().splitlines() if line and line[0] != "#"]
        self.assertTrue(jobs)
        for job in jobs:
            self.assertTrue((self.folder / job.split()[0]).exists(), job)
        self.assertIn("--kiln=off: no kernel of Kiln's is asked for",
                      self.train(f"--record-shapes={list_}", status=1))

    def log(self):
        return [json.loads(line) for line in (self.out / "log.jsonl").read_text().splitlines()]

    def test_a_stopped_run_goes_on_bit_by_bit(self):
        flags = ["--log-every=1", "--warmup=3", "--accumulate=2", "--recompute"]
        self.train("--steps=8", *flags)
        whole = [line["loss"] for line in self.log()]
        self.assertEqual(len(whole), 8)
        last = header_of(self.out / "step-000008.safetensors")
        for name in ("step-000008.safetensors", "log.jsonl"):
            (self.out / name).unlink()

        process = subprocess.Popen([PROGRAM, f"--data={TEXT}", f"--out={self.out}", *SMALL, *flags,
                                    "--steps=1000000"], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step      3"):
                process.send_signal(signal.SIGTERM)  # after its step a checkpoint is left
                break
        rest = process.communicate()[0]
        self.assertEqual(process.returncode, 0, rest)
        stopped = max(self.out.glob("step-*.safetensors"),
                      key=lambda path: path.stat().st_mtime_ns)
        self.assertIn(stopped.name, rest)

        for path in self.out.glob("*.safetensors"):
            path.unlink()
        (self.out / "log.jsonl").unlink()
        self.train("--steps=8", "--checkpoint-every=3", "--keep=9", *flags)
        again = self.out / "step-000003.safetensors"
        (self.out / "log.jsonl").unlink()
        said = self.train(f"--config={self.out}/config.json", f"--resume={again}")
        self.assertIn("from step 3", said)
        self.assertEqual([line["loss"] for line in self.log()], whole[3:])
        self.assertEqual(header_of(self.out / "step-000008.safetensors")["lm_head.weight"],
                         last["lm_head.weight"])

    def test_kill_9_while_a_checkpoint_is_written_loses_nothing(self):
        flags = ["--width=128", "--hidden=512", "--layers=4", "--checkpoint-every=1", "--keep=2",
                 "--steps=1000000", "--evaluate-every=0"]
        resume, newest = [], 0
        for kill in range(4):
            process = subprocess.Popen(
                [PROGRAM, f"--data={TEXT}", f"--out={self.out}", *SMALL, *flags, *resume],
                stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + 60
            partial = None
            while not partial:  # a file in the middle of being written, behind at least one whole
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
                whole = list(self.out.glob("step-*.safetensors"))
                partial = whole and next(iter(self.out.glob("*.partial")), None)
                if partial and resume and f"step-{newest:06}.safetensors" in str(partial):
                    partial = None
            process.kill()
            process.wait()
            steps = {}
            for path in self.out.glob("step-*.safetensors"):
                steps[int(header_of(path)["__metadata__"]["step"])] = path
            self.assertGreaterEqual(max(steps), newest, f"kill {kill} lost steps")
            newest = max(steps)
            resume = ["--resume=latest"]
        said = self.train(*flags, f"--steps={newest + 1}", "--resume=latest")
        self.assertIn(f"from step {newest}", said)

    def test_byte_pairs_from_a_text_to_a_sample(self):
        pairs = self.folder / "pairs.json"
        said = self.train(f"--train-tokenizer={pairs}", "--vocabulary=300")
        self.assertIn("300 tokens; 65536 bytes become ", said)
        self.train(f"--tokenizer={pairs}", "--steps=3")
        header_of(self.out / "tokens.safetensors")
        self.assertEqual(header_of(self.out / "step-000003.safetensors")["lm_head.weight"]["shape"],
                         [300, 16])
        sample = subprocess.run([PROGRAM, f"--out={self.out}", "--sample=5", "--prompt=ROMEO:",
                                 "--device=cpu"], capture_output=True)
        self.assertEqual(sample.returncode, 0, sample.stderr)
        self.assertTrue(sample.stdout.startswith(b"ROMEO:"), sample.stdout)
        error = self.train("--steps=9", "--resume=latest", status=1)
        self.assertIn('"vocabulary":300', error)

    def test_what_is_wrong_is_said(self):
        for flags, said in [(["--steps=0"], "--steps=0: at least 1"),
                            (["--heads=5"], "--width=16 does not divide into --heads=5"),
                            (["--resume=latest"], "holds no checkpoint"),
                            (["--tokenizer=none.json"], "none.json cannot be read"),
                            (["--context=60000"], "a window takes --context=60000"),
                            (["--learning-rate=1000", "--clip=0", "--log-every=1", "--warmup=0"],
                             "the loss is ")]:
            self.assertIn(said, self.train(*flags, status=1))
        self.assertIn("none.txt cannot be read", self.train(status=1, data="none.txt"))
        self.assertIn("--nonsense", self.train("--nonsense", status=2))
        empty = self.folder / "empty"
        empty.touch()
        self.assertIn("is empty", self.train(status=1, data=empty))
        cut = self.folder / "cut.safetensors"
        self.train("--steps=1")
        cut.write_bytes((self.out / "step-000001.safetensors").read_bytes()[:-5])
        self.assertIn("cut.safetensors: random.cpu U8 [", self.train(f"--resume={cut}", status=1))
        self.assertIn("holds checkpoints of a run, up to step-000001.safetensors: go on with "
                      "--resume=latest", self.train("--steps=1", status=1))

    def test_a_text_is_not_replaced_by_its_tokenizer(self):
        text = self.folder / "text"
        text.write_text("to be or not to be")
        self.assertIn("is the text that --data names",
                      self.train(f"--train-tokenizer={text}", "--vocabulary=260", status=1, data=text))
        self.assertEqual(text.read_text(), "to be or not to be")

    def test_help_has_examples(self):
        text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True).stdout
        self.assertIn("Examples:\n", text)
        self.assertIn("--resume=latest", text)


if __name__ == "__main__":
    unittest.main()
