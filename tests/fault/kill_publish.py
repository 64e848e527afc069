#!/usr/bin/env python3
"""Kills publishing before every single system call that can change something, and then continues in each possible way.

It covers an index in place (`link --in-place`, fresh and with --overwrite), a step that is exchanged together with
its hf/ (`convert --overwrite`), and `finalize`. The test tool kills itself with SIGKILL at the N-th call, N = 1, 2,
3, ..., until a run ends. After each kill, the output loads as the old checkpoint or the complete new one, or the
commit file is missing. `--resume` gives the new one, or refuses and leaves the old one. The same command again gives
the new one. `clean` gives the old state, byte for byte, or the new one if it was published. No staging is left.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

ORACLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle")
MODEL = "llama3.1"  # its queries are scaled and can't be linked, so it has data files next to the index
MANY_FILES = "file_min_bytes=4096,file_max_bytes=4096,merge_bytes=1024,floor_bytes=256"
MOST_CALLS = 3000
CONFLICT = 3


def tree(top):
    """Returns relative path -> bytes of every file, the target of a link, and None for a directory."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), top)] = None
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), top)] = file.read()
    return found


class Case:
    """One command that publishes, from the same state each time."""

    def __init__(self, tool, folder, name):
        self.tool, self.name = tool, name
        self.top = os.path.join(folder, name)
        os.mkdir(self.top)
        self.source, self.before = os.path.join(self.top, "source"), os.path.join(folder, f"{name}.before")
        shutil.copytree(os.path.join(ORACLE, MODEL), self.source)
        os.remove(os.path.join(self.source, "expected.json"))
        self.prepare()
        shutil.copytree(self.top, self.before, symlinks=True)
        self.old = tree(self.out())
        self.expect(self.run(*self.command()).returncode == 0, "the command fails undisturbed")
        self.new = tree(self.out())
        self.expect(self.new != self.old, "the command changes nothing")

    def prepare(self):
        """Makes the state before the command."""

    def out(self):
        return os.path.join(self.top, "out")

    def command(self):
        raise NotImplementedError

    def again(self):
        """Returns commands that can follow a kill. Each gives the new output, or is refused."""
        return [self.command()]

    def staging(self):
        return os.path.join(self.top, f".{os.path.basename(self.out())}.hfshard")

    def run(self, *words):
        return subprocess.run([self.tool, *words, "--quiet"], capture_output=True, text=True, check=False)

    def expect(self, condition, sentence, done=None):
        if not condition:
            print(f"FAIL {self.name}: {sentence}{'' if done is None else done.stdout + done.stderr}")
            sys.exit(1)

    def restore(self):
        """Restores the state before the command. Times of files stay, since links record them."""
        shutil.rmtree(self.top)
        shutil.copytree(self.before, self.top, symlinks=True)

    def kill(self, number):
        """Runs from the first state. Returns False if the run ended."""
        self.restore()
        done = self.run(*self.command(), "--die-at", str(number))
        self.expect(done.returncode in (0, -signal.SIGKILL), f"call {number}: ended with {done.returncode}: ", done)
        return done.returncode != 0

    def is_new(self):
        return tree(self.out()) == self.new

    def expect_standing(self, when):
        """Checks the state that a reader finds between the kill and the next command."""
        raise NotImplementedError

    def expect_gone(self, when):
        self.expect(not os.path.lexists(self.staging()), f"{when}: the staging directory is still there")

    def check(self):
        kills = refused = published = 0
        for number in range(1, MOST_CALLS):
            if not self.kill(number):
                break
            kills += 1
            when = f"killed at call {number}"
            self.expect_standing(when)
            was_new = self.is_new()
            published += was_new
            done = self.run("clean", self.out())
            self.expect(done.returncode == 0, f"{when}, clean: ", done)
            self.expect(tree(self.out()) == (self.new if was_new else self.old), f"{when}, clean: not what was there")
            self.expect_gone(f"{when}, clean")
            for command in self.again():
                self.kill(number)
                done = self.run(*command)
                what = f"{when}, then {' '.join(command)}"
                if done.returncode == CONFLICT and (was_new or command != self.command()):
                    refused += 1
                    self.expect("hint" in done.stderr, f"{what}: no way out is said: ", done)
                    self.expect(tree(self.out()) == (self.new if was_new else self.old),
                                f"{what}: refused, and what stands is not whole")
                    continue
                self.expect(done.returncode == 0, f"{what}: ", done)
                self.expect(self.is_new(), f"{what}: not the tree of an undisturbed run")
                self.expect_gone(what)
        self.expect(kills > 30, f"{kills} kills")
        self.expect(published > 0, "no kill after publishing")
        print(f"{self.name}: {kills} kills, {published} after publishing, {refused} refused resumes", flush=True)


class InPlace(Case):
    """An index next to the Hugging Face files."""

    def out(self):
        return self.source

    def command(self):
        return ["link", self.source, "--in-place", "--side-file"]

    def again(self):
        return [self.command(), [*self.command(), "--resume"]]

    def expect_standing(self, when):
        found = tree(self.source)
        if "manifest.ocdbt" in found:
            self.expect(found in (self.old, self.new), f"{when}: an index stands that is neither the old nor the new")


class InPlaceAgain(InPlace):
    """The same over an index with more data files."""

    def prepare(self):
        done = self.run("link", self.source, "--in-place", "--side-file", "--layers", "separate", "--limits", MANY_FILES)
        self.expect(done.returncode == 0, "the old index: ", done)
        self.expect(os.path.exists(os.path.join(self.source, "d", "00001")), "the old index has one data file only")

    def command(self):
        return [*super().command(), "--overwrite"]

    def again(self):
        return [self.command(), ["link", self.source, "--in-place", "--side-file", "--resume"]]


class Step(Case):
    """Exchanges a step and its hf/. Another step stays."""

    def convert(self, *options):
        return ["convert", self.source, self.out(), "-j", "1", *options]

    def prepare(self):
        for step in ("3", "4"):
            self.expect(self.run(*self.convert("--output-step", step)).returncode == 0, "the old steps")
        with open(os.path.join(self.source, "generation_config.json"), "w", encoding="utf-8") as file:
            file.write("{}")

    def command(self):
        return self.convert("--output-step", "4", "--checksum", "none", "--overwrite")

    def again(self):
        return [self.command(), self.convert("--output-step", "4", "--checksum", "none", "--resume")]

    def expect_standing(self, when):
        found = tree(os.path.join(self.out(), "4"))
        self.expect(found in [{name[2:]: value for name, value in whole.items() if name.startswith("4/")}
                              for whole in (self.old, self.new)], f"{when}: a mixture stands")


class Finalize(Case):
    """A finalize that was killed after it published. It has nothing left to do."""

    def prepare(self):
        for worker in ("0/2", "1/2"):
            done = self.run("convert", self.source, self.out(), "-j", "1", "--worker", worker)
            self.expect(done.returncode == 0, "a worker: ", done)
        os.makedirs(self.out())  # the same as absent

    def command(self):
        return ["finalize", self.out()]

    def restore(self):
        """Restores only what finalize changes, since staging records the inodes of the source."""
        for path in (self.out(), self.staging()):
            shutil.rmtree(path, ignore_errors=True)
            saved = os.path.join(self.before, os.path.basename(path))
            shutil.copytree(saved, path, symlinks=True)

    def expect_standing(self, when):
        self.expect(tree(self.out()) in (self.old, self.new), f"{when}: a mixture stands")

    def check(self):
        super().check()
        done = self.run("finalize", self.out(), "--json")
        self.expect(json.loads(done.stdout)["already_done"], "a finished output is not known as such: ", done)
        shutil.rmtree(self.out())
        self.expect(self.run(*self.command()).returncode == CONFLICT, "finalize of nothing is no error")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool, which has --die-at")
    parser.add_argument("--only", action="append", help="names of cases")
    arguments = parser.parse_args()
    tool = os.path.abspath(arguments.hfshard)
    with tempfile.TemporaryDirectory(prefix="hfshard-kill-") as folder:
        for case in (InPlace, InPlaceAgain, Step, Finalize):
            if not arguments.only or case.__name__ in arguments.only:
                case(tool, folder, case.__name__).check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
