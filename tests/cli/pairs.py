"""Checks that hfshard refuses two options if one has no effect with the other, and that each works without the other.

    pairs.py PROGRAM TESTS

It runs in an empty directory.
"""

import json
import os
import subprocess
import sys

MESH = ["--load-mesh", "fsdp=2"]
SAFETENSORS = ["--to", "safetensors"]
DCP = ["--to", "dcp"]
# The command's usual arguments, the given option, the option that it leaves without effect, and their names.
PAIRS = [
    (["convert", "in"], ["--to", "null"], ["OUT"], "--to null", "OUT"),
    (["convert", "in"], ["--to", "null"], ["--compress", "zstd"], "--to null", "--compress"),
    (["convert", "in"], ["--to", "null"], ["--checksum", "none"], "--to null", "--checksum"),
    (["convert", "in"], ["--to", "null"], ["--output-step", "3"], "--to null", "--output-step"),
    (["convert", "in"], ["--to", "null"], ["--resume"], "--to null", "--resume"),
    (["convert", "in"], ["--to", "null"], ["--overwrite"], "--to null", "--overwrite"),
    (["plan", "in"], ["--to", "null"], ["OUT"], "--to null", "OUT"),
    (["plan", "in"], ["--to", "null"], ["--output-step", "3"], "--to null", "--output-step"),
    (["plan", "in"], ["--to", "null"], ["--link"], "--to null", "--link"),
    (["plan", "in"], ["--to", "null"], MESH, "--to null", "--load-mesh"),
    (["convert", "in", "OUT"], SAFETENSORS, ["--mesh", "fsdp=2"], "--to safetensors", "--mesh"),
    (["convert", "in", "OUT"], SAFETENSORS, ["--chunk-bytes", "1MiB"], "--to safetensors", "--chunk-bytes"),
    (["convert", "in", "OUT"], SAFETENSORS, ["--compress", "zstd"], "--to safetensors", "--compress"),
    (["convert", "in", "OUT"], SAFETENSORS, ["--checksum", "none"], "--to safetensors", "--checksum"),
    (["convert", "in", "OUT"], SAFETENSORS, ["--output-step", "3"], "--to safetensors", "--output-step"),
    (["plan", "in"], SAFETENSORS, ["--link"], "--to safetensors", "--link"),
    (["plan", "in"], SAFETENSORS, MESH, "--to safetensors", "--load-mesh"),
    (["plan", "in"], SAFETENSORS, ["--layers", "separate"], "--to safetensors", "--layers"),
    (["convert", "in", "OUT"], DCP, ["--compress", "zstd"], "--to dcp", "--compress"),
    (["convert", "in", "OUT"], DCP, ["--checksum", "none"], "--to dcp", "--checksum"),
    (["convert", "in", "OUT"], DCP, ["--output-step", "3"], "--to dcp", "--output-step"),
    (["plan", "in"], DCP, ["--link"], "--to dcp", "--link"),
    (["plan", "in"], DCP, ["--layers", "separate"], "--to dcp", "--layers"),
    (["plan", "in"], ["--scheme", "hf"], ["--layers", "separate"], "--scheme hf", "--layers"),
    (["plan", "in"], ["--scheme", "hf"], ["--num-layers", "2"], "--scheme hf", "--num-layers"),
    (["plan", "in"], ["--scheme", "hf"], ["--vocab", "40"], "--scheme hf", "vocab"),
    (["plan", "in"], ["--scheme", "hf"], ["--option", "vocab=40"], "--scheme hf", "vocab"),
    (["plan", "in"], ["--scheme", "hf"], ["--mapping", "FAMILY"], "--scheme hf", "--mapping"),
    (["plan", "in"], ["--scheme", "hf"], ["--mesh", "fsdp=2"], "--scheme hf", "--mesh"),
    (["plan", "in"], ["--link"], ["--compress", "zstd"], "--link", "--compress"),
    (["plan", "in", "OUT"], ["--link"], ["--worker", "0/2"], "--link", "--worker"),
    (["plan", "in", "OUT"], ["--resume"], ["--overwrite"], "--resume", "--overwrite"),
    (["link", "SOURCE"], ["--in-place"], ["OUT"], "--in-place", "OUT"),
    (["link", "SOURCE"], ["--in-place"], ["OUT", "--shards", "hard"], "--in-place", "--shards"),
    (["link", "SOURCE"], ["--in-place"], ["OUT", "--output-step", "3"], "--in-place", "--output-step"),
    (["link", "SOURCE"], ["--in-place", "--side-file"], ["OUT", "--num-layers", "2"], "--in-place", "--num-layers"),
    (["mappings", "check"], ["--all"], ["in", "--scheme", "hf"], "--all", "--scheme"),
    (["mappings", "check"], ["--all"], ["in", "--layers", "separate"], "--all", "--layers"),
    (["mappings", "check"], ["--all"], ["in", "--num-layers", "2"], "--all", "--num-layers"),
    (["mappings", "check"], ["--all"], ["in", "--option", "vocab=40"], "--all", "--option"),
    (["mappings", "check"], ["--all"], ["in", "--vocab", "40"], "--all", "--vocab"),
    (["mappings", "check"], ["--all"], ["in", "--dtype", "f32"], "--all", "--dtype"),
    (["mappings", "check"], ["--all"], ["in", "--cast", "*norm*=f32"], "--all", "--cast"),
    (["mappings", "check"], ["--all"], ["in", "--include", "*"], "--all", "--include"),
    (["mappings", "check"], ["--all"], ["in", "--config=in"], "--all", "--config"),
    (["mappings", "check"], ["--all"], ["in", "--exclude", "lm_head*"], "--all", "--exclude"),
    (["mappings", "example", "qwen3", "OUT"], ["--sparse"], ["--seed", "3"], "--sparse", "--seed"),
    (["mappings", "show"], ["--mapping", "FAMILY"], ["llama"], "--mapping", "FAMILY"),
]
# The command's arguments, the option that has no effect alone, its name, the option that it needs, and what gives it an
# effect.
NEEDS = [
    (["plan", "in"], ["--resume"], "--resume", "OUT", ["OUT"]),
    (["plan", "in"], ["--overwrite"], "--overwrite", "OUT", ["OUT"]),
    (["plan", "in"], ["--worker", "0/2"], "--worker", "OUT", ["OUT"]),
    (["convert", "in", "OUT"], ["--shard-bytes", "2GB"], "--shard-bytes", "--to safetensors", SAFETENSORS),
    (["plan", "in"], ["--devices-per-host", "2"], "--devices-per-host", "--load-mesh", MESH),
    (["plan", "in"], ["--devices-per-host", "2"], "--devices-per-host", "--link", ["--link"]),
    (["mappings", "check", "--mapping", "FAMILY"], ["--dtype", "f32"], "--dtype", "SOURCE", ["in"]),
]


class Runs:
    """Runs commands whose OUT and SOURCE are new each time."""

    def __init__(self, program, tests):
        self.program = program
        self.family = os.path.join(tests, "..", "mappings", "qwen3.json")
        self.count = 0
        self.problems = 0

    def run(self, words):
        """Returns the status and the output of --json."""
        self.count += 1
        names = {"OUT": f"out{self.count}", "SOURCE": f"source{self.count}", "FAMILY": self.family}
        if "SOURCE" in words:
            self.call(["mappings", "example", "qwen3", names["SOURCE"], "--quiet"])
        return self.call([names.get(word, word) for word in words] + ["--quiet", "--json"])

    def call(self, words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def works(self, words):
        if words == ["mappings", "check", "--all"] and os.environ.get("SANITIZED"):
            return  # it takes a minute there, and unit_plan compiles every table under the same sanitizer
        status, out = self.run(words)
        if status != 0:
            self.problems += 1
            print(f"{' '.join(words)}: status {status}: {out[:300]}")

    def refused(self, words, names):
        status, out = self.run(words)
        error = json.loads(out).get("error", {}) if out else {}
        text = f"{error.get('message')} {error.get('hint')}"
        if status != 2 or error.get("code") != "usage" or not all(name in text for name in names):
            self.problems += 1
            print(f"{' '.join(words)}: status {status}, wanted 2 and a word of {names}: {text}")


def in_order(base, words):
    """Puts positional arguments before the options."""
    named = [word for word in words if word in ("in", "OUT")]
    return [*base, *named, *(word for word in words if word not in named)]


def main():
    program, tests = sys.argv[1:]
    runs = Runs(program, tests)
    runs.call(["mappings", "example", "qwen3", "in", "--quiet"])
    alone = set()
    for base, given, idle, one, other in PAIRS:
        # A source or output that only the second one needs. OUT next to --in-place is a separate pair.
        own = [word for word in idle if word in ("in", "OUT") and idle != [word]]
        idle = [word for word in idle if word not in own]
        runs.refused(in_order(base, [*given, *idle]), (one, other))
        if (*base, *given) not in alone:
            runs.works(in_order(base, given))
            alone.add((*base, *given))
        needs_out = base[0] == "convert" and "OUT" not in [*base, *idle]
        runs.works(in_order([*base, *(["OUT"] if needs_out else [])], [*own, *idle]))
    for base, idle, one, other, wanted in NEEDS:
        runs.refused(in_order(base, idle), (one, other))
        runs.works(in_order(base, [*wanted, *idle]))
    print(f"{len(PAIRS)} pairs, {len(NEEDS)} needs, {runs.problems} wrong")
    return 1 if runs.problems else 0


if __name__ == "__main__":
    sys.exit(main())
