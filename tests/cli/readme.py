"""Runs the commands of README.md in the current directory and compares their output with the page.

    readme.py PROGRAM ROOT

A session is a ```console block. Its commands begin with `$ `, and the text up to the next one is stdout and stderr
together. `...` stands for any number of lines. Times, rates and plan ids aren't compared. The current directory is
/data. `$ echo $?` prints the status of the command before. Any other command must end with 0 unless `$ echo $?`
follows it. Every path of the tree that the page names must exist. Its table of options must have the flags of
`convert --help`.
"""

import os
import re
import subprocess
import sys


def sessions(path):
    """Returns [(command, expected lines, line number)] of all blocks, in order."""
    out, inside = [], False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("```"):
                inside = line == "```console"
            elif inside and line.startswith("$ "):
                out.append((line[2:], [], number))
            elif inside:
                out[-1][1].append(line)
    return out


def normal(text):
    """Returns text without parts that differ from run to run and from version to version."""
    text = re.sub(r"\d+\.\d+ s\b", "N s", text)
    text = re.sub(r"\([^()]*/s\)", "(RATE)", text)
    text = text.replace(os.getcwd() + "/", "/data/")
    return re.sub(r"\b(plan(?:_id)? +)[0-9a-f]{64}", r"\1ID", text)


def matches(expected, seen):
    pattern = ""
    for line in expected:
        pattern += r"(?:[^\n]*\n)*?" if line.strip() == "..." else re.escape(normal(line)) + r"\n"
    return re.fullmatch(pattern, normal(seen)) is not None


def missing_paths(root, text):
    """Returns paths in backticks or links that don't exist."""
    named = re.findall(r"\]\(([^)#]+)\)|`((?:src|include|mappings|docs|tests|bench|scripts)/[\w./-]*)`", text)
    paths = sorted({link or path for link, path in named})
    return [f"README.md names {path}, which does not exist" for path in paths
            if not os.path.exists(os.path.join(root, path))]


def differing_flags(program, text):
    """Returns flags that only one of the page and `convert --help` has."""
    told = subprocess.run([program, "convert", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", told, re.M)) - {"--help"}
    section = text.split("\n## Options\n", 1)[-1].split("\n## ", 1)[0]
    rows = "".join(re.findall(r"^\| (`.*?) \|", section, re.M))
    named = set(re.findall(r"--[a-z-]+", rows))
    return [f"README.md and convert --help differ in {flag}" for flag in sorted(known ^ named)]


def main():
    program, root = map(os.path.abspath, sys.argv[1:])
    os.makedirs("bin")
    os.symlink(program, os.path.join("bin", "hfshard"))
    os.symlink(os.path.join(root, "bench"), "bench")
    os.symlink(os.path.join(root, "scripts"), "scripts")
    os.environ["PATH"] = os.path.abspath("bin") + os.pathsep + os.environ["PATH"]
    page = os.path.join(root, "README.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    problems = missing_paths(root, text) + differing_flags(program, text)
    commands, status = sessions(page), 0
    for index, (command, expected, number) in enumerate(commands):
        if command == "echo $?":
            seen = f"{status}\n"
        else:
            done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            seen, status = done.stdout, done.returncode
            asked = index + 1 < len(commands) and commands[index + 1][0] == "echo $?"
            if status != 0 and not asked:
                problems.append(f"README.md:{number}: {command}: status {status}")
        if not matches(expected, seen):
            problems.append(f"README.md:{number}: {command}\n-- expected\n" + "\n".join(expected) + f"\n-- seen\n{seen}")
    if not commands:
        problems.append("README.md has no sessions")
    for problem in problems:
        print(problem)
    print("README.md: " + ("wrong" if problems else "ok"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
