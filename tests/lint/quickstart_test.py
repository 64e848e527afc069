"""scripts/quickstart builds every target from which `cmake --install` installs something."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


class Quickstart(unittest.TestCase):
    def test_what_is_installed_is_built(self):
        rules = text_of("cmake", "install.cmake")
        installed = set(re.findall(r"^install\(TARGETS (\w+)", rules, re.M)) | set(re.findall(r"^add_custom_target\((\w+) ALL", rules, re.M))
        built = set(re.findall(r"--target (\w+)", text_of("scripts", "quickstart")))
        self.assertGreaterEqual(len(installed), 3)
        self.assertEqual(installed - built, set())


if __name__ == "__main__":
    unittest.main()
