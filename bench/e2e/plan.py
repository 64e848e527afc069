#!/usr/bin/env python3
"""How long `hfshard plan` takes for a very large model, and what it needs.

Plans a tree of DeepSeek-V3's size and names (sparse_deepseek_v3.py: 92 thousand tensors in 163 files, no disk) with
`--scheme hf`. Exit status 1 when the median time exceeds its bound, or the largest VmHWM that of `hfshard --version` by
more than its bound.
"""

import json
import os
import statistics
import sys

import measure


def main():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--most-seconds", type=float, default=2, help="bound on the median (default 2)")
    parser.add_argument("--most-megabytes", type=float, default=105,
                        help="bound on VmHWM above that of --version, which has the libraries (default 105)")
    options = parser.parse_args()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        source = os.path.join(folder, "deepseek-v3")
        generator = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sparse_deepseek_v3.py")
        print(measure.run([sys.executable, generator, source]).output, end="")
        command = [options.hfshard, "plan", source, "--scheme", "hf", "--quiet"]
        measure.run(command)  # Not timed: it finds the headers on the disk.
        done = [measure.run(command) for _ in range(options.runs)]
        base = max(measure.run([options.hfshard, "--version"]).peak_bytes for _ in range(5)) / 1e6
        facts = json.loads(measure.run([*command, "--json"]).output)
    seconds = [one.seconds for one in done]
    megabytes = max(one.peak_bytes for one in done) / 1e6
    rows = [["tensors", "chunks", "plan, s: min", "median", "max", "VmHWM, MB", "of --version", "for the plan itself, MB"],
            [facts["tensors"], facts["chunks"], *measure.spread(seconds), f"{megabytes:.0f}", f"{base:.0f}",
             f"{facts['control_memory_bytes'] / 1e6:.0f}"]]
    measure.print_table(rows)
    measure.write_json(options.json, {"plan/deepseek-v3": seconds})
    if statistics.median(seconds) > options.most_seconds or megabytes - base > options.most_megabytes:
        print(f"FAILED: the bounds are {options.most_seconds} s and {options.most_megabytes} MB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
