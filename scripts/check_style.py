#!/usr/bin/env python3
"""Checks the rules of the tree that compilers don't check: sizes, ASCII, forbidden words, valid JSON and YAML.

Each rule is a function from a path and its text to problems. The tests are in tests/lint/check_style_test.py.
For data from other programs (lint_common.DATA), this checks only the size.
"""

import ast
import functools
import glob
import json
import os
import re
import sys

import lint_common

try:
    import yaml
except ImportError:
    yaml = None

HEADER_LINES = 250
SOURCE_LINES = 500
FUNCTION_LINES = 70
FILE_BYTES = 256 * 1024
GLOSSARY_WORDS = 40

REINTERPRET_CAST_PLACE = "src/base/coding.h"
JSON_WITH_MISTAKES = re.compile(r"(^|/)bad(/|_|-)")
# The recorded output of a command isn't checked.
VERBATIM = (".out", ".err", ".exit")


def is_cpp(path):
    return path.endswith((".h", ".cpp"))


def is_product(path):
    return path.startswith(("src/", "include/"))


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def find_all(pattern, path, text, sentence):
    """Returns one problem for each match of a pattern."""
    return [f"{path}:{line_at(text, match.start())}: {sentence}" for match in re.finditer(pattern, text, re.M)]


class Scopes:
    """Finds C++ scopes roughly. That is enough for the length of functions, and for code at file scope.

    `functions` has (first line, last line) of every body outside other functions. `outside(position)` is true for
    positions outside all functions.
    """

    _CONTAINER = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?"
                            r"(?:namespace|class|struct|union|enum|extern)\b(?!.*\)\s*(?:const|noexcept|override|->|$))",
                            re.S)
    _MEMBER_LIST = re.compile(r"\)\s*(?:noexcept\s*(?:\([^()]*\))?\s*)?:(?!:)")

    def __init__(self, stripped):
        self.functions = []
        self._spans = []
        self._text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), stripped,
                            flags=re.M)
        self._scan()

    def _scan(self):
        text = self._text
        position = begin = parentheses = 0
        while position < len(text):
            char = text[position]
            if char in "([":
                parentheses += 1
            elif char in ")]":
                parentheses = max(0, parentheses - 1)
            elif parentheses == 0 and char == "{":
                header = text[begin:position].strip()
                if not self._is_container(header):
                    end = self._match(position)
                    if "(" in header and not self._is_member(header):
                        self._add(begin, position, end)
                    if not self._is_member(header):
                        begin = end + 1
                    position = end
                else:
                    begin = position + 1
            elif parentheses == 0 and char in ";}":
                begin = position + 1
            position += 1

    def _is_container(self, header):
        return bool(self._CONTAINER.match(header))

    def _is_member(self, header):
        """Returns True before the brace of one member in a constructor's list: `X::X() : a_` or `, b_`."""
        match = self._MEMBER_LIST.search(header)
        if not match:
            return False
        return bool(re.search(r"[\w>]$", header[match.end():]))

    def _match(self, position):
        depth = 0
        for index in range(position, len(self._text)):
            depth += {"{": 1, "}": -1}.get(self._text[index], 0)
            if depth == 0:
                return index
        return len(self._text)

    def _add(self, begin, brace, end):
        start = begin + len(self._text[begin:brace]) - len(self._text[begin:brace].lstrip())
        self.functions.append((line_at(self._text, start), line_at(self._text, end)))
        self._spans.append((brace, end))

    def outside(self, position):
        return not any(begin <= position <= end for begin, end in self._spans)


def check_cpp(path, text):
    """Checks the rules for every C++ file."""
    problems = []
    stripped = lint_common.strip_cpp(text)
    lines = text.count("\n")
    limit = HEADER_LINES if path.endswith(".h") else SOURCE_LINES
    if lines > limit:
        problems.append(f"{path}:1: {lines} lines; the limit is {limit}")
    if path.endswith(".h") and not re.search(r"^#pragma once$", stripped, re.M):
        problems.append(f"{path}:1: a header starts with #pragma once")
    scopes = Scopes(stripped)
    for begin, end in scopes.functions:
        if end - begin + 1 > FUNCTION_LINES:
            problems.append(f"{path}:{begin}: a function of {end - begin + 1} lines; the limit is {FUNCTION_LINES}")
    for match in re.finditer(r"\busing\s+namespace\b", stripped):
        if scopes.outside(match.start()):
            problems.append(f"{path}:{line_at(text, match.start())}: using namespace outside a function")
    if path != REINTERPRET_CAST_PLACE:
        problems += find_all(r"\breinterpret_cast\b", path, stripped,
                             "reinterpret_cast; read bytes with load_le, store_le or memcpy")
    if path.startswith("tests/"):
        problems += find_all(r"\b(?:EXPECT|ASSERT)_L[TE]\([^;]*_clock::now", path, stripped,
                             "a bound on time fails on a loaded machine; count steps, calls or bytes")
    if is_product(path):
        problems += find_all(r"(?<![\w.])assert\s*\(|#\s*include\s*<(?:cassert|assert\.h)>", path, stripped,
                             "assert is compiled out of a release; throw Error for input, HFSHARD_CHECK for our bugs")
    return problems


# Tests ask about the product, not about the machine. These files may ask the machine: the helpers, and the hub.
MACHINE_PLACES = ("tests/support/testing.py", "tests/support/hub/", "tests/lint/")
MACHINE_RULES = (
    (r"ru_maxrss|RUSAGE_CHILDREN|ru_[us]time", "use testing.Watch for peaks; tests assert no processor time"),
    (r"(assertLess\w*|expect|assert)\b.*\b(monotonic|perf_counter|seconds|elapsed|took)\b.*<"
     r"|assertLess\w*\(.*(monotonic|perf_counter|time\.time)\(", "tests assert no upper bound on time"),
    (r"while .*(monotonic|perf_counter|time\.time)\(\)", "use testing.wait_until, wait_for or stays"),
    (r"time\.sleep\((?!0?\.0|self\._|fault\.random)", "poll with testing.wait_until; don't sleep for a fixed time"),
    (r"\.bind\(\(|\bdef free_port\b", "use testing.with_port"),
    (r"no_proxy=|[\"']no_proxy[\"']: [\"']\*|startswith\(\(?[\"']HF_", "use testing.clean"),
    (r"(timeout|_SECONDS)\s*=\s*\d{1,2}\b(?! *\*)", "a limit is testing.HANG_SECONDS, which only a hang reaches"))


def check_machine(path, text):
    """Checks that a test waits, measures and cleans its environment with the helpers of tests/support/testing.py."""
    if not path.startswith("tests/") or not path.endswith(".py") or path.startswith(MACHINE_PLACES):
        return []
    return [problem for pattern, sentence in MACHINE_RULES for problem in find_all(pattern, path, text, sentence)]


# A test starts under the system's Python, which has no packages, and goes on under the peers' Python. What only runs there
# may import packages at once.
PACKAGE_PLACES = ("tests/interop/peers/",)


@functools.cache
def own_modules():
    """Returns the names of the modules of scripts/ and tests/."""
    root = lint_common.ROOT
    folders = glob.glob(os.path.join(root, "tests", "**", ""), recursive=True) + [os.path.join(root, "scripts")]
    return {name.removesuffix(".py") for folder in folders for name in os.listdir(folder) if name.endswith(".py")}


def check_imports(path, text):
    """Checks that a test imports packages in the functions that need them."""
    if not path.startswith("tests/") or not path.endswith(".py") or path.startswith(PACKAGE_PLACES):
        return []
    return [
        f"{path}:{node.lineno}: {name} isn't in Python's library; import it in the function that needs it"
        for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.split(".")[0] not in sys.stdlib_module_names | own_modules()
    ]


def check_words(path, text):
    """Checks the rules for every text file."""
    problems = []
    for match in re.finditer(r"[^\x00-\x7f]", text):
        problems.append(f"{path}:{line_at(text, match.start())}: not ASCII: {match.group(0)!r}")
        break
    places = "|".join(("work", "root", "home", "farm"))
    problems += find_all(rf"(?<![\w.\-/}})$>*])/(?:{places})/[\w.]", path, text, "a path of one machine")
    words = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))
    problems += find_all(rf"\b(?:{words})\b(?!\(#(?:\d+|n)\))", path, text, "an open end needs an issue: (#123) after it")
    if path.endswith(VERBATIM):
        return problems
    problems += find_all(r"\r$", path, text, "a carriage return at the end of the line")
    if not path.endswith(".md"):
        problems += find_all(r"[ \t]+$", path, text, "blanks at the end of the line")
    if text and not text.endswith("\n"):
        problems.append(f"{path}:{line_at(text, len(text))}: no newline at the end of the file")
    return problems


def refuse_duplicates(pairs):
    """Refuses duplicate keys, which json silently merges. An object_pairs_hook."""
    keys = [key for key, _ in pairs]
    repeated = {key for key in keys if keys.count(key) > 1} if len(set(keys)) != len(keys) else set()
    if repeated:
        raise ValueError(f"the key {sorted(repeated)[0]!r} appears twice")
    return dict(pairs)


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def check_data_languages(path, text):
    """Checks that JSON and YAML files parse."""
    name = os.path.basename(path)
    try:
        if path.endswith(".json") and not JSON_WITH_MISTAKES.search(path):
            json.loads(text, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant)
        elif yaml and (path.endswith((".yaml", ".yml")) or name in (".clang-format", ".clang-tidy")):
            list(yaml.safe_load_all(text))
    except ValueError as error:
        return [f"{path}:{getattr(error, 'lineno', 1)}: not valid JSON: {error}"]
    except Exception as error:  # yaml.YAMLError, which can't be named if yaml is absent
        return [f"{path}:1: not valid YAML: {error}"]
    return []


# A path in a document: below a folder of the tree, or an include of a header or source. A path with a <name> is a
# pattern. A file called x is any file. A path after `owner/name ` is in that repository.
TREE_PATH = re.compile(r"(?:src|include|tests|scripts|docs|bench|cmake|mappings|\.ci)/[\w./*{},-]*")
SOURCE_PATH = re.compile(r"[\w./*{},-]+/[\w.*{},-]+\.(?:h|cpp|\{h,cpp\})")
OTHER_TREE = re.compile(r"(?<![\w/])[\w.-]+/[\w.-]+ \Z")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def alternatives(path):
    """Returns `a.{h,cpp}` as `a.h` and `a.cpp`."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [one for part in match.group(1).split(",")
            for one in alternatives(path[:match.start()] + part + path[match.end():])]


def is_there(root, path, folders):
    return any(glob.glob(os.path.join(root, folder, path)) for folder in folders)


def check_paths(root, path, text):
    """Checks that the files that a document names exist, in backquotes and as the targets of links."""
    problems = []
    for match in re.finditer(r"`([^`\n]+)`", text):
        if OTHER_TREE.search(text, max(0, match.start() - 80), match.start()):
            continue
        for word in match.group(1).split():
            named = word.rstrip(".,:;")
            if re.match(r"x[._]", os.path.basename(named)):
                continue
            if TREE_PATH.fullmatch(named):
                folders = ("",)
            elif SOURCE_PATH.fullmatch(named):
                folders = ("", "src", "include", os.path.dirname(path))
            else:
                continue
            problems += [f"{path}:{line_at(text, match.start())}: there is no {one}"
                         for one in alternatives(named) if not is_there(root, one, folders)]
    for match in LINK.finditer(text):
        if "://" not in match.group(1) and not is_there(root, match.group(1), (os.path.dirname(path),)):
            problems.append(f"{path}:{line_at(text, match.start())}: there is no {match.group(1)}")
    return problems


def check_glossary(path, text):
    """Checks that the glossary is short enough to remember."""
    words = re.findall(r"^\| \*\*([^*]+)\*\* \|", text, re.M)
    problems = [f"{path}:1: {word} is explained twice" for word in sorted(set(words)) if words.count(word) > 1]
    if len(words) > GLOSSARY_WORDS:
        problems.append(f"{path}:1: {len(words)} words; the limit is {GLOSSARY_WORDS}")
    return problems


def check_file(root, path):
    """Returns all problems of one file."""
    full = os.path.join(root, path)
    size = os.path.getsize(full)
    problems = []
    if size > FILE_BYTES:
        problems.append(f"{path}:1: {size} bytes; the limit is {FILE_BYTES}")
    if lint_common.is_data(path):
        return problems
    with open(full, "rb") as file:
        raw = file.read()
    if b"\0" in raw:
        return problems  # It isn't text.
    text = raw.decode("utf-8", errors="replace")
    problems += check_data_languages(path, text)
    problems += check_words(path, text) + check_machine(path, text) + check_imports(path, text)
    if is_cpp(path):
        problems += check_cpp(path, text)
    if path.endswith(".md"):
        problems += check_paths(root, path, text)
    if path == "docs/glossary.md":
        problems += check_glossary(path, text)
    return problems


# A function at file scope, on the first line of its definition.
FILE_FUNCTION = re.compile(r"^(?!(?:return|using|namespace|struct|class|enum|constexpr|else)\b|[A-Z_]+\()"
                           r"(?:template <[^\n]*> )?[A-Za-z_\[][^\n(]*?[\s&*]([a-z_]\w*)\(", re.M)
TEST_PROGRAM = re.compile(r"tests/(unit/[^/]+|conformance)/.*\.cpp$")


def check_test_names(texts):
    """Finds functions with one name in a test program. The gate compiles a test program as one file, where they are
    overloads. So a call can compile and mean the other file's. `texts` maps paths to texts."""
    places = {}
    for path, text in sorted(texts.items()):
        program = TEST_PROGRAM.match(path)
        if not program:
            continue
        for match in FILE_FUNCTION.finditer(lint_common.strip_cpp(text)):
            places.setdefault((program.group(1), match.group(1)), {}).setdefault(path, line_at(text, match.start()))
    problems = []
    for (_, name), lines in sorted(places.items()):
        first, *others = lines.items()
        problems += [f"{path}:{line}: {first[0]} has a function {name} too" for path, line in others]
    return problems


def check_tree(root):
    """Returns all problems of a tree."""
    problems = []
    tests = {}
    for path in lint_common.project_files(root):
        if path != "LICENSE":
            problems += check_file(root, path)
        if TEST_PROGRAM.match(path):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                tests[path] = file.read()
    return problems + check_test_names(tests)


if __name__ == "__main__":
    if yaml is None:
        print("check_style: PyYAML is missing; YAML files are not checked", file=sys.stderr)
    sys.exit(lint_common.report(check_tree(lint_common.ROOT), "check_style"))
