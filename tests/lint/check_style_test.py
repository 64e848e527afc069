"""Plants violations of each style rule in a small tree and sees scripts/check_style.py find each."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_style  # noqa: E402


def body(lines):
    return "".join(f"  call({n});\n" for n in range(lines))


class CheckStyleTest(unittest.TestCase):
    def problems(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
            return check_style.check_tree(root)

    def refused(self, path, text, part):
        found = self.problems(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def allowed(self, path, text):
        self.assertEqual(self.problems(path, text), [])

    def test_sizes_of_files(self):
        self.allowed("src/a.h", "#pragma once\n" + "int a;\n" * 249)
        self.refused("src/a.h", "#pragma once\n" + "int a;\n" * 250, "251 lines; the limit is 250")
        self.allowed("src/a.cpp", "int a;\n" * 500)
        self.refused("src/a.cpp", "int a;\n" * 501, "501 lines; the limit is 500")
        self.refused("tests/golden/x.bin", b"\0" * (256 * 1024 + 1), "262145 bytes; the limit is 262144")

    def test_length_of_functions(self):
        self.allowed("src/a.cpp", "void f() {\n" + body(68) + "}\n")
        self.refused("src/a.cpp", "void f() {\n" + body(69) + "}\n", "a.cpp:1: a function of 71 lines")
        self.refused("src/a.cpp", "namespace x {\nclass A {\n  void f(int a = {}) const {\n" + body(69) + "  }\n};\n}\n",
                     "a.cpp:3: a function of 71 lines")
        self.refused("src/a.cpp", "A::A(int a)\n    : a_{a}, b_(1), c_{} {\n" + body(69) + "}\n",
                     "a.cpp:1: a function of 72 lines")
        self.refused("src/a.cpp", "TEST(A, B) {\n" + body(69) + "}\n", "a function of 71 lines")

    def test_long_tables_and_classes_are_not_functions(self):
        self.allowed("src/a.cpp", "constexpr A kTable[] = {\n" + "    {1, f(2)},\n" * 100 + "};\n")
        self.allowed("src/a.cpp", "namespace {\nstruct A {\n" + "  int f() { return 1; }\n" * 100 + "};\n}\n")
        self.allowed("src/a.cpp", "#define A(x) \\\n  do { \\\n  } while (0)\nint a;\n")

    def test_ascii_only(self):
        self.refused("docs/a.md", "a dash \u2013 here\n", "not ASCII")

    def test_data_made_by_others_is_only_measured(self):
        self.allowed("tests/golden/a.json", "{\u2013\n")
        self.allowed("tests/oracle/qwen3/config.json", "{}")
        self.refused("tests/oracle/README.md", "no end", "no newline at the end")

    def test_no_test_measures_the_machine(self):
        for line, part in (("peak = os.wait4(pid, 0)[2].ru_maxrss", "testing.Watch"),
                           ("assert time.monotonic() - begin < 3", "no upper bound on time"),
                           ("while time.monotonic() < deadline: pass", "testing.wait_until"),
                           ("time.sleep(1.5)", "don't sleep"),
                           ('probe.bind(("127.0.0.1", 0))', "testing.with_port"),
                           ('env["no_proxy"] = 1; run(no_proxy="*")', "testing.clean"),
                           ("process.wait(timeout=30)", "HANG_SECONDS")):
            self.refused("tests/fault/a.py", f"{line}\n", part)
            self.allowed("tests/support/testing.py", f"{line}\n")
            self.allowed("bench/e2e/a.py", f"{line}\n")
        self.allowed("tests/fault/a.py", "process.wait(timeout=testing.HANG_SECONDS)\ntime.sleep(0.01)\n")

    def test_a_test_starts_without_packages(self):
        self.refused("tests/interop/a.py", "import os\nimport numpy as np\n", "numpy isn't in Python's library")
        self.refused("tests/fault/a.py", "from torch.distributed import checkpoint\n", "torch.distributed isn't")
        self.allowed("tests/interop/a.py", "import os\nimport interop\ndef f():\n    import numpy as np\n")
        self.allowed("tests/interop/peers/a.py", "import torch\n")
        self.allowed("scripts/a.py", "import numpy\n")

    def test_no_test_bounds_wall_clock_time(self):
        bad = "  EXPECT_LT(std::chrono::steady_clock::now() - begin,\n            std::chrono::seconds(10));\n"
        self.refused("tests/unit/run/a_test.cpp", bad, "a bound on time")

    def test_reinterpret_cast_has_its_places(self):
        self.refused("src/run/a.cpp", "auto a = reinterpret_cast<int*>(b);\n", "reinterpret_cast")
        self.allowed("src/base/coding.h", "#pragma once\nauto a = reinterpret_cast<int*>(b);\n")
        self.allowed("src/run/a.cpp", "// no reinterpret_cast here\n")

    def test_assert_is_refused_in_the_product(self):
        self.refused("src/a.cpp", "void f() { assert(true); }\n", "compiled out of a release")
        self.refused("src/a.cpp", "#include <cassert>\n", "compiled out of a release")
        self.allowed("src/a.cpp", "static_assert(true);\n")

    def test_pragma_once(self):
        self.refused("src/a.h", "int a;\n", "#pragma once")

    def test_using_namespace(self):
        self.refused("src/a.cpp", "using namespace std;\n", "outside a function")
        self.refused("src/a.cpp", "namespace a {\nusing namespace std;\n}\n", "outside a function")
        self.allowed("src/a.cpp", "void f() {\n  using namespace std::literals;\n}\n")

    def test_paths_of_one_machine(self):
        for folder in ("work", "root", "home", "farm"):
            self.refused("scripts/a.sh", f"cd /{folder}/project\n", "a path of one machine")
            self.refused("scripts/a.sh", f'a="/{folder}/project"\n', "a path of one machine")
        self.allowed("scripts/a.sh", "cd build/work/project; ls ${root}/home/x https://example.org/home/x\n")

    def test_open_ends_need_an_issue(self):
        self.refused("src/a.cpp", "// TO" + "DO: later\n", "needs an issue")
        self.allowed("src/a.cpp", "// TO" + "DO(#12): later\n")

    def problems_beside(self, files, path, text):
        """The problems of one file in a tree with others."""
        with tempfile.TemporaryDirectory() as root:
            for name, content in [(name, "") for name in files] + [(path, text)]:
                full = os.path.join(root, name)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(content)
            return check_style.check_file(root, path)

    def test_documents_name_files_that_exist(self):
        files = ["src/plan/unit.h", "src/plan/unit.cpp", "include/hfshard/io.h", "tests/cli/a.sh", "docs/b.md"]
        for text in ("`src/plan/unit.h`", "`plan/unit.{h,cpp}`", "`hfshard/io.h`", "`tests/cli/*.sh`", "`src/plan/`, `docs`",
                     "`src/<layer>/x.cpp`", "`python3 tests/cli/a.sh --all`", "`tests/cli/x.sh`", "[b](b.md) [s](../src/plan)",
                     "[w](https://example.org/none.md)", "owner/name `src/none.py`", "`a/b` `application/json`"):
            self.assertEqual(self.problems_beside(files, "docs/a.md", text + "\n"), [], text)
        for text, missing in (("`src/none.h`", "src/none.h"), ("`plan/none.h`", "plan/none.h"),
                              ("`plan/unit.{h,cpp}` `scripts/none`", "scripts/none"), ("[b](none.md)", "none.md"),
                              ("`tests/cli/*.py`", "tests/cli/*.py"), ("see `src/none.py`", "src/none.py"),
                              ("`cat docs/none.md`", "docs/none.md")):
            found = self.problems_beside(files, "docs/a.md", "\n" + text + "\n")
            self.assertEqual(found, [f"docs/a.md:2: there is no {missing}"], text)

    def test_the_glossary_is_short(self):
        line = "| **{}** | a word |\n"
        self.allowed("docs/glossary.md", "".join(line.format(n) for n in range(40)))
        self.refused("docs/glossary.md", "".join(line.format(n) for n in range(41)), "41 words; the limit is 40")
        self.refused("docs/glossary.md", line.format("unit") * 2, "unit is explained twice")

    def test_a_function_of_a_test_program_has_one_place(self):
        def found(**texts):
            return check_style.check_test_names({f"tests/{name.replace('__', '/')}.cpp": text for name, text in texts.items()})

        one = "namespace {\nError failure(const std::string& text) {\n  return failure(text);\n}\n}\n"
        other = "\nError failure(std::string_view text, bool stacked = true) {\n"
        self.assertEqual(found(unit__a__x=one, unit__a__y=other), ["tests/unit/a/y.cpp:2: tests/unit/a/x.cpp has a function failure too"])
        self.assertEqual(found(unit__a__x=one, unit__a__deep__y=other)[0].split(":")[0], "tests/unit/a/x.cpp")
        self.assertEqual(found(conformance__x=one, conformance__y=other)[0].split(":")[0], "tests/conformance/y.cpp")
        self.assertEqual(found(unit__a__x=one, unit__b__y=other, conformance__z=one), [])
        self.assertEqual(found(unit__a__x=one + other, unit__a__y="void use() {\n  failure(a);\n}\nTEST(A, B) {\n"), [])

    def test_json_and_yaml_must_parse(self):
        self.refused("mappings/a.json", '{"a": 1,}\n', "not valid JSON")
        self.refused("mappings/a.json", '{"a": 1, "a": 2}\n', "appears twice")
        self.refused("mappings/a.json", '{"a": NaN}\n', "not valid JSON")
        self.allowed("tests/unit/bad/a.json", "{\n")
        if check_style.yaml:
            self.refused("a.yaml", "a: [1\n", "not valid YAML")

    def test_ends_of_lines_and_files(self):
        self.refused("src/a.cpp", "int a; \n", "blanks at the end")
        self.refused("src/a.cpp", "int a;\r\nint b;\n", "carriage return")
        self.refused("src/a.cpp", "int a;", "no newline at the end")
        self.allowed("tests/cli/a.out", "a  \nb")


if __name__ == "__main__":
    unittest.main()
