"""Processes that end or fork while Kiln compiles, again and again: none may crash or hang."""

import os
import signal
import subprocess
import unittest

REPEAT = int(os.environ.get("KILN_REPEAT", "8"))


class Processes(unittest.TestCase):
    def run_often(self, program, *arguments, repeat=REPEAT, code=0, says=()):
        for turn in range(repeat):
            # Widths that no run before had, so that everything is compiled.
            given = [str(600 + 7 * turn) if a is None else a for a in arguments]
            done = subprocess.run([program, *given], capture_output=True, text=True, timeout=100,
                                  stdin=subprocess.DEVNULL)
            told = f"{given}, turn {turn}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            self.assertEqual(done.returncode, code, told)
            for text in says:
                self.assertRegex(done.stdout, text, told)


class Compiler(Processes):
    program = os.environ["PROCESS_END"]

    def test_static_destructors_may_call_kiln(self):
        for what, says in [("run", "1.9545"), ("compile", "[0-9]{4} letters"),
                           ("cubin", "error: .*(the process is ending|NVRTC)"),
                           ("parse", "error: .*expected")]:
            for how in ["return", "exit"]:
                with self.subTest(what=what, how=how):
                    self.run_often(self.program, what, how, says=[says, "ended"])

    def test_threads_may_compile_while_main_returns(self):
        for how in ["return", "exit", "quick", "now"]:
            with self.subTest(how=how):
                self.run_often(self.program, "thread", how)


@unittest.skipUnless("PROCESS_TORCH" in os.environ, "built without LibTorch")
class Torch(Processes):
    program = os.environ.get("PROCESS_TORCH")
    repeat = max(2, REPEAT // 3)  # LibTorch alone takes half a second

    def test_ends_while_kernels_are_compiled(self):
        for how in ["return", "exit", "quick", "now", "fuse", "static"]:
            with self.subTest(how=how):
                self.run_often(self.program, how, None, repeat=self.repeat)
        self.run_often(self.program, "throw", None, repeat=1, code=-signal.SIGABRT)

    def test_children_of_a_process_that_compiles(self):
        for how in ["fork", "fork_exit", "fork_again"]:
            with self.subTest(how=how):
                self.run_often(self.program, how, None, repeat=self.repeat)


if __name__ == "__main__":
    unittest.main()
