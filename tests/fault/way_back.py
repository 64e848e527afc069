#!/usr/bin/env python3
"""Checks the readers of a tree of arrays (reshard, export, diff, verify) with kills, stops and damage.

It kills reshard and export at random system calls that change something. Then `--resume` gives the tree of an
undisturbed run, and so do two workers and `finalize`. All four commands find one flipped bit in any chunk, and name
the tensor. A file of the tree that is truncated, removed, emptied or swapped with another gives an error, a list of
differences, or the right output. It never gives a signal or another output. Every chunk of swapped files can be
valid, but in the wrong place. diff and verify find that.

Without the record (hfshard.json), hfshard doesn't know the model and its axes. Then reshard writes the same values in
another layout, or an error. That is tested in each way and doesn't depend on the seed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import harness
import testing

ORACLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle")
SMALL = ["--limits", "floor_bytes=256,file_min_bytes=8192,file_max_bytes=8192,merge_bytes=4096,segment_bytes=512,commit_bytes=4096"]
DIFFERENT = 5
RECORD = os.path.join("0", "hfshard.json")


def tree(top):
    """Returns relative path -> bytes of every file."""
    found = {}
    for folder, _, files in os.walk(top):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), top)] = file.read()
    return found


class WayBack:
    """A model, its tree, and their outputs."""

    def __init__(self, arguments, folder, compress):
        self.tool, self.folder = arguments.hfshard, folder
        self.seed = f"{arguments.seed} {compress}"
        self.source = os.path.join(ORACLE, "qwen3")
        self.tree = self.path("tree")
        self.run("convert", self.source, self.tree, "--mesh", "fsdp=2", "--compress", compress, *SMALL)
        self.kept = self.path("kept")
        shutil.copytree(self.tree, self.kept)
        self.commands = {"reshard": ["--mesh", "tensor=2", *SMALL], "convert": ["--to", "safetensors", *SMALL]}
        self.wanted = {}
        for command, words in self.commands.items():
            self.run(command, self.tree, self.path("wanted"), *words)
            self.wanted[command] = tree(self.path("wanted"))
            shutil.rmtree(self.path("wanted"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def expect(self, condition, sentence, done=None):
        if not condition:
            print(f"FAIL: {sentence}\n{'' if done is None else done.stdout[-2000:] + done.stderr[-2000:]}")
            sys.exit(1)

    def start(self, *words):
        return subprocess.run([self.tool, *words, "--quiet"], capture_output=True, text=True, check=False, timeout=testing.HANG_SECONDS)

    def run(self, *words):
        done = self.start(*words)
        self.expect(done.returncode == 0, f"{words} ended with {done.returncode}", done)

    def remove(self, name):
        for path in (self.path(name), self.path(f".{name}.hfshard")):
            shutil.rmtree(path, ignore_errors=True)

    def same(self, command, when):
        self.expect(tree(self.path("out")) == self.wanted[command], f"{command}, {when}: another output")
        self.expect(not os.path.exists(self.path(".out.hfshard")), f"{command}, {when}: staging is left")
        self.remove("out")

    def draw(self, section):
        """Returns random numbers for one section, whatever other sections draw."""
        return random.Random(f"{self.seed} {section}")

    def count_calls(self, command, words):
        """Returns how many system calls of a command can change something."""
        count = self.path("count")
        self.run(command, self.tree, self.path("out"), *words, "--count-calls", count)
        self.remove("out")
        with open(count, encoding="ascii") as file:
            return int(file.readline())

    def kills(self, rounds):
        for command, words in self.commands.items():
            calls, draw = self.count_calls(command, words), self.draw(f"kills {command}")
            for _ in range(rounds):
                call = draw.randint(1, calls)
                done = self.start(command, self.tree, self.path("out"), *words, "--die-at", str(call))
                self.expect(done.returncode == -signal.SIGKILL, f"{command} at call {call} of {calls}", done)
                self.run(command, self.tree, self.path("out"), *words, "--resume")
                self.same(command, f"killed at call {call}")
            for worker in ("1/2", "0/2"):
                self.run(command, self.tree, self.path("out"), *words, "--worker", worker)
            self.run("finalize", self.path("out"), *SMALL)
            self.same(command, "two workers")

    def readers(self):
        """Returns the commands that read the tree: name -> arguments."""
        out = {command: [command, self.tree, self.path("out"), *words] for command, words in self.commands.items()}
        out["diff"] = ["diff", self.tree, self.kept]
        out["verify"] = ["verify", self.tree]
        return out

    def pieces(self):
        """Returns file, begin and end of every chunk in a data file (others are in the index)."""
        done = self.start("inspect", self.tree, "--chunks", "--json")
        self.expect(done.returncode == 0, "inspect", done)
        return [(os.path.join(self.tree, piece["file"]), piece["begin_bytes"], piece["end_bytes"], leaf["path"])
                for leaf in json.loads(done.stdout)["leaves"] for piece in leaf["pieces"] if "/d/" in piece["file"]]

    def flips(self, rounds):
        pieces, draw = self.pieces(), self.draw("flips")
        for _ in range(rounds):
            path, begin, end, leaf = draw.choice(pieces)
            at, bit = draw.randrange(begin, end), 1 << draw.randrange(8)
            self.change(path, at, bit)
            for name, words in self.readers().items():
                done = self.start(*words, "--json")
                when = f"{name}: bit {bit} of byte {at} of {os.path.basename(path)}, {leaf}"
                self.expect(done.returncode == (DIFFERENT if name in ("diff", "verify") else 3), when, done)
                self.expect(leaf in done.stdout, f"{when}: not named", done)
                self.remove("out")
            self.change(path, at, bit)

    def change(self, path, at, bit):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ bit]))

    def damage(self, rounds):
        files, draw = sorted(tree(self.tree)), self.draw("damage")
        for _ in range(rounds):
            name, other = draw.sample(files, 2)
            what = draw.choice(("cut", "removed", "empty", "swapped"))
            self.damaged(name, what, other, draw.randrange(os.path.getsize(os.path.join(self.tree, name)) + 1))

    def record(self):
        """Damages the record in each way. `other` is each file that isn't data."""
        others = [name for name in sorted(tree(self.tree)) if name != RECORD and not self.is_data(name)]
        size = os.path.getsize(os.path.join(self.tree, RECORD))
        for left in (0, 1, size // 2, size - 1):
            self.damaged(RECORD, "cut", "", left)
        for what in ("removed", "empty"):
            self.damaged(RECORD, what, "", 0)
        for other in others:
            self.damaged(RECORD, "swapped", other, 0)
            self.damaged(other, "swapped", RECORD, 0)

    def damaged(self, name, what, other, left):
        """Damages a file, runs all readers, and restores the tree."""
        path = os.path.join(self.tree, name)
        if what == "cut":
            os.truncate(path, left)
        elif what == "removed":
            os.remove(path)
        elif what == "empty":
            os.truncate(path, 0)
        else:
            shutil.copy(os.path.join(self.kept, other), path)
            shutil.copy(os.path.join(self.kept, name), os.path.join(self.tree, other))
        record = RECORD == name or (what == "swapped" and RECORD == other)
        moved = what == "swapped" and "/d/" in name and "/d/" in other
        for reader, words in self.readers().items():
            done = self.start(*words)
            when = f"{reader}: {name} is {what} ({other or left})"
            # Without the record, hfshard doesn't know the model. --config names it.
            self.expect(done.returncode in (0, 3, DIFFERENT, *([2] if record else [])), when, done)
            self.expect("bug in hfshard" not in done.stderr, when, done)
            self.expect(not moved or reader in self.commands or done.returncode != 0, when, done)
            if reader in self.commands:
                self.check_output(reader, when, done, record, what)
            self.remove("out")
        shutil.rmtree(self.tree)
        shutil.copytree(self.kept, self.tree)

    def check_output(self, reader, when, done, record, what):
        """Checks what reshard or export made of a damaged tree."""
        if done.returncode != 0:
            self.expect(not os.path.exists(self.path("out")), f"{when}: an output", done)
        elif reader == "reshard" and record:
            # It doesn't know the axes, so the layout differs, but the values are the same.
            done = self.start("diff", self.path("out"), self.kept)
            self.expect(done.returncode == 0, f"{when}: other values", done)
        elif what != "swapped":
            found = tree(self.path("out"))
            data = {key for key in found if self.is_data(key)}
            self.expect(data and all(found[key] == self.wanted[reader].get(key) for key in data), f"{when}: another output", done)

    @staticmethod
    def is_data(name):
        """Returns whether a file has values, and no record of how they were made."""
        return name.endswith(".safetensors") or "/d/" in name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool")
    harness.add_seed(parser)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    for compress in ("none", "zstd"):
        with tempfile.TemporaryDirectory(prefix="hfshard-fault-") as folder:
            test = WayBack(arguments, folder, compress)
            test.kills(arguments.rounds)
            test.flips(arguments.rounds)
            test.damage(arguments.rounds)
            test.record()
    print(f"{2 * arguments.rounds} kills of each command, {2 * arguments.rounds} flips and as many damages: as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
