#!/usr/bin/env python3
"""Finds conditions of the sources whose operands the tests don't tell apart.

    operands.py make DIR              copy the tracked files to DIR/tree, with a switch for each operand, and build them
    operands.py trace DIR             run all tests, and note which values each operand had
    operands.py left DIR [PREFIX]     print the operands that were never true, false or, of a comparison, equal
    operands.py try DIR N PROGRAM FILTER    run tests with one change: they should fail

A test can only notice that `b` was forgotten in `a && b` if it gets there with a false b. So what `left` prints are defects that
no test of this run notices. It prints the number of each for `try`. Much of it is right as it is: checks that no input reaches, or
that only differ in speed. PROGRAM is unit_run or another one of the build's tests with FILTER as of gtest, or ctest with a regular
expression. The tests are those of switched.py, whose defects are of any kind.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import run  # noqa: E402  (the patches' program)
import switched  # noqa: E402

TRUE, FALSE, EQUAL = 1, 2, 4  # Seen of operands.h
CHANGES = 3
COMPARISON = re.compile(rf"({switched.TERM}) (?:<|<=|>|>=) ({switched.TERM})$")
# HFSHARD_CHECK, lambdas with bodies, choices, errors of our own, and errno, which the switch could change
LEFT_OUT = re.compile(r"HFSHARD|[;{?]|internal|errno")


def end_of_literal(text, at):
    """Returns the place after a string or a character."""
    quote = text[at]
    at += 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def places(text, begin, end):
    """Yields (place, depth in brackets) outside of literals."""
    depth, at = 0, begin
    while at < end:
        char = text[at]
        if char == '"' or (char == "'" and not text[at - 1].isalnum()):
            at = end_of_literal(text, at)
            continue
        depth += (char in "([{") - (char in ")]}")
        yield at, depth
        at += 1


def end_of_bracket(text, begin):
    """Returns the place after the bracket that opens at a place, or None if there are comments or raw strings on the way."""
    for at, depth in places(text, begin, len(text)):
        if text.startswith("//", at) or text.startswith('R"', at):
            return None
        if depth == 0:
            return at + 1
    return None


def split(text, begin, end, sign):
    """Returns the parts between signs that aren't in brackets."""
    parts = []
    for at, depth in places(text, begin, end):
        if depth == 0 and text.startswith(sign, at) and at >= begin:
            parts.append((begin, at))
            begin = at + len(sign)
    return [*parts, (begin, end)]


def operands(text, begin, end):
    """Yields the (begin, end) of each operand of a condition."""
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    for sign in ("||", "&&"):
        parts = split(text, begin, end, sign)
        if len(parts) > 1:
            for part in parts:
                yield from operands(text, *part)
            return
    if text[begin] == "(" and end_of_bracket(text, begin) == end:
        yield from operands(text, begin + 1, end - 1)
        return
    plain = re.sub(r'"[^"]*"|\[[=&]\]|[<>=!]=', "", text[begin:end])
    if plain and "=" not in plain and not LEFT_OUT.search(text[begin:end]):
        yield begin, end


def conditions(text):
    """Yields the (begin, end) of each condition of a file."""
    for found in re.finditer(r"\b(?:if|while) \(", text):
        line = text[text.rfind("\n", 0, found.start()) + 1:found.start()]
        end = end_of_bracket(text, found.end() - 1)
        if end is None or "//" in line or line.lstrip().startswith("#"):
            continue
        inner = text[found.end():end - 1]
        begin = found.end() + inner.rfind(";") + 1 if ";" in re.sub(r"\"[^\"]*\"|'.'", "", inner) else found.end()
        if "{" not in text[begin:end]:
            yield begin, end - 1
    for found in re.finditer(r"(?:\breturn |\bconst bool \w+ =\s)([^;{}\"'?]*);", text):
        line = text[text.rfind("\n", 0, found.start()) + 1:found.end()]
        if "//" not in line and "constexpr" not in line and ("const bool" in found[0] or re.search(r"&&|\|\|", found[1])):
            yield found.span(1)


def with_switches(path, file, listed, wrong):
    """Returns the text of a file with a switch at each operand, except those of `wrong`, and adds them to the list."""
    with open(path, encoding="utf-8") as opened:
        text = opened.read()
    changed, done = [], 0
    for begin, end in sorted({each for condition in conditions(text) for each in operands(text, *condition)}):
        operand, line = text[begin:end], text.count("\n", 0, begin) + 1
        if any((file, line + more) in wrong for more in range(-2, 4)):  # of an operand of several lines
            continue
        number = len(listed)
        sides = COMPARISON.match(operand)
        switch = f"comparison({number}, bool({operand}), bool(({sides[1]}) == ({sides[2]})))" if sides else f"operand({number}, bool({operand}))"
        listed.append({"file": file, "line": line, "operand": " ".join(operand.split()), "comparison": bool(sides)})
        changed += [text[done:begin], "::hfshard_operands::", switch]
        done = end
    return "".join([*changed, text[done:]])


def make(folder):
    """Copies the tree, puts the switches in, and builds."""
    tree = run.Tree(folder, os.cpu_count())
    tree.refresh()
    switched.configure(tree, folder, "operands.h")
    sources = sorted(os.path.join(at, name) for at, _, names in os.walk(os.path.join(tree.top, "src")) for name in names
                     if name.endswith(".cpp"))
    wrong = set()
    while True:  # some, as those of constant expressions, don't compile
        listed = []
        for path in sources:
            file = os.path.relpath(path, tree.top)
            text = with_switches(os.path.join(ROOT, file), file, listed, wrong)
            if "\n".join(switched.read_lines(path)) != text:
                with open(path, "w", encoding="utf-8") as opened:
                    opened.write(text)
        done = switched.build_all(folder)
        if done.returncode == 0:
            break
        found = {(file, int(line)) for file, line in re.findall(rf"{re.escape(tree.top)}/(src/\S+\.cpp):(\d+):\d+: +(?:error|required|in .constexpr)",
                                                                done.stdout)}
        if found <= wrong:
            sys.exit(done.stdout)
        wrong |= found
    switched.write(folder, "operands", listed)
    switched.set_on(folder, -1)
    print(f"{len(listed)} operands")


def trace(folder):
    """Runs all tests, and notes the values of each operand."""
    build, path = os.path.join(folder, "build"), os.path.join(folder, "reached")
    switched.set_on(folder, -1)
    with open(path, "wb") as file:
        file.write(bytes(switched.MOST))
    programs = {}
    for test in switched.tests_of(build):
        program, name = test.split(" ", 1)
        programs.setdefault(program, []).append(name)
    for program, names in programs.items():
        for each in ([[name] for name in names] if program == "ctest" else [names]):
            failed = switched.run_tests(build, program, each, 600)
            if failed:
                print(f"{program} {failed} fails without a change")
    shutil.move(path, os.path.join(folder, "reached.all"))


def left(folder, prefix):
    """Prints what no test has shown."""
    with open(os.path.join(folder, "reached.all"), "rb") as file:
        seen = file.read()
    count = 0
    for number, each in enumerate(switched.read(folder, "operands")):
        wanted = TRUE | FALSE | (EQUAL if each["comparison"] else 0)
        lacks = wanted & ~seen[number]
        if not lacks or not each["file"].startswith(prefix):
            continue
        count += 1
        # What is never false could be left out, as if it were true.
        words = [f"never {word} ({CHANGES * number + change})"
                 for bit, word, change in ((FALSE, "false", 0), (TRUE, "true", 1), (EQUAL, "equal", 2)) if lacks & bit]
        print(f"{each['file']}:{each['line']}: {each['operand']}: {', '.join(words)}")
    print(f"{count} operands")


def attempt(folder, number, program, text):
    """Runs tests with one change on."""
    build = os.path.join(folder, "build")
    names = [text]
    if program == "ctest":
        listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-R", text], check=True, capture_output=True, text=True)
        names = [test["name"] for test in json.loads(listed.stdout)["tests"]]
    switched.set_on(folder, number)
    failed = switched.run_tests(build, program, names, 600)
    switched.set_on(folder, -1)
    print(f"noticed by {failed}" if failed else "not noticed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["make", "trace", "left", "try"])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    if options.what == "make":
        make(folder)
    elif options.what == "trace":
        trace(folder)
    elif options.what == "left":
        left(folder, options.rest[0] if options.rest else "src/")
    else:
        attempt(folder, int(options.rest[0]), *options.rest[1:])


if __name__ == "__main__":
    main()
