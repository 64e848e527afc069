#!/usr/bin/env python3
"""The checks share this: which files to check, and C++ text without comments and literals.

`lint_common.py .h .cpp` prints the files with these endings, one per line.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Bytes from other programs, and inputs that are wrong on purpose.
DATA = re.compile(r"tests/(golden|oracle/[^/]+|fuzz/corpus)/")


def project_files(root=ROOT):
    """Returns the paths of all tracked files and all new ones that git doesn't ignore, sorted and relative to
    `root`."""
    command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others",
               "--exclude-standard"]
    try:
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = walk(root)
    return sorted({path for path in listed if path and os.path.isfile(os.path.join(root, path))})


def walk(root):
    """Yields all files below `root`, for a tree that isn't a git checkout."""
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name != ".git" and not name.startswith("build")]
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def is_data(path):
    """Returns True for files that the checks on text skip."""
    return DATA.match(path) is not None


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\ ]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'", re.S)


def strip_cpp(text, keep_strings=False):
    """Returns C++ text with comments blanked out, and literals too unless told otherwise. Lines stay where they are."""
    def blank(match):
        found = match.group(0)
        if not found.startswith("/"):
            if keep_strings:
                return found
            quote = found[-1]
            return quote + re.sub(r"[^\n]", " ", found[1:-1]) + quote
        return re.sub(r"[^\n]", " ", found)

    return _TOKEN.sub(blank, text)


def read_text(root, path):
    """Returns the file's text. Bytes that aren't UTF-8 become replacement characters."""
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def report(problems, what):
    """Prints one problem per line and returns the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{what}: {len(problems)} problem{'s' if len(problems) != 1 else ''}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    for listed_path in project_files():
        if listed_path.endswith(tuple(sys.argv[1:])) and not is_data(listed_path):
            print(listed_path)
