"""What shells and `man` know of the command: completions that complete, a page without warnings.
Parts that need a shell or a formatter which is not there are skipped."""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import unittest

from command import COMMAND, CommandTest, verbs

PAGES = pathlib.Path(os.environ["KILN_PAGES"])  # where the build has put them
BASH = PAGES / "bash" / "kernel-compile"
MAN = PAGES / "man" / "kernel-compile.1"


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"no {program} on this machine")


class ShellTest(CommandTest):
    def typed(self, shell, *pieces):
        """What a terminal shows of a shell in which somebody types that, a piece whenever the shell
        has been silent for a moment."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        process = subprocess.Popen(
            shell, stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.folder,
            start_new_session=True,
            env={**os.environ, "PS1": "> ", "TERM": "dumb", "INPUTRC": "/dev/null",
                 "PATH": f"{os.path.dirname(COMMAND)}:{os.environ['PATH']}"})
        os.close(theirs)
        out = b""
        pieces = list(pieces)
        try:
            while select.select([ours], [], [], 0.7)[0] or pieces:
                if select.select([ours], [], [], 0)[0]:
                    out += os.read(ours, 1 << 16)
                else:
                    os.write(ours, pieces.pop(0).encode())
        except OSError:  # the shell is gone
            pass
        os.close(ours)
        process.wait(timeout=60)
        return out.decode(errors="replace").replace("\a", "")  # it rings where nothing fits


class Pages(CommandTest):
    def test_are_those_of_the_parser(self):
        for what, path in [("bash", BASH), ("zsh", PAGES / "zsh" / "_kernel-compile"),
                           ("fish", PAGES / "fish" / "kernel-compile.fish"), ("man", MAN)]:
            self.assertEqual(self.run_command("generate", what).out, path.read_text())

    def test_hold_every_verb_option_and_word(self):
        pages = {what: self.run_command("generate", what).out.replace("\\-", "-")
                 for what in ("bash", "zsh", "fish", "man")}
        for verb in verbs():
            for option in verb["options"]:
                for name in [] if option["positional"] else option["names"]:
                    for what in ("bash", "zsh", "man"):
                        self.assertIn(name, pages[what])
                    flag = "-l " if name.startswith("--") else "-s "
                    self.assertIn(flag + name.lstrip("-") + " ", pages["fish"])
                for what, between in [("bash", " "), ("zsh", " "), ("fish", " "), ("man", ", ")]:
                    self.assertIn(between.join(option["words"]), pages[what])

    @needs("cmake")
    def test_are_installed_where_shells_and_man_look(self):
        subprocess.run(["cmake", "--install", PAGES, "--prefix", self.folder / "usr"], check=True,
                       capture_output=True, timeout=60)
        for place in ("bash-completion/completions/kernel-compile",
                      "zsh/site-functions/_kernel-compile",
                      "fish/vendor_completions.d/kernel-compile.fish",
                      "man/man1/kernel-compile.1"):
            self.assertTrue((self.folder / "usr" / "share" / place).is_file(), place)

    def test_hidden_verbs_are_not_in_them(self):
        for what in ("bash", "zsh", "fish", "man"):
            page = self.run_command("generate", what).out
            self.assertNotIn("worker", page)
            self.assertNotIn("generate", page.split("\n", 2)[2])


class Bash(ShellTest):
    def setUp(self):
        super().setUp()
        for name in ("gate.mlir", "a file.mlir", "tuned.db"):
            self.write(name, "")
        (self.folder / "stages").mkdir()

    def complete(self, *words, at_equals=True):
        """What bash offers for the last of `words`, which are parted at '=' as Readline does."""
        if at_equals:
            words = [part for word in words for part in re.split("(=)", word)]
            words = [*[word for word in words[:-1] if word], words[-1]]
        script = f"""
            source '{BASH}'
            COMP_WORDS=(kernel-compile "$@") COMP_CWORD=$#
            _kernel_compile
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], timeout=60,
                              cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return sorted(done.stdout.split("\n")[:-1]) if done.stdout.strip() else []

    def test_verbs(self):
        self.assertEqual(self.complete("com"), ["compile"])
        self.assertEqual(self.complete("cache", "d"), ["diff", "doctor"])
        self.assertIn("tune", self.complete(""))
        self.assertNotIn("worker", self.complete("w"))

    def test_options(self):
        self.assertEqual(self.complete("compile", "--dt"), ["--dtype"])
        self.assertEqual(self.complete("cache", "ls", "--o"), ["--ops"])
        self.assertIn("--undo", self.complete("cache", "pin", "-"))
        self.assertEqual(self.complete("run", "gate.mlir", "--target", "host", "--ti"), ["--time"])

    def test_words(self):
        self.assertEqual(self.complete("compile", "--op", "so"), ["softmax"])
        self.assertEqual(self.complete("compile", "--arch=sm_1"), ["sm_100a", "sm_120"])
        self.assertEqual(self.complete("compile", "--dtype="), ["bf16", "f16", "f32"])
        self.assertEqual(self.complete("tune", "--effort=q", at_equals=False), ["--effort=quick"])
        self.assertEqual(self.complete("compile", "--jobs", ""), [])

    def test_files(self):
        self.assertEqual(self.complete("compile", "ga"), ["gate.mlir"])
        self.assertEqual(self.complete("compile", "--store", "tu"), ["tuned.db"])
        self.assertEqual(self.complete("compile", "-o", "a"), ["a file.mlir"])
        self.assertEqual(self.complete("compile", "--save-temps="), ["stages"])
        self.assertEqual(self.complete("cache", "show", "tu"), ["tuned.db"])

    def test_in_a_shell_that_completes(self):
        """The whole way through Readline: TAB behind a prompt."""
        out = self.typed(["bash", "--norc", "-i"], f"source '{BASH}'\n",
                         "kernel-compile compile --emit=js\t--op=gelu --shape=8x12\t8 --no-re\t\n",
                         "exit\n")
        self.assertIn("--emit=json --op=gelu --shape=8x128 --no-read-ahead", out)


class OtherShells(ShellTest):
    @needs("zsh")
    def test_zsh(self):
        page = PAGES / "zsh" / "_kernel-compile"
        subprocess.run(["zsh", "-n", page], check=True, timeout=60)
        lines = {"comp": "compile", "compile --dt": "compile --dtype=", "cache mer": "cache merge",
                 "compile --op=softm": "--op=softmax", "cache show tu": "cache show tuned.db"}
        self.write("tuned.db", "")
        out = self.typed(["zsh", "-f", "-i"], f"PROMPT='> '; fpath=({PAGES}/zsh $fpath)\n",
                         "autoload -U compinit; compinit -u -D\n",
                         *[f"kernel-compile {line}\t\x15" for line in lines], "exit\n")
        for completed in lines.values():
            self.assertIn("kernel-compile " + completed if completed[0] != "-" else completed, out)

    @needs("fish")
    def test_fish(self):
        page = PAGES / "fish" / "kernel-compile.fish"
        subprocess.run(["fish", "-n", page], check=True, timeout=60)

        def complete(line):
            out = subprocess.run(["fish", "--no-config", "-c", f"source {page}; complete -C '{line}'"],
                                 capture_output=True, text=True, check=True, timeout=60,
                                 cwd=self.folder).stdout
            return [row.split("\t")[0] for row in out.splitlines()]
        self.assertEqual(complete("kernel-compile comp"), ["compile"])
        self.assertEqual(complete("kernel-compile cache d"), ["diff", "doctor"])
        self.assertEqual(complete("kernel-compile compile --dt"), ["--dtype"])
        self.assertEqual(complete("kernel-compile compile --op softm"), ["softmax"])
        self.assertEqual(complete("kernel-compile doctor --nv"), ["--nvrtc"])
        self.assertEqual(complete("kernel-compile cache doctor --nv"), [])


class ManPage(CommandTest):
    def clean(self, *command):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    @needs("man")
    @needs("groff")
    def test_man(self):
        text = self.clean("man", "--warnings", "-l", MAN)
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "VERBS", "EXIT STATUS"):
            self.assertIn(section + "\n", text)
        self.assertIn("kernel-compile cache export [OPTIONS] STORE", text)
        self.assertIn("kernel-compile compile gate.mlir --emit=cuda", text)  # an example

    @needs("groff")
    def test_groff(self):
        self.clean("groff", "-man", "-Tutf8", "-ww", "-z", MAN)

    @needs("mandoc")
    def test_mandoc(self):
        """It has no date on purpose: two builds of one text are equal."""
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", MAN], capture_output=True, text=True,
                              timeout=60)
        said = [line for line in done.stdout.splitlines() if "missing date" not in line]
        self.assertEqual(said, [])

    @needs("lexgrog")
    def test_apropos_finds_it(self):
        self.assertIn("kernel-compile - compile", self.clean("lexgrog", MAN))


if __name__ == "__main__":
    unittest.main()
