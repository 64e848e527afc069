"""Plants a badly formatted file in a small tree and sees scripts/check_format name it."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


@unittest.skipUnless(shutil.which("clang-format-14"), "clang-format-14 is missing")
class CheckFormatTest(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "scripts"))
            os.makedirs(os.path.join(root, "src"))
            for name in ("check_format", "format", "lint_common.py"):
                shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(root, "scripts"))
            shutil.copy(os.path.join(ROOT, ".clang-format"), root)
            with open(os.path.join(root, "src", "a.cpp"), "w", encoding="utf-8") as file:
                file.write(text)
            first = self.run_script(root, "check_format")
            self.assertEqual(self.run_script(root, "format").returncode, 0)
            self.assertEqual(self.run_script(root, "check_format").returncode, 0)
            return first

    def run_script(self, root, name):
        return subprocess.run([os.path.join(root, "scripts", name)], capture_output=True, text=True, check=False)

    def test_a_well_formatted_file_passes(self):
        self.assertEqual(self.run_on("int a = 1;\n").returncode, 0)

    def test_a_badly_formatted_file_is_named_and_mended(self):
        done = self.run_on("int  a=1 ;\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/a.cpp:1: not as clang-format 14 writes it", done.stdout)


if __name__ == "__main__":
    unittest.main()
