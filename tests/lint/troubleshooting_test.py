"""Every message that docs/troubleshooting.md explains is one of the program's, word by word."""

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


if __name__ == "__main__":
    unittest.main()
