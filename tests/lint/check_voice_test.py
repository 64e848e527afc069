"""Checks sentences that scripts/check_voice.py refuses and accepts, in each kind of file."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import check_voice  # noqa: E402


class CheckVoiceTest(unittest.TestCase):
    def refused(self, path, text, line, part):
        found = list(check_voice.problems_in(path, text))
        self.assertEqual([(number, part in rule) for number, rule, _ in found], [(line, True)], found)

    def allowed(self, path, text):
        self.assertEqual(list(check_voice.problems_in(path, text)), [])

    def test_comments(self):
        self.refused("src/a.h", "int a;\n/// Nothing if it is none.\n", 2, "negate the verb")
        self.refused("src/a.h", "// Joins names.\n// Of more than ten, the first ones.\nint a;\n", 1, "begins with Of")
        self.refused("src/a.cpp", "int a;  // Whoever reads this.\n", 1, "name the actor")
        self.refused("src/a.cpp", "// What a run needs.\n", 1, "begins with What")
        self.allowed("src/a.h", "/// Returns nothing if the text isn't a URL. Of course it may be.\nint a;\n")
        self.allowed("src/a.cpp", "// Source: Of mice and men, who wants that, recognised.\nint a;\n")

    def test_a_sentence_is_followed_over_its_lines(self):
        words = " ".join(["Word"] + ["word"] * 12)
        self.refused("src/a.h", f"/// {words}\n/// {words}.\nint a;\n", 1, "26 words")
        self.allowed("src/a.h", f"/// {words}.\n/// {words}.\nint a;\n")
        self.allowed("src/a.h", f"/// {words}\nint a;\n/// {words}\nint b;\n")
        self.allowed("src/a.h", f"int a;  ///< {words}\nint b;  ///< {words}\n/// {words}\nint c;\n")

    def test_strings(self):
        self.refused("src/a.cpp", 'throw Error("the one whom nobody reads, and that is none");\n', 1, "negate the verb")
        self.refused("src/a.cpp", 'const char* help = R"(Reads it.\nWho wants a copy takes it.)";\n', 1, "name the actor")
        self.allowed("src/a.cpp", 'parse("is none"); int none = 1;\n')
        self.refused("src/a.cpp", 'auto script = R"sh(\n# Who wants a file.\ncomplete)sh";\n', 2, "name the actor")
        self.allowed("src/a.cpp", 'auto script = R"sh(if of whose is none\n)sh";\n')

    def test_markdown(self):
        self.refused("docs/a.md", "# Title\n\nA HuggingFace directory is read.\n", 3, "Hugging Face")
        self.refused("docs/a.md", "| a | b |\n|---|---|\n| one | files that are to be had there |\n", 3, "available")
        self.refused("docs/a.md", "x" * 161 + "\n", 1, "161 columns")
        self.allowed("docs/a.md", "Read `HuggingFace is none`.\n\n```\nWhoever is none\n```\n")

    def test_python(self):
        self.refused("scripts/a.py", '"""Reads a file that is initialised here."""\n', 1, "American")
        self.refused("scripts/a.py", "x = 1\n# Whoever calls this.\n", 2, "name the actor")

    def test_exempt_paths_exist(self):
        for place in check_voice.EXEMPT:
            self.assertTrue(os.path.exists(os.path.join(check_voice.lint_common.ROOT, place)), place)


if __name__ == "__main__":
    unittest.main()
