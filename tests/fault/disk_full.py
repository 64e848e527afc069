#!/usr/bin/env python3
"""Converts to small file systems: too small from the start, filled up during the run, and read-only.

hfshard refuses the first before it writes anything. The second run ends with status 4, names the file and the problem,
and leaves no output. It resumes to the identical tree once the disk has room. hfshard also asks for room for unpacked
arrays. The test needs the right to mount a tmpfs, and is skipped (77) without it.
"""

import json
import os
import re
import subprocess
import sys

import harness

SKIP_STATUS = 77


class SmallDisk:
    """A tmpfs of a few megabytes."""

    def __init__(self, path, size_bytes):
        self.path = path
        os.makedirs(path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", path], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            print(f"SKIPPED: no small file system can be mounted here: {done.stderr.strip()}")
            sys.exit(SKIP_STATUS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)

    def free(self):
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def fill(self, leave_bytes):
        """Takes all but this much room. Ignores that another program was faster."""
        try:
            with open(os.path.join(self.path, "filler"), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(self.free() - leave_bytes, 1))
        except OSError:
            pass

    def empty(self):
        os.remove(os.path.join(self.path, "filler"))

    def read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)


def run(fault, name, *options):
    return subprocess.run(fault.convert(name, *options), capture_output=True, text=True, check=False)


def too_small_from_the_start(fault):
    with SmallDisk(fault.path("tiny"), 8 << 20) as disk:
        done = fault.check(run(fault, "tiny/out"), 3)
        fault.expect("free" in done.stderr and "needs" in done.stderr, f"the message lacks the sizes:\n{done.stderr}")
        fault.expect(os.listdir(disk.path) == [], f"something was written: {os.listdir(disk.path)}")


def held(tree):
    return sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for folder, _, names in os.walk(tree) for name in names)


def filled_during_the_run(fault, reference, size_bytes, number, calls):
    """Runs one conversion whose disk fills up before a system call. Returns False if it still succeeds."""
    name = f"disk{number}"
    with SmallDisk(fault.path(name), size_bytes * 21 // 20) as disk:
        process, stopped = fault.start_until(fault.convert(f"{name}/out"), fault.random.randint(1, calls))
        fault.expect(stopped, "the conversion has fewer system calls than before")
        if not os.path.isdir(os.path.join(disk.path, ".out.hfshard", "out", "0", "items")):
            fault.go_on(process)  # it would refuse a disk without room
            return False
        disk.fill(fault.random.randrange(4 << 20))
        said = fault.go_on(process)
        if process.returncode == 0:
            return False
        fault.expect(process.returncode == 4, f"status {process.returncode} on a full disk:\n{said}")
        fault.expect("file" in said and ("full" in said or "space" in said), f"the message names no cause:\n{said}")
        fault.expect(not os.path.lexists(os.path.join(disk.path, "out")), "a failed conversion left an output")
        staged = held(os.path.join(disk.path, ".out.hfshard", "out"))
        disk.fill(0)
        again = run(fault, f"{name}/out", "--resume")
        if staged > 1 << 20 and again.returncode != 4:  # room for the rest, but not for the metadata
            fault.check(again, 3)
            fault.expect("are already in staging: free" in " ".join(again.stderr.split()), f"the message says:\n{again.stderr}")
        disk.empty()
        # The disk has room for one output, but not for a second one next to the staged one.
        fault.check(run(fault, f"{name}/out", "--resume"))
        fault.expect(fault.tree(f"{name}/out") == reference, "the resumed tree differs")
        fault.expect(os.listdir(disk.path) == ["out"], f"left over: {os.listdir(disk.path)}")
    return True


def read_only(fault):
    with SmallDisk(fault.path("readonly"), 1 << 30) as disk:
        disk.read_only()
        done = fault.check(run(fault, "readonly/out"), 4)
        fault.expect("readonly" in done.stderr and "ead-only" in done.stderr, f"the message says:\n{done.stderr}")


def any_run(fault, *words, **environment):
    return subprocess.run(fault.command(*words, "--quiet"), capture_output=True, text=True, check=False, env={**os.environ, **environment})


def least_memory(fault, *words):
    """Returns the --max-memory that a command needs. None of its unpacked arrays fit in it."""
    done = fault.check(any_run(fault, *words, "--max-memory", "1MiB"), 3)
    return re.search(r"needs [^(]*\((\d+) bytes\)", " ".join(done.stderr.split()))[1]


def no_room_to_unpack(fault):
    """Checks that unpacked arrays that don't fit in memory go to the disk. hfshard asks for room next to the output,
    or without an output on the disk of TMPDIR."""
    packed, source = fault.path("packed"), fault.path("source")
    fault.run("convert", source, packed, "--compress", "zstd", "--quiet")
    back = (packed, fault.path("back/out"), "--to", "safetensors")
    least = least_memory(fault, "convert", *back)
    plan = json.loads(fault.run("plan", *back, "--json", "--max-memory", least, "--quiet").stdout)
    room = json.loads(fault.run("plan", *back, "--json", "--quiet").stdout)
    fault.expect(plan["scratch_bytes"] >= 8 << 20 and room["scratch_bytes"] == 0,
                 f"plan says {plan['scratch_bytes']} bytes of scratch, and {room['scratch_bytes']} with 2 GiB")
    with SmallDisk(fault.path("back"), plan["output_bytes"] + plan["scratch_bytes"] * 3 // 4) as disk:
        seen = json.loads(fault.run("plan", *back, "--json", "--max-memory", least, "--quiet").stdout)["disk"]
        fault.expect(not seen["fits"], f"plan says that it fits: {seen}")
        done = fault.check(any_run(fault, "convert", *back, "--max-memory", least), 3)
        fault.expect("unpacked" in done.stderr and "--max-memory" in done.stderr, f"the message says:\n{done.stderr}")
        fault.expect(os.listdir(disk.path) == [], f"something was written: {os.listdir(disk.path)}")
        fault.run("convert", *back, "--quiet")
        commands = (("convert", packed, "--to", "null", "--scheme", "hf"), ("verify", back[1], packed))
        with SmallDisk(fault.path("scratch"), plan["scratch_bytes"] * 3 // 4) as scratch:
            for words in commands:
                few = ("--max-memory", least_memory(fault, *words))
                done = fault.check(any_run(fault, *words, *few, TMPDIR=scratch.path), 3)
                fault.expect("TMPDIR" in done.stderr and scratch.path in "".join(done.stderr.split()),
                             f"{words[0]} says:\n{done.stderr}")
                fault.check(any_run(fault, *words, TMPDIR=scratch.path))
                fault.check(any_run(fault, *words, *few, TMPDIR=fault.folder))
            fault.check(any_run(fault, "diff", source, packed, TMPDIR=scratch.path))


def half_a_step_is_there(fault, size_bytes):
    """Checks that several steps ask for room for the rest alone, after a worker wrote half of one."""
    root = fault.path("root")
    fault.run("convert", fault.path("source"), root, "--quiet")
    with SmallDisk(fault.path("few"), size_bytes * 5 // 4) as disk:
        limits = ("--limits", fault.arguments.limits) if fault.arguments.limits else ()
        reshard = ("reshard", root, fault.path("few/out"), "--mesh", "fsdp=2", "--quiet", *limits)
        fault.run(*reshard, "--worker", "1/2")  # in one file, this is all of it
        staged = held(fault.path("few/.out.hfshard/out"))
        fault.expect(staged > size_bytes // 3, f"the worker wrote {staged} of {size_bytes} bytes")
        disk.fill(0)
        command = fault.command(*reshard, "--steps", "all")
        done = fault.check(subprocess.run(command, capture_output=True, text=True, check=False), 3)
        for words in ("the step needs", "are already in staging"):
            fault.expect(words in " ".join(done.stderr.split()), f"the message lacks {words}:\n{done.stderr}")
        disk.empty()
        fault.run(*reshard, "--steps", "all")


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault:
        too_small_from_the_start(fault)
        reference, calls = fault.reference(), fault.count_calls()
        size = sum(os.path.getsize(os.path.join(fault.path("reference"), name))
                   for name in reference if not name.endswith("/"))
        wanted = min(fault.arguments.rounds, 5)
        done = attempts = 0
        while done < wanted:
            attempts += 1
            fault.expect(attempts <= 10 * wanted, "most conversions end before the disk is full")
            done += filled_during_the_run(fault, reference, size, attempts, calls)
        read_only(fault)
        no_room_to_unpack(fault)
        half_a_step_is_there(fault, size)
        print(f"{done} conversions survived a disk that filled up")
        return 0


if __name__ == "__main__":
    sys.exit(main())
