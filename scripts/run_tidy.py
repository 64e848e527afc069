#!/usr/bin/env python3
"""Runs clang-tidy 14 over src, as many files at once as there are processors, and remembers which files were clean.

A file's key is the hash of everything that clang-tidy's answer depends on within the project: the file, the headers of
ours that it includes, the two configurations, the compile command and the tool's version. Clean keys are empty files in
build/tidy-cache, so a second run only looks at what changed. `run_tidy.py FILE...` looks at these files only.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time

import lint_common

ROOT = lint_common.ROOT
TIDY = "clang-tidy-14"
DATABASE = os.environ.get("HFSHARD_TIDY_BUILD", os.path.join(ROOT, "build", "release"))
CACHE = os.path.join(ROOT, "build", "tidy-cache")
COMMANDS = os.path.join(ROOT, "build", "tidy-commands")  # DATABASE as clang can use it
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)

# g++ writes the compile commands; clang need not know every option of g++.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-unused-command-line-argument"]

# The analyzer walks paths and takes two thirds of the time. It runs where memory, descriptors and untrusted bytes are
# handled; in these folders values are computed from values, without a pointer to lose.
NOT_ANALYZED = re.compile(r"src/(mapping|plan|tool)/")
# CLI11 is headers only, and this check alone spends 9 seconds on them in each file that includes it.
WITHOUT_COPIES = re.compile(r"src/tool/")


def checks_of(path):
    """What is taken off the checks of .clang-tidy for a file."""
    off = ["-clang-analyzer-*"] if NOT_ANALYZED.match(path) else []
    return off + (["-performance-unnecessary-value-param"] if WITHOUT_COPIES.match(path) else [])


def without_precompiled(command):
    """The words of a compile command without g++'s precompiled header: clang cannot read it, and a file has to include
    what it uses."""
    words = shlex.split(command)
    kept = [word for at, word in enumerate(words)
            if word != "-Winvalid-pch" and not word.endswith("cmake_pch.hxx")
            and not (word == "-include" and words[at + 1].endswith("cmake_pch.hxx"))]
    return shlex.join(kept)


def compile_commands():
    """Source path relative to the root -> compile command, for the files of src; written to COMMANDS too."""
    with open(os.path.join(DATABASE, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    commands = {}
    for entry in entries:
        entry["command"] = without_precompiled(entry.get("command") or shlex.join(entry.pop("arguments")))
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path.startswith("src" + os.sep):
            commands[path] = entry["command"]
    os.makedirs(COMMANDS, exist_ok=True)
    with open(os.path.join(COMMANDS, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    return commands


def headers_of(path, seen):
    """Adds the project headers that a file includes, directly or not, to `seen`."""
    for name in INCLUDE.findall(lint_common.read_text(ROOT, path)):
        for folder in ("src", "include"):
            header = f"{folder}/{name}"
            if header not in seen and os.path.isfile(os.path.join(ROOT, header)):
                seen.add(header)
                headers_of(header, seen)


def key_of(path, command, version):
    """Hash of everything the answer for a file depends on."""
    seen = set()
    headers_of(path, seen)
    state = hashlib.sha256()
    for part in [version, command, *EXTRA, *checks_of(path)]:
        state.update(part.encode() + b"\0")
    for name in [path, *sorted(seen), ".clang-tidy"]:
        with open(os.path.join(ROOT, name), "rb") as file:
            state.update(name.encode() + b"\0" + file.read() + b"\0")
    return state.hexdigest()


def check(path, key):
    """Runs clang-tidy on one file: path, seconds, what it said (empty when clean)."""
    started = time.monotonic()
    off = ["--checks=" + ",".join(checks_of(path))] if checks_of(path) else []
    done = subprocess.run([TIDY, "-p", COMMANDS, "--quiet", *off, *EXTRA, os.path.join(ROOT, path)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    said = done.stdout.strip()
    if done.returncode != 0 and not said:
        said = done.stderr.strip() or f"clang-tidy ended with status {done.returncode}"
    if not said:
        open(os.path.join(CACHE, key), "w", encoding="utf-8").close()
    return path, time.monotonic() - started, said


def main(wanted):
    if shutil.which(TIDY) is None:
        print(f"run_tidy: {TIDY} is missing", file=sys.stderr)
        return 1
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    os.makedirs(CACHE, exist_ok=True)
    keys = {path: key_of(path, command, version) for path, command in sorted(compile_commands().items())
            if not wanted or path in wanted}
    if not keys:
        print("run_tidy: nothing to check; is build/release configured?", file=sys.stderr)
        return 1
    to_do = [path for path, key in keys.items() if not os.path.exists(os.path.join(CACHE, key))]
    for name in set(os.listdir(CACHE)) - set(keys.values()) if not wanted else ():
        os.remove(os.path.join(CACHE, name))
    started = time.monotonic()
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        # Big files first, so that the last processor does not wait for one of them.
        to_do.sort(key=lambda path: -os.path.getsize(os.path.join(ROOT, path)))
        for path, seconds, said in pool.map(lambda path: check(path, keys[path]), to_do):
            if "--times" in sys.argv:
                print(f"{seconds:7.1f} s  {path}")
            if said:
                wrong += 1
                print(said.replace(ROOT + os.sep, ""), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"run_tidy: {len(to_do)} of {len(keys)} files looked at in {time.monotonic() - started:.0f} s "
          f"({used.ru_utime + used.ru_stime:.0f} s of processor time), {wrong} with problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main({os.path.relpath(os.path.abspath(name), ROOT) for name in sys.argv[1:] if name[0] != "-"}))
