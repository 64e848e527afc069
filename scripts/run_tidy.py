#!/usr/bin/env python3
"""Runs clang-tidy 14 over src, with one job for each processor, and remembers which jobs were clean.

Nearly all of a check's time goes to the declarations of the standard library, which every file includes. 17 files of plan
took 10 seconds each alone, and 10 seconds as one. So the checks read a layer as one file that includes its sources.
Names in it are unique, in anonymous namespaces too. The analyzer reads a few files at a time, one after another in one
file, since it skips included code. For a whole layer, it would follow the calls between files for twice as long.

A job's key is the hash of everything in the project that clang-tidy's answer depends on. That is its files, the project's
headers that they include, the two configurations, the compile command and the tool's version. Clean keys are empty files
in ~/.cache/hfshard/tidy, so a second run checks only changed files. `run_tidy.py FILE...` checks only the layers of these
files. With --checks, the analyzer doesn't run; with --analyzer, nothing else does.
"""

import concurrent.futures
import dataclasses
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
DATABASE = os.environ.get("HFSHARD_TIDY_BUILD", os.path.join(ROOT, "build", "lint"))
# Outside the tree, so that a fresh clone finds the verdicts of another one.
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hfshard", "tidy")
KEPT_DAYS = 30  # after the last use
COMMANDS = os.path.join(ROOT, "build", "tidy-commands")  # DATABASE in a form that clang can use
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)

# g++ writes the compile commands. clang doesn't know every option of g++, and every one of its target attributes.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-unused-command-line-argument",
         "--extra-arg=-Wno-ignored-attributes",
         # A local name may have another meaning in another file of the layer. g++ warns about each file's own.
         "--extra-arg=-Wno-shadow"]
# The analyzer stops at a function after this many states. With its own limit of 225,000 it takes four times as long,
# with 60,000 a quarter more.
EXTRA += [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=15000")]
TOGETHER = 6  # files; alone, each takes 2 seconds for its includes

# The analyzer follows paths, which takes long. It runs on code that handles memory, descriptors and untrusted bytes.
# These folders compute values from values, and have no pointer to lose.
NOT_ANALYZED = re.compile(r"src/(catalog|mapping|plan|service|tool)/")
ANALYZER_ONLY = "-bugprone-*,-cert-*,-concurrency-*,-misc-*,-modernize-*,-performance-*,-readability-*"
CHECKS_ONLY = "-clang-analyzer-*,-bugprone-suspicious-include"
# CLI11 has only headers, and this check alone spends 9 seconds on them.
WITHOUT_COPIES = re.compile(r"src/tool$")


@dataclasses.dataclass
class Job:
    """The work of one clang-tidy."""

    name: str  # for display
    main: str  # the input file
    files: list  # the sources in it
    off: str  # removed from the checks of .clang-tidy
    command: str
    begins: list = dataclasses.field(default_factory=list)  # for a file made of several: the line before each


def layer_of(path):
    """Returns src/run for src/run/engine/grant.cpp."""
    return "/".join(path.split("/")[:2])


def layer_file(layer):
    """Returns the path of the file that includes the sources of a layer."""
    return os.path.join(COMMANDS, layer.replace("/", "_") + ".cpp")


def analyzer_file(layer, number):
    """Returns the path of the file that holds some sources of a layer."""
    return os.path.join(COMMANDS, f"{layer.replace('/', '_')}_{number}.cpp")


def in_its_own_file(job, said):
    """Translates findings in lines of a combined file to those of its parts."""
    def replaced(match):
        line = int(match.group(1))
        at = max(i for i, begin in enumerate(job.begins) if begin < line)
        return f"{job.files[at]}:{line - job.begins[at]}"
    return re.sub(re.escape(job.main) + r":(\d+)", replaced, said) if job.begins else said


def jobs_of(commands, wanted):
    """Returns the jobs for some of the files, or for all."""
    jobs = []
    for layer in sorted({layer_of(path) for path in wanted or commands}):
        files = sorted(path for path in commands if layer_of(path) == layer)
        if not files:
            continue
        with open(layer_file(layer), "w", encoding="utf-8") as file:
            file.writelines(f'#include "{os.path.join(ROOT, path)}"\n' for path in files)
        off = CHECKS_ONLY + (",-performance-unnecessary-value-param" if WITHOUT_COPIES.match(layer) else "")
        jobs.append(Job(layer, layer_file(layer), files, off, commands[files[0]]))
    return jobs + analyzed_together(commands, wanted)


def analyzed_together(commands, wanted):
    """Returns the jobs of the analyzer. Each combines a few files of one layer."""
    jobs = []
    for layer in sorted({layer_of(path) for path in wanted or commands}):
        files = sorted(path for path in commands if layer_of(path) == layer and not NOT_ANALYZED.match(path))
        for at in range(0, len(files), TOGETHER):
            some = files[at:at + TOGETHER]
            if wanted and not wanted.intersection(some):
                continue
            texts = [lint_common.read_text(ROOT, path) + "\n" for path in some]
            begins = [sum(text.count("\n") for text in texts[:i]) for i in range(len(texts))]
            main_file = analyzer_file(layer, at // TOGETHER)
            with open(main_file, "w", encoding="utf-8") as file:
                file.writelines(texts)
            jobs.append(Job(f"{some[0]}, ...", main_file, some, ANALYZER_ONLY, commands[some[0]], begins))
    return jobs


def without_precompiled(command):
    """Returns the arguments of a compile command without g++'s precompiled header. clang can't read it, and a file
    must include what it uses."""
    words = shlex.split(command)
    kept = [word for at, word in enumerate(words)
            if word != "-Winvalid-pch" and not word.endswith("cmake_pch.hxx")
            and not (word == "-include" and words[at + 1].endswith("cmake_pch.hxx"))]
    return shlex.join(kept)


def compile_commands():
    """Returns source path relative to the root -> compile command, for the files of src. Also writes COMMANDS, with
    one more command for each layer."""
    with open(os.path.join(DATABASE, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    commands = {}
    layers = {}
    for entry in entries:
        entry["command"] = without_precompiled(entry.get("command") or shlex.join(entry.pop("arguments")))
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path.startswith("src" + os.sep):
            commands[path] = entry["command"]
            main = layer_file(layer_of(path))
            for name in (main, *(analyzer_file(layer_of(path), number) for number in range(len(entries) // TOGETHER + 1))):
                if name in layers:
                    continue
                words = [name if word == entry["file"] else word for word in shlex.split(entry["command"])]
                layers.setdefault(name, {"directory": entry["directory"], "file": name, "command": shlex.join(words)})
    os.makedirs(COMMANDS, exist_ok=True)
    with open(os.path.join(COMMANDS, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries + list(layers.values()), file)
    return commands


def headers_of(path, seen):
    """Adds the project headers that a file includes, directly or not, to `seen`."""
    for name in INCLUDE.findall(lint_common.read_text(ROOT, path)):
        for folder in ("src", "include"):
            header = f"{folder}/{name}"
            if header not in seen and os.path.isfile(os.path.join(ROOT, header)):
                seen.add(header)
                headers_of(header, seen)


def key_of(job, version):
    """Returns the hash of everything that the answer for a job depends on."""
    seen = set()
    for path in job.files:
        headers_of(path, seen)
    state = hashlib.sha256()
    for part in [version, job.command.replace(ROOT, ""), job.off, *EXTRA]:
        state.update(part.encode() + b"\0")
    for name in [*job.files, *sorted(seen), ".clang-tidy"]:
        with open(os.path.join(ROOT, name), "rb") as file:
            state.update(name.encode() + b"\0" + file.read() + b"\0")
    return state.hexdigest()


def remember(key):
    """Notes that a job is clean, and when that was used. A cache that can't be written only costs time."""
    try:
        os.makedirs(CACHE, exist_ok=True)
        with open(os.path.join(CACHE, key), "w", encoding="utf-8"):
            pass
    except OSError:
        pass


def forget_old():
    """Removes the keys that no run has used for a month."""
    try:
        for entry in os.scandir(CACHE):
            if re.fullmatch("[0-9a-f]{64}", entry.name) and time.time() - entry.stat().st_mtime > KEPT_DAYS * 86400:
                os.remove(entry.path)
    except OSError:
        pass


def check(job, key):
    """Runs clang-tidy for one job. Returns the seconds and its output (empty if clean)."""
    started = time.monotonic()
    done = subprocess.run([TIDY, "-p", COMMANDS, "--quiet", "--checks=" + job.off, *EXTRA, job.main],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    said = done.stdout.strip()
    if done.returncode != 0 and not said:
        said = done.stderr.strip() or f"clang-tidy ended with status {done.returncode}"
    if not said:
        remember(key)
    return time.monotonic() - started, said


def main(wanted):
    if shutil.which(TIDY) is None:
        print(f"LINT MISSING {TIDY}")
        return 77  # skipped
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    jobs = [job for job in jobs_of(compile_commands(), wanted)
            if "--analyzer" not in sys.argv or job.off == ANALYZER_ONLY
            if "--checks" not in sys.argv or job.off != ANALYZER_ONLY]
    if not jobs:
        print("run_tidy: nothing to check; is build/lint configured?", file=sys.stderr)
        return 1
    keys = [key_of(job, version) for job in jobs]
    to_do = [(job, key) for job, key in zip(jobs, keys) if not os.path.exists(os.path.join(CACHE, key))]
    for key in set(keys) - {key for _, key in to_do}:
        remember(key)
    forget_old()
    started = time.monotonic()
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        # Big ones come first, so that the last processor doesn't wait for one of them.
        to_do.sort(key=lambda item: -sum(os.path.getsize(os.path.join(ROOT, path)) for path in item[0].files))
        for (job, _), (seconds, said) in zip(to_do, pool.map(lambda item: check(*item), to_do)):
            if "--times" in sys.argv:
                print(f"{seconds:7.1f} s  {job.name}")
            if said:
                wrong += 1
                print(in_its_own_file(job, said).replace(ROOT + os.sep, ""), flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"run_tidy: {len(to_do)} of {len(keys)} jobs done in {time.monotonic() - started:.0f} s "
          f"({used.ru_utime + used.ru_stime:.0f} s of processor time), {wrong} with problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main({os.path.relpath(os.path.abspath(name), ROOT) for name in sys.argv[1:] if name[0] != "-"}))
