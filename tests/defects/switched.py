#!/usr/bin/env python3
"""Puts many small defects into one build, each behind a switch, and counts how many of them the tests notice.

    switched.py make DIR [--seed N] [--count N]    copy the tracked files to DIR/tree, with the switches, and build them
    switched.py make DIR --list FILE ...           the same with defects that somebody chose
    switched.py trace DIR                          run each test once, and note which defects it reaches
    switched.py run DIR [--seconds N]              turn on one defect after another, and run the tests that reach it

run.py needs a build for each patch of this folder. Here a build serves for all defects, so hundreds can be tried. They
are drawn at random from the places in src that the patterns below find. DIR/defects.json lists them, and DIR/found.json
what found them. `run` stops for a defect at the first test that fails, or when its tests have taken --seconds (default
60). It continues where it was stopped. Survivors may change nothing that a test could see: read them one by one.

A list is JSON: [{"file": "src/base/text.cpp", "line": 12, "old": "  return a && b;", "new": "  return a && (@ || b);", "why":
"names with a dot pass"}, ...]. `old` is a whole line or several, near this line, and @ in `new` is true if the defect is
on. The best lists are from people who read the sources and don't know the tests.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import run  # noqa: E402  (the patches' program)

UNITS = ["base", "bytes", "format", "mapping", "ops", "plan", "run", "service", "tool"]
OTHERS = "^(abstract_trees|cli|cluster|conformance|fault|golden|hub_names|interop|mappings|module_directories|property|syscall_faults|torchtitan_names)"
SWITCH = "HFSHARD_DEFECT({})"
MOST = 65536  # kMost of switches.h
UNCOMPILED = "doesn't compile"
TERM = r"[\w.:]+(?:->[\w.]+)*(?:\(\)|\[\w+\])?"


def is_balanced(text):
    """Returns whether all brackets are closed in the text, and none before it opens."""
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return False
    return depth == 0


def operands(text, sign):
    """Returns the parts of a condition between signs that aren't in brackets."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and text.startswith(f" {sign} ", at):
            parts.append((begin, at))
            begin = at + len(sign) + 2
    return [*parts, (begin, len(text))] if parts else []


def conditions(line):
    """Yields the defects of a condition on one line: negated, or without one of its operands."""
    found = re.match(r"(\s*(?:\} else )?if \()(.*)(\) (?:\{|return\b.*;|continue;|break;|throw\b.*)|\))$", line)
    if not found:
        found = re.match(r"(\s*return )(.* (?:&&|\|\|) .*)(;)$", line)
    if not found or not is_balanced(found[2]) or ";" in found[2] or re.search(r"[^=!<>]=[^=]", found[2]):
        return
    head, inside, tail = found.groups()
    if "if (" in head:
        yield "negated", f"{head}@ != bool({inside}){tail}"
    for sign, plain in (("&&", "(@ || ({}))"), ("||", "(!@ && ({}))")):
        if sign == "&&" and operands(inside, "||"):
            continue
        for begin, end in operands(inside, sign):
            yield f"without {inside[begin:end]}", head + inside[:begin] + plain.format(inside[begin:end]) + inside[end:] + tail


def numbers(line):
    """Yields the defects of sums and comparisons."""
    for found in re.finditer(r" ([+-]) 1\b(?![.\w])", line):
        yield "off by one", f"{line[:found.start()]} {found[1]} (@ ? 0 : 1){line[found.end():]}"
    for found in re.finditer(rf"(?<=[(&|=n] )?({TERM}) (<|<=|>|>=) ({TERM})(?=\)| &&| \|\||;| \?)(?! [+\-*/])", line):
        before = line[:found.start()]
        if not re.search(r"(\(|&& |\|\| |return |= )$", before) or "template" in line or "for (" in line:
            continue
        a, sign, b = found.groups()
        other = sign[0] if len(sign) == 2 else sign + "="
        yield f"{sign} is {other}", f"{before}(@ ? ({a} {other} {b}) : ({a} {sign} {b})){line[found.end():]}"
    for found in re.finditer(r"\bstd::(min|max)\(([^(){}]+), ([^(){}]+)\)", line):
        a, b = found[2], found[3]
        other = "max" if found[1] == "min" else "min"
        yield f"{found[1]} is {other}", f"{line[:found.start()]}(@ ? std::{other}({a}, {b}) : {found[0]}){line[found.end():]}"


def statements(line, before):
    """Yields the defects of whole statements: left out, or another constant."""
    found = re.match(r"(\s+)((?:\+\+)?[a-z_][\w.\[\]]*(?:->[\w.]+)*(?:\(.*\)| [+|&-]?= .*)?);$", line)
    if found and is_balanced(found[2]) and re.search(r"(;|\{|\}|:)$", before) and not re.match(r"return\b|throw\b|break$|continue$", found[2]):
        if not re.match(r"\w+ = \[", found[2]):
            yield "left out", f"{found[1]}if (!@) {found[2]};"
    found = re.match(r"(.*\breturn )(true|false)(;.*)$", line)
    if found:
        yield "the other constant", f"{found[1]}(@ != {found[2]}){found[3]}"


def candidates(path, lines):
    """Yields (line number, kind, changed line) for one file."""
    for number, line in enumerate(lines):
        if re.match(r"\s*(//|#|case |static_assert|constexpr)|^\S", line) or "HFSHARD_CHECK" in line or "constexpr" in line or '"' in line:
            continue
        before = lines[number - 1].split("  //")[0].rstrip() if number else ""
        code = line.split("  //")[0].rstrip()
        for kind, changed in [*conditions(code), *numbers(code), *statements(code, before)]:
            yield number, kind, changed


def read_lines(path):
    """Returns the lines of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


def drawn_at_random(top, seed, count):
    """Returns (file, line number, number of lines, kind, new lines) for defects at random places."""
    found = []
    for path in sorted(os.path.join(at, name) for at, _, names in os.walk(os.path.join(top, "src")) for name in names):
        if path.endswith(".cpp"):
            found += [(path, at, 1, kind, changed) for at, kind, changed in candidates(path, read_lines(path))]
    print(f"{len(found)} places")
    drawn, used = [], set()
    for each in random.Random(seed).sample(found, len(found)):
        if each[:2] not in used and len(drawn) < count:
            used.add(each[:2])
            drawn.append(each)
    return drawn


def chosen(top, file):
    """Returns the same for the defects of a list."""
    with open(file, encoding="utf-8") as text:
        defects = json.load(text)
    out = []
    for each in defects:
        path = os.path.join(top, each["file"])
        lines, old = read_lines(path), each["old"].rstrip("\n").split("\n")
        places = [at for at in range(len(lines)) if lines[at:at + len(old)] == old]
        if not places:
            sys.exit(f"{each['file']}:{each['line']} isn't {each['old'].strip()}")
        at = min(places, key=lambda place: abs(place + 1 - each["line"]))
        out.append((path, at, len(old), each["why"], each["new"].rstrip("\n")))
    return out


def make(folder, seed, count, lists):
    """Copies the tree, puts the switches in, and builds."""
    tree = run.Tree(folder, os.cpu_count())
    tree.refresh()
    drawn = [each for file in lists for each in chosen(tree.top, file)] or drawn_at_random(tree.top, seed, count)
    listed = [{"file": os.path.relpath(path, tree.top), "line": at + 1, "lines": lines, "kind": kind}
              for path, at, lines, kind, _ in drawn]
    for number, (path, at, lines, _, changed) in enumerate(drawn):
        set_lines(path, at, lines, changed.replace("@", SWITCH.format(number)))
    configure(tree, folder, "switches.h")
    while True:  # some defects don't compile
        done = build_all(folder)
        if done.returncode == 0:
            break
        wrong = {(file, int(line)) for file, line in
                 re.findall(rf"{re.escape(tree.top)}/(src/\S+\.cpp):(\d+):\d+: (?:error|note: in expansion of macro)", done.stdout)}
        back = [each for each in listed if each["kind"] != UNCOMPILED and
                any((each["file"], each["line"] + i) in wrong for i in range(each["lines"]))]
        if not back:
            sys.exit(done.stdout)
        for each in back:
            each["kind"] = UNCOMPILED
            at, count = each["line"] - 1, each["lines"]
            set_lines(os.path.join(tree.top, each["file"]), at, count, "\n".join(read_lines(os.path.join(ROOT, each["file"]))[at:at + count]))
    write(folder, "defects", listed)
    print(f"{sum(each['kind'] != UNCOMPILED for each in listed)} defects")


def configure(tree, folder, header):
    """Prepares a build of the tree whose sources begin with a header of HERE."""
    flags = f"-O1 -w -DHFSHARD_DEFECTS='\"{folder}\"' -include {HERE}/{header}"
    subprocess.run(["cmake", "-S", tree.top, "-B", os.path.join(folder, "build"), "-G", "Ninja", "-DHFSHARD_TESTS=ON",
                    "-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DCMAKE_CXX_FLAGS_RELWITHDEBINFO={flags}"], check=True, stdout=subprocess.DEVNULL)


def build_all(folder):
    """Builds all that compiles. Returns the finished process."""
    return subprocess.run(["cmake", "--build", os.path.join(folder, "build"), "--", "-k", "0"], capture_output=True, text=True, check=False)


def set_lines(path, at, count, text):
    """Replaces lines of a file. It has as many lines as before."""
    lines = read_lines(path)
    new = [line.split("  // ")[0] for line in text.split("\n")]
    lines[at:at + count] = [*new[:count - 1], " ".join(new[count - 1:]), *[""] * (count - len(new))]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def write(folder, name, value):
    """Writes a JSON file of the folder."""
    with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=0)


def read(folder, name):
    """Returns a JSON file of the folder."""
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def tests_of(build):
    """Returns the names of all tests: `unit_run Journal.Reads` and `ctest cli.diff`."""
    out = []
    for unit in UNITS:
        listed = subprocess.run([os.path.join(build, "tests", f"unit_{unit}"), "--gtest_list_tests"], check=True, capture_output=True, text=True)
        suite = ""
        for line in listed.stdout.splitlines():
            name = line.split("#")[0].rstrip()
            if name.endswith(".") and not name.startswith(" "):
                suite = name
            elif name.startswith("  "):
                out.append(f"unit_{unit} {suite}{name.strip()}")
    listed = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-LE", "soak", "-R", OTHERS], check=True,
                                       capture_output=True, text=True).stdout)
    return out + [f"ctest {test['name']}" for test in listed["tests"]]


def run_tests(build, program, names, seconds):
    """Runs tests of one program. Returns the first that failed, or None."""
    if program == "ctest":
        for name in names:
            done = subprocess.run(["ctest", "--test-dir", build, "-R", f"^{re.escape(name)}$", "--timeout", str(seconds)],
                                  capture_output=True, check=False)
            if done.returncode != 0:
                return name
        return None
    command = [os.path.join(build, "tests", program), f"--gtest_filter={':'.join(names)}", "--gtest_brief=1", "--gtest_fail_fast"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=seconds, text=True, errors="replace", cwd=build)
    except subprocess.TimeoutExpired:
        return "too slow"
    failed = re.search(r"FAILED  \] ([\w./]+)", done.stdout)
    return None if done.returncode == 0 else failed[1] if failed else "crashed"


def set_on(folder, number):
    """Turns one defect on."""
    with open(os.path.join(folder, "on"), "w", encoding="ascii") as file:
        file.write(str(number))


def trace(folder):
    """Notes for each test what it reaches and how long it takes."""
    build = os.path.join(folder, "build")
    reached = os.path.join(folder, "reached")
    set_on(folder, -1)
    out = []
    for test in tests_of(build):
        with open(reached, "wb") as file:
            file.write(bytes(MOST))
        program, name = test.split(" ", 1)
        began = time.monotonic()
        failed = run_tests(build, program, [name], 300)
        if failed:
            print(f"{test} fails without a defect")
            continue
        with open(reached, "rb") as file:
            marks = file.read()
        out.append({"test": test, "seconds": time.monotonic() - began, "reaches": [i for i, mark in enumerate(marks) if mark]})
    os.remove(reached)
    write(folder, "reached", out)
    print(f"{len(out)} tests reach {len({i for each in out for i in each['reaches']})} of {len(read(folder, 'defects'))} defects")


def hunt(folder, seconds):
    """Runs the tests that reach each defect."""
    build = os.path.join(folder, "build")
    reached = sorted(read(folder, "reached"), key=lambda each: each["seconds"])
    found = read(folder, "found") if os.path.exists(os.path.join(folder, "found.json")) else {}
    defects = read(folder, "defects")
    for number, defect in enumerate(defects):
        if str(number) in found:
            continue
        set_on(folder, number)
        programs, left, skipped = {}, seconds, 0
        for each in reached:
            if number in each["reaches"]:
                left -= each["seconds"]
                if left < 0:
                    skipped += 1
                    continue
                program, name = each["test"].split(" ", 1)
                programs.setdefault(program, []).append(name)
        by = None
        for program, names in programs.items():
            by = by or run_tests(build, program, names, seconds * 3)
        found[str(number)] = by or (f"survives {sum(map(len, programs.values()))} tests" + (f", {skipped} not run" if skipped else ""))
        print(f"{number} {defect['file']}:{defect['line']} {defect['kind']}: {found[str(number)]}", flush=True)
        write(folder, "found", found)
    set_on(folder, -1)
    survivors = sum(text.startswith("survives") for text in found.values())
    print(f"{len(defects) - survivors} of {len(defects)} found")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["make", "trace", "run"])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--list", nargs="+", default=[], metavar="FILE")
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    if options.what == "make":
        make(folder, options.seed, options.count, options.list)
    elif options.what == "trace":
        trace(folder)
    else:
        hunt(folder, options.seconds)


if __name__ == "__main__":
    main()
