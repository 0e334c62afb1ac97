"""The README files, held against what they describe: links lead somewhere, texts and programs are
those of files that tests compile and run, and every command is run. Commands that need a GPU must
get as far as saying so on a machine without one."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(os.environ["KILN_SOURCE"]) / "test/alphafold_commands"))
import small_protein

SOURCE = pathlib.Path(os.environ["KILN_SOURCE"])
KERNEL_COMPILE = os.environ["KERNEL_COMPILE"]
PAGES = sorted(path.relative_to(SOURCE) for path in SOURCE.glob("**/README.md")
               if not re.match(r"\.venv|build", str(path.relative_to(SOURCE))))
FRONT_PAGE_LINES = 150

# Run by tests of their own: test/setup, and test/package, which also builds what is installed.
ELSEWHERE = ("tools/demo", "tools/test", "cmake --install build",
             "alphafold_features")  # test/alphafold_features/command_test.py
NEEDS_GPU = ("kernel-compile tune", "kernel-compile bench", "kernel-compile verify",
             "kernel-compile regress", "kiln-baseline")


def blocks(page, language):
    """The fenced texts of a page in that language; indented ones, as parts of lists, too."""
    text = (SOURCE / page).read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.M | re.S)
    return [re.sub(rf"^{indent}", "", body, flags=re.M) for indent, word, body in found
            if word == language]


def commands(page):
    """Lines of shell blocks, and those behind a $ in transcripts, without their comments."""
    lines = [line for body in blocks(page, "sh") for line in body.splitlines()]
    lines += [line[2:] for body in blocks(page, "") for line in body.splitlines()
              if line.startswith("$ ")]
    return [re.sub(r"\s+#.*", "", line) for line in lines if line.strip()]


def code_only(text):
    """C++ without comments and blanks, so that it may be indented and wrapped otherwise."""
    return re.sub(r"\s+", "", re.sub(r"//.*", "", text))


def has_in_order(whole, lines):
    """Whether the lines stand in the whole, one behind the other."""
    at = 0
    for line in lines:
        at = whole.find(line, at)
        if at < 0:
            return False
        at += len(line)
    return True


class Pages(unittest.TestCase):
    def test_the_front_page_is_short(self):
        lines = (SOURCE / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), FRONT_PAGE_LINES)

    def test_links_and_paths_lead_somewhere(self):
        for page in PAGES:
            text = re.sub(r"^ *```.*?^ *```", "", (SOURCE / page).read_text(), flags=re.M | re.S)
            folder = (SOURCE / page).parent
            for link in re.findall(r"\]\(([^)#]+)\)", text):
                with self.subTest(page=str(page), link=link):
                    self.assertTrue((folder / link).exists())
            for path in re.findall(r"`((?:bench|test|tools|codegen|autotune)/[\w./-]+)`", text):
                with self.subTest(page=str(page), path=path):
                    self.assertTrue((SOURCE / path).exists())

    def test_every_page_is_reached_from_the_front_page(self):
        front = (SOURCE / "README.md").read_text()
        for page in PAGES:
            if page.parent != pathlib.Path("."):
                self.assertIn(f"({page})", front)


class Code(unittest.TestCase):
    def test_mlir_is_that_of_workloads(self):
        texts = [path.read_text().strip() for path in (SOURCE / "bench/workloads").glob("*.mlir")]
        for page in PAGES:
            for body in blocks(page, "mlir"):
                self.assertIn(body.strip(), texts, page)

    def test_cpp_is_that_of_tests(self):
        tests = [code_only(path.read_text()) for path in (SOURCE / "test").glob("**/*.cpp")]
        for page in PAGES:
            if page.parts[0] == "dialect":  # an op that does not exist: extract_op.py
                continue
            for body in blocks(page, "cpp"):
                lines = [code_only(line) for line in body.splitlines()]
                with self.subTest(page=str(page), body=body):
                    self.assertTrue(any(has_in_order(test, lines) for test in tests))

    def test_cuda_is_what_the_command_prints(self):
        out = subprocess.run([KERNEL_COMPILE, "compile", "gate.mlir", "--emit=cuda"],
                             cwd=SOURCE / "bench/workloads", capture_output=True, text=True, check=True).stdout
        shown = "\n".join(line for line in out.splitlines() if not re.match(r"// (kiln )?.*\{", line))
        cuda = [body for page in PAGES for body in blocks(page, "cuda")]
        self.assertTrue(cuda)
        for body in cuda:
            self.assertEqual(body.strip(), shown.strip())


class Commands(unittest.TestCase):
    """In a folder that looks like the clone, with the files that pages speak of."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-docs-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ["bench", "test"]:
            (self.folder / name).symlink_to(SOURCE / name)
        for name in ["gate.mlir", "masked_softmax.mlir"]:
            shutil.copy(SOURCE / "bench/workloads" / name, self.folder)
        for name in ["tuned.db", "here.db", "there.db"]:
            shutil.copy(SOURCE / "autotune/stores/h200.db", self.folder / name)
        (self.folder / "rows.txt").write_text("rms_norm 64x128 bf16 100% forward\n")
        self.programs = {"kernel-compile": KERNEL_COMPILE,
                         "kiln-baseline": os.environ.get("KILN_BASELINE"),
                         "train_lm": os.environ.get("TRAIN_LM"),
                         "train_alphafold": os.environ.get("TRAIN_ALPHAFOLD"),
                         "predict_alphafold": os.environ.get("PREDICT_ALPHAFOLD")}

    def check(self, line):
        name, *arguments = line.split(" ")
        self.assertIn(name, self.programs, f"'{line}' is run by no test")
        if self.programs[name] is None:
            self.skipTest("built without LibTorch")
        command = line.replace(name, self.programs[name], 1)
        command = re.sub(r"--(steps|log-every|evaluate-every)=(\d+)00", r"--\1=\2", command)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=900)
        if line.startswith(NEEDS_GPU) and "simulated" not in line and done.returncode == 1:
            self.assertRegex(done.stderr, "GPU|driver|CUDA", line)
        elif "explain" in line and done.returncode == 5:  # a store of another version's
            self.assertRegex(done.stdout, "miss: (emitter|nvrtc) is", line)
        else:
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}\n{done.stderr}")

    def check_page(self, page):
        ran = 0
        for line in commands(pathlib.Path(page)):
            if line.startswith(ELSEWHERE):
                continue
            with self.subTest(line):
                self.check(line)
                ran += 1
        self.assertGreater(ran, 0)

    def test_front_page(self):
        self.check_page("README.md")

    def test_kernel_compile(self):
        self.check_page("tools/kernel-compile/README.md")

    def test_autotune(self):
        self.check_page("autotune/README.md")

    def test_language_model(self):
        self.check_page("models/lm/README.md")

    def test_alphafold(self):
        for name in ["102m", "1k1a"]:  # small ones under these names
            small_protein.write(self.folder / "proteins", name)
        self.check_page("models/alphafold/README.md")

    def test_no_page_is_forgotten(self):
        tested = {"README.md", "tools/kernel-compile/README.md", "autotune/README.md",
                  "models/lm/README.md", "models/alphafold/README.md"}
        for page in PAGES:
            if str(page) not in tested:
                for line in commands(page):
                    self.assertTrue(line.startswith(ELSEWHERE), f"{page}: '{line}' is not run")

    def test_the_workload_file(self):
        body, = [body for body in blocks(pathlib.Path("tools/kernel-compile/README.md"), "")
                 if body.startswith("# what")]
        (self.folder / "w.txt").write_text(body)
        done = subprocess.run([KERNEL_COMPILE, "plan", "--workload=w.txt", "--json"],
                              cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertEqual(len(json.loads(done.stdout)["jobs"]), 6)


if __name__ == "__main__":
    unittest.main()
