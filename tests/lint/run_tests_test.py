"""scripts/run_tests.py must give ctest's exit status, and name what failed first and then passed."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import run_tests  # noqa: E402

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "run_tests.py")
CTEST = "/usr/bin/ctest" if os.path.exists("/usr/bin/ctest") else shutil.which("ctest")


@unittest.skipUnless(CTEST, "ctest is missing")
class RunTestsTest(unittest.TestCase):
    def run_suite(self, **tests):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                for name, command in tests.items():
                    file.write(f'add_test({name} "sh" "-c" "{command}")\n')
                    file.write(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 WORKING_DIRECTORY {folder})\n")
            done = subprocess.run([sys.executable, SCRIPT, "--ctest", CTEST, "--suite", folder], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_a_test_that_passes_at_the_second_try_is_unstable(self):
        status, said = self.run_suite(once="test -e flag || { touch flag; exit 1; }", good="exit 0", skipped="exit 77")
        self.assertEqual(status, 0, said)
        self.assertEqual([line for line in said.splitlines() if line.startswith("UNSTABLE")],
                         ["UNSTABLE once: Failed at the first try, passed at the second"])
        self.assertEqual(said.splitlines()[-1], "100% tests passed, 0 tests failed out of 3")

    def test_a_test_that_fails_twice_fails_the_gate(self):
        status, said = self.run_suite(bad="exit 1", good="exit 0")
        self.assertNotEqual(status, 0)
        self.assertNotIn("UNSTABLE", said)
        self.assertIn("1 - bad (Failed)", said)
        self.assertEqual(said.splitlines()[-1], "50% tests passed, 1 tests failed out of 2")

    def test_an_empty_suite_fails_the_gate(self):
        self.assertNotEqual(self.run_suite()[0], 0)

    def test_phases_end_where_the_next_one_begins(self):
        self.assertEqual(run_tests.phase_lines("100.5\tbuild\n130.5\ttests\n", 200.0),
                         ["    30.0 s  build", "    69.5 s  tests", "    99.5 s  all"])


if __name__ == "__main__":
    unittest.main()
