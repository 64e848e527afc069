#!/usr/bin/env python3
"""Runs command line cases: each tests/cli/<name>.sh. Compares their output and exit status.

    run.py --hfshard PROGRAM [--update] [CASE.sh ...]      (all cases in this folder if you name none)

A case runs under `bash -eu` in a fresh directory. Its environment has no settings of the machine (testing.clean). It has
HFSHARD (the program), T (that directory) and TESTS (the tests' folder). <name>.out and <name>.err hold the expected output. A stream without a file isn't
compared. <name>.exit holds the expected status; without it, the status must be 0. In an expected line, `[..]` stands
for any text within the line, and a line `...` for any number of lines. The fresh directory is written $T in both.
Status 77 means skipped. `--update` rewrites the existing files (or .out, if a case has no file) from the actual
output. Lines that match an expected line with `[..]` stay, and seconds of a run become `[..]`. Put a line `...` back
by hand.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

SKIP_STATUS = 77
TIMEOUT_SECONDS = 300


def read(path):
    """Returns the file's text, or None if it doesn't exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def matches(expected, seen):
    """Returns True if the text matches the expectation, with its wildcards."""
    pattern = ""
    for line in expected.splitlines(keepends=True):
        if line.rstrip("\n") == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.split("[..]"))
    return re.fullmatch(pattern, seen) is not None


def difference(expected, seen, name):
    """Returns the text to show if they don't match."""
    lines = difflib.unified_diff(expected.splitlines(), seen.splitlines(), f"{name} (expected)", f"{name} (seen)",
                                 lineterm="")
    return "\n".join(lines)


def run_case(script, program):
    """Runs one case. Returns stdout, stderr and status, with the fresh directory written $T."""
    with tempfile.TemporaryDirectory(prefix="hfshard-cli-") as folder:
        folder = os.path.realpath(folder)
        environment = {key: value for key, value in testing.clean().items() if not key.startswith("HFSHARD")}
        environment |= {"HFSHARD": program, "T": folder, "TESTS": os.path.dirname(HERE), "LC_ALL": "C",
                        "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "HF_HOME": os.path.join(folder, "hf_home")}
        done = subprocess.run(["bash", "-eu", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        streams = [raw.decode("utf-8", errors="replace").replace(folder, "$T") for raw in (done.stdout, done.stderr)]
        return (*streams, done.returncode)


def problems_of(base, out, err, status):
    """Returns the differences from the expectations next to the case."""
    problems = []
    for suffix, seen in ((".out", out), (".err", err)):
        expected = read(base + suffix)
        if expected is not None and not matches(expected, seen):
            problems.append(difference(expected, seen, os.path.basename(base) + suffix))
    expected_status = int((read(base + ".exit") or "0").strip())
    if status != expected_status:
        problems.append(f"exit status {status}, expected {expected_status}; stderr was:\n{err}")
    return problems


def kept(expected, seen):
    """Returns the actual output, with the expected wildcards."""
    described = [(line, re.compile(r"[^\n]*".join(re.escape(part) for part in line.split("[..]"))))
                 for line in (expected or "").splitlines() if "[..]" in line]
    lines = []
    for line in seen.splitlines():
        same = next((was for was, pattern in described if pattern.fullmatch(line)), None)
        lines.append(same or re.sub(r"in [0-9.]+ s\b", "in [..] s", line))
    return "".join(line + "\n" for line in lines)


def update(base, out, err, status):
    """Writes the actual output over the expected one."""
    chosen = [(suffix, text) for suffix, text in ((".out", out), (".err", err)) if os.path.exists(base + suffix)]
    read_before = {suffix: read(base + suffix) for suffix in (".out", ".err")}
    for suffix, text in chosen or [(".out", out)]:
        with open(base + suffix, "w", encoding="utf-8") as file:
            file.write(kept(read_before[suffix], text))
    if status != 0 or os.path.exists(base + ".exit"):
        with open(base + ".exit", "w", encoding="utf-8") as file:
            file.write(f"{status}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the program to test")
    parser.add_argument("--update", action="store_true", help="rewrite the expectations")
    parser.add_argument("cases", nargs="*", metavar="CASE.sh")
    arguments = parser.parse_args()
    cases = arguments.cases or sorted(os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".sh"))
    program = os.path.abspath(arguments.hfshard)
    failed = skipped = 0
    for script in map(os.path.abspath, cases):
        base = script.removesuffix(".sh")
        out, err, status = run_case(script, program)
        if status == SKIP_STATUS:
            skipped += 1
            print(out + err, end="")
        elif arguments.update:
            update(base, out, err, status)
        else:
            problems = problems_of(base, out, err, status)
            failed += bool(problems)
            print(f"{'FAIL' if problems else 'ok  '} {os.path.basename(base)}")
            print("".join(problem + "\n" for problem in problems), end="")
    if not failed and skipped == len(cases):
        return SKIP_STATUS
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
