#!/usr/bin/env python3
"""Compiles code for one instruction set with the clang++ of scripts/fuzz. Attributes that clang doesn't know break it.

Exits 77 (skipped) if clang++ is missing. HFSHARD_CLANG names a clang++ other than clang++-14.
"""

import os
import re
import shutil
import subprocess
import sys

import lint_common

SKIP_STATUS = 77
ATTRIBUTE = re.compile(r'"ops/simd\.h"|__attribute__\(\(target')
FLAGS = ["-std=c++20", "-O1", "-Werror=ignored-attributes", "-Iinclude", "-Isrc", "-c", "-o", os.devnull]


def uses_instruction_sets(path):
    """Returns True for a source with functions for one instruction set."""
    with open(os.path.join(lint_common.ROOT, path), encoding="utf-8") as file:
        return ATTRIBUTE.search(file.read()) is not None


def main():
    clang = os.environ.get("HFSHARD_CLANG") or shutil.which("clang++-14") or shutil.which("clang++")
    if clang is None:
        print("SKIPPED: clang++ is missing")
        return SKIP_STATUS
    files = [path for path in lint_common.project_files()
             if path.startswith("src/") and path.endswith(".cpp") and uses_instruction_sets(path)]
    broken = 0
    for path in files:
        done = subprocess.run([clang, *FLAGS, path], cwd=lint_common.ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            broken += 1
            print(f"{path}: {clang} cannot compile it\n{done.stderr[:2000]}")
    print(f"{len(files)} files, {broken} broken")
    return 1 if broken or not files else 0


if __name__ == "__main__":
    sys.exit(main())
