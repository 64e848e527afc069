#!/usr/bin/env python3
"""Whole conversions beside their ceiling: writing a copy of the same file and syncing it.

Makes a checkpoint of Qwen3-0.6B's shape (random weights, 1.19 GB), then runs pairs of

    cp --reflink=never SOURCE/model.safetensors COPY && sync -d COPY
    hfshard convert SOURCE OUT --mesh fsdp=16            (which syncs too, and publishes)

stacked and separate, with the source in the page cache (warm) and not (cold), at each --max-memory. The two of a pair
follow each other directly, and take turns in going first. Before anything is timed, one conversion of each layout is
verified against the source byte for byte; the digest of each timed one must equal it. Every conversion runs under
`ulimit -d` of its --max-memory. Exit status 1 when a result is wrong or a peak exceeds its --max-memory.
"""

import json
import os
import shutil
import statistics
import sys

import measure


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--layers", type=int, default=measure.QWEN3_06B["num_hidden_layers"],
                        help="layers of the model (default 28)")
    parser.add_argument("--vocab", type=int, default=measure.QWEN3_06B["vocab_size"],
                        help="rows of the embedding (default 151936)")
    parser.add_argument("--mesh", default="fsdp=16")
    parser.add_argument("--max-memory", nargs="+", default=["512MiB", "2GiB"], metavar="SIZE")
    parser.add_argument("--layouts", nargs="+", default=["stacked", "separate"])
    parser.add_argument("--caches", nargs="+", default=["warm", "cold"])
    return parser.parse_args()


class Bench:
    """The files and the commands of one session."""

    def __init__(self, options, folder):
        self.options = options
        self.source = os.path.join(folder, "source")
        self.copy = os.path.join(folder, "copy.safetensors")
        self.out = os.path.join(folder, "out")
        self.digests = {}
        config = measure.QWEN3_06B | {"num_hidden_layers": options.layers, "vocab_size": options.vocab}
        self.bytes = measure.make_example(options.hfshard, self.source, config)

    def convert_command(self, layout, memory):
        return [self.options.hfshard, "convert", self.source, self.out, "--mesh", self.options.mesh, "--layers", layout,
                "--max-memory", memory, "--json", "--quiet"]

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        if os.path.exists(self.copy):
            os.remove(self.copy)

    def check(self, layout):
        """One conversion that is not timed, verified against the source."""
        self.clear()
        done = measure.run(self.convert_command(layout, self.options.max_memory[0]))
        self.digests[layout] = json.loads(done.output)["root_digest"]
        measure.run([self.options.hfshard, "verify", self.out, self.source, "--quiet"])

    def prepare(self, cache):
        self.clear()
        return measure.drop_cache(self.source) if cache == "cold" else measure.fill_cache(self.source)

    def time_copy(self, cache):
        self.prepare(cache)
        file = os.path.join(self.source, "model.safetensors")
        script = 'cp --reflink=never "$0" "$1" && sync -d "$1"'
        return measure.run(["sh", "-c", script, file, self.copy])

    def time_convert(self, cache, layout, memory):
        self.prepare(cache)
        done = measure.run(self.convert_command(layout, memory), data_limit_bytes=measure.parse_size(memory))
        if json.loads(done.output)["root_digest"] != self.digests[layout]:
            sys.exit(f"a {layout} conversion has another digest than the verified one")
        return done

    def pairs(self, cache, layout, memory):
        """The copies and the conversions of one case."""
        copies, conversions = [], []
        for number in range(self.options.runs):
            for copying in ((True, False) if number % 2 == 0 else (False, True)):
                if copying:
                    copies.append(self.time_copy(cache))
                else:
                    conversions.append(self.time_convert(cache, layout, memory))
        return copies, conversions


def main():
    options = parse()
    failed = False
    times = {}
    rows = [["layout", "cache", "--max-memory", "cp + sync, s: min", "median", "max", "convert, s: min", "median",
             "max", "ratio", "peak, MiB"]]
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        print(f"source: {bench.bytes} bytes; {options.runs} pairs a case; cold by {bench.prepare('cold')}", flush=True)
        for layout in options.layouts:
            bench.check(layout)
            for cache in options.caches:
                for memory in options.max_memory:
                    copies, conversions = bench.pairs(cache, layout, memory)
                    name = f"{layout}/{cache}/{memory}"
                    times["cp/" + name] = [done.seconds for done in copies]
                    times["convert/" + name] = [done.seconds for done in conversions]
                    ratio = statistics.median(times["convert/" + name]) / statistics.median(times["cp/" + name])
                    peak = max(done.peak_bytes for done in conversions)
                    failed |= peak > measure.parse_size(memory)
                    rows.append([layout, cache, memory, *measure.spread(times["cp/" + name]),
                                 *measure.spread(times["convert/" + name]), f"{ratio:.2f}",
                                 f"{peak / measure.MIB:.0f}"])
                    print(f"   {name}: ratio {ratio:.2f}", flush=True)
    measure.print_table(rows)
    measure.write_json(options.json, times)
    if failed:
        print("FAILED: a conversion used more memory than its --max-memory")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
