"""Plants violations of the layer rule in a small tree and sees scripts/check_layers.py find each."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_layers  # noqa: E402


class CheckLayersTest(unittest.TestCase):
    def problems(self, path, text):
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full))
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
            return check_layers.check_tree(root)

    def refused(self, path, text, part):
        found = self.problems(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def allowed(self, path, text):
        self.assertEqual(self.problems(path, text), [])

    def test_a_layer_may_include_itself_and_those_before_it(self):
        self.allowed("src/plan/layout/cut_grid.cpp", '#include "plan/layout/cut_grid.h"\n#include <vector>\n#include "base/text.h"\n')
        self.allowed("src/format/orbax/a.cpp", '#include "format/orbax/b.h"\n#include "catalog/format.h"\n')
        self.allowed("src/base/text.cpp", '#include <sys/stat.h>\n#include <immintrin.h>\n#include "hfshard/error.h"\n')

    def test_a_later_layer_is_refused(self):
        self.refused("src/base/text.cpp", '#include "plan/layout/cut_grid.h"\n', "plan comes later in the flow")
        self.refused("src/catalog/a.h", '#include "format/formats.h"\n', "format comes later")
        self.refused("src/base/text.cpp", '#include "catalog/catalog.h"\n', "catalog comes later")
        self.refused("include/hfshard/error.h", '#include "hfshard/plan.h"\n', "plan comes later")

    def test_a_format_never_includes_another(self):
        self.refused("src/format/orbax/a.cpp", '#include "format/dcp/b.h"\n', "may not include format dcp")
        self.refused("src/format/shared.cpp", '#include "format/dcp/b.h"\n', "may not include format dcp")
        self.allowed("src/format/formats.cpp", '#include "format/dcp/b.h"\n#include "format/orbax/b.h"\n')

    def test_threads_begin_in_run(self):
        self.refused("src/plan/a.cpp", "#include <mutex>\n", "threads begin in run")
        self.refused("src/format/orbax/a.cpp", "thread_local int n = 0;\n", "threads begin in run")
        self.allowed("src/run/engine/a.cpp", "#include <mutex>\n")
        self.allowed("src/bytes/a.cpp", "#include <mutex>\n")

    def test_plan_and_run_know_no_format(self):
        self.refused("src/plan/plan.cpp", '#include "format/dcp/b.h"\n', "only through catalog/format.h")
        self.refused("src/run/run.cpp", '#include "format/formats.h"\n', "only through catalog/format.h")
        self.allowed("src/run/run.cpp", '#include "catalog/format.h"\n')

    def test_a_room_knows_the_rooms_below_it_and_nothing_above(self):
        self.refused("src/run/engine/a.cpp", '#include "run/commit/b.h"\n', "room run/engine may not include")
        self.refused("src/run/commit/a.cpp", '#include "run/check/b.h"\n', "room run/commit may not include")
        self.refused("src/run/check/a.cpp", '#include "run/conversion.h"\n', "which is above it")
        self.refused("src/plan/layout/a.cpp", '#include "plan/cost/b.h"\n', "room plan/layout may not include")
        self.refused("src/run/other/a.cpp", '#include "run/engine/b.h"\n', "is no room")
        self.allowed("src/run/commit/a.cpp", '#include "run/engine/b.h"\n#include "plan/plan.h"\n')
        self.allowed("src/run/conversion.cpp", '#include "run/commit/b.h"\n#include "run/check/b.h"\n')

    def test_service_knows_the_table_of_formats_only(self):
        self.allowed("src/service/a.cpp", '#include "format/formats.h"\n#include "catalog/format.h"\n')
        self.refused("src/service/a.cpp", '#include "format/orbax/b.h"\n', "only through format/formats.h")
        self.refused("src/service/a.cpp", '#include "format/other.h"\n', "only through format/formats.h")

    def test_tool_knows_the_library_from_outside(self):
        self.allowed("src/tool/a.cpp", '#include "tool/b.h"\n#include "base/text.h"\n#include "hfshard/hfshard.h"\n')
        for name in ("service/step.h", "run/stop.h", "plan/plan.h", "catalog/catalog.h", "bytes/local/files.h", "format/formats.h"):
            self.refused("src/tool/a.cpp", f'#include "{name}"\n', "through hfshard/hfshard.h")

    def test_the_parser_of_command_lines_is_the_tools(self):
        self.allowed("src/tool/parser.cpp", "#include <CLI/CLI.hpp>\n")
        self.refused("src/tool/a.cpp", "#include <CLI/CLI.hpp>\n", "belongs in")
        self.refused("src/service/a.cpp", "#include <CLI/CLI.hpp>\n", "belongs in")

    def test_plan_and_run_say_nothing_of_a_single_format(self):
        for line in ('const char* a = "d/";', 'join_path(out, "items");', 'name == "null"', "// as Orbax has it", "kOcdbtLimit",
                     'custom["scan_layers"]', 'scheme == "maxtext"', 'exists("_CHECKPOINT_METADATA")',
                     "/* commit_success.txt */", 'leaf == "opt_state"'):
            for folder in ("src/run/commit", "src/plan"):
                self.refused(f"{folder}/a.cpp", f"\n{line}\n", "a.cpp:2: plan and run say nothing")
            self.allowed("src/tool/a.cpp", f"{line}\n")
        self.allowed("src/plan/a.cpp", "// A bound of theirs.\n// Source: google/orbax a/b.py, LIMIT.\nint a = 1;\n")
        self.refused("src/plan/a.cpp", "// Source: google/orbax a/b.py.\nint a = 1;\n// Orbax again\n", "a.cpp:3")
        self.allowed("src/run/a.cpp", 'const char* a = "dir/null/item";\n')

    def test_includes_are_written_from_the_top(self):
        self.refused("src/plan/layout/cut_grid.cpp", '#include "grid.h"\n', "must be written from src or include")
        self.refused("src/plan/layout/cut_grid.cpp", '#include "../base/text.h"\n', "must be written from src or include")

    def test_third_parties_have_their_places(self):
        self.allowed("src/base/json.cpp", "#include <nlohmann/json.hpp>\n#include <fmt/format.h>\n")
        self.refused("src/plan/plan.cpp", "#include <nlohmann/json.hpp>\n", "belongs in")
        self.refused("src/plan/plan.h", "#include <fmt/format.h>\n", "belongs in")
        self.refused("src/plan/plan.cpp", "#include <tbb/parallel_pipeline.h>\n", "belongs in")
        self.refused("src/plan/plan.cpp", "#include <boost/any.hpp>\n", "neither standard nor listed")

    def test_a_public_header_has_no_third_party_and_nothing_private(self):
        self.refused("include/hfshard/error.h", "#include <fmt/format.h>\n", "in a public header")
        self.refused("include/hfshard/plan.h", '#include "base/text.h"\n', "includes the private")

    def test_only_tool_prints_reads_the_environment_or_exits(self):
        self.allowed("src/tool/main.cpp", '#include <iostream>\nint main() { std::cout << 1; }\n')
        for line in ('printf("x");', "std::cerr << 1;", 'std::getenv("A");', "std::exit(1);", "::exit(1);",
                     'fmt::print("x");', "fputs(a, stderr);", "#include <iostream>"):
            self.refused("src/run/run.cpp", line + "\n", "only tool may print")

    def test_comments_literals_and_like_names_do_not_count(self):
        self.allowed("src/run/run.cpp",
                     '// printf("x");\n/* exit(1) */\nconst char* a = "exit(1)";\nthis->exit(1);\nsnprintf(b, 1, "");\n'
                     'on_exit(1);\n// #include "tool/tool.h"\n')

    def test_a_file_outside_the_layers_is_refused(self):
        self.refused("src/util/x.cpp", "", "in no layer")
        self.refused("include/hfshard/util.h", "#pragma once\n", "in no layer")


if __name__ == "__main__":
    unittest.main()
