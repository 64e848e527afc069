#!/usr/bin/env python3
"""Converts one source in many ways and compares the outputs byte for byte.

The ways are one thread, two threads, four workers and finalize (one of them run twice), the smallest --max-memory that
the plan accepts, every --io, another output path, and a restarted run. All give the same tree. Two plans are equal too.
One of the forms has compressed chunks, whose places no plan knows.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile

ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "oracle")
SHRUNKEN = ["--chunk-bytes", "{chunk}", "--limits",
            "floor_bytes=64,file_min_bytes={file},file_max_bytes={file},merge_bytes=16384,segment_bytes=256,"
            "commit_bytes=8192,run_bytes=64,cached_bytes=16384"]
# Widened values and rows of zeros, so that compressed chunks have many lengths.
COMPRESSED = ["--compress", "zstd:3", "--dtype", "f32", "--vocab", "1500"]
# No dimension divides another, and none is a power of two, so that every chunk grid has edges.
UNEVEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 148,
    "intermediate_size": 212,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 26,
    "vocab_size": 1014,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def files_of(top):
    return sorted(os.path.relpath(os.path.join(folder, name), top)
                  for folder, folders, files in os.walk(top) for name in (*files, *folders))


class Conversions:
    """Converts one source with one set of plan options."""

    def __init__(self, program, folder, source, options):
        self.program, self.folder, self.source, self.options = program, folder, source, options

    def run(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"FAIL {' '.join(words)}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
            sys.exit(1)
        return done.stdout

    def convert(self, name, *words, options=True):
        out = os.path.join(self.folder, name)
        self.run("convert", self.source, out, "--quiet", *(self.options if options else []), *words)
        return out

    def plan(self):
        return self.run("plan", self.source, "--json", *self.options)

    def workers(self, name):
        """Writes shares in another order than their numbers, one of them twice. Then runs finalize."""
        for share in ("3/4", "0/4", "2/4", "2/4", "1/4"):
            out = self.convert(name, "--worker", share)
            if os.path.exists(out):
                print(f"FAIL worker {share} published {out}")
                sys.exit(1)
        limits = self.options[self.options.index("--limits"):][:2] if "--limits" in self.options else []
        self.run("finalize", out, "--quiet", *limits)
        return out

    def check_equal(self, reference, other, what):
        names = files_of(reference)
        if files_of(other) != names:
            print(f"FAIL {what}: other files: {sorted(set(names) ^ set(files_of(other)))[:5]}")
            return 1
        plain = [name for name in names if os.path.isfile(os.path.join(reference, name))]
        _, mismatch, errors = filecmp.cmpfiles(reference, other, plain, shallow=False)
        left = [name for name in os.listdir(self.folder) if name.endswith(".hfshard")]
        if mismatch or errors or left:
            print(f"FAIL {what}: {len(mismatch)} files differ, the first are {mismatch[:3]}; errors {errors[:3]}; "
                  f"staging {left}")
            return 1
        print(f"ok   {what}: {len(plain)} files equal", flush=True)
        return 0


def check(program, folder, source, options, what, shrunken):
    """Returns the number of failures for one source and one set of options."""
    os.mkdir(folder)
    runs = Conversions(program, folder, source, options)
    texts = [runs.plan() for _ in range(2)]
    plan = json.loads(texts[0])
    if texts[0] != texts[1]:
        print(f"FAIL {what}: two plans differ")
        return 1
    if shrunken and (plan["units"] <= 20 or plan["files"] < 4):
        print(f"FAIL {what}: only {plan['units']} units in {plan['files']} files")
        return 1
    reference = runs.convert("reference", "-j", "1")
    written = sum(os.path.getsize(os.path.join(reference, name)) for name in files_of(reference)
                  if os.path.basename(name).isdecimal() and os.path.isfile(os.path.join(reference, name)))
    if "--compress" in options and written > 0.75 * plan["output_bytes"]:
        print(f"FAIL {what}: {written} bytes are written, hardly less than the {plan['output_bytes']} planned")
        return 1
    need = str(json.loads(texts[0])["need_memory_bytes"])
    os.mkdir(os.path.join(folder, "elsewhere"))
    others = {
        "two threads": lambda: runs.convert("two", "-j", "2"),
        "eight threads": lambda: runs.convert("eight", "-j", "8", "--io-threads", "5"),
        "one thread in all": lambda: runs.convert("single", "-j", "1", "--io-threads", "0"),
        "the smallest memory": lambda: runs.convert("least", "--max-memory", need),
        "direct I/O": lambda: runs.convert("direct", "--io", "direct"),
        "buffered I/O": lambda: runs.convert("buffered", "--io", "buffered"),
        "mapped sources": lambda: runs.convert("mapped", "--io", "mmap"),
        "another path": lambda: runs.convert("elsewhere/with a blank"),
        "workers": lambda: runs.workers("shared"),
    }
    failures = 0
    for way, convert in others.items():
        other = convert()
        failures += runs.check_equal(reference, other, f"{what}, {way}")
        shutil.rmtree(other)
    runs.run("verify", reference, source, "--quiet", *(options[-2:] if shrunken else []))
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    program = os.path.abspath(parser.parse_args().hfshard)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="hfshard-determinism-") as folder:
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(UNEVEN, file)
        uneven = os.path.join(folder, "uneven")
        subprocess.run([program, "mappings", "example", "qwen3", uneven, "--config", config], check=True,
                       stdout=subprocess.DEVNULL)
        sources = {"uneven qwen3": (uneven, "4096", "16384", "262144"),
                   "mixtral": (os.path.join(ORACLE, "mixtral"), "64", "8192", "8192")}
        for name, (source, chunk, compressed, file_bytes) in sources.items():
            forms = [(layers, shrunken, []) for layers in ("stacked", "separate") for shrunken in (False, True)]
            for layers, shrunken, more in (*forms, ("stacked", True, COMPRESSED)):
                cut = {"chunk": compressed if more else chunk, "file": file_bytes}
                sizes = [word.format(**cut) for word in SHRUNKEN] if shrunken else []
                what = f"{name} {layers}{' shrunken' if shrunken else ''}{' compressed' if more else ''}"
                options = ["--layers", layers, "--mesh", "fsdp=2", *more, *sizes]
                failures += check(program, os.path.join(folder, what), source, options, what, shrunken)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
