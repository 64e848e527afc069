#!/usr/bin/env python3
"""Runs the suite in build/all by ctest, and sums up what it took.

ctest tries a test that fails once more. After its summary come the tests that needed the second try (UNSTABLE), the ten
slowest tests, and the seconds of each phase of scripts/test. The first line of ctest's summary is repeated as the last
line. The exit status is ctest's.
"""

import argparse
import re
import subprocess
import sys
import time

# `12/380 Test #7: name ....   Passed   0.12 sec`, or `...***Failed   0.12 sec`; a first try has no `12/380`.
RESULT = re.compile(r"Test +#\d+: (\S+) \.*(?P<bad>\*\*\*)? *(?P<status>[A-Za-z][^0-9]*?) +(?P<seconds>[0-9.]+) sec")
SUMMARY = re.compile(r"^\d+% tests passed, ")
SLOWEST = 10


class Results:
    """What the lines of ctest say about each test."""

    def __init__(self):
        self.failures = {}  # name -> statuses of the tries that failed
        self.passed = set()
        self.seconds = {}
        self.summary = ""

    def read(self, line):
        """Takes in one line of ctest's output."""
        if SUMMARY.match(line):
            self.summary = line.rstrip("\n")
        found = RESULT.search(line)
        if not found:
            return
        name = found[1]
        self.seconds[name] = self.seconds.get(name, 0) + float(found["seconds"])
        if found["bad"] and found["status"].strip() != "Skipped":
            self.failures.setdefault(name, []).append(found["status"].strip())
        elif not found["bad"]:
            self.passed.add(name)

    def unstable(self):
        """Returns lines for the tests that failed and then passed."""
        return [f"UNSTABLE {name}: {', '.join(statuses)} at the first try, passed at the second"
                for name, statuses in sorted(self.failures.items()) if name in self.passed]

    def slowest(self):
        """Returns lines for the tests that took longest, all tries together."""
        ranked = sorted(self.seconds.items(), key=lambda item: (-item[1], item[0]))[:SLOWEST]
        return [f"{seconds:8.1f} s  {name}" for name, seconds in ranked]


def phase_lines(text, now):
    """Returns lines for the phases: `text` has the second and the name of each begin."""
    begins = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
    ends = [float(begin) for begin, _ in begins[1:]] + [now]
    lines = [f"{end - float(begin):8.1f} s  {name}" for (begin, name), end in zip(begins, ends)]
    if begins:
        lines.append(f"{now - float(begins[0][0]):8.1f} s  all")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--suite", default="build/all")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--phases", help="a file with the begin of each phase")
    parser.add_argument("options", nargs="*", help="passed to ctest, after --")
    arguments = parser.parse_args()
    command = [arguments.ctest, "--test-dir", arguments.suite, "--output-on-failure", "--no-tests=error", "--repeat", "until-pass:2",
               "-j", arguments.jobs, *arguments.options]
    results = Results()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          text=True, errors="replace", bufsize=1) as ctest:
        for line in ctest.stdout:
            print(line, end="", flush=True)
            results.read(line)
    for line in results.unstable():
        print(line)
    print(f"\nThe {SLOWEST} slowest tests:")
    print("\n".join(results.slowest()))
    if arguments.phases:
        with open(arguments.phases, encoding="utf-8") as file:
            print("\nThe phases:\n" + "\n".join(phase_lines(file.read(), time.time())))
    print("\n" + (results.summary or "ctest ended without a summary"), flush=True)
    return ctest.returncode


if __name__ == "__main__":
    sys.exit(main())
