"""Plants a file that breaks .clang-tidy and sees scripts/run_tidy.py find it, and remember only clean files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


@unittest.skipUnless(shutil.which("clang-tidy-14"), "clang-tidy-14 is missing")
class RunTidyTest(unittest.TestCase):
    def setUp(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self._temporary.cleanup)
        self.root = os.path.realpath(self._temporary.name)
        for folder in ("scripts", "src/base", "build/release"):
            os.makedirs(os.path.join(self.root, folder))
        for name in ("scripts/run_tidy.py", "scripts/lint_common.py", ".clang-tidy"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.write("build/release/compile_commands.json", json.dumps([{
            "directory": self.root, "file": "src/base/a.cpp",
            "command": f"g++ -std=c++20 -I{self.root}/src -c src/base/a.cpp"}]))
        self.write("src/base/a.cpp", '#include "base/a.h"\n\nint twice(int value) { return 2 * value; }\n')

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run_tidy(self):
        environment = {key: value for key, value in os.environ.items() if key != "HFSHARD_TIDY_BUILD"}
        done = subprocess.run([sys.executable, os.path.join(self.root, "scripts", "run_tidy.py")], env=environment,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_violation_is_found_in_sources_and_in_headers_and_clean_files_are_remembered(self):
        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\n")
        status, said = self.run_tidy()
        self.assertEqual(status, 0, said)
        self.assertIn("1 of 1 files", said)
        self.assertIn("0 of 1 files", self.run_tidy()[1])

        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\nint Thrice(int value);\n")
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("src/base/a.h:4:5: error: invalid case style for function 'Thrice'", said)
        self.assertIn("1 of 1 files", self.run_tidy()[1])


if __name__ == "__main__":
    unittest.main()
