"""The parts that the end-to-end benches share: checkpoints to convert, timed commands with limits, caches, and tables.

Nothing here needs more than Python and the programs under test.
"""

import argparse
import dataclasses
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests", "support"))

import testing  # noqa: E402  (a module of tests/support)

MIB = 1 << 20

# Larger models of other kinds: name -> family and config. Widths of real models, fewer layers.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.json"), encoding="ascii") as models_file:
    MODELS = json.load(models_file)

# What shapes and bytes of Qwen/Qwen3-0.6B follow from (its config.json, abridged).
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "qwen3-0.6b.json"), encoding="ascii") as config_file:
    QWEN3_06B = json.load(config_file)


def parse_size(text):
    """`512MiB`, `2GiB` or a number of bytes."""
    for suffix, scale in (("KiB", 1 << 10), ("MiB", MIB), ("GiB", 1 << 30)):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * scale
    return int(text)


def arguments(description, runs):
    """A parser with the options that every bench has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", default=os.path.join(ROOT, "build", "release", "hfshard"),
                        help="the program (default build/release/hfshard)")
    parser.add_argument("--work", help="an existing directory on the disk to be measured; what is made there is removed "
                        "(default: below build)")
    parser.add_argument("--runs", type=int, default=runs, help=f"timed runs of each case (default {runs})")
    parser.add_argument("--json", metavar="FILE", help="write all times there, in the form of Google Benchmark")
    return parser


@dataclasses.dataclass
class Outcome:
    """One finished command."""
    seconds: float
    peak_bytes: int  # VmHWM of the command and what it started
    output: str
    read_bytes: int = 0  # that its read calls returned, the page cache included
    written_bytes: int = 0  # that its write calls took


def open_io_counters(pid):
    """Opens /proc/PID/io of a running process, so that it can be read after the end of the process.

    Only root may open it then. To others, a command that ends at once has counters of 0.
    """
    try:
        return open(f"/proc/{pid}/io", encoding="ascii")
    except PermissionError:
        return io.StringIO("rchar: 0\nwchar: 0\n")


def run(command, data_limit_bytes=None):
    """Runs a command to its end, timed; `data_limit_bytes` is what `ulimit -d` gives it. Ends the bench if it fails."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (data_limit_bytes, data_limit_bytes))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   preexec_fn=limit if data_limit_bytes else None)
        with testing.Watch(process) as watched, open_io_counters(process.pid) as io_file:
            while not watched.has_ended():
                pass
            seconds = time.monotonic() - started
            counted = {name: int(value) for name, value in (line.split(":") for line in io_file)}
            watched.reap()
        out.seek(0)
        err.seek(0)
        output = out.read().decode()
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}\n{output}{err.read().decode()}")
    return Outcome(seconds, watched.peak_bytes, output, counted["rchar"], counted["wchar"])


def files_of(path):
    """The regular files of a directory, or the file itself."""
    if os.path.isfile(path):
        return [path]
    return sorted(entry.path for entry in os.scandir(path) if entry.is_file())


def drop_cache(path):
    """Makes the next read of these files come from the disk. Returns how it was done."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("1\n")
        return "drop_caches"
    except OSError:
        pass
    for name in files_of(path):
        with open(name, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return "posix_fadvise"


def fill_cache(path):
    """Makes the next read of these files come from memory, and lets earlier writes end."""
    os.sync()
    for name in files_of(path):
        with open(name, "rb", buffering=0) as file:
            while file.read(8 * MIB):
                pass
    return "read before"


def make_example(hfshard, out, config, *options, family="qwen3"):
    """Writes a checkpoint of this config; returns the bytes of its tensors."""
    path = out + ".config.json"
    with open(path, "w", encoding="ascii") as file:
        json.dump(config, file, indent=2)
    done = run([hfshard, "mappings", "example", family, out, "--config", path, "--json", "--quiet", *options])
    return json.loads(done.output)["data_bytes"]


def spread(values):
    """Min, median and max as a row of a table shows them."""
    return [f"{min(values):.2f}", f"{statistics.median(values):.2f}", f"{max(values):.2f}"]


def print_table(rows):
    """Rows of cells as a Markdown table; the first one is the heading."""
    widths = [max(len(str(row[k])) for row in rows) for k in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def describe_machine(work):
    """One line about where the numbers come from, and a warning where they would mean little."""
    cpu = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    kind = subprocess.run(["stat", "-f", "-c", "%T", work], capture_output=True, text=True, check=False).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    print(f"machine: {os.cpu_count()} x {cpu}, {memory:.0f} GiB, {kind or 'unknown file system'}, load {load:.1f}")
    if kind == "tmpfs":
        print("warning: --work is on tmpfs, so no disk is measured")
    if load > 1:
        print("warning: the machine is busy, so the times mean little")


def write_json(path, times):
    """`times`: name -> seconds of each run. scripts/bench_compare.py reads this."""
    if not path:
        return
    runs = [{"name": name, "run_name": name, "run_type": "iteration", "repetition_index": index,
             "real_time": seconds, "time_unit": "s"}
            for name, values in times.items() for index, seconds in enumerate(values)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"context": {"load": os.getloadavg()}, "benchmarks": runs}, file, indent=1)


def work_folder(options):
    """A temporary directory below --work, removed in the end."""
    above = options.work or os.path.join(ROOT, "build")
    os.makedirs(above, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="hfshard-bench-", dir=above)
