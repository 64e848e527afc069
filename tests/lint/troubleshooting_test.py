"""docs/troubleshooting.md explains every kind of error, and it quotes the program's messages word by word."""

import glob
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class TroubleshootingTest(unittest.TestCase):
    def test_the_program_says_what_the_page_explains(self):
        sources = []
        for path in sorted(glob.glob(os.path.join(ROOT, "src", "**", "*.cpp"), recursive=True)):
            with open(path, encoding="utf-8") as file:
                sources.append(file.read())
        literals = re.sub(r'"\s*\n\s*"', "", "\n".join(sources))
        with open(os.path.join(ROOT, "docs", "troubleshooting.md"), encoding="utf-8") as file:
            messages = re.findall(r"^\| `([^`]+)` \|", file.read(), re.M)
        self.assertGreater(len(messages), 20)
        self.assertEqual([message for message in messages if message not in literals], [])

    def test_every_kind_is_explained_with_its_exit_status(self):
        with open(os.path.join(ROOT, "src", "base", "error.cpp"), encoding="utf-8") as file:
            table = file.read().split("kCodes{{{", 1)[1].split("}}};", 1)[0]
        kinds = re.findall(r'"(\w+)", (\d+)', table)
        self.assertGreaterEqual(len(kinds), 12)
        with open(os.path.join(ROOT, "docs", "troubleshooting.md"), encoding="utf-8") as file:
            explained = re.findall(r"^\| `(\w+)` \| (\d+) \|", file.read(), re.M)
        self.assertEqual(sorted(kinds), sorted(explained))


if __name__ == "__main__":
    unittest.main()
