#!/usr/bin/env python3
"""Compares two runs of Google Benchmark: bench_compare.py OLD.json NEW.json [--threshold 0.03]

Make both with `--benchmark_repetitions=5 --benchmark_out=FILE --benchmark_out_format=json`, on one machine. For each
bench, this compares the medians of the real times. A change counts if it is larger than the threshold *and* the two
ranges of times don't touch. With five or more times, a range leaves out its extremes. The exit status is 1 if a bench
became slower or is missing.
"""

import argparse
import json
import statistics
import sys

TO_NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def times(path):
    """Returns bench name -> sorted real times in nanoseconds, one for each repetition."""
    with open(path, encoding="utf-8") as file:
        runs = json.load(file)["benchmarks"]
    found = {}
    for run in runs:
        if run.get("run_type", "iteration") != "iteration" or run.get("error_occurred"):
            continue
        name = run.get("run_name", run["name"])
        found.setdefault(name, []).append(run["real_time"] * TO_NANOSECONDS[run.get("time_unit", "ns")])
    return {name: sorted(values) for name, values in found.items()}


def spread(values):
    """Returns the range that counts as noise. With enough values, it leaves out the extremes."""
    inner = values[1:-1] if len(values) >= 5 else values
    return inner[0], inner[-1]


def compare(old, new, threshold):
    """Returns the verdict for one bench, and the change of its median."""
    change = statistics.median(new) / statistics.median(old) - 1
    old_low, old_high = spread(old)
    new_low, new_high = spread(new)
    if change > threshold and new_low > old_high:
        return "SLOWER", change
    if change < -threshold and new_high < old_low:
        return "faster", change
    return "same", change


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--threshold", type=float, default=0.03, help="smallest change that counts (default 0.03)")
    options = parser.parse_args(arguments)
    old, new = times(options.old), times(options.new)
    failed = False
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            failed = True
            print(f"GONE    {'':9} {name}")
        elif name not in old:
            print(f"new     {'':9} {name}")
        else:
            verdict, change = compare(old[name], new[name], options.threshold)
            failed |= verdict == "SLOWER"
            few = "" if min(len(old[name]), len(new[name])) >= 5 else "   (fewer than 5 repetitions)"
            print(f"{verdict:7} {change:+9.1%} {name}{few}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
