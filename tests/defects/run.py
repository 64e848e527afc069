#!/usr/bin/env python3
"""Damages the sources in one way after another. The tests that a patch names must fail. Otherwise they prove nothing.

    run.py [BUILD_DIR] [--only TEXT ...] [--jobs N] [--check]

Each NN_name.patch in this folder is one defect. The lines before its diff describe it:

    Promise: what the project promises, and this breaks
    Defect: what is wrong
    Test: unit_run Journal.*            a test program and a filter
    Test: ctest fault.kill_resume       a test by its name for ctest
    Timeout: 60                         seconds; running longer is failing (optional)

The script copies the tracked files to BUILD_DIR/tree (default build/defects). It configures and builds them once in
BUILD_DIR. Each patch then rebuilds only the files that it touches. First, every test must pass undamaged. A test that is
skipped because a peer is missing (HFSHARD_PEER_PYTHON) proves nothing. Output of the tests is in BUILD_DIR/logs. The exit
status is 1 if a defect survives, doesn't apply or doesn't build, or if a test is skipped or fails undamaged. --check
doesn't build. It only checks that all patches apply.
"""

import argparse
import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIP_STATUS = 77
TIMEOUT_SECONDS = 900
# Fast to compile. Asserts and warnings are the same at every level. Defects are in src, so its files are compiled
# alone. The programs that test them aren't.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1",
             "-DHFSHARD_UNITY=tests"]


class Defect:
    """One patch and its header."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path).removesuffix(".patch")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        header = text[:text.index("--- a/")]
        fields = re.findall(r"^(Promise|Defect|Test|Timeout): (.+)$", header, re.M)
        self.promise = "; ".join(value for key, value in fields if key == "Promise")
        self.tests = [value for key, value in fields if key == "Test"]
        self.timeout = int(dict(fields).get("Timeout", TIMEOUT_SECONDS))
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        if not self.promise or not self.tests or "Defect" not in dict(fields):
            sys.exit(f"{path}: Promise, Defect or Test is missing in the header")


class Tree:
    """A copy of the tracked files, and its build directory."""

    def __init__(self, build, jobs):
        self.build, self.jobs = os.path.abspath(build), jobs
        self.top = os.path.join(self.build, "tree")
        self.logs = os.path.join(self.build, "logs")
        os.makedirs(self.logs, exist_ok=True)

    def refresh(self):
        """Copies changed files. Everything else keeps its time, so that nothing is built twice."""
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z"], check=True,
                                capture_output=True).stdout.decode().split("\0")
        wanted = {path for path in listed if path and os.path.isfile(os.path.join(ROOT, path))}
        for folder, _, names in os.walk(self.top):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.top) not in wanted:
                    os.remove(path)
        self.restore(sorted(wanted))

    def restore(self, paths):
        for path in paths:
            source, copy = os.path.join(ROOT, path), os.path.join(self.top, path)
            if not os.path.exists(copy) or not filecmp.cmp(source, copy, shallow=False):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(source, copy)

    def apply(self, patch, *options):
        """Returns True if the patch applies exactly."""
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": self.build}  # Not the repository around us.
        done = subprocess.run(["git", "apply", *options, os.path.abspath(patch)], cwd=self.top, env=environment,
                              capture_output=True, text=True, check=False)
        return done.returncode == 0

    def configure(self):
        if os.path.exists(os.path.join(self.build, "build.ninja")):
            return
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-S", self.top, "-B", self.build, *CONFIGURE, *launcher], check=True,
                       stdout=subprocess.DEVNULL)

    def compile(self, tests, log):
        """Builds what the tests need. Returns True if that succeeds."""
        targets = set()
        for test in tests:
            program, name = test.split(maxsplit=1)
            plain = program == "ctest" and not name.startswith(("fault.", "interop.", "cluster."))
            targets.add("hfshard" if plain else "hfshard_testtool" if program == "ctest" else program)
        command = ["cmake", "--build", self.build, "-j", str(self.jobs), "--target", *sorted(targets)]
        with open(self.log(log), "w", encoding="utf-8") as file:
            return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode == 0

    def log(self, name):
        return os.path.join(self.logs, f"{name}.log")

    def run(self, test, timeout, log):
        """Returns how a test ends: passed, failed, hangs or skipped."""
        program, name = test.split(maxsplit=1)
        if program == "ctest":
            command = ["ctest", "--test-dir", self.build, "--no-tests=error", "--output-on-failure", "-R",
                       f"^{re.escape(name)}$"]
        else:
            command = [os.path.join(self.build, "tests", program), f"--gtest_filter={name}"]
        with open(self.log(log), "a", encoding="utf-8") as file:
            print(f"\n-- {test}", file=file, flush=True)
            process = subprocess.Popen(command, cwd=self.top, stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "hangs"
        with open(self.log(log), encoding="utf-8", errors="replace") as file:
            said = file.read().rpartition(f"\n-- {test}\n")[2]
        if status == SKIP_STATUS or "***Skipped" in said:
            return "skipped"
        if program != "ctest" and "[==========] Running 0 tests" in said:
            return "no such test"
        return "passed" if status == 0 else "failed"


def check_undamaged(tree, defects):
    """Returns test -> how it ends without any damage."""
    tests = {}
    for defect in defects:
        for test in defect.tests:
            tests[test] = max(defect.timeout, tests.get(test, 0))
    if not tree.compile(tests, "undamaged"):
        sys.exit(f"the undamaged tree does not build: {tree.log('undamaged')}")
    results = {}
    for test, timeout in tests.items():
        started = time.monotonic()
        results[test] = tree.run(test, timeout, "undamaged")
        print(f"undamaged  {test}: {results[test]} ({time.monotonic() - started:.0f} s)", flush=True)
    return results


def check_defect(tree, defect, undamaged):
    """Returns test -> verdict. `yes` means caught."""
    useless = {test: f"undamaged {undamaged[test]}" for test in defect.tests if undamaged[test] != "passed"}
    if useless:
        return {test: useless.get(test, "not run") for test in defect.tests}
    if not tree.apply(defect.path):
        return dict.fromkeys(defect.tests, "does not apply")
    try:
        if not tree.compile(defect.tests, defect.name):
            return dict.fromkeys(defect.tests, "does not build")
        ends = {test: tree.run(test, defect.timeout, defect.name) for test in defect.tests}
        return {test: "yes" if end in ("failed", "hangs") else f"NO ({end})" for test, end in ends.items()}
    finally:
        tree.restore(defect.files)


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build", "defects"), metavar="BUILD_DIR")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="patches with one of these in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check", action="store_true", help="only see whether the patches apply")
    options = parser.parse_args()
    patches = sorted(os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".patch"))
    defects = [Defect(path) for path in patches]
    if options.only:
        defects = [defect for defect in defects if any(text in defect.name for text in options.only)]
    tree = Tree(options.build, options.jobs)
    tree.refresh()
    stale = [defect.name for defect in defects if not tree.apply(defect.path, "--check")]
    if stale:
        print(f"do not apply any more: {', '.join(stale)}", flush=True)
    if options.check:
        print(f"{len(defects)} patches, {len(stale)} do not apply")
        return 1 if stale or not defects else 0
    tree.configure()
    undamaged = check_undamaged(tree, [defect for defect in defects if defect.name not in stale])
    rows, bad = [("defect", "promise", "test", "caught")], not defects
    for defect in defects:
        verdicts = (dict.fromkeys(defect.tests, "does not apply") if defect.name in stale
                    else check_defect(tree, defect, undamaged))
        for test, verdict in verdicts.items():
            rows.append((defect.name, defect.promise, test, verdict))
            bad |= verdict != "yes"
            print(f"{defect.name}  {test}: {verdict}", flush=True)
    print()
    print_table(rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
