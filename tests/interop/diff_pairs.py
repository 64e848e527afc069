#!/usr/bin/env python3
"""Compares a model in every form with each of its other forms.

A directory of tests/oracle becomes files, DCPs and Orbax trees with each scheme's names, in both layouts. `diff` calls
each pair equal, in both orders, with records and without. Arrays without a place in one of the forms (a vision tower,
layers for multi-token prediction) are the only differences. One changed element of the embedding is a difference in
every pair.
"""

import argparse
import glob
import itertools
import json
import os
import shutil
import sys
import tempfile

import interop
import oracle_dirs

FORMS = {
    "files": ["--to", "safetensors", "--scheme", "hf"],
    "modules": ["--to", "safetensors", "--dialect", "modules"],
    "titan": ["--to", "safetensors", "--scheme", "torchtitan"],
    "maxtext": ["--to", "safetensors", "--scheme", "maxtext"],
    "separate": ["--to", "safetensors", "--scheme", "maxtext", "--layers", "separate"],
    "dcp": ["--to", "dcp"],
    "dcp-modules": ["--to", "dcp", "--dialect", "modules"],
    "dcp-titan": ["--to", "dcp", "--scheme", "torchtitan"],
    "dcp-maxtext": ["--to", "dcp", "--scheme", "maxtext"],
    "orbax": [],
    "orbax-separate": ["--layers", "separate"],
    "orbax-files": ["--scheme", "hf"],
}
# MaxText keeps routing tables as floating-point numbers.
OTHER_DTYPE = "tid2eid"


def is_allowed(item):
    """Returns whether only one side can have an array."""
    return item["kind"] in ("only_a", "only_b") or (item["kind"] == "dtype" and item["name"].endswith(OTHER_DTYPE))


def compare(tool, what, a, b, words):
    done = tool.run_any("diff", a, b, "--json", *words)
    if done.returncode not in (0, 5):
        tool.expect(False, f"{what}: {done.stderr}")
        return
    found = json.loads(done.stdout)
    other = [item for item in found["tensors"] if not is_allowed(item)]
    sides = {item["kind"] for item in found["tensors"]} & {"only_a", "only_b"}
    tool.expect(not other and len(sides) < 2 and not found["structure"] and found["compared_tensors"] > 0,
                f"{what}: {other[:2]} {sorted(sides)} {found['structure'][:2]} of {found['compared_tensors']}")


def change_embedding(path):
    """Flips a bit of one element of the embedding in a safetensors file."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        name = min(name for name in header if "embed" in name and "vision" not in name and "audio" not in name and "per_layer" not in name)
        begin, end = header[name]["data_offsets"]
        at = 8 + size + begin + (end - begin) // 4 * 2 + 1
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


def check_model(tool, name):
    oracle = oracle_dirs.OracleDir(name)
    forms = {"model": oracle.path}
    for form, words in FORMS.items():
        out = tool.path(f"{name}-{form}")
        if tool.run_any("convert", oracle.path, out, *words, *oracle.words()).returncode == 0:
            forms[form] = out
    for a, b in itertools.permutations(forms, 2):
        compare(tool, f"{name}: {a} and {b}", forms[a], forms[b], [])
    changed = [form for form in ("titan", "maxtext", "modules") if form in forms]
    for form in changed:
        other = tool.path("changed")
        shutil.copytree(forms[form], other)
        for path in glob.glob(os.path.join(other, "*.safetensors"))[:1]:
            change_embedding(path)
        for b in forms:
            done = tool.run_any("diff", other, forms[b], "--quiet")
            tool.expect(done.returncode == 5, f"{name}: {form} with another element and {b}: {done.returncode} {done.stderr}")
        shutil.rmtree(other)
    for form in [form for form in forms if form != "model"]:
        for folder, _, files in os.walk(forms[form]):
            if "hfshard.json" in files:
                os.remove(os.path.join(folder, "hfshard.json"))
    for a, b in itertools.combinations(forms, 2):
        compare(tool, f"{name}: {a} and {b} without records", forms[a], forms[b], ["--config", oracle.path])
    for form in forms:
        if form != "model":
            shutil.rmtree(forms[form])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("names", nargs="*", help="directories of tests/oracle (all if you name none)")
    options = parser.parse_args()
    names = options.names or oracle_dirs.oracle_names()
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(options.hfshard, folder)
        for name in names:
            check_model(tool, name)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
