"""scripts/all_tests.py must keep every property of a preset's tests, and a skipped or failed test must stay one."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import all_tests  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CTEST = "/usr/bin/ctest" if os.path.exists("/usr/bin/ctest") else shutil.which("ctest")

SUITE = """
add_test(passes "sh" "-c" "test \\"$A\\" = 'x y'")
set_tests_properties(passes PROPERTIES LABELS "fast;unit" ENVIRONMENT "A=x y;B=2" TIMEOUT "12")
add_test(fails "sh" "-c" "exit 1")
set_tests_properties(fails PROPERTIES LABELS "fast")
add_test(no_peer "sh" "-c" "echo PEER MISSING x; exit 77")
set_tests_properties(no_peer PROPERTIES LABELS "interop")
add_test(makes "sh" "-c" "exit 0")
set_tests_properties(makes PROPERTIES FIXTURES_SETUP "made")
add_test(uses "sh" "-c" "exit 0")
set_tests_properties(uses PROPERTIES FIXTURES_REQUIRED "made" DEPENDS "makes")
add_test(absent "NOT_AVAILABLE_NOWHERE")
add_test(long "sh" "-c" "exit 0")
set_tests_properties(long PROPERTIES LABELS "fast;soak")
add_test(model "sh" "-c" "exit 0")
set_tests_properties(model PROPERTIES LABELS "fast;maxtext")
"""


@unittest.skipUnless(CTEST, "ctest is missing")
class AllTestsTest(unittest.TestCase):
    def run_suite(self, *presets, options=()):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "scripts"))
            shutil.copy(os.path.join(ROOT, "scripts", "all_tests.py"), os.path.join(root, "scripts"))
            for preset in presets:
                os.makedirs(os.path.join(root, "build", preset))
                with open(os.path.join(root, "build", preset, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                    file.write(SUITE)
            subprocess.run([sys.executable, os.path.join(root, "scripts", "all_tests.py"), "--ctest", CTEST, *options, *presets],
                           check=True, capture_output=True)
            done = subprocess.run([CTEST, "--test-dir", os.path.join(root, "build", "all"), "-LE", "lint"],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_outcomes_and_names(self):
        status, said = self.run_suite("release", "asan")
        self.assertNotEqual(status, 0)
        for line in ("release.passes .+ Passed", "release.fails .+Failed", "release.no_peer .+Skipped",
                     "release.uses .+ Passed", "release.absent .+Failed", "asan.passes .+ Passed"):
            self.assertRegex(said, line)
        self.assertNotIn("asan.no_peer", said)
        self.assertEqual(said.count("tests passed"), 1)

    def test_the_soak_is_left_out_but_for_all(self):
        self.assertNotRegex(self.run_suite("release", "asan")[1], "long|model")
        self.assertIn("release.model", self.run_suite("release", options=["--maxtext"])[1])
        said = self.run_suite("release", "asan", options=["--all"])[1]
        for line in ("release.long .+ Passed", "asan.long .+ Passed"):
            self.assertRegex(said, line)

    def test_files_are_in_memory_where_nothing_is_asked_of_a_disk(self):
        given = [(preset, name) for preset in ("release", "asan", "tsan", "dev")
                 for name in ("unit_run", "cli.session", "cli.terminal", "fault.interrupt", "golden.bytes", "interop.fixtures_1",
                              "interop.load_bench")
                 if "TMPDIR=/dev/shm" in all_tests.environment_of(preset, name, True)]
        self.assertEqual(given, [("release", "cli.terminal"), ("release", "golden.bytes"), ("release", "interop.fixtures_1"), ("asan", "unit_run"),
                                 ("asan", "cli.session"), ("asan", "cli.terminal"), ("tsan", "unit_run"),
                                 ("tsan", "cli.session"), ("tsan", "cli.terminal")])
        self.assertNotIn("TMPDIR=/dev/shm", all_tests.environment_of("asan", "unit_run", False))
        self.assertIn("ASAN_OPTIONS", all_tests.environment_of("asan", "property", False)[0])

    def test_the_gate_looks_for_stale_stack_frames_in_some_layers(self):
        def looks(name, with_soak):
            return "use_after_return=1" in all_tests.environment_of("asan", name, False, with_soak)[0]

        self.assertEqual([looks("unit_format", False), looks("unit_run", False), looks("unit_run", True)], [True, False, True])
        self.assertNotIn("use_after_return", all_tests.environment_of("tsan", "unit_run", False, True)[0])

    def test_some_cases_are_only_in_the_soak(self):
        def filters(name, with_soak):
            return [item for item in all_tests.environment_of("tsan", name, True, with_soak) if item.startswith("GTEST_FILTER=-")]

        self.assertEqual([len(filters("unit_service", False)), filters("unit_service", True), filters("unit_run", False)], [1, [], []])

    def test_a_folder_on_a_disk_is_no_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertFalse(all_tests.has_room(folder))
            self.assertFalse(all_tests.has_room(os.path.join(folder, "absent")))


if __name__ == "__main__":
    unittest.main()
