#!/usr/bin/env python3
"""Memory does not grow with the model: the peak of a 1.2 GB and of a 10 GB conversion of one family.

Both inputs are sparse (full sizes, no disk, all zeros), of Qwen3-0.6B's widths with 28 and with 330 layers, and go to
`--to null`, or with `--disk` to a checkpoint in --work that is removed again, under `ulimit -d` of their --max-memory.
The printed figure is VmHWM, the largest of all runs; the slope is what a further GB of input costs; it is not quite 0
because a run need not touch all of its arena. Exit status 1 when a peak exceeds its --max-memory, or a slope its bound.
"""

import os
import shutil
import sys

import measure


def parse():
    parser = measure.arguments(__doc__, runs=3)
    parser.add_argument("--layers", type=int, nargs=2, default=[28, 330], help="of the two models (default 28 330)")
    parser.add_argument("--vocab", type=int, default=measure.QWEN3_06B["vocab_size"],
                        help="rows of the embedding (default 151936)")
    parser.add_argument("--most-slope", type=float, default=2, help="bound on it, in MiB per GB (default 2)")
    parser.add_argument("--disk", action="store_true", help="write checkpoints instead of discarding them")
    parser.add_argument("--max-memory", nargs="+", default=["512MiB", "2GiB"], metavar="SIZE")
    parser.add_argument("--layouts", nargs="+", default=["stacked", "separate"])
    return parser.parse_args()


def peak_of(options, source, layout, memory, times):
    """The largest VmHWM of all runs."""
    out = source + ".out"
    to = [out] if options.disk else ["--to", "null"]
    command = [options.hfshard, "convert", source, *to, "--mesh", "fsdp=16", "--layers", layout, "--max-memory", memory,
               "--quiet"]
    done = []
    for _ in range(options.runs):
        done.append(measure.run(command, data_limit_bytes=measure.parse_size(memory)))
        shutil.rmtree(out, ignore_errors=True)
    times[f"{'disk' if options.disk else 'null'}/{os.path.basename(source)}/{layout}/{memory}"] = [
        one.seconds for one in done]
    return max(one.peak_bytes for one in done)


def main():
    options = parse()
    failed = False
    times = {}
    rows = [["layout", "--max-memory", "small, GB", "peak, MiB", "large, GB", "peak, MiB", "difference, MiB",
             "MiB per GB"]]
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        sources, sizes = [], []
        for layers in options.layers:
            sources.append(os.path.join(folder, f"layers{layers}"))
            config = measure.QWEN3_06B | {"num_hidden_layers": layers, "vocab_size": options.vocab}
            sizes.append(measure.make_example(options.hfshard, sources[-1], config, "--sparse") / 1e9)
        for layout in options.layouts:
            for memory in options.max_memory:
                peaks = [peak_of(options, source, layout, memory, times) / measure.MIB for source in sources]
                slope = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
                failed |= max(peaks) > measure.parse_size(memory) / measure.MIB or slope > options.most_slope
                rows.append([layout, memory, f"{sizes[0]:.2f}", f"{peaks[0]:.1f}", f"{sizes[1]:.2f}", f"{peaks[1]:.1f}",
                             f"{peaks[1] - peaks[0]:+.1f}", f"{slope:+.2f}"])
    measure.print_table(rows)
    measure.write_json(options.json, times)
    if failed:
        print("FAILED: memory grows with the model, or exceeds --max-memory")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
