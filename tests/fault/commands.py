#!/usr/bin/env python3
"""Attacks every command that writes: kills, refused system calls, and a second process.

- A kill comes before a system call that can change something.
- An error comes from any system call, also one that reads: EIO, ENOSPC, EACCES, EMFILE, EDQUOT, ENOMEM or ESTALE.
- In a race, the command is stopped at a system call. Meanwhile the same command, or `clean`, runs beside it.

After each, the source has its bytes, and what stands is old or new, file by file or as a whole (`whole` below). Status
0 means that the output is the one of an undisturbed run. An error has words, and is never a signal or a bug. Then
`--resume`, or the same command, gives that output, and no staging is left.

It prints a table of what it did. `--points N` tries N calls of each kind, spread evenly and shifted by the seed.
Without it, it tries all.
"""

import argparse
import collections
import concurrent.futures
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import harness  # adds tests/support, which has the next one
import hub
import kill_publish
import testing

ERRNOS = [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EDQUOT, errno.ENOMEM, errno.ESTALE]
# Small data has many files, and a journal record for each few of them.
SMALL = ["--limits", "floor_bytes=256,file_min_bytes=8192,file_max_bytes=8192,merge_bytes=4096,segment_bytes=512,commit_bytes=4096"]
REFUSED = (2, 3, 4)
STEPS = ("3", "4")


class Attack:
    """One command, the state before it, and how it goes on."""

    words = ()
    # What runs beside the stopped command: the same, or `clean`. None starts it twice at once.
    beside = ("same", "clean", None)
    environment = {}

    def __init__(self, tool, folder, seed):
        self.tool, self.top = tool, os.path.join(folder, self.name())
        self.random = random.Random(f"{seed} {self.name()}")
        self.counts = collections.Counter()
        os.makedirs(self.top)
        self.source, self.out = os.path.join(self.top, "source"), os.path.join(self.top, "out")
        self.count = os.path.join(self.top, "count")
        shutil.copytree(os.path.join(kill_publish.ORACLE, "qwen3"), self.source)
        os.remove(os.path.join(self.source, "expected.json"))
        self.prepare()
        self.kept = os.path.join(folder, f"{self.name()}.kept")
        shutil.copytree(self.top, self.kept, symlinks=True)
        self.old = self.seen()
        done = self.run("--count-calls", self.count)
        self.expect(done.returncode == 0, "the command fails undisturbed", done)
        with open(self.count, encoding="ascii") as file:
            self.changing, self.calls = (int(line) for line in file)
        os.remove(self.count)
        self.new = self.seen()
        self.expect(self.new != self.old, "the command changes nothing")

    @classmethod
    def name(cls):
        return cls.__doc__.splitlines()[0].rstrip(".")

    def prepare(self):
        """Makes the state before the command."""

    def convert_source(self, *ways):
        """Replaces the model with its conversion. Each of `ways` are options of one command."""
        tree = os.path.join(self.top, "tree")
        for way in ways or ((),):
            done = self.run(words=["convert", self.source, tree, "--mesh", "fsdp=2", *way, *SMALL])
            self.expect(done.returncode == 0, "the source", done)
        shutil.rmtree(self.source)
        os.rename(tree, self.source)

    def command(self):
        return [word.replace("SOURCE", self.source).replace("OUT", self.out) for word in self.words]

    def continued(self):
        return [*self.command(), "--resume"]

    def there(self):
        """Returns path -> bytes of all files, and None for directories."""
        return kill_publish.tree(self.top)

    def seen(self):
        """Returns what is there without staging."""
        return {path: data for path, data in self.there().items() if not self.is_staging(path)}

    def is_staging(self, path):
        return path.split(os.sep)[0].endswith(".hfshard")

    def whole(self, path):
        """Returns the name of the whole that a path belongs to. Each is old or new, and never a mixture."""
        return path.split(os.sep)[0]

    def start(self, *more, words=None):
        words = [*(words or self.command()), "--quiet", *more]
        return subprocess.Popen([self.tool, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                env=testing.clean(**self.environment))

    def finish(self, process):
        out, said = process.communicate(timeout=testing.HANG_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, said)

    def run(self, *more, words=None):
        return self.finish(self.start(*more, words=words))

    def expect(self, condition, sentence, done=None):
        if condition:
            return
        said = "" if done is None else f"\n{' '.join(done.args)}\nended with {done.returncode}\n{done.stdout}{done.stderr}"
        raise AssertionError(f"{self.name()}: {sentence}{said}")

    def restore(self):
        """Restores the state before the command. What it doesn't change stays, since staging records times and inodes."""
        for name in os.listdir(self.top):
            if name != "source" or self.seen() != self.old:
                shutil.rmtree(os.path.join(self.top, name))
        shutil.copytree(self.kept, self.top, symlinks=True, dirs_exist_ok=True)

    def points(self, count, limit):
        """Returns numbers of calls: all, or `limit` of them."""
        if not limit or count <= limit:
            return range(1, count + 1)
        step = count / limit
        shift = self.random.uniform(0, step)
        return sorted({1 + int(shift + step * number) for number in range(limit)})

    def expect_standing(self, when, done):
        seen = self.seen()
        for path in sorted(seen.keys() | self.old.keys() | self.new.keys()):
            at = seen.get(path, "absent")
            self.expect(at in (self.old.get(path, "absent"), self.new.get(path, "absent")), f"{when}: {path} is neither old nor new", done)
        for name in {self.whole(path) for path in seen}:
            part = self.part(seen, name)
            self.expect(part in (self.part(self.old, name), self.part(self.new, name)), f"{when}: {name} is a mixture", done)

    def part(self, found, name):
        return {path: data for path, data in found.items() if self.whole(path) == name}

    def expect_new(self, when, done):
        self.expect(done.returncode == 0, f"{when}: it fails", done)
        seen = self.seen()
        differing = sorted(path for path in seen.keys() | self.new.keys() if seen.get(path, "absent") != self.new.get(path, "absent"))
        self.expect(not differing, f"{when}: not the output of an undisturbed run: {differing[:3]}", done)
        left = [path for path in self.there() if self.is_staging(path)]
        self.expect(not left, f"{when}: staging is left: {left[:3]}", done)

    def expect_error(self, when, done):
        self.expect(done.returncode in REFUSED and done.stderr and "bug in hfshard" not in done.stderr, f"{when}: no proper error", done)

    def go_on(self, when):
        self.expect_new(f"{when}, and then again", self.run(words=self.continued()))

    def kills(self, limit):
        for call in self.points(self.changing, limit):
            self.restore()
            when = f"killed at call {call} of {self.changing}"
            done = self.run("--die-at", str(call))
            # Threads can share the calls in another way, so that the last ones don't come.
            self.expect(done.returncode in (0, -signal.SIGKILL), when, done)
            self.expect_standing(when, done)
            self.counts["kills"] += 1
            self.counts["published"] += self.seen() == self.new
            self.go_on(when)

    def errors(self, limit):
        for number, call in enumerate(self.points(self.calls, limit)):
            self.restore()
            code = ERRNOS[number % len(ERRNOS)]
            when = f"{errno.errorcode[code]} at call {call} of {self.calls}"
            done = self.run("--fail-at", f"{call}:{code}")
            self.counts["errors"] += 1
            if done.returncode == 0:
                self.expect_new(when, done)
                self.counts["survived"] += 1
                continue
            self.expect_error(when, done)
            self.expect_standing(when, done)
            self.go_on(when)

    def races(self, limit):
        """Runs the same command beside it, or `clean`, while it is stopped, or the same one at the same time."""
        others = {"same": self.command(), "clean": ["clean", self.out], None: None}
        for number, call in enumerate(self.points(self.changing, limit)):
            self.restore()
            other = others[self.beside[number % len(self.beside)]]
            if other:
                when = f"stopped at call {call} of {self.changing}, {other[0]} beside it"
                both = self.stopped_beside(call, other)
            else:
                when = "twice at once"
                both = [self.finish(process) for process in [self.start(), self.start()]]
            for done in both:
                if done.returncode != 0:
                    self.expect_error(when, done)
            self.expect_standing(when, both[0])
            self.counts["races"] += 1
            self.counts["refused"] += any(done.returncode for done in both)
            self.go_on(when)

    def stopped_beside(self, call, other):
        """Runs the command, stops it before a call, and starts another one, which ends or waits. Returns how both ended."""
        first = self.start("--stop-at", str(call))
        stopped = os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED
        second = self.start(words=other)
        testing.stays(lambda: second.poll() is None)
        if stopped:
            first.send_signal(signal.SIGCONT)
        return [self.finish(first), self.finish(second)]

    def attack(self, limit):
        self.kills(limit)
        self.errors(limit)
        self.races(limit)
        return self


class Convert(Attack):
    """convert to Orbax."""

    words = ("convert", "SOURCE", "OUT", "--mesh", "fsdp=2", *SMALL)


class Compressed(Attack):
    """convert, compressed."""

    words = (*Convert.words, "--compress", "zstd")


class Dcp(Attack):
    """convert to DCP."""

    words = ("convert", "SOURCE", "OUT", "--to", "dcp", "--mesh", "fsdp=2", *SMALL)


class Back(Attack):
    """convert to Hugging Face."""

    words = ("convert", "SOURCE", "OUT", "--to", "safetensors", "--dtype", "f16", *SMALL)

    def prepare(self):
        self.convert_source()


class Overwrite(Attack):
    """convert --overwrite."""

    words = (*Convert.words, "--checksum", "none", "--overwrite")

    def prepare(self):
        done = self.run(words=[word for word in self.command() if word not in ("--checksum", "none", "--overwrite")])
        self.expect(done.returncode == 0, "the old output", done)

    def continued(self):
        return self.command()


class Link(Attack):
    """link."""

    words = ("link", "SOURCE", "OUT", *SMALL)


class LinkAll(Attack):
    """link --scheme hf."""

    words = (*Link.words, "--scheme", "hf")  # nothing is written but the index, so there is no journal


class InPlace(Attack):
    """link --in-place."""

    words = ("link", "SOURCE", "--in-place", "--side-file", *SMALL)

    def prepare(self):
        self.out = self.source

    def whole(self, path):
        """The index is new once its manifest is there. kill_publish.py checks that closely."""
        return path


class Reshard(Attack):
    """reshard."""

    words = ("reshard", "SOURCE", "OUT", "--mesh", "tensor=2", *SMALL)

    def prepare(self):
        self.convert_source()


class ReshardDcp(Attack):
    """reshard of a DCP."""

    words = ("reshard", "SOURCE", "OUT", "--mesh", "fsdp=4", *SMALL)

    def prepare(self):
        self.convert_source(("--to", "dcp"))


class Steps(Attack):
    """reshard --steps all."""

    words = ("reshard", "SOURCE", "OUT", "--steps", "all", "--items", "all", "--mesh", "tensor=2", *SMALL)

    def prepare(self):
        self.convert_source(*(("--output-step", step) for step in STEPS))

    def whole(self, path):
        return os.sep.join(path.split(os.sep)[:2])


class Finalize(Attack):
    """finalize."""

    words = ("finalize", "OUT", *SMALL)
    beside = ("same", None)  # `clean` discards what finalize needs

    def prepare(self):
        for worker in ("0/2", "1/2"):
            done = self.run(words=["convert", self.source, self.out, "--mesh", "fsdp=2", *SMALL, "--worker", worker])
            self.expect(done.returncode == 0, "a worker", done)

    def continued(self):
        return self.command()

    def restore(self):
        """Restores only what finalize changes, since staging records the inodes of the source."""
        for name in os.listdir(self.top):
            if name != "source":
                shutil.rmtree(os.path.join(self.top, name))
        shutil.copytree(self.kept, self.top, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("source"))


class Hub:
    """A hub with the model, and a cache that is the output."""

    def serve(self):
        self.hub = hub.Hub()
        self.hub.add("org/model", {"main": self.source})
        self.cache = os.path.join(self.top, "cache")
        self.environment = {"HF_ENDPOINT": self.hub.endpoint, "HF_HUB_CACHE": self.cache, "HF_HUB_DOWNLOAD_TIMEOUT": "60"}


class Fetch(Hub, Attack):
    """fetch."""

    words = ("fetch", "org/model", "--retry-ms", "20")

    def prepare(self):
        self.serve()
        self.out = self.cache

    def continued(self):
        return self.command()

    def is_staging(self, path):
        return path.endswith((".incomplete", ".tmp"))

    def there(self):
        """Locks stay, as those of huggingface_hub do."""
        return {path: data for path, data in super().there().items() if "/.locks/" not in f"/{path}/"}

    def whole(self, path):
        return path


class Stream(Hub, Attack):
    """convert from the Hub."""

    words = ("convert", "org/model", "OUT", "--mesh", "fsdp=2", "--retry-ms", "20", *SMALL)

    def prepare(self):
        self.serve()

    def is_staging(self, path):
        return super().is_staging(path) or path.split(os.sep)[0] == "cache"


ATTACKS = (Convert, Compressed, Dcp, Back, Overwrite, Link, LinkAll, InPlace, Reshard, ReshardDcp, Steps, Finalize, Fetch, Stream)
COLUMNS = ("kills", "published", "errors", "survived", "races", "refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool, which has --die-at, --fail-at and --stop-at")
    parser.add_argument("--points", type=int, default=0, help="calls of each kind to try (default all)")
    parser.add_argument("--only", action="append", help="a class of an attack; may be repeated")
    harness.add_seed(parser)
    arguments = parser.parse_args()
    testing.clean_own()
    tool = os.path.abspath(arguments.hfshard)
    print(f"seed {arguments.seed}", flush=True)
    chosen = [attack for attack in ATTACKS if not arguments.only or attack.__name__ in arguments.only]
    with tempfile.TemporaryDirectory(prefix="hfshard-commands-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = [pool.submit(lambda attack=attack: attack(tool, folder, arguments.seed).attack(arguments.points)) for attack in chosen]
        failures = [str(future.exception()) for future in running if future.exception()]
        if failures:
            print("FAIL " + "\nFAIL ".join(failures))
            return 1
        done = [future.result() for future in running]
    print("| command | calls that change / all | " + " | ".join(COLUMNS) + " |")
    print("|---|---:|" + "---:|" * len(COLUMNS))
    for attack in done:
        print(f"| {attack.name()} | {attack.changing} / {attack.calls} | " + " | ".join(str(attack.counts[key]) for key in COLUMNS) + " |")
    print(json.dumps({key: sum(attack.counts[key] for attack in done) for key in COLUMNS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
