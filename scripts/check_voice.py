#!/usr/bin/env python3
"""Finds English that reads like a translation: in comments, doc comments, strings, help texts and Markdown.

`check_voice.py` checks every file but those in EXEMPT, or the paths that it gets. `--count` prints how many sentences in each folder break a
rule. If a finding is right English after all, reword it; the check has no exceptions.
"""

import argparse
import collections
import os
import re
import sys

import lint_common

# Not held to the rules: decision records, which keep the words of their day, and the samples of this check's own test.
EXEMPT = ["docs/adr", "tests/lint/check_voice_test.py"]

CPP = (".cpp", ".h")
MARKDOWN = (".md",)
PYTHON = (".py",)

# Patterns that were wrong nearly every time, and the replacement.
PATTERNS = [
    (re.compile(r"\b(is|are|has|have) none\b", re.I), "negate the verb: doesn't have, isn't"),
    (re.compile(r"\bwho wants\b", re.I), "name the actor"),
    (re.compile(r"\bto be had\b", re.I), "say available"),
    (re.compile(r"\bof whose\b", re.I), "make two sentences"),
    (re.compile(r"\bwhoever\b", re.I), "name the actor"),
    (re.compile(r"\bHuggingFace\b(?!/)"), "write Hugging Face"),
    (re.compile(r"\bquantis|\binitialis|\boptimis|\brecognis(?!e\b|ed\b|es\b|ing\b)"), "American spelling: -ize"),
]
# Words that no sentence begins with. "That" and "What" are wrong as nouns: "What is left", "That which".
STARTS = [
    (re.compile(r"^Of (?!course\b)"), "no sentence begins with Of"),
    (re.compile(r"^What (?!if\b)[^?]*$"), "no sentence begins with What"),
    (re.compile(r"^Who\b[^?]*$"), "no sentence begins with Who"),
    (re.compile(r"^That which\b"), "no sentence begins with That which"),
]
MOST_WORDS = 25
MOST_COLUMNS = 160

COMMENT = re.compile(r'//[/!]?<?(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|R"(?P<tag>[^()\\ ]{0,16})\((?P<raw>.*?)\)(?P=tag)"'
                     r'|"(?P<text>(?:\\.|[^"\\\n])*)"|(?<![0-9a-zA-Z])\'(?:\\.|[^\'\\\n])+\'', re.S)
JSON_OBJECT = re.compile(r'\s*\{\s*"')
CODE_SPAN = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
SOURCE = re.compile(r"\bSources?: .*", re.S)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"(]|hfshard )|\n\s*\n|\n\s*(?=\d+\. |- )")


def is_prose(text):
    """Returns True for text that a person reads: several words, and no path, pattern or code."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text.strip()


def cpp_passages(text):
    """Yields (line, passage) of the comments, with neighbors joined, and of the strings. A string R"sh(...)sh" is a
    shell script."""
    run, run_line, last_end_line = [], 0, -2
    for match in COMMENT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["line"] is not None:
            is_trailing = text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip() != ""
            if is_trailing:
                yield line, match["line"].strip()
                continue
            if line != last_end_line + 1 and run:
                yield run_line, "\n".join(run)
                run = []
            if not run:
                run_line = line
            run.append(match["line"].strip())
            last_end_line = line
            continue
        if match["tag"] == "sh":
            for at, comment in python_passages(match["raw"]):
                yield line + at - 1, comment
            continue
        found = match["block"] if match["block"] is not None else match["raw"] if match["raw"] is not None else match["text"]
        if found is not None and is_prose(found) and not JSON_OBJECT.match(found.replace('\\"', '"')):
            yield line, found.replace("\\n", "\n").replace('\\"', '"')
    if run:
        yield run_line, "\n".join(run)


def python_passages(text):
    """Yields (line, passage) of docstrings and comments."""
    for match in re.finditer(r'"""(?P<doc>.*?)"""|^[ \t]*#(?P<line>[^!\n].*)$', text, re.S | re.M):
        found = match["doc"] if match["doc"] is not None else match["line"].split("\n")[0]
        yield text.count("\n", 0, match.start()) + 1, found


def markdown_passages(text):
    """Yields (line, passage) of the paragraphs, items and cells, without code."""
    blank = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    for match in re.finditer(r"[^\n]+(?:\n(?![\s#|*>-]|\d+\.)[^\n]+)*", blank):
        line = blank.count("\n", 0, match.start()) + 1
        for cell in match.group(0).split("|"):
            if is_prose(cell):
                yield line, cell.strip().lstrip("#*>- 0123456789.")


PASSAGES = {CPP: cpp_passages, MARKDOWN: markdown_passages, PYTHON: python_passages}


def passages(path, text):
    for endings, find in PASSAGES.items():
        if path.endswith(endings):
            return find(text)
    return ()


def sentences(passage):
    """Yields the sentences of a passage, without code spans and lists of sources."""
    plain = CODE_SPAN.sub("`x`", SOURCE.sub("", passage))
    for sentence in SENTENCE_END.split(plain):
        sentence = " ".join(sentence.split()).strip()
        if sentence:
            yield sentence


def broken_rule(path, sentence):
    """Returns the first rule that a sentence breaks, or None."""
    for pattern, rule in PATTERNS + STARTS:
        if pattern.search(sentence):
            return rule
    words = len(re.findall(r"[\w`'/.-]*[\w`]", sentence))
    is_list = sentence.startswith("Throws:")
    if words > MOST_WORDS and not is_list and path.endswith(CPP + MARKDOWN) and is_prose(sentence):
        return f"{words} words; at most {MOST_WORDS}"
    return None


def problems_in(path, text):
    """Yields (line, rule, sentence) for each sentence that breaks a rule, and each long line of Markdown."""
    for line, passage in passages(path, text):
        for sentence in sentences(passage):
            if rule := broken_rule(path, sentence):
                yield line, rule, sentence
    if path.endswith(MARKDOWN):
        in_code = False
        for number, line in enumerate(text.splitlines(), 1):
            in_code ^= line.startswith(("```", "~~~"))
            if len(line) > MOST_COLUMNS and not in_code and not line.startswith("|"):
                yield number, f"{len(line)} columns; at most {MOST_COLUMNS}", line[:60]


def is_below(path, places):
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def is_looked_at(path):
    return path.endswith(CPP + MARKDOWN + PYTHON) and not lint_common.is_data(path) and path != "CHANGELOG.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="count the findings of each folder")
    parser.add_argument("paths", nargs="*", help="files and folders to look at")
    arguments = parser.parse_args()
    found = []
    counts = collections.Counter()
    for path in lint_common.project_files():
        if not is_looked_at(path) or is_below(path, EXEMPT) or (arguments.paths and not is_below(path, arguments.paths)):
            continue
        for line, rule, sentence in problems_in(path, lint_common.read_text(lint_common.ROOT, path)):
            counts[os.path.dirname(path)] += 1
            found.append(f"{path}:{line}: {rule}: {sentence[:200]}")
    if arguments.count:
        for folder, count in sorted(counts.items()):
            print(f"{count:5} {folder}")
        return 0
    return lint_common.report(found, "check_voice")


if __name__ == "__main__":
    sys.exit(main())
