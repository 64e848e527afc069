"""The runner of tests/cli must itself fail if output, errors or status differ."""

import os
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "run.py")


class CliRunnerTest(unittest.TestCase):
    def run_case(self, script, *options, **expected):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "case")
            for suffix, text in {"sh": script, **expected}.items():
                with open(f"{base}.{suffix}", "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, RUNNER, "--hfshard", "/bin/true", *options, base + ".sh"],
                                  capture_output=True, text=True, check=False)
            written = {}
            for suffix in ("out", "err", "exit"):
                if os.path.exists(f"{base}.{suffix}"):
                    with open(f"{base}.{suffix}", encoding="utf-8") as file:
                        written[suffix] = file.read()
            return done.returncode, written

    def status(self, script, **expected):
        return self.run_case(script, **expected)[0]

    def test_equal_output_passes_and_other_output_fails(self):
        self.assertEqual(self.status("echo a", out="a\n"), 0)
        self.assertEqual(self.status("echo a", out="b\n"), 1)
        self.assertEqual(self.status("echo a; echo b", out="a\n"), 1)
        self.assertEqual(self.status("echo a >&2", err="b\n"), 1)

    def test_a_stream_without_a_file_is_not_compared_but_the_status_is(self):
        self.assertEqual(self.status("echo a; echo b >&2"), 0)
        self.assertEqual(self.status("exit 3"), 1)
        self.assertEqual(self.status("exit 3", exit="3\n"), 0)
        self.assertEqual(self.status("true", exit="3\n"), 1)
        self.assertEqual(self.status("false; true"), 1)

    def test_wildcards(self):
        self.assertEqual(self.status("echo took 12 ms", out="took [..] ms\n"), 0)
        self.assertEqual(self.status("echo took 12 s", out="took [..] ms\n"), 1)
        self.assertEqual(self.status("echo a; echo b; echo c", out="a\n...\nc\n"), 0)
        self.assertEqual(self.status("echo a; echo b; echo d", out="a\n...\nc\n"), 1)
        self.assertEqual(self.status("printf 'a\\nb\\n'", out="a[..]b\n"), 1)

    def test_the_fresh_directory_is_written_as_T(self):
        self.assertEqual(self.status("echo in $T; pwd; ls -A", out="in $T\n$T\n"), 0)

    def test_the_program_is_given(self):
        self.assertEqual(self.status("echo $HFSHARD", out="/bin/true\n"), 0)

    def test_status_77_is_skipped(self):
        self.assertEqual(self.status("echo PEER MISSING x; exit 77", out="a\n"), 77)

    def test_update_writes_what_was_seen(self):
        self.assertEqual(self.run_case("echo a; exit 3", "--update"), (0, {"out": "a\n", "exit": "3\n"}))
        self.assertEqual(self.run_case("echo a >&2", "--update", err="b\n"), (0, {"err": "a\n"}))


if __name__ == "__main__":
    unittest.main()
