"""`hfshard --version` and README's table name the releases that scripts/requirements-*.txt pin."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = {"torchtitan": ("torchtitan", "torchtitan"), "Orbax": ("peers", "orbax-checkpoint"), "torch": ("torch", "torch"),
         "transformers": ("quantized", "transformers")}


def text_of(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def pin(requirements, package):
    return re.search(rf"^{package}==(\S+)$", text_of("scripts", f"requirements-{requirements}.txt"), re.M)[1]


class Versions(unittest.TestCase):
    def test_peers(self):
        said = text_of("src", "tool", "version.cpp")
        table = text_of("README.md")
        for name, (requirements, package) in PEERS.items():
            release = pin(requirements, package)
            self.assertIn(f"{name} {release}", said)
            self.assertRegex(table, rf"\| {name} \| [^|]*{re.escape(release)}")

    def test_maxtext(self):
        releases = re.search(r'"releases": "([^"]*)"', text_of("mappings", "common.json"))[1].split()
        for release in releases:
            self.assertRegex(text_of("README.md"), rf"\| MaxText \| [^|]*{re.escape(release)}")
        self.assertTrue(os.path.exists(os.path.join(ROOT, "scripts", f"requirements-maxtext-{releases[0]}.txt")))


if __name__ == "__main__":
    unittest.main()
