#!/usr/bin/env python3
"""Runs the commands of a page in a fresh directory, one after another, and compares their output with the page.

    transcript.py --hfshard PROGRAM [--update] [--peers] PAGE

A session is a ```console block. It has a line `$ COMMAND`, further lines of the command that begin with `> `, and then
its output, stdout and stderr together. The directory has `hf`, a copy of tests/oracle/qwen3, and is written /models on
the page. hfshard is on the PATH, and so is python, which is that of HFSHARD_PEER_PYTHON. Parts that differ from run to
run aren't compared: times, rates, sizes per second, hashes, threads and memory. A line `...` stands for any number of
lines.

A command ends with status 0, unless `$ echo $?` follows it and prints its status. If the output of a command begins
with `^C`, it is interrupted as soon as it has written data. Without --peers, commands that begin with `python`
aren't run. With it, a missing peer gives status 77 and `PEER MISSING`. --update writes the actual output where it
differs.
"""

import argparse
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

HOME = "/models"
SKIP_STATUS = 77
VARIES = [
    (r"\b\d+(\.\d+)? (s|ms|min)\b", "TIME"),
    (r"\([^()]*/s[^()]*\)", "(RATE)"),
    (r"\d[\d.]* [KMG]iB/s", "RATE"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"^((?:threads|memory|time|disk) .*)$", "MACHINE"),
    (r"\d[\d.]* (B|[KMG]iB) written", "SIZE written"),
    (r"\d[\d.]* (B|[KMG]iB) (of \d[\d.]* [KMG]iB are already written)", r"SIZE \2"),
    (r"[ \t]+$", ""),
]


class Step:
    """One command of a page: its text, the lines of its output on the page, and their position."""

    def __init__(self, command, begin):
        self.command = command
        self.begin = begin  # line of the page at which its output begins
        self.expected = []

    def needs_peer(self):
        return self.command.startswith("python ")


def steps_of(lines):
    """Returns the steps of a page, in order."""
    out, inside = [], False
    for index, line in enumerate(lines):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            out.append(Step(line[2:], index + 1))
        elif inside and line.startswith("> ") and not out[-1].expected:
            out[-1].command += "\n" + line[2:]
            out[-1].begin = index + 1
        elif inside:
            out[-1].expected.append(line)
    return out


def normal(text):
    """Returns text without parts that differ from run to run."""
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text, flags=re.M)
    return text


def matches(expected, seen):
    """Returns True if these lines, with their `...`, match the text."""
    pattern = ""
    for line in expected:
        pattern += r"(?:[^\n]*\n)*?" if line.strip() == "..." else re.escape(normal(line)) + r"\n"
    return re.fullmatch(pattern, normal(seen)) is not None


def heed_interrupts():
    """Restores Ctrl-C. A program in the background ignores it, and so do all programs that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Machine:
    """The fresh directory and the programs and files for its commands."""

    def __init__(self, folder, program, python):
        self.folder = folder
        shutil.copytree(os.path.join(HERE, os.pardir, "oracle", "qwen3"), os.path.join(folder, "hf"),
                        ignore=shutil.ignore_patterns("expected.json"))
        tools = tempfile.mkdtemp(prefix="bin-", dir=os.path.dirname(folder))
        os.symlink(os.path.abspath(program), os.path.join(tools, "hfshard"))
        if python:
            with open(os.path.join(tools, "python"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{python}" "$@"\n')
            os.chmod(os.path.join(tools, "python"), 0o755)
        self.environment = {key: value for key, value in testing.clean().items() if not key.startswith("HFSHARD")}
        self.environment |= {"PATH": tools + os.pathsep + os.environ["PATH"], "LC_ALL": "C", "COLUMNS": "80",
                             "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1",
                             "HF_HOME": "hf_home"}
        self.status = 0

    def run(self, step):
        """Returns the output of a command. Its status stays in `status`."""
        if step.command == "echo $?":
            return f"{self.status}\n"
        interrupt = step.expected[:1] == ["^C"]
        for _ in range(20):
            seen = self._run_once(step.command, interrupt)
            if not interrupt or self.status != 0:
                break
            shutil.rmtree(os.path.join(self.folder, step.command.split()[3]))  # it was too fast: OUT is complete
        return seen.replace(self.folder, HOME)

    def _run_once(self, command, interrupt):
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(["bash", "-c", "exec " + command if interrupt else command], cwd=self.folder,
                                       env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, preexec_fn=heed_interrupts)
            if interrupt:
                self._wait_for_data(process)
                process.send_signal(signal.SIGINT)
            self.status = process.wait(timeout=testing.HANG_SECONDS)
            output.seek(0)
            return ("^C\n" if interrupt else "") + output.read().decode("utf-8", errors="replace")

    def _wait_for_data(self, process):
        staging = os.path.join(self.folder, ".*.hfshard")

        def has_data():  # some file systems count blocks only later, but a journal never comes before its data
            with contextlib.suppress(FileNotFoundError):
                return (any(os.stat(path).st_blocks > 0 for path in glob.glob(os.path.join(staging, "out", "*", "items", "d", "*")))
                        or any(os.path.getsize(path) > 0 for path in glob.glob(os.path.join(staging, "journal.*"))))
            return False

        testing.wait_for(process, has_data, "the run has written data", pause=0.001)


def run_page(page, machine, peers, update):
    """Returns the problems of a page. With `update`, it reports only wrong statuses, and writes the page again."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    problems, changes = [], []
    steps = steps_of(lines)
    for index, step in enumerate(steps):
        if step.needs_peer() and not peers:
            continue
        seen = machine.run(step)
        where = f"{os.path.basename(page)}:{step.begin}: {step.command}"
        asked = index + 1 < len(steps) and steps[index + 1].command == "echo $?"
        if machine.status != 0 and not asked and step.command != "echo $?":
            problems.append(f"{where}: status {machine.status}\n{seen}")
        if matches(step.expected, seen):
            continue
        changes.append((step, seen))
        if not update:
            problems.append(f"{where}\n-- expected\n" + "\n".join(step.expected) + f"\n-- seen\n{seen}")
    if not steps:
        problems.append(f"{page} has no sessions")
    if update and changes:
        for step, seen in reversed(changes):
            lines[step.begin:step.begin + len(step.expected)] = seen.split("\n")[:-1]
        with open(page, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return problems


def peer_python():
    """Returns the Python that has Orbax, or an empty text."""
    python = os.environ.get("HFSHARD_PEER_PYTHON") or sys.executable
    found = subprocess.run([python, "-c", "import orbax.checkpoint"], capture_output=True, check=False) \
        if os.access(python, os.X_OK) else None
    return python if found and found.returncode == 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the program to test")
    parser.add_argument("--update", action="store_true", help="write what was seen into the page")
    parser.add_argument("--peers", action="store_true", help="run the commands that need Orbax too")
    parser.add_argument("page", metavar="PAGE")
    arguments = parser.parse_args()
    python = peer_python() if arguments.peers else ""
    if arguments.peers and not python:
        print("PEER MISSING orbax.checkpoint")
        return SKIP_STATUS
    with tempfile.TemporaryDirectory(prefix="hfshard-page-") as top:
        folder = os.path.join(os.path.realpath(top), "you")
        os.mkdir(folder)
        problems = run_page(arguments.page, Machine(folder, arguments.hfshard, python), bool(python), arguments.update)
    for problem in problems:
        print(problem)
    print(f"{os.path.basename(arguments.page)}: " + ("wrong" if problems else "ok"))
    if problems and not arguments.update:
        print("where what is seen is right, --update (and --peers, where Orbax is) writes it into the page")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
