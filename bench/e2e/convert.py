#!/usr/bin/env python3
"""Whole conversions beside their ceilings: the faster of two ways to copy as many bytes.

Makes a checkpoint of random weights, of Qwen3-0.6B's shape (1.19 GB) or of a --model of models.json, then runs rounds of

    cp --reflink=never BYTES COPY && sync -d COPY
    dd if=BYTES of=COPY bs=16M iflag=direct oflag=direct && sync -d COPY
    hfshard convert SOURCE OUT --mesh fsdp=16            (which syncs too, and publishes)

stacked and separate (or `--to safetensors`, as stored), with the source in the page cache (warm) and not (cold), at each --max-memory. BYTES is the source,
or the data of a finished output where that is larger (quantized sources). The three of a round follow each other, and
take turns in going first. Before anything is timed, one conversion of each layout is verified against the source byte
for byte; the digest of each timed one must equal it. Every conversion runs under `ulimit -d` of its --max-memory. Bytes
read and written are those of its system calls (/proc/PID/io), over what the plan needs. Exit status 1 when a result is
wrong, a peak exceeds its --max-memory, or more is read or written than 1.02 and 1.01 of what is needed.
"""

import json
import os
import shutil
import statistics
import sys

import measure

MOST_READ, MOST_WRITTEN = 1.02, 1.01
FIXED_BYTES = 4 * measure.MIB  # headers, libraries and metadata, which weigh only beside a small model


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--model", choices=["qwen3-0.6b", *measure.MODELS], default="qwen3-0.6b")
    parser.add_argument("--layers", type=int, help="layers of the model (default its own)")
    parser.add_argument("--vocab", type=int, help="rows of the embedding (default its own)")
    parser.add_argument("--mesh", default="fsdp=16")
    parser.add_argument("--dtype", help="of the output: what is quantized is decoded (default: as --to has it)")
    parser.add_argument("--to", choices=["orbax", "safetensors"], default="orbax")
    parser.add_argument("--max-memory", nargs="+", default=["512MiB", "2GiB"], metavar="SIZE")
    parser.add_argument("--layouts", nargs="+", default=["stacked", "separate"])
    parser.add_argument("--caches", nargs="+", default=["warm", "cold"])
    options = parser.parse_args()
    if options.to == "safetensors":
        options.layouts = [f"as stored, {options.dtype}" if options.dtype else "as stored"]
    return options


class Bench:
    """The files and the commands of one session."""

    def __init__(self, options, folder):
        self.options = options
        self.source = os.path.join(folder, "source")
        self.kept = os.path.join(folder, "kept")  # a finished output, where that is what a copy is compared with
        self.copy = os.path.join(folder, "copy")
        self.out = os.path.join(folder, "out")
        self.digests = {}
        self.needed = {}
        model = measure.MODELS.get(options.model, {"family": "qwen3", "config": measure.QWEN3_06B})
        config = dict(model["config"])
        if options.layers:
            config["num_hidden_layers"] = options.layers
        if options.vocab:
            config["vocab_size"] = options.vocab
        self.bytes = measure.make_example(options.hfshard, self.source, config, family=model["family"])
        self.copied = [path for path in measure.files_of(self.source) if path.endswith(".safetensors")]

    def convert_command(self, layout, memory):
        form = ["--mesh", self.options.mesh, "--layers", layout] if self.options.to == "orbax" else ["--to", self.options.to]
        form += ["--dtype", self.options.dtype] if self.options.dtype else []
        return [self.options.hfshard, "convert", self.source, self.out, *form, "--max-memory", memory, "--json", "--quiet"]

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.rmtree(self.copy, ignore_errors=True)

    def check(self, layout):
        """One conversion that is not timed, verified against the source."""
        self.clear()
        command = self.convert_command(layout, self.options.max_memory[0])
        plan = json.loads(measure.run([command[0], "plan", *command[2:]]).output)
        self.needed[layout] = plan["source_bytes"], plan["output_bytes"]
        done = measure.run(command)
        self.digests[layout] = json.loads(done.output)["root_digest"]
        measure.run([self.options.hfshard, "verify", self.out, self.source, "--quiet"])
        if plan["output_bytes"] > 1.2 * self.bytes and not os.path.exists(self.kept):
            os.rename(self.out, self.kept)
            data = os.path.join(self.kept, "0", "items", "d") if self.options.to == "orbax" else self.kept
            self.copied = [path for path in measure.files_of(data) if not path.endswith(".json")]
        self.clear()

    def prepare(self, cache, paths):
        self.clear()
        os.mkdir(self.copy)
        for path in paths:
            how = measure.drop_cache(path) if cache == "cold" else measure.fill_cache(path)
        return how

    def time_copy(self, cache, script):
        self.prepare(cache, self.copied)
        return measure.run(["sh", "-ec", 'to=$0; for file; do ' + script + '; sync -d "$to/${file##*/}"; done', self.copy,
                            *self.copied])

    def time_cp(self, cache):
        return self.time_copy(cache, 'cp --reflink=never "$file" "$to"')

    def time_dd(self, cache):
        return self.time_copy(
            cache, 'dd if="$file" of="$to/${file##*/}" bs=16M iflag=direct oflag=direct status=none')

    def time_convert(self, cache, layout, memory):
        self.prepare(cache, [self.source])
        done = measure.run(self.convert_command(layout, memory), data_limit_bytes=measure.parse_size(memory))
        if json.loads(done.output)["root_digest"] != self.digests[layout]:
            sys.exit(f"a {layout} conversion has another digest than the verified one")
        return done

    def rounds(self, cache, layout, memory):
        """Outcomes of the two copies and of the conversions of one case."""
        out = {"cp": [], "dd": [], "convert": []}
        ways = [("cp", lambda: self.time_cp(cache)), ("dd", lambda: self.time_dd(cache)),
                ("convert", lambda: self.time_convert(cache, layout, memory))]
        for number in range(self.options.runs):
            for name, way in ways[number % 3:] + ways[:number % 3]:
                out[name].append(way())
        return out


def overhead(bench, layout, outcomes):
    """Bytes read and written over those needed, the worst of all runs."""
    read, written = bench.needed[layout]
    return (max(done.read_bytes - FIXED_BYTES for done in outcomes) / read,
            max(done.written_bytes - FIXED_BYTES for done in outcomes) / written)


def main():
    options = parse()
    failed = False
    times = {}
    rows = [["layout", "cache", "--max-memory", "cp + sync, s: min", "median", "max", "direct dd, s: min", "median",
             "max", "convert, s: min", "median", "max", "ratio", "read", "written", "peak, MiB"]]
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        print(f"source: {options.model}, {bench.bytes} bytes; {options.runs} rounds a case; cold by "
              f"{bench.prepare('cold', [bench.source])}", flush=True)
        for layout in options.layouts:
            bench.check(layout)
            for cache in options.caches:
                for memory in options.max_memory:
                    found = bench.rounds(cache, layout, memory)
                    name = f"{options.model}/{layout}/{cache}/{memory}"
                    for way, outcomes in found.items():
                        times[f"{way}/{name}"] = [done.seconds for done in outcomes]
                    median = {way: statistics.median(times[f"{way}/{name}"]) for way in found}
                    ratio = median["convert"] / min(median["cp"], median["dd"])
                    peak = max(done.peak_bytes for done in found["convert"])
                    read, written = overhead(bench, layout, found["convert"])
                    failed |= peak > measure.parse_size(memory) or read > MOST_READ or written > MOST_WRITTEN
                    rows.append([layout, cache, memory, *measure.spread(times[f"cp/{name}"]),
                                 *measure.spread(times[f"dd/{name}"]), *measure.spread(times[f"convert/{name}"]),
                                 f"{ratio:.2f}", f"{read:.3f}", f"{written:.3f}", f"{peak / measure.MIB:.0f}"])
                    print(f"   {name}: ratio {ratio:.2f}", flush=True)
    measure.print_table(rows)
    measure.write_json(options.json, times)
    if failed:
        print("FAILED: more memory than --max-memory, or more bytes read or written than needed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
