"""Stores of kernels on the command line: filled, looked at, merged, shipped, damaged."""

import contextlib
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import unittest

from command import COMMAND, GATE, LAYER_NORM, SOURCE, CommandTest, needs_nvrtc

VERBS = ["ls", "show", "diff", "merge", "export", "import", "pin", "gc", "doctor"]


@needs_nvrtc
class Stores(CommandTest):
    def fill(self, store, *rows, op="softmax", dtype="bf16"):
        for count in rows:
            self.run_command("compile", f"--op={op}", f"--shape={count}x128", f"--dtype={dtype}",
                             f"--store={store}")

    def choices(self, store, *options):
        return self.run_json("cache", "ls", store, *options)["choices"]

    def test_second_run_compiles_nothing(self):
        workload = self.write("w.txt", "softmax 64x128 bf16,f32 1/2 forward,backward\n"
                                       "gate.mlir 64 - 1/2\n".replace("1/2", "50%"))
        self.write("gate.mlir", GATE)
        first = self.run_json("compile", f"--workload={workload}", "--store=a.db")
        self.assertEqual(first["compilations"], 5)
        self.assertFalse(any(job["stored"] for job in first["jobs"]))
        again = self.run_json("compile", f"--workload={workload}", "--store=a.db")
        self.assertEqual(again["compilations"], 0)
        self.assertTrue(all(job["stored"] for job in again["jobs"]))
        for one, other in zip(first["jobs"], again["jobs"]):
            self.assertEqual([k["registers"] for k in one["kernels"]],
                             [k["registers"] for k in other["kernels"]])
        self.assertEqual({c["source"] for c in self.choices("a.db")}, {"model"})

    def test_stored_cubins_are_the_compiled_ones(self):
        arguments = ["compile", "--op=softmax", "--shape=64x128", "--store=a.db", "-o"]
        self.run_command(*arguments, "one.cubin")
        self.run_command(*arguments, "two.cubin")
        self.run_command("compile", "--op=softmax", "--shape=64x128", "-o", "three.cubin")
        one, two, three = ((self.folder / f"{name}.cubin").read_bytes()
                           for name in ["one", "two", "three"])
        self.assertEqual(one, two)
        self.assertEqual(one, three)

    def test_strict_names_what_differs(self):
        self.fill("a.db", 64)
        arguments = ["compile", "--op=softmax", "--shape=64x128", "--dtype=bf16", "--store=a.db",
                     "--strict"]
        self.assertEqual(self.run_json(*arguments)["compilations"], 0)
        self.refuses(*arguments, "--arch=sm_80", code=5, says=["arch is 'sm_80'", "'sm_90a'"])
        self.assertEqual(len(self.choices("a.db")), 1)

    def test_shipped_store_that_cannot_be_written(self):
        self.fill("a.db", 64)
        self.run_command("cache", "export", "a.db", "-o", "shipped.db")
        (self.folder / "shipped.db").chmod(0o444)
        self.folder.chmod(0o555)
        nobody = 65534
        done, strict = [
            self.run_command("compile", "--op=softmax", "--shape=64x128", "--dtype=bf16",
                             "--store=shipped.db", *flags, "--json",
                             user=nobody if os.geteuid() == 0 else None)
            for flags in ([], ["--strict"])]
        self.folder.chmod(0o755)
        self.assertIn("in memory", done.error)
        self.assertEqual(strict.error, "")  # nothing would be written
        for each in (done, strict):
            self.assertEqual(json.loads(each.out)["compilations"], 0)

    def test_two_surroundings_choose_the_same(self):
        workload = SOURCE / "bench/workloads/demo.txt"
        (self.folder / "elsewhere").mkdir()
        settings = [{}, {"LC_ALL": "tr_TR.UTF-8", "HOME": str(self.folder / "elsewhere"),
                         "TZ": "Asia/Tokyo", "MALLOC_PERTURB_": "85"}]
        for name, changed in zip(["a.db", "b.db"], settings):
            self.run_command("compile", f"--workload={workload}", f"--store={name}",
                             env={**os.environ, **changed})
        self.assertIn("the same choices", self.run_command("cache", "diff", "a.db", "b.db").out)
        self.assertEqual(self.choices("a.db"), self.choices("b.db"))

    def test_look(self):
        self.fill("a.db", 64, 32)
        entries = self.choices("a.db")
        self.assertEqual([e["label"] for e in entries], ["softmax 32x128 bf16",
                                                         "softmax 64x128 bf16"])
        key = entries[0]["key"]
        self.assertIn(key[:12], self.run_command("cache", "ls", "a.db").out)
        details = self.run_json("cache", "show", "a.db", key[:10])
        self.assertEqual(details["fields"]["arch"], "sm_90a")
        self.assertEqual(details["choice"]["cubin"], entries[0]["cubin"])
        self.assertIn("chosen: model", self.run_command("cache", "show", "a.db", key).out)
        self.refuses("cache", "show", "a.db", "", code=5, says="2 of the keys")
        self.refuses("cache", "show", "a.db", "zz", code=5, says=["0 of the keys", "cache ls"])
        self.assertEqual(self.choices("a.db", "--ops=softmax", "--arch=sm_90a"), entries)
        self.assertEqual(self.choices("a.db", "--ops=soft"), [])
        self.assertEqual(self.choices("a.db", "--arch=sm_80"), [])

    def test_merge_and_diff(self):
        self.fill("a.db", 64, 32)
        self.fill("b.db", 64, 16)
        self.run_command("cache", "diff", "a.db", "a.db")
        differences = self.run_json("cache", "diff", "a.db", "b.db", code=1)["differences"]
        self.assertEqual(len(differences), 2)
        self.assertEqual({tuple(d) for d in differences}, {("first",), ("second",)})
        self.assertEqual(self.run_json("cache", "merge", "a.db", "b.db", "-o", "c.db")["choices"], 3)
        self.run_command("cache", "merge", "b.db", "a.db", "a.db", "-o", "d.db")
        self.assertEqual(self.choices("c.db"), self.choices("d.db"))
        self.refuses("cache", "merge", "a.db", "-o", "c.db", says="is there already")

    def test_ship(self):
        self.fill("a.db", 64, 32)
        self.fill("a.db", 64, op="rms_norm")
        self.assertEqual(self.run_json("cache", "export", "a.db", "-o", "all.db")["choices"], 3)
        self.run_command("cache", "import", "all.db", "empty.db")
        self.assertEqual(self.choices("empty.db"), self.choices("a.db"))
        part = self.run_json("cache", "export", "a.db", "-o", "part.db", "--ops=rms_norm")
        self.assertEqual(part["choices"], 1)
        self.assertLess(part["bytes"], 500000)
        # What was shipped is enough: nothing is compiled from it.
        done = self.run_json("compile", "--op=rms_norm", "--shape=64x128", "--dtype=bf16",
                             "--store=part.db")
        self.assertEqual(done["compilations"], 0)

    def test_pin(self):
        self.fill("a.db", 64)
        key = self.choices("a.db")[0]["key"]
        self.run_command("cache", "pin", "a.db", key[:12])
        self.assertEqual(self.choices("a.db")[0]["source"], "pinned")
        self.fill("a.db", 64)
        self.assertEqual(self.choices("a.db")[0]["source"], "pinned")
        self.refuses("cache", "pin", "a.db", key, "--schedule=#kiln.schedule<other>", code=5,
                     says="nothing to pin")
        self.run_command("cache", "pin", "a.db", key, "--undo")
        self.assertEqual(self.choices("a.db")[0]["source"], "model")

    def test_gc(self):
        self.fill("a.db", 64)
        self.assertEqual(self.run_json("cache", "gc", "a.db")["cubins"], 0)
        with contextlib.closing(sqlite3.connect(self.folder / "a.db")) as store:
            store.execute("DELETE FROM choice")
            store.commit()
        self.assertEqual(self.run_json("cache", "gc", "a.db", "--stale")["cubins"], 1)

    def test_refresh(self):
        self.fill("a.db", 64)
        self.run_command("cache", "pin", "a.db", self.choices("a.db")[0]["key"][:12])
        self.assertEqual(self.run_json("cache", "refresh", "a.db"),
                         {"current": 1, "carried": 0, "stale": []})
        self.assertIn("1 choices are current", self.run_command("cache", "refresh", "a.db").out)
        self.refuses("cache", "refresh", "none.db", says="there is no store")

    def test_doctor(self):
        self.fill("a.db", 64)
        for finding in self.run_json("cache", "doctor", "a.db")["findings"]:
            self.assertEqual(finding["state"], "found")
        self.run_command("cache", "doctor", "none.db")

    def test_damaged_file(self):
        self.fill("a.db", 64)
        whole = (self.folder / "a.db").read_bytes()
        (self.folder / "bad.db").write_bytes(whole[:len(whole) // 2])
        for verb in [["ls", "bad.db"], ["show", "bad.db", "0"], ["diff", "a.db", "bad.db"],
                     ["merge", "a.db", "bad.db", "-o", "c.db"], ["import", "bad.db", "c.db"],
                     ["export", "bad.db", "-o", "d.db"], ["pin", "bad.db", "0"], ["gc", "bad.db"],
                     ["refresh", "bad.db"]]:
            with self.subTest(verb):
                self.refuses("cache", *verb, code=7, says=["bad.db", "is damaged"])
        self.assertFalse((self.folder / "c.db").exists())
        self.assertIn("broken", self.run_command("cache", "doctor", "bad.db", code=7).out)
        document = self.run_json("cache", "ls", "bad.db", code=7)
        self.assertEqual(document["error"]["kind"], "corrupt")
        # To compile is not refused: the file is set aside.
        done = self.run_command("compile", "--op=softmax", "--shape=64x128", "--store=bad.db")
        self.assertIn("warning:", done.error)
        self.assertIn("bad.db.corrupt-", done.error)
        self.assertEqual(len(self.choices("bad.db")), 1)

    def test_place_that_cannot_be_written(self):
        done = self.run_command("compile", "--op=softmax", "--shape=64x128",
                                "--store=/proc/none/a.db")
        self.assertEqual(done.error.count("warning:"), 1)
        self.assertIn("in memory", done.error)

    def test_full_disk(self):
        self.fill("a.db", 64)
        limit = (self.folder / "a.db").stat().st_size
        self.refuses("compile", f"--workload={SOURCE}/bench/workloads/alphafold_layernorm.txt",
                     "--store=a.db", "--jobs=1", says=["no space left", "is kept"],
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertGreaterEqual(len(self.choices("a.db")), 1)
        self.run_command("cache", "doctor", "a.db")

    def test_the_store_that_ships_with_kiln(self):
        store = shutil.copy(SOURCE / "autotune" / "stores" / "h200.db", self.folder / "h200.db")
        findings = {f["name"]: f for f in self.run_json("cache", "doctor", store)["findings"]}
        self.assertEqual(findings["contents"]["state"], "found")
        choices = self.choices(store)
        self.assertEqual({c["source"] for c in choices}, {"measured"})
        workloads = [SOURCE / "bench" / "workloads" / f"{name}.txt"
                     for name in ["alphafold_layernorm", "language_model_rows"]]
        first = self.run_json("compile", f"--workload={workloads[0]}", f"--store={store}")
        if first["compilations"]:
            self.skipTest("autotune/stores/h200.db was tuned with another emitter or NVRTC; "
                          "bench/tune_store.sh makes it anew on a GPU")
        self.assertEqual(self.run_json("compile", f"--workload={workloads[1]}",
                                       f"--store={store}")["compilations"], 0)
        # Programs call the same functions with numbers of rows that are known at run time only.
        for op, shape, rows in [("layer_norm", "?x128", 65536), ("softmax", "?x256", 262144)]:
            for direction in [[], ["--backward"]]:
                explained = self.run_json("explain", f"--op={op}", f"--shape={shape}", *direction,
                                          f"--sizes={rows}", f"--store={store}")["keys"][0]
                self.assertEqual(explained["choice"]["source"], "measured", explained)


class Usage(CommandTest):
    def test_each_verb_has_an_example(self):
        for verb in VERBS:
            out = self.run_command("cache", verb, "--help").out
            self.assertIn("Example:", out)
            self.assertIn(f"kernel-compile cache {verb}", out)
            self.assertIn("--json", out)

    def test_usage_errors_exit_with_2(self):
        for arguments in [["cache"], ["cache", "ls"], ["cache", "diff", "a.db"],
                          ["cache", "merge", "a.db"], ["cache", "nonsense"],
                          ["compile", "--op=softmax", "--shape=8x8", "--store=a.db", "--emit=ptx"],
                          ["compile", "--op=softmax", "--shape=8x8", "--store=a.db",
                           "--schedule=#kiln.schedule<>"]]:
            with self.subTest(arguments):
                self.run_command(*arguments, code=2)

    def test_files_of_others_stay_as_they_are(self):
        self.run_command("tune", *LAYER_NORM, "--effort=none", "--store=a.db")
        for name, text in [("notes.txt", b"my notes\n" * 100), ("data.bin", bytes(5000))]:
            path = self.folder / name
            path.write_bytes(text)
            for arguments in [["compile", *LAYER_NORM, f"--store={name}"],
                              ["tune", *LAYER_NORM, "--device=simulated", f"--store={name}"],
                              ["cache", "export", "a.db", "-o", name],
                              ["cache", "import", "a.db", name], ["cache", "import", name, "a.db"],
                              ["cache", "ls", name], ["cache", "gc", name], ["report", name]]:
                with self.subTest(arguments):
                    self.refuses(*arguments, says=[name, "another program"])
            self.assertEqual(path.read_bytes(), text)
        self.refuses("cache", "export", "a.db", "-o", "a.db", says="its history would be lost")
        os.mkfifo(self.folder / "fifo")
        for name, what in [("fifo", "a FIFO"), (".", "a folder"), ("/dev/null", "a character")]:
            for arguments in [["cache", "ls", name], ["cache", "export", "a.db", "-o", name],
                              ["compile", *LAYER_NORM, f"--store={name}"]]:
                self.refuses(*arguments, says=what)
        self.assertEqual({p.name for p in self.folder.iterdir()},
                         {"a.db", "notes.txt", "data.bin", "fifo"})

    def test_reading_leaves_the_folder_as_it_is(self):
        """The shipped store lies in a clone: looking at it must not change what git sees."""
        shutil.copy(SOURCE / "autotune" / "stores" / "h200.db", self.folder / "h200.db")
        whole = (self.folder / "h200.db").read_bytes()
        key = self.run_json("cache", "ls", "h200.db")["choices"][0]["key"]
        for arguments in [["cache", "ls"], ["cache", "show", key], ["cache", "diff", "h200.db"],
                          ["cache", "export", "-o", "part.db"], ["cache", "doctor"], ["report"],
                          ["explain", key, "--store=h200.db"],
                          ["compile", "--op=softmax", "--shape=8192x10000", "--dtype=bf16", "-o",
                           "part.cubin", "--store=h200.db", "--strict"]]:
            verb, rest = (2, arguments[2:]) if arguments[0] == "cache" else (1, arguments[1:])
            store = [] if "--store=h200.db" in arguments else ["h200.db"]
            self.run_command(*arguments[:verb], *store, *rest)
        self.assertEqual({p.name for p in self.folder.iterdir()},
                         {"h200.db", "part.db", "part.cubin"})
        self.assertEqual((self.folder / "h200.db").read_bytes(), whole)

    def test_others_who_may_write_are_named(self):
        self.run_command("tune", *LAYER_NORM, "--effort=none", "--store=a.db")
        (self.folder / "a.db").chmod(0o666)
        for arguments in [["cache", "ls", "a.db"], ["cache", "doctor", "a.db"], ["report", "a.db"],
                          ["cache", "export", "a.db", "-o", "b.db"],
                          ["tune", *LAYER_NORM, "--effort=none", "--store=a.db"]]:
            done = self.run_command(*arguments)
            self.assertEqual(done.error.count("others may write the store"), 1, done.error)
        self.assertNotIn("warning", self.run_command("cache", "ls", "b.db").error)

    def spoil(self, store, columns):
        """Writes what a terminal or a page would take for its own behind every text of columns."""
        evil = "\x1b]0;owned\x07\x1b[2J\r\nforged\x7f\u009b31m\u202e<b>"
        with contextlib.closing(sqlite3.connect(self.folder / store)) as database:
            for column in columns.split():
                table, name = column.split(".")
                database.execute(f"UPDATE {table} SET {name} = {name} || ? || CAST(x'ff80' AS TEXT)",
                                 [evil])
            database.commit()

    def test_nothing_of_a_strangers_store_moves_the_cursor(self):
        self.run_command("tune", *LAYER_NORM, "--store=a.db", "--device=simulated",
                         "--effort=quick", "--jobs=1")
        with contextlib.closing(sqlite3.connect(self.folder / "a.db")) as database:
            database.execute("INSERT INTO failure SELECT id, '', '1', 'crash', 'log', 0 "
                             "FROM candidate LIMIT 1")
            database.commit()
        key = self.run_json("cache", "ls", "a.db")["choices"][0]["key"]
        self.spoil("a.db", "workload.label choice.reason search.reason verdict.reference "
                           "refusal.worst failure.log failure.driver measurement.host "
                           "measurement.driver measurement.uuid")
        shutil.copy(self.folder / "a.db", self.folder / "keys.db")  # no longer what their names say
        self.spoil("keys.db", "device.arch device.name toolchain.nvrtc toolchain.flags "
                              "workload.tensors refusal.rule refusal.kernel")
        shutil.copy(self.folder / "a.db", self.folder / "b.db")
        self.run_command("cache", "pin", "b.db", key)
        verbs = [["cache", "diff", "a.db", "b.db"], ["cache", "merge", "a.db", "b.db", "-o", "c.db"],
                 ["cache", "import", "a.db", "b.db"], ["cache", "export", "a.db", "-o", "d.db"],
                 ["cache", "pin", "b.db", key], ["cache", "refresh", "b.db"],
                 ["tune", *LAYER_NORM, "--device=simulated", "--store=b.db", "-v"]]
        for store in ["a.db", "keys.db"]:
            verbs += [["cache", "ls", store], ["cache", "show", store, key],
                      ["cache", "doctor", store], ["cache", "gc", store, "--stale"],
                      ["explain", key, f"--store={store}"]]
            verbs += [[verb, store, key, "--device=simulated"]
                      for verb in ["verify", "bench", "regress"]]
            verbs += [["report", store, f"--format={form}"] for form in ["markdown", "csv", "html"]]
            verbs += [["report", store]]
        forbidden = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]|^forged", re.M)
        for arguments in verbs:
            for more in [[], ["--json"]] if not arguments[-1].startswith("--format") else [[]]:
                with self.subTest(arguments + more):
                    (self.folder / "c.db").unlink(missing_ok=True)
                    done = subprocess.run([COMMAND, *arguments, *more], capture_output=True,
                                          cwd=self.folder, stdin=subprocess.DEVNULL, timeout=300)
                    self.assertIn(done.returncode, [0, 1, 4, 5, 7], done.stderr)
                    self.assertNotIn(b"invalid UTF-8", done.stderr)
                    for text in [done.stdout.decode(), done.stderr.decode()]:
                        self.assertIsNone(forbidden.search(text), repr(text))
                        if arguments[-1] in ["--format=html", "--format=markdown"]:
                            self.assertNotIn("<b>", text.replace("\\<", ""))

    def test_missing_and_foreign_files(self):
        self.refuses("cache", "ls", "none.db", says=["there is no store", "none.db"])
        self.refuses("cache", "gc", "none.db", says="there is no store")
        self.assertFalse((self.folder / "none.db").exists())
        other = sqlite3.connect(self.folder / "other.db")
        other.execute("CREATE TABLE letters (a)")
        other.commit()
        other.close()
        self.refuses("cache", "ls", "other.db", says="another program")
        self.refuses("compile", "--op=softmax", "--shape=8x8", "--store=other.db",
                     says="another program")


if __name__ == "__main__":
    unittest.main()
