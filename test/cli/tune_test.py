"""kernel-compile tune on the simulated device: what it prints, keeps, resumes and refuses."""

import os
import pathlib
import resource
import signal
import subprocess
import time
import unittest

from command import COMMAND, GATE, LAYER_NORM, LISTS, CommandTest

SIMULATED = ["--device=simulated", "--store=tuned.db", "--jobs=1"]


class Tune(CommandTest):
    def test_keeps_what_it_learns(self):
        first = self.run_json("tune", *LAYER_NORM, *SIMULATED, "--effort=quick")
        job = first["jobs"][0]
        self.assertEqual(job["source"], "measured", job)
        self.assertLessEqual(job["ratio_low"], job["ratio"])
        self.assertLessEqual(job["ratio"], job["ratio_high"])
        self.assertGreater(job["measured"], 3)
        self.assertFalse(job["known"])
        again = self.run_json("tune", *LAYER_NORM, *SIMULATED, "--effort=quick")["jobs"][0]
        self.assertTrue(again["known"])
        self.assertEqual(again["schedule"], job["schedule"])
        shown = self.run_json("cache", "show", "tuned.db", job["key"][:12])
        self.assertIn(job["schedule"], str(shown))

    def test_serves_sizes_of_the_moment(self):
        """A choice for fixed rows is found by programs whose rows are known at run time only."""
        job = self.run_json("tune", "--op=layer_norm", "--shape=1024x128", "--backward", *SIMULATED,
                            "--effort=quick")["jobs"][0]
        self.assertTrue(job["general"])

        def explained(rows, code=0):
            return self.run_json("explain", "--op=layer_norm", "--shape=?x128", "--backward",
                                 f"--sizes={rows}", "--store=tuned.db", "--device=simulated",
                                 code=code)["keys"][0]
        found = explained(1024)
        self.assertEqual(found["choice"]["source"], "measured", found)
        self.assertEqual(found["choice"]["schedule"], job["schedule"])
        self.assertIn(job["key"][:12], found["choice"]["reason"])
        for rows in (512, 1000, 2048):  # from half to twice: as for the nearest that was tuned
            near = explained(rows)
            self.assertEqual(near["choice"]["source"], "transferred", near)
            self.assertEqual(near["choice"]["schedule"], job["schedule"])
            self.assertIn("1024x128", near["choice"]["reason"])
        for rows in (511, 2049):
            self.assertIn("tensors is", explained(rows, code=5)["miss"])
        self.assertEqual(len(self.run_json("report", "tuned.db")["lines"]), 1)  # one kernel

    def test_every_named_op_serves_sizes_of_the_moment(self):
        """The code is the same though its text may say other lines where the sizes are open."""
        for op in ("layer_norm", "rms_norm", "softmax", "log_softmax", "gelu", "silu"):
            for direction in ([], ["--backward"]):
                job = self.run_json("tune", f"--op={op}", "--shape=4096x1024", *direction,
                                    *SIMULATED, "--effort=quick")["jobs"][0]
                self.assertTrue(job["general"], job["label"])

    def test_workload_and_table(self):
        self.write("gate.mlir", GATE)
        self.write("w.txt", "layer_norm 64x128 bf16,f32 0.5 forward,backward\n"
                            "layer_norm 64x128 bf16 0.1 backward,no_read_ahead\n"
                            "gate.mlir 1000 - 0.4\n")
        done = self.run_command("tune", "--workload=w.txt", *SIMULATED, "--effort=quick")
        for text in ("layer_norm 64x128 bf16 backward ", "bf16 backward no_read_ahead",
                     "gate 1000", "of default", "why"):
            self.assertIn(text, done.out)
        self.assertNotIn("\033", done.out + done.error)  # no terminal: no progress, no colour
        again = self.run_command("tune", "--workload=w.txt", "-v", *SIMULATED, "--again")
        for line in ("1/6 keys", "6/6 keys"):
            self.assertIn(line, again.error)
        labels = [job["label"] for job in
                  self.run_json("tune", "--workload=w.txt", *SIMULATED)["jobs"]]
        self.assertEqual(len(labels), 6)
        explained = {promise: self.run_json(
            "explain", "--op=layer_norm", "--shape=64x128", "--dtype=bf16", "--backward", *promise,
            "--store=tuned.db", "--device=simulated")["keys"][0]["choice"]["schedule"]
            for promise in ((), ("--no-read-ahead",))}
        self.assertNotIn("older_first", explained["--no-read-ahead",])

    def test_several_kernels_and_lists(self):
        self.write("lists.mlir", LISTS)
        self.write("cut.mlir", GATE.replace(
            "  return %y", "  %z = arith.addf %y, %g : tensor<?x128xf32>\n  return %z").replace(
            "mulf %x, %g", "mulf %x, %g {kiln.cut}"))
        for arguments in (["lists.mlir"], ["cut.mlir", "--sizes=4096"]):
            job = self.run_json("tune", *arguments, *SIMULATED, "--effort=quick")["jobs"][0]
            self.assertEqual(job["source"], "measured", job)
            self.assertEqual(job["schedule"].count("kiln_"), 2, job)
            schedule = f"--schedule={job['schedule']}"  # is one that the compiler takes
            kernels = self.run_json("plan", arguments[0])["jobs"][0]["kernels"]
            self.assertEqual(len(kernels), 2)
            text = self.run_command("compile", arguments[0], "--emit=cuda", schedule).out
            for one in job["schedule"].split("#")[1:]:
                self.assertIn(one[:one.index(">")], text)

    def test_tells_where_the_time_went(self):
        done = self.run_command("tune", *LAYER_NORM, *SIMULATED, "--effort=quick", "-v")
        for text in ("compile", "verify", "measure", "all"):
            self.assertIn(text, done.out)
        job = self.run_json("tune", *LAYER_NORM, *SIMULATED, "--effort=quick", "--again")["jobs"][0]
        parts = sum(job[f"{part}_seconds"] for part in ("compile", "verify", "measure"))
        self.assertGreater(job["seconds"], parts)

    def test_without_effort(self):
        job = self.run_json("tune", *LAYER_NORM, "--store=t.db", "--effort=none")["jobs"][0]
        self.assertEqual(job["source"], "model")

    def test_interrupted_and_resumed(self):
        self.write("w.txt", "".join(f"layer_norm {64 * i}x256 f32 0.01 forward,backward\n"
                                    for i in range(1, 40)))
        arguments = ["tune", "--workload=w.txt", *SIMULATED, "--effort=exhaustive"]
        for how in (signal.SIGINT, signal.SIGTERM):
            store = pathlib.Path(self.folder, "tuned.db")
            for old in store.parent.glob("tuned.db*"):
                old.unlink()
            tuner = subprocess.Popen([COMMAND, *arguments], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while not store.exists() and tuner.poll() is None:
                time.sleep(0.01)
            time.sleep(0.3)
            tuner.send_signal(how)
            out, error = tuner.communicate(timeout=120)
            self.assertEqual(tuner.returncode, 128 + how, error)  # as shells have it
            self.assertIn(b"the same command goes on", out, error)
            jobs = self.run_json("tune", "--op=layer_norm", "--shape=64x256", *SIMULATED,
                                 "--effort=quick")["jobs"]
            self.assertEqual(jobs[0]["source"], "measured")

    def test_a_place_that_takes_nothing_is_an_error_before_the_search(self):
        tune = ["tune", *LAYER_NORM, "--device=simulated", "--effort=exhaustive"]
        for place in ["/proc/none/a.db", "/proc/a.db"]:
            self.refuses(*tune, f"--store={place}", says=place)
        self.refuses(*tune, says="--store=FILE",
                     env={k: v for k, v in os.environ.items() if k != "KILN_STORE"})
        self.run_command("tune", *LAYER_NORM, "--store=a.db", "--effort=none")

        def full(bytes_left):  # a limit on files does what a full disk does
            limit = (self.folder / "a.db").stat().st_size + bytes_left
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        began = time.monotonic()
        self.refuses(*tune, "--store=full.db", says="no space left",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)))
        self.assertLess(time.monotonic() - began, 5)
        # Its journal holds some rows, not all: what was written is kept.
        self.refuses(*tune, "--store=a.db", says=["no space left", "is kept"],
                     preexec_fn=full(20000))
        self.run_command("cache", "doctor", "a.db")
        job = self.run_json(*tune[:-1], "--store=a.db", "--effort=quick")["jobs"][0]
        self.assertEqual(job["source"], "measured")

    def test_refusals(self):
        self.write("gate.mlir", GATE)
        open_sizes = self.run_json("tune", "gate.mlir", *SIMULATED, code=3)["jobs"][0]
        self.assertIn("--sizes", open_sizes["reason"])
        self.refuses("tune", *LAYER_NORM, *SIMULATED, "--budget=soon", code=2, says="is no time")
        self.refuses("tune", *LAYER_NORM, *SIMULATED, "--schedule=x", code=2, says="goes without")
        self.refuses("tune", *LAYER_NORM, "--effort=much", code=2, says="much")
        if not os.path.exists("/dev/nvidiactl"):
            self.refuses("tune", *LAYER_NORM, "--store=t.db", says="--effort=none")


if __name__ == "__main__":
    unittest.main()
