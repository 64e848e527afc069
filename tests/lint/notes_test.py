"""Every note and warning that users can see is in a test: those of the mapping tables, and those of the program.

A note counts if its longest piece without placeholders stands in recorded output, or in the source of a test. For a note of
a table, golden/plans.txt must have a config that it is said for, and another of the same family that it isn't said for.
"""

import collections
import functools
import glob
import json
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Where a note is passed on: a list of notes, or a function that shows one.
SINK = re.compile(r"\b(?:notes|warnings)(?:\(\))?\.(?:push_back|emplace_back)\(|(?<!void )\b(?:print_note|add_note|note|say)\(|"
                  r"\bmove\((?=\w+\([^;]*\bwarnings\b)|\b(?:notes|warnings) =(?= \w+\()")
TOKEN = re.compile(r'//[^\n]*|R"\((.*?)\)"|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'', re.S)
TEXT_FUNCTION = re.compile(r"\b(?:std::)?(?:string|string_view|vector<std::string>|optional<std::string>) (\w+)\(")
NAME = re.compile(r"(\.?)\b([a-z]\w*)(\(?)")
# Where the config of a model is that a mapping table doesn't list.
CONFIGS = {"hub": "tests/oracle/hub/{}.json", "stored": "tests/torchtitan/{}/config.json"}
# Literals that no note has, and why.
OTHERS = {"the example of family": "it's the place of a catalog", "the names of scheme": "each scheme of common.json has its own words"}
# A note's literal is at most so many calls and assignments away.
HOPS = 2
# These hold functions for text of all kinds.
PLAIN = {"src/base", "src/mapping/language"}
OPEN, CLOSE = "({[", ")}]"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(*patterns):
    return sorted(path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True) if os.path.isfile(path))


def unescaped(text):
    return text.replace('\\"', '"').replace("\\\\", "\\")


def one_line(text):
    return re.sub(r"\s+", " ", text)


def longest_piece(text):
    """Returns the longest part of a text that has no placeholder and no line break."""
    return one_line(max(re.split(r"\{[^{}]*\}|\\n|\n", unescaped(text)), key=len)).strip(" :;,")


def tested_text():
    """Returns all text that tests compare, with the parts of a literal joined and blanks made one."""
    out = [read(path) for path in files("tests/cli/*.out", "tests/golden/plans.txt")]
    for path in files("tests/unit/**/*.cpp", "tests/unit/**/*.h", "tests/conformance/*.cpp", "tests/interop/**/*.py", "tests/fault/*",
                      "tests/cli/terminal.py"):
        out.append(unescaped(re.sub(r'"\s*\n\s*f?"', "", read(path))))
    return one_line("\n".join(out))


def end_of(code, at):
    """Returns the end of what begins at a bracket, or of a statement."""
    depth = 0
    for i in range(at, len(code)):
        if code[i] in OPEN:
            depth += 1
        elif code[i] in CLOSE:
            depth -= 1
            if depth <= 0:
                return i
        elif code[i] == ";" and depth == 0:
            return i
    return len(code)


class Source:
    """A source file: its code without comments and literals, and its literals, neighbours joined."""

    def __init__(self, path):
        self.name = os.path.relpath(path, ROOT)
        self.text = read(path)
        code, self.literals = list(self.text), []
        last = None
        for match in TOKEN.finditer(self.text):
            literal = match.group(1) if match.group(1) is not None else match.group(2)
            for i in range(match.start(), match.end()):
                code[i] = "\n" if code[i] == "\n" else " " if literal is None else "_"
            if literal is None:
                continue
            if last is not None and not "".join(code[last:match.start()]).strip():
                self.literals[-1][1] += literal
            else:
                self.literals.append([match.start(), literal])
            last = match.end()
        self.code = "".join(code)

    def is_thrown(self, at):
        """Returns whether the statement at this place throws: errors aren't notes."""
        begin = max(self.code.rfind(mark, 0, at) for mark in ";{}")
        return " throw " in self.code[begin:at] or "refuse(" in self.code[begin:at]

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def function_begin(self, at):
        """Returns where the function of the outermost level begins."""
        return max(self.code.rfind("\n}", 0, at), 0)


class Program:
    """Finds the texts that reach a note: literals, and those of functions and variables that it consists of."""

    def __init__(self):
        self.sources = [Source(path) for path in files("src/**/*.cpp") if os.path.basename(path) != "help.cpp"]
        self.functions = collections.defaultdict(list)
        self.members = collections.defaultdict(list)
        for source in self.sources:
            for match in TEXT_FUNCTION.finditer(source.code):
                body = end_of(source.code, match.end() - 1) + 1
                begin = re.compile(r"(?: const)? \{").match(source.code, body)
                if begin:
                    self.functions[match.group(1)].append((source, (begin.end(), end_of(source.code, begin.end() - 1))))
            for match in re.finditer(r"\.(\w+) =(?!=)", source.code):
                self.members[match.group(1)].append((source, (match.end(), end_of(source.code, match.end()))))

    def notes(self):
        """Returns where -> literal for every literal of a note."""
        out, seen = {}, set()
        parts = [(source, (match.end(), end_of(source.code, match.end() - 1)))
                 for source in self.sources for match in SINK.finditer(source.code)]
        for _ in range(HOPS + 1):
            new = [(source, part) for source, part in parts if (source.name, part) not in seen]
            seen.update((source.name, part) for source, part in new)
            for source, (begin, end) in new:
                out.update({f"{source.name}:{source.line(at)}: {text}": text for at, text in source.literals
                            if begin <= at < end and not source.is_thrown(at)})
            parts = [other for source, part in new for match in NAME.finditer(source.code, *part) for other in self.parts(source, match)]
        return out

    def parts(self, source, match):
        """Returns what a name in a note stands for: the bodies of functions, or the values given to a variable."""
        dot, name, call = match.groups()
        folder = os.path.dirname(source.name)
        if call:
            found = self.functions.get(name, [])
            near = [part for part in found if part[0] is source] or [part for part in found if os.path.dirname(part[0].name) == folder]
            return near or ([] if dot else [part for part in found if os.path.dirname(part[0].name) not in PLAIN])
        if dot:
            return [part for part in self.members.get(name, []) if os.path.dirname(part[0].name) == folder]
        local = source.function_begin(match.start())
        return [(source, (set_at.end(), end_of(source.code, set_at.end())))
                for set_at in re.compile(rf"(?<![\w.]){name} (?:\+?=(?!=)|:)").finditer(source.code, local, match.start())]


class Plans:
    """What golden/plans.txt says of each config."""

    def __init__(self):
        self.lines, names = {}, []
        for line in read(os.path.join(ROOT, "tests", "golden", "plans.txt")).splitlines():
            if line.startswith(" "):
                for name in names:
                    self.lines[name].append(line.strip())
                continue
            # JSON never has a name after a comma.
            names = re.split(r", (?!true|false|null)(?=[a-z])", line)
            self.lines.update((name, []) for name in names)
        self.model_types = {kind: family for family, table in tables() for kind in texts(table.get("match", {}).get("model_type", []))}

    def base_of(self, name):
        """Returns the config that another one differs from, or nothing."""
        words = name.split(" ")
        base = " ".join(words[: 2 if words[0] in CONFIGS else 1])
        return base if base != name and words[0] != "stored" else None

    def says(self, name, note):
        """Returns whether a config's plan has a note: (scheme, pattern)."""
        plus, minus = (any(has_note(line, mark, note) for line in self.lines[name]) for mark in ("+", "-"))
        base = self.base_of(name)
        return plus or base is not None and not minus and self.says(base, note)

    def family_of(self, name):
        words = name.split(" ")
        if words[0] in CONFIGS:
            config = json.loads(read(os.path.join(ROOT, CONFIGS[words[0]].format(words[1]))))
            return self.model_types.get(config.get("config", config).get("model_type"))
        return next((family for family, table in tables() if words[0] in {family, *table.get("sizes", {}), *table.get("sizes", {}).get("models", {})}),
                    None)


def has_note(line, mark, note):
    """Returns whether a line adds a note (+), or takes it away (-). Lines of a config that isn't a variant have no mark."""
    scheme, pattern = note
    marked = line.startswith(("+ ", "- "))
    text = line[2:] if marked else line
    return (line[0] if marked else "+") == mark and text.startswith("torchtitan: ") == (scheme == "torchtitan") and bool(pattern.search(text))


def texts(value):
    return [value] if isinstance(value, str) else value


@functools.cache
def tables():
    return [(os.path.basename(path).removesuffix(".json"), json.loads(read(path))) for path in files("mappings/*.json")]


def pattern_of(text):
    return re.compile("(?:note|warning): " + ".*".join(re.escape(piece) for piece in re.split(r"\{[^{}]*\}", text)) + "$")


def table_notes():
    """Returns (where, families, scheme, pattern) for each note of the mapping tables."""
    out = []
    for family, table in tables():
        shared = table.get("parts", {}) if family == "common" else {}
        for part, found in [*shared.items(), ("", table)]:
            users = [name for name, other in tables() if f'"{part}"' in json.dumps(other)] if part else [family]
            out += [(f"{family}.json {part} {scheme}: {text}", users, scheme, pattern_of(text)) for scheme, facts in found.get("schemes", {}).items()
                    for kind in ("notes", "warnings") for text, _ in facts.get(kind, [])]
    return out


class NotesTest(unittest.TestCase):
    def test_every_note_of_the_program_is_in_a_test(self):
        notes, tested = Program().notes(), tested_text()
        self.assertGreater(len(notes), 500)
        self.assertIn("hfshard removed wrappers from its names", notes.values())
        pieces = {where: longest_piece(text) for where, text in notes.items()}
        self.assertEqual([where for where, piece in pieces.items() if " " in piece and piece not in OTHERS and piece not in tested], [])

    def test_every_note_of_a_table_is_said_for_one_config_and_not_for_another(self):
        plans = Plans()
        families = {name: plans.family_of(name) for name in plans.lines}
        notes = table_notes()
        self.assertGreater(len(notes), 40)
        for where, users, scheme, pattern in notes:
            said = {name: plans.says(name, (scheme, pattern)) for name in plans.lines if families[name] in users}
            with_it = {families[name] for name in said if said[name]}
            self.assertTrue(with_it, f"no config of golden/family_variants.py has the note: {where}")
            self.assertTrue(any(not said[name] for name in said if families[name] in with_it), f"each config has the note: {where}")


if __name__ == "__main__":
    unittest.main()
