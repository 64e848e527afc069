#!/usr/bin/env python3
"""How long `hfshard link` takes, and what it writes: Qwen3-0.6B's shape and two models of 405B, all sparse.

MaxText wants the queries of Llama scaled, so of Llama-3.1-405B itself all can be linked only with `--scheme hf`; for
MaxText's tree stands a model of its widths and depth, in the family of Qwen3.

Exit status 1 when a median exceeds its bound, or more than 100 kB are written for the small model.
"""

import json
import os
import shutil
import statistics
import sys

import measure

MOST_WRITTEN = 100_000
# https://huggingface.co/meta-llama/Llama-3.1-405B, config.json
WIDTHS = {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128, "num_key_value_heads": 8,
          "num_hidden_layers": 126, "vocab_size": 128256, "tie_word_embeddings": False}
LLAMA_405B = WIDTHS | {"model_type": "llama", "attention_bias": False, "mlp_bias": False,
                       "rope_scaling": {"rope_type": "llama3"}}
FOR_MAXTEXT = {layers: ("--mesh", "fsdp=16", "--layers", layers) for layers in ("stacked", "separate")}
# name, family, config.json, trees -> options, which of --most-seconds
MODELS = (("0.6b", "qwen3", measure.QWEN3_06B, FOR_MAXTEXT, 0),
          ("405b", "qwen3", measure.QWEN3_06B | WIDTHS, FOR_MAXTEXT, 1),
          ("llama3.1-405b", "llama", LLAMA_405B, {"hf": ("--scheme", "hf")}, 1))


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
    rows = [["model", "GB", "tree", "s: min", "median", "max", "chunks", "written, bytes"]]
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        for name, family, config, trees, bound in MODELS:
            source, output = os.path.join(folder, name), os.path.join(folder, "out")
            size = measure.make_example(options.hfshard, source, config, "--sparse", family=family)
            for tree, words in trees.items():
                runs = []
                for _ in range(options.runs):
                    shutil.rmtree(output, ignore_errors=True)
                    runs.append(measure.run([options.hfshard, "link", source, output, *words, "--json", "--quiet"]))
                report = json.loads(runs[-1].output)
                seconds = times[f"link/{name}/{tree}"] = [run.seconds for run in runs]
                written = written_by(output)
                failed |= statistics.median(seconds) > options.most_seconds[bound] or report["not_linked"] != []
                failed |= (name, tree) == ("0.6b", "stacked") and written > MOST_WRITTEN
                rows.append([name, f"{size / 1e9:.1f}", tree, *measure.spread(seconds), report["linked_chunks"], written])
    measure.print_table(rows)
    measure.write_json(options.json, times)
    if failed:
        print("FAILED: too slow, too large, or not all of it is linked")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
