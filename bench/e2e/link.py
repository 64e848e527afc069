#!/usr/bin/env python3
"""How long `hfshard link` takes, and what it writes: Qwen3-0.6B's shape, and the widths of a 405B model (both sparse).

Exit status 1 when a median exceeds its bound, or more than 100 kB are written for the small model.
"""

import json
import os
import shutil
import statistics
import sys

import measure

MOST_WRITTEN = 100_000
# Llama-3.1-405B's widths and depth, in a family of which all can be linked.
LARGE = measure.QWEN3_06B | {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128,
                             "num_key_value_heads": 8, "num_hidden_layers": 126, "vocab_size": 128256,
                             "tie_word_embeddings": False}


def written_by(output):
    """Bytes of the files that are the output's alone."""
    infos = [os.lstat(os.path.join(folder, name)) for folder, _, names in os.walk(output) for name in names]
    return sum(info.st_size for info in infos if info.st_nlink == 1)


def main():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--most-seconds", type=float, nargs=2, default=[0.2, 3], metavar=("SMALL", "LARGE"),
                        help="bounds on the medians (default 0.2 3)")
    options = parser.parse_args()
    failed = False
    times = {}
    rows = [["model", "GB", "layout", "s: min", "median", "max", "chunks", "written, bytes"]]
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        for name, config, most in zip(("0.6b", "405b"), (measure.QWEN3_06B, LARGE), options.most_seconds):
            source, output = os.path.join(folder, name), os.path.join(folder, "out")
            size = measure.make_example(options.hfshard, source, config, "--sparse")
            for layout in ("stacked", "separate"):
                runs = []
                for _ in range(options.runs):
                    shutil.rmtree(output, ignore_errors=True)
                    runs.append(measure.run([options.hfshard, "link", source, output, "--mesh", "fsdp=16", "--layers",
                                             layout, "--json", "--quiet"]))
                report = json.loads(runs[-1].output)
                times[f"link/{name}/{layout}"] = [run.seconds for run in runs]
                written = written_by(output)
                failed |= statistics.median(run.seconds for run in runs) > most or report["not_linked"] != []
                failed |= name == "0.6b" and layout == "stacked" and written > MOST_WRITTEN
                rows.append([name, f"{size / 1e9:.1f}", layout, *measure.spread(times[f"link/{name}/{layout}"]),
                             report["linked_chunks"], written])
    measure.print_table(rows)
    measure.write_json(options.json, times)
    if failed:
        print("FAILED: too slow, too large, or not all of it is linked")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
