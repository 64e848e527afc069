#!/usr/bin/env python3
"""Hugging Face to torch.distributed.checkpoint (DCP) and back, beside copies of as many bytes and torch's own save.

Makes a checkpoint of random weights of Qwen3-0.6B's shape (1.19 GB), then runs rounds of

    cp --reflink=never BYTES COPY && sync -d COPY
    dd if=BYTES of=COPY bs=16M iflag=direct oflag=direct && sync -d COPY
    hfshard convert SOURCE DCP --to dcp --mesh fsdp=4        (which syncs too, and publishes)
    hfshard convert DCP BACK --to safetensors
    torch: safetensors.torch.load_file, then dcp.save        (in one process; torch syncs its files)
    torch: dcp.load into empty tensors, then save_file

with the sources in the page cache. All of a round follow each other, and take turns in going first. One conversion each way is
verified before anything is timed. hfshard runs under `ulimit -d` of --max-memory. The Python with torch is
$HFSHARD_PEER_PYTHON; without it only copies and hfshard are timed.
"""

import os
import shutil
import statistics
import subprocess
import sys

import measure

SAVE = """
import sys, torch, torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
torch.set_num_threads(2)
dcp.save(load_file(sys.argv[1]), checkpoint_id=sys.argv[2], no_dist=True)
"""
LOAD = """
import os, sys, torch, torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
torch.set_num_threads(2)
metadata = dcp.FileSystemReader(sys.argv[1]).read_metadata().state_dict_metadata
tensors = {name: torch.empty(info.size, dtype=info.properties.dtype) for name, info in metadata.items()}
dcp.load(tensors, checkpoint_id=sys.argv[1], no_dist=True)
save_file(tensors, sys.argv[2])
file = os.open(sys.argv[2], os.O_RDONLY)
os.fsync(file)
"""


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--max-memory", default="512MiB", metavar="SIZE")
    parser.add_argument("--mesh", default="fsdp=4")
    return parser.parse_args()


def torch_python():
    python = os.environ.get("HFSHARD_PEER_PYTHON", "")
    check = [python, "-c", "import torch.distributed.checkpoint, safetensors.torch"]
    return python if python and subprocess.run(check, capture_output=True, check=False).returncode == 0 else None


class Bench:
    """The files and the commands of one session."""

    def __init__(self, options, folder):
        self.options, self.python = options, torch_python()
        self.source, self.dcp, self.out = (os.path.join(folder, name) for name in ("source", "dcp", "out"))
        self.bytes = measure.make_example(options.hfshard, self.source, measure.QWEN3_06B)
        self.file = next(path for path in measure.files_of(self.source) if path.endswith(".safetensors"))

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        measure.fill_cache(self.source)
        if os.path.exists(self.dcp):
            measure.fill_cache(self.dcp)

    def convert(self, source, out, *words):
        command = [self.options.hfshard, "convert", source, out, *words, "--max-memory", self.options.max_memory, "--quiet"]
        return measure.run(command, data_limit_bytes=measure.parse_size(self.options.max_memory))

    def to_dcp(self, out):
        return self.convert(self.source, out, "--to", "dcp", "--mesh", self.options.mesh)

    def check(self):
        self.to_dcp(self.dcp)
        measure.run([self.options.hfshard, "verify", self.dcp, self.source, "--quiet"])
        self.convert(self.dcp, self.out, "--to", "safetensors")
        measure.run([self.options.hfshard, "diff", self.source, self.out, "--quiet"])

    def copy(self, script):
        os.mkdir(self.out)
        return measure.run(["sh", "-ec", script + '; sync -d "$1"', "sh", self.file, os.path.join(self.out, "copy")])

    def script(self, text, *words):
        os.mkdir(self.out)
        return measure.run([self.python, "-W", "ignore", "-c", text, *words])

    def ways(self):
        out = {"cp + sync": lambda: self.copy('cp --reflink=never "$1" "$2"; set -- "$2"'),
               "direct dd": lambda: self.copy('dd if="$1" of="$2" bs=16M iflag=direct oflag=direct status=none; set -- "$2"'),
               "hfshard HF -> DCP": lambda: self.to_dcp(self.out),
               "hfshard DCP -> HF": lambda: self.convert(self.dcp, self.out, "--to", "safetensors")}
        if self.python:
            out["torch HF -> DCP"] = lambda: self.script(SAVE, self.file, os.path.join(self.out, "dcp"))
            out["torch DCP -> HF"] = lambda: self.script(LOAD, self.dcp, os.path.join(self.out, "model.safetensors"))
        return list(out.items())


def main():
    options = parse()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        bench.check()
        ways = bench.ways()
        found = {name: [] for name, _ in ways}
        for number in range(options.runs):
            turn = number % len(ways)
            for name, way in ways[turn:] + ways[:turn]:
                bench.clear()
                found[name].append(way())
        print(f"source: qwen3-0.6b, {bench.bytes} bytes; {options.runs} rounds, warm; load {os.getloadavg()[0]:.1f} at the end")
        times = {name: [done.seconds for done in outcomes] for name, outcomes in found.items()}
        median = {name: statistics.median(values) for name, values in times.items()}
        fastest = min(median["cp + sync"], median["direct dd"])
        rows = [["", "s: min", "median", "max", "ratio", "peak, MiB"]]
        failed = False
        for name, outcomes in found.items():
            peak = max(done.peak_bytes for done in outcomes)
            failed |= name.startswith("hfshard") and peak > measure.parse_size(options.max_memory)
            rows.append([name, *measure.spread(times[name]), f"{median[name] / fastest:.2f}", f"{peak / measure.MIB:.0f}"])
        measure.print_table(rows)
        measure.write_json(options.json, {f"{name}/qwen3-0.6b": values for name, values in times.items()})
    if failed:
        print("FAILED: more memory than --max-memory")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
