"""The runner of docs/first-hour.md must itself fail if the output or the exit status differs."""

import os
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "transcript.py")


class TranscriptTest(unittest.TestCase):
    def run_page(self, *lines, options=()):
        """Returns the status, and the page afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write("\n".join(["Text.", "```console", *lines, "```", "More.", ""]))
            environment = os.environ | {"HFSHARD_PEER_PYTHON": "/nowhere/python"}
            done = subprocess.run([sys.executable, RUNNER, "--hfshard", "/bin/true", *options, page],
                                  capture_output=True, text=True, check=False, env=environment)
            with open(page, encoding="utf-8") as file:
                return done.returncode, file.read().split("\n")

    def status(self, *lines):
        return self.run_page(*lines)[0]

    def test_equal_output_passes_and_other_output_fails(self):
        self.assertEqual(self.status("$ echo a; echo b >&2", "a", "b"), 0)
        self.assertEqual(self.status("$ echo a", "b"), 1)
        self.assertEqual(self.status("$ echo a"), 1)
        self.assertEqual(self.status("$ true", "a"), 1)
        self.assertEqual(self.run_page(options=())[0], 1)

    def test_a_status_is_told_or_zero(self):
        self.assertEqual(self.status("$ (exit 3)"), 1)
        self.assertEqual(self.status("$ (exit 3)", "$ echo $?", "3"), 0)
        self.assertEqual(self.status("$ (exit 3)", "$ echo $?", "0"), 1)

    def test_times_hashes_and_machines_are_not_compared_and_other_numbers_are(self):
        self.assertEqual(self.status("$ echo in 1.25 s, 3 chunks, at 5 MiB/s", "in 0.5 s, 3 chunks, at 71.5 GiB/s"), 0)
        self.assertEqual(self.status("$ echo in 1.25 s, 3 chunks", "in 1.25 s, 4 chunks"), 1)
        self.assertEqual(self.status(f"$ echo {'a' * 64}", "b" * 64), 0)
        self.assertEqual(self.status("$ echo threads 2", "threads 4"), 0)
        self.assertEqual(self.status("$ echo a; echo b; echo c", "a", "...", "c"), 0)
        self.assertEqual(self.status("$ echo a; echo b; echo c", "a", "...", "d"), 1)

    def test_commands_share_a_directory_with_a_model_and_go_on_over_lines(self):
        self.assertEqual(self.status("$ ls >list", "$ grep -c hf list", "1", "$ pwd", "/models"), 0)
        self.assertEqual(self.status("$ cat <<'EOF'", "> x", "> EOF", "x"), 0)
        self.assertEqual(self.status("$ hfshard", "$ ls hf/config.json", "hf/config.json"), 0)

    def test_control_c_is_sent_once_data_is_written(self):
        wait = "$ bash -c 'trap \"echo caught; exit 130\" INT; mkdir -p .a.hfshard/out/0/items/d; " \
               "echo x >.a.hfshard/out/0/items/d/0; while :; do read -t 0.01 <> <(:); done'"
        self.assertEqual(self.status(wait, "^C", "caught", "$ echo $?", "130"), 0)
        self.assertEqual(self.status(wait, "^C", "other", "$ echo $?", "130"), 1)

    def test_peers_are_missed_only_where_they_are_asked_for(self):
        self.assertEqual(self.status("$ python -c 'print(1)'", "2"), 0)
        self.assertEqual(self.run_page("$ true", options=["--peers"])[0], 77)

    def test_update_writes_what_was_seen_and_nothing_else(self):
        status, page = self.run_page("$ echo a", "old", "older", "$ echo 1 s", "2 s", "$ pwd", options=["--update"])
        self.assertEqual(status, 0)
        self.assertEqual(page, ["Text.", "```console", "$ echo a", "a", "$ echo 1 s", "2 s", "$ pwd", "/models", "```",
                                "More.", ""])


if __name__ == "__main__":
    unittest.main()
