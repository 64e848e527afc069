#!/usr/bin/env python3
"""MaxText's own converter beside hfshard: the same checkpoint, the same machine, and outputs that are compared.

Makes a checkpoint of Qwen3-0.6B's shape (random weights, 1.19 GB; to_maxtext needs no tokenizer for it), then runs

    python -m maxtext.checkpoint_conversion.to_maxtext --hf_model_path=SOURCE --lazy_load_tensors=true
        --simulated_cpu_devices_count=N model_name=qwen3-0.6b base_output_directory=OUT scan_layers=...
    hfshard convert SOURCE OUT --mesh fsdp=16 --layers ...

each into a fresh directory with the source in the page cache, in rounds whose order turns. The time is that of the
whole process, imports included (`to_maxtext --help` is imports alone); CPU seconds (user and system, the median) tell
more on a busy machine; mapped files count in the peak; written is what write calls took. hfshard also syncs. In the end
every leaf of MaxText's outputs must equal hfshard's in shape, dtype and bits, read by TensorStore; both keep bf16.

The peer is a clone of AI-Hypercomputer/maxtext (PINNED below is seen to work) and the 3 GB of packages of `scripts/test
--with-maxtext`. The bench makes missing parts if it can; otherwise it prints `PEER MISSING maxtext` and exits with 77.
Exit status 1 when an output differs. Needs 8 GB of disk.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import measure

URL = "https://github.com/AI-Hypercomputer/maxtext"
PINNED = "e591f30cbbf217ed67ef71263ec0538239f9c3b8"
COMPARE = f"{measure.ROOT}/bench/e2e/maxtext_compare.py"
REQUIREMENTS = [os.path.join(measure.ROOT, "scripts", f"requirements-{name}.txt") for name in ("peers", "maxtext")]
VERSIONS = """import importlib.metadata as m, sys
names = "jax", "orbax-checkpoint", "tensorstore", "torch", "transformers"
print("Python " + sys.version.split()[0], *[f"{name} {m.version(name)}" for name in names], sep=", ")"""
# Its stubs for cloud libraries; no look-ups in the network; no module of the directory that this was started from.
ENVIRONMENT = "DECOUPLE_GCLOUD=TRUE HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 JAX_PLATFORMS=cpu PYTHONSAFEPATH=1".split()


def parse():
    parser = measure.arguments(__doc__, runs="3 of hfshard, 1 of MaxText")
    parser.set_defaults(runs=None, venv=f"{measure.ROOT}/build/venv-maxtext")
    parser.add_argument("--maxtext", metavar="CLONE", help=f"the folder of a clone of {URL} (default: one is made)")
    parser.add_argument("--venv", metavar="DIR", help="of its packages, or where they go (default build/venv-maxtext)")
    parser.add_argument("--separate", action="store_true", help="run to_maxtext with separate layers too (minutes)")
    return parser.parse_args()


def program(python, sources, module, *words):
    """The command line of one of MaxText's programs for checkpoints, such as to_maxtext."""
    return ["env", "-C", sources, f"PYTHONPATH={sources}", *ENVIRONMENT, python, "-m",
            f"maxtext.checkpoint_conversion.{module}", *words]


def to_maxtext_words(source, out, layers, devices):
    """What to_maxtext is told, for a source of Qwen3-0.6B's shape."""
    return ["--lazy_load_tensors=true", "--save_dtype=bfloat16", f"--hf_model_path={source}",
            f"--simulated_cpu_devices_count={devices}", "hardware=cpu", "model_name=qwen3-0.6b", f"base_output_directory={out}",
            f"scan_layers={layers == 'stacked'}", "skip_jax_distributed_system=true"]


def missing(why):
    print(f"PEER MISSING maxtext: {why}")
    sys.exit(77)


def need(command, what):
    """Runs a command that prepares the peer; its last line is why the peer is missing when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=os.environ | {"GIT_TERMINAL_PROMPT": "0"})
    except OSError as error:
        missing(f"{what}: {error}")
    if done.returncode != 0:
        missing(f"{what}: {(done.stdout + done.stderr).strip().rpartition(chr(10))[2] or done.returncode}")
    return done.stdout


def fill_venv(venv):
    """A Python with the pinned packages, under the stamp that scripts/test uses. Returns its path."""
    python, stamp = os.path.join(venv, "bin", "python"), pathlib.Path(venv, ".pins")
    pins = hashlib.sha256(b"".join(pathlib.Path(path).read_bytes() for path in REQUIREMENTS)).hexdigest()
    if os.path.exists(python) and stamp.exists() and stamp.read_text("ascii").strip() == pins:
        return python
    print(f"filling {venv}", flush=True)
    need([sys.executable, "-m", "venv", venv], "no virtual environment")
    need([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
          *[word for path in REQUIREMENTS for word in ("-r", path)]], "pip failed")
    stamp.write_text(pins + "\n", "ascii")
    return python


def find_clone(options):
    """The folder of MaxText's sources: the one given, or one made beside the packages."""
    clone = options.maxtext or os.path.join(options.venv, "maxtext")
    package = f"{clone}/src/maxtext"
    if not options.maxtext and not os.path.isdir(package):
        need(["git", "init", "--quiet", clone], "no clone")
        need(["git", "-C", clone, "fetch", "--quiet", "--depth", "1", URL, PINNED], "no clone")
        need(["git", "-C", clone, "checkout", "--quiet", "FETCH_HEAD"], "no clone")
    if not os.path.isdir(package):
        missing(f"{clone} is not a clone of it")
    return clone


class Peer:
    """MaxText's converter, ready to run."""

    def __init__(self, options, folder):
        clone = find_clone(options)
        self.python = fill_venv(os.path.abspath(options.venv))
        self.sources = os.path.join(folder, "src")
        shutil.copytree(os.path.join(clone, "src"), self.sources)
        for path in pathlib.Path(self.sources, "maxtext", "kernels", "mhc").glob("*.py"):  # has syntax of Python 3.12
            path.write_text(re.sub(r"^type (\w+) = ", r"\1 = ", path.read_text("utf-8"), flags=re.M), "utf-8")
        need(self.command("--help"), "its converter does not start")
        commit = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        versions = need([self.python, "-c", VERSIONS], "its packages are incomplete")
        print(f"MaxText: {commit.stdout.strip() or 'unknown commit'}; {versions.strip()}")

    def command(self, *words):
        return program(self.python, self.sources, "to_maxtext", *words)


@dataclasses.dataclass
class Case:
    """One row: a command that is timed `runs` times, and where it writes."""
    text: str
    command: list
    runs: int
    out: str = ""
    layers: str = ""
    done: list = dataclasses.field(default_factory=list)
    cpu: list = dataclasses.field(default_factory=list)
    seconds: list = dataclasses.field(default_factory=list)

    def run(self, source):
        shutil.rmtree(self.out, ignore_errors=True)
        measure.fill_cache(source)
        load, spent = os.getloadavg()[0], sum(os.times()[2:4])
        self.done.append(measure.run(self.command))
        self.seconds.append(self.done[-1].seconds)
        self.cpu.append(sum(os.times()[2:4]) - spent)
        print(f"   {self.text}: {self.seconds[-1]:.2f} s, load before {load:.1f}", flush=True)

    def row(self, ours):
        cells = [self.text, len(self.done), *measure.spread(self.seconds), f"{statistics.median(self.cpu):.2f}",
                 f"{max(one.peak_bytes for one in self.done) / measure.MIB:.0f}"]
        if not ours:
            return [*cells, "", "", ""]
        stored = sum(path.stat().st_size for path in pathlib.Path(self.out).rglob("*") if path.is_file())
        return [*cells, f"{statistics.median(self.seconds) / statistics.median(ours.seconds):.1f}",
                max(one.written_bytes for one in self.done), stored]


def make_cases(options, peer, source, folder):
    """hfshard's cases by layout, and MaxText's."""
    ours = {}
    for layers in ("stacked", "separate"):
        out = f"{folder}/ours-{layers}"
        command = [options.hfshard, "convert", source, out, "--mesh", "fsdp=16", "--layers", layers, "--quiet"]
        ours[layers] = Case(f"hfshard convert, {layers}, fsdp=16", command, options.runs or 3, out, layers)
    theirs = [Case("to_maxtext --help: imports", peer.command("--help"), options.runs or 1)]
    for layers, devices in [("stacked", 1), ("stacked", 16), *([("separate", 16)] if options.separate else [])]:
        out = f"{folder}/theirs-{layers}-{devices}"
        command = peer.command(*to_maxtext_words(source, out, layers, devices))
        theirs.append(Case(f"to_maxtext, {layers}, devices={devices}", command, options.runs or 1, out, layers))
    return ours, theirs


def compare(peer, case, ours):
    """Says how an output of MaxText compares with hfshard's; returns whether they are the same."""
    found = json.loads(measure.run([peer.python, COMPARE, case.out, ours.out]).output)
    print(f"{case.text}: {found['equal']} leaves equal hfshard's ({found['summary']}), {len(found['differ'])} differ",
          *found["differ"], sep="\n   ")
    return found["equal"] > 0 and not found["differ"]


def main():
    options = parse()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        folder = os.path.abspath(folder)
        peer = Peer(options, folder)
        source = f"{folder}/source"
        print(f"source: {measure.make_example(options.hfshard, source, measure.QWEN3_06B)} bytes", flush=True)
        ours, theirs = make_cases(options, peer, source, folder)
        cases = [*theirs, *ours.values()]
        for number in range(max(case.runs for case in cases)):
            for case in cases[::-1] if number % 2 else cases:
                if number < case.runs:
                    case.run(source)
        measure.print_table([["what", "runs", "s: min", "median", "max", "CPU s", "peak, MiB", "times hfshard's",
                              "bytes written", "bytes of the output"],
                             *[case.row(ours.get(case.layers)) for case in cases]])
        same = [compare(peer, case, ours[case.layers]) for case in theirs if case.out]
    measure.write_json(options.json, {case.text: case.seconds for case in cases})
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
