#!/usr/bin/env python3
"""Checkpoints of Orbax as sources: to Hugging Face files, to another mesh, and compared, beside their ceilings.

Makes a model of Qwen3-0.6B's shape (1.19 GB), stacked trees of it by hfshard (raw chunks of one device) and by real Orbax
(zarr2, one zstd chunk a leaf, in an OCDBT database, as MaxText's converter leaves it), then runs rounds, warm, of

    cp --reflink=never BYTES COPY && sync -d COPY;  dd iflag=direct oflag=direct of the same;  zstd -d of the same, discarded
    hfshard convert TREE OUT --to safetensors       of both trees
    hfshard reshard TREE OUT --mesh fsdp=16         of both trees
    hfshard diff TREE TREE2;  cat TREE TREE2 > /dev/null

Where HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name MaxText (scripts/test --with-maxtext) and the model has its own size, there is
a third tree, as its to_maxtext leaves it, and beside hfshard's two commands on it, in the first --maxtext-runs rounds,

    python -m maxtext.checkpoint_conversion.to_huggingface ...        to_huggingface
    python -m maxtext.checkpoint_conversion.reshard_checkpoint ...    ici_fsdp_parallelism=16

each as a whole process, imports included, its outputs compared with the model and with the tree. reshard_checkpoint may need more than
20 GB; that it was killed is printed.

Every run of hfshard is under `ulimit -d` of --max-memory. Before anything is timed, each output is compared with the model, and
then with its digest. A ceiling is the faster copy, and for trees of zstd frames the decompression with it. Exit status 1 when a result
is wrong, a peak exceeds --max-memory, or the raw tree's bytes are read or written more than 1.02 and 1.01 times.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys

import maxtext
import measure

MOST_READ, MOST_WRITTEN = 1.02, 1.01
FIXED_BYTES = 4 * measure.MIB
# The smallest tokenizer that transformers loads. to_huggingface needs one, and writes it next to the tensors.
TOKENIZER = {
    "tokenizer.json": {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                       "pre_tokenizer": None, "post_processor": None, "decoder": None,
                       "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}},
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
}
MAXTEXT_WAYS = {"export": "to_huggingface", "reshard": "reshard_checkpoint"}
# Restores a tree with real Orbax and saves it anew, its leaves in one piece each.
SAVE_ANEW = """
import os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
import orbax.checkpoint as ocp
with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
    tree = checkpointer.restore(sys.argv[1])
    checkpointer.save(sys.argv[2], args=ocp.args.PyTreeSave(tree))
"""


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--layers", type=int, help="layers of the model (default its own)")
    parser.add_argument("--vocab", type=int, help="rows of the embedding (default its own)")
    parser.add_argument("--max-memory", default="512MiB", metavar="SIZE")
    parser.add_argument("--maxtext-runs", type=int, default=2, metavar="N", help="timed runs of MaxText's programs (default 2)")
    return parser.parse_args()


def data_files(path):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


class MaxText:
    """MaxText's own way back: its tree of a model of Qwen3-0.6B's size, and the programs that read it."""

    def __init__(self, source, folder):
        self.python, self.sources = os.environ["HFSHARD_MAXTEXT_PYTHON"], os.environ["HFSHARD_MAXTEXT_SRC"]
        self.folder = folder
        self.tree = os.path.join(folder, "maxtext", "0", "items")
        self.tokenizer = os.path.join(folder, "tokenizer")
        os.mkdir(self.tokenizer)
        for name, content in TOKENIZER.items():
            with open(os.path.join(self.tokenizer, name), "w", encoding="ascii") as file:
                json.dump(content, file)
        self.run("to_maxtext", *maxtext.to_maxtext_words(source, os.path.join(folder, "maxtext"), "stacked", 1))

    def run(self, module, *words):
        return measure.run(maxtext.program(self.python, self.sources, module, *words))

    def words(self, out):
        return ["model_name=qwen3-0.6b", f"load_parameters_path={self.tree}", f"base_output_directory={out}", "scan_layers=true",
                "weight_dtype=bfloat16", "hardware=cpu", "skip_jax_distributed_system=true"]

    def export(self, out):
        return self.run("to_huggingface", f"--hf_model_path={self.tokenizer}", *self.words(out))

    def reshard(self, out):
        return self.run("reshard_checkpoint", "--simulated_cpu_devices_count=16", *self.words(out), "ici_fsdp_parallelism=16",
                        "attention=dot_product")


def find_maxtext(options, source, folder):
    """MaxText with its tree, or None and a line that says why."""
    if options.layers or options.vocab:
        print("maxtext is not run: its programs know the model's own size alone")
        return None
    if not os.environ.get("HFSHARD_MAXTEXT_PYTHON") or not os.environ.get("HFSHARD_MAXTEXT_SRC"):
        print("PEER MISSING maxtext: HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC (scripts/test --with-maxtext)")
        return None
    return MaxText(source, folder)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        config = dict(measure.QWEN3_06B)
        config["num_hidden_layers"] = options.layers or config["num_hidden_layers"]
        config["vocab_size"] = options.vocab or config["vocab_size"]
        self.source = self.path("source")
        self.bytes = measure.make_example(options.hfshard, self.source, config)
        self.trees = {"raw": self.path("raw", "0", "items")}
        self.hfshard("convert", self.source, self.path("raw"), "--checksum", "none")
        python = os.environ.get("HFSHARD_PEER_PYTHON", sys.executable)
        done = subprocess.run([python, "-c", SAVE_ANEW, self.trees["raw"], self.path("zstd")], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            self.trees["zstd"] = self.path("zstd")
        else:
            print(f"PEER MISSING orbax.checkpoint: {done.stderr.splitlines()[-1:]}")
        self.maxtext = find_maxtext(options, self.source, folder)
        if self.maxtext:
            self.trees["maxtext"] = self.maxtext.tree
        self.blob = next(name for name in measure.files_of(self.source) if name.endswith(".safetensors"))
        self.packed = self.path("packed.zst")
        if shutil.which("zstd"):
            measure.run(["zstd", "-q", "-1", self.blob, "-o", self.packed])
        else:
            print("PEER MISSING zstd: the ceiling of trees of zstd frames is a copy alone")
        self.digests = {}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def hfshard(self, *words, limited=False):
        limit = measure.parse_size(self.options.max_memory) if limited else None
        return measure.run([self.options.hfshard, *words, "--max-memory", self.options.max_memory, "--json", "--quiet"], limit)

    def words(self, tree, way):
        source = ["--config", self.source] if tree != "raw" else []
        if way == "export":
            return ["convert", self.trees[tree], self.path("out"), "--to", "safetensors", *source]
        return ["reshard", self.trees[tree], self.path("out"), "--mesh", "fsdp=16", *source]

    def clear(self):
        for name in ("out", "copy"):
            shutil.rmtree(self.path(name), ignore_errors=True)

    def check(self, tree, way):
        """One run that is not timed; the model is what comes out of it."""
        self.clear()
        done = self.hfshard(*self.words(tree, way), limited=True)
        self.digests[tree, way] = json.loads(done.output)["root_digest"]
        with_what = self.source if way == "export" else self.trees[tree]
        measure.run([self.options.hfshard, "diff", self.path("out"), with_what, "--quiet"])

    def time_maxtext(self, way):
        """Then what came out is compared with what hfshard's must be: the model, or the tree."""
        self.prepare(data_files(self.maxtext.tree))
        try:
            done = getattr(self.maxtext, way)(self.path("out"))
        except SystemExit as error:  # it needs much memory
            print(f"{MAXTEXT_WAYS[way]} " + str(error).splitlines()[1], flush=True)
            return None
        with_what = self.source if way == "export" else self.maxtext.tree
        measure.run([self.options.hfshard, "diff", self.path("out"), with_what, "--quiet"])
        return done

    def prepare(self, paths):
        self.clear()
        os.mkdir(self.path("copy"))
        os.sync()
        for path in paths:
            measure.fill_cache(path)

    def time_run(self, tree, way):
        self.prepare(data_files(self.trees[tree]))
        done = self.hfshard(*self.words(tree, way), limited=True)
        if json.loads(done.output)["root_digest"] != self.digests[tree, way]:
            sys.exit(f"{way} of the {tree} tree has another digest than the one that was compared")
        return done

    def time_copy(self, script):
        self.prepare([self.blob])
        return measure.run(["sh", "-ec", script + '; sync -d "$1"', self.blob, self.path("copy", "file")])

    def time_decoder(self):
        self.prepare([self.packed])
        return measure.run(["zstd", "-dqc", self.packed, "-o", "/dev/null", "-f"])

    def time_diff(self, first, second):
        self.prepare(data_files(first) + data_files(second))
        limit = measure.parse_size(self.options.max_memory)
        return measure.run([self.options.hfshard, "diff", first, second, "--quiet"], limit)

    def time_cat(self, first, second):
        paths = data_files(first) + data_files(second)
        self.prepare(paths)
        return measure.run(["sh", "-c", 'cat "$@" >/dev/null', "cat", *paths])

    def ways(self):
        out = {"cp": lambda: self.time_copy('cp --reflink=never "$0" "$1"'),
               "dd": lambda: self.time_copy('dd if="$0" of="$1" bs=16M iflag=direct oflag=direct status=none')}
        if os.path.exists(self.packed):
            out["zstd -d"] = self.time_decoder
        for tree in self.trees:
            for way in ("export", "reshard"):
                out[f"{way} {tree}"] = lambda tree=tree, way=way: self.time_run(tree, way)
        for way, name in MAXTEXT_WAYS.items() if self.maxtext else ():
            out[name] = lambda way=way: self.time_maxtext(way)
        again = self.path("again")
        self.hfshard("reshard", self.trees["raw"], again, "--mesh", "fsdp=16")
        out["cat of two"] = lambda: self.time_cat(self.path("raw"), again)
        out["diff of two"] = lambda: self.time_diff(self.path("raw"), again)
        return out


def measure_rounds(options, bench):
    """Name of what is run -> its outcomes."""
    ways = bench.ways()
    found = {name: [] for name in ways}
    for number in range(options.runs):
        names = list(ways)
        for name in names[number % len(names):] + names[:number % len(names)]:
            if name not in MAXTEXT_WAYS.values() or number < options.maxtext_runs:
                found[name].append(ways[name]())
    bench.clear()
    for name, outcomes in found.items():
        found[name] = [done for done in outcomes if done]
    return {name: outcomes for name, outcomes in found.items() if outcomes}


def report(options, bench, found):
    """Prints the table; whether hfshard kept its bounds."""
    median = {name: statistics.median(done.seconds for done in outcomes) for name, outcomes in found.items()}
    copy = min(median["cp"], median["dd"])
    unpacked = copy + median.get("zstd -d", 0)
    ceilings = {"zstd": unpacked, "maxtext": unpacked, "raw": copy, "two": median["cat of two"]}
    rows = [["what", "s: min", "median", "max", "of its ceiling", "read", "written", "peak, MiB"]]
    failed = False
    for name, outcomes in found.items():
        peak = max(done.peak_bytes for done in outcomes)
        row = [name, *measure.spread([done.seconds for done in outcomes])]
        if name.startswith(("export ", "reshard ", "diff ")):
            parts = 2 if name.startswith("diff") else 1
            read = max(done.read_bytes - FIXED_BYTES for done in outcomes) / (parts * bench.bytes)
            written = max(done.written_bytes - FIXED_BYTES for done in outcomes) / bench.bytes
            failed |= peak > measure.parse_size(options.max_memory)
            if name.endswith("raw"):
                failed |= read > MOST_READ or written > MOST_WRITTEN
            row += [f"{median[name] / ceilings[name.split()[-1]]:.2f}", f"{read:.3f}", f"{written:.3f}"]
        else:
            row += ["", "", ""]
        rows.append([*row, f"{peak / measure.MIB:.0f}"])
    measure.print_table(rows)
    for way, name in MAXTEXT_WAYS.items():
        if name in median:
            print(f"{name}: {median[name] / median[f'{way} maxtext']:.0f} times hfshard's time")
    return not failed


def main():
    options = parse()
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, os.path.abspath(folder))
        print(f"source: {bench.bytes} bytes of tensors; {options.runs} rounds, warm, {options.max_memory}", flush=True)
        for tree in bench.trees:
            for way in ("export", "reshard"):
                bench.check(tree, way)
        found = measure_rounds(options, bench)
    kept = report(options, bench, found)
    measure.write_json(options.json, {f"way_back/{name}": [done.seconds for done in outcomes] for name, outcomes in found.items()})
    if not kept:
        print("FAILED: more memory than --max-memory, or more bytes read or written than needed")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
