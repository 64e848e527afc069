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
        for folder in ("scripts", "src/base", "build/lint"):
            os.makedirs(os.path.join(self.root, folder))
        for name in ("scripts/run_tidy.py", "scripts/lint_common.py", ".clang-tidy"):
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.write("build/lint/compile_commands.json", json.dumps([{
            "directory": self.root, "file": "src/base/a.cpp",
            "command": f"g++ -std=c++20 -I{self.root}/src -c src/base/a.cpp"}]))
        self.write("src/base/a.cpp", '#include "base/a.h"\n\nint twice(int value) { return 2 * value; }\n')

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def put_source(self, path, text, more=""):
        """Writes the only file of the tree."""
        os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
        self.write(path, text)
        self.write("build/lint/compile_commands.json", json.dumps([{
            "directory": self.root, "file": path, "command": f"g++ -std=c++20 {more} -c {path}"}]))

    def run_tidy(self, root=None):
        environment = {key: value for key, value in os.environ.items() if key != "HFSHARD_TIDY_BUILD"}
        environment["XDG_CACHE_HOME"] = os.path.join(self.root, "cache")
        done = subprocess.run([sys.executable, os.path.join(root or self.root, "scripts", "run_tidy.py")], env=environment,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_violation_is_found_in_sources_and_in_headers_and_clean_files_are_remembered(self):
        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\n")
        status, said = self.run_tidy()
        self.assertEqual(status, 0, said)
        self.assertIn("2 of 2 jobs", said)
        self.assertIn("0 of 2 jobs", self.run_tidy()[1])

        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\nint Thrice(int value);\n")
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("src/base/a.h:4:5: error: invalid case style for function 'Thrice'", said)
        self.assertIn("1 of 2 jobs", self.run_tidy()[1])

    def test_another_clone_finds_what_was_clean(self):
        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\n")
        self.assertEqual(self.run_tidy()[0], 0)
        with tempfile.TemporaryDirectory() as other:
            other = os.path.realpath(other)
            shutil.copytree(self.root, other, dirs_exist_ok=True)
            path = os.path.join(other, "build/lint/compile_commands.json")
            with open(path, encoding="utf-8") as file:
                text = file.read().replace(self.root, other)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn("0 of 2 jobs", self.run_tidy(other)[1])

    def test_a_cache_that_cannot_be_written_only_costs_time(self):
        self.write("cache", "a file where a directory should be")
        self.write("src/base/a.h", "#pragma once\n\nint twice(int value);\n")
        for _ in range(2):
            status, said = self.run_tidy()
            self.assertEqual(status, 0, said)
            self.assertIn("2 of 2 jobs", said)

    def test_every_source_of_a_layer_is_looked_at(self):
        names = ["a", "b", "c/d"]
        os.makedirs(os.path.join(self.root, "src/base/c"))
        for name in names:
            text = f"int {name[-1]}_once(int Wrong) {{ return Wrong; }}\n"
            self.write(f"src/base/{name}.cpp", "namespace {\n" + text + "}  // namespace\n")
        self.write("build/lint/compile_commands.json", json.dumps([{
            "directory": self.root, "file": f"src/base/{name}.cpp",
            "command": f"g++ -std=c++20 -c src/base/{name}.cpp"} for name in names]))
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        for name in names:
            self.assertIn(f"src/base/{name}.cpp:2:16: error: invalid case style for parameter 'Wrong'", said)

    def test_memory_is_analyzed_where_it_is_handled(self):
        text = "int take(bool good) {\n  int* value = nullptr;\n  if (good) return 1;\n  return *value;\n}\n"
        for folder, found in (("base", True), ("bytes", True), ("format/x", True), ("ops", True), ("run", True),
                              ("plan", False), ("service", False), ("catalog", False), ("mapping", False), ("tool", False)):
            self.put_source(f"src/{folder}/a.cpp", text)
            status, said = self.run_tidy()
            self.assertEqual((status, "clang-analyzer-core.NullDereference" in said), (int(found), found), folder + said)

    def test_what_the_analyzer_finds_is_said_of_its_own_file(self):
        good = "int {0}(bool good) {{\n  return good ? 1 : 2;\n}}\n"
        names = ["a", "b", "c"]
        for name in names:
            self.write(f"src/base/{name}.cpp", good.format(name))
        self.write("src/base/b.cpp", "int b(bool good) {\n  int* value = nullptr;\n  if (good) return 1;\n  return *value;\n}\n")
        self.write("build/lint/compile_commands.json", json.dumps([{
            "directory": self.root, "file": f"src/base/{name}.cpp",
            "command": f"g++ -std=c++20 -c src/base/{name}.cpp"} for name in names]))
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("src/base/b.cpp:4:10: error: Dereference of null pointer", said)
        self.assertNotIn("src_base_0.cpp", said)

    def test_a_precompiled_header_hides_no_missing_include(self):
        self.write("cmake_pch.hxx", "#include <string>\n")
        self.write("cmake_pch.hxx.gch", "not for clang")
        pch = f"-Winvalid-pch -include {self.root}/cmake_pch.hxx"
        self.put_source("src/base/a.cpp", "#include <string>\n\nstd::string text() { return {}; }\n", pch)
        self.assertEqual(self.run_tidy()[0], 0, self.run_tidy()[1])
        self.put_source("src/base/a.cpp", "std::string text() { return {}; }\n", pch)
        status, said = self.run_tidy()
        self.assertEqual(status, 1, said)
        self.assertIn("undeclared identifier 'std'", said)


if __name__ == "__main__":
    unittest.main()
