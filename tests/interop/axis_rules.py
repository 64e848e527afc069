#!/usr/bin/env python3
"""Compares the shard of every leaf in `plan` with flax's result for the same logical axis rules.

It first uses the fixtures with MaxText's rules on several meshes. Then it uses `--scheme hf` with random rules:
lists that overlap, duplicate rules, empty lists.
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile

import interop

MESHES = ("fsdp=4", "fsdp=2,tensor=2", "fsdp=4,tensor=2", "fsdp_transpose=2,fsdp=2", "tensor=2,expert=1", "context=2")
MESH_AXES = ("data", "fsdp", "tensor", "expert")
# Every extent is a multiple of 16, so that two mesh axes of 4 divide it.
SHAPES = {"one": [16], "two": [48, 32], "three": [16, 80, 32], "four": [32, 16, 48, 16]}


def flax_shard(shape, axes, rules, mesh):
    """Returns the extents of one shard by flax's own reading of the rules."""
    from flax import linen

    spec = linen.logical_to_mesh_axes([name or None for name in axes], rules) or ()
    shard = []
    for extent, names in zip(shape, [*spec, *[None] * len(shape)]):
        names = () if names is None else (names,) if isinstance(names, str) else names
        shard.append(extent // math.prod(mesh.get(name, 1) for name in names))
    return shard


def compare(tool, plan, rules, mesh_text, what):
    mesh = {name: int(size) for name, size in (part.split("=") for part in mesh_text.split(","))}
    rules = [(name, tuple(axes)) for name, axes in rules]
    for leaf in plan["leaves"]:
        wanted = flax_shard(leaf["shape"], leaf["axes"], rules, mesh)
        tool.expect(leaf["shard"] == wanted,
                    f"{what}: {leaf['path']} {leaf['axes']} {leaf['shape']}: shard {leaf['shard']}, flax says {wanted}")


def write_safetensors(path):
    """Writes one file without real data: a hole after the header."""
    header, at = {}, 0
    for name, shape in SHAPES.items():
        header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + math.prod(shape)]}
        at += math.prod(shape)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def random_rules(chosen):
    names = [f"dim_{d}" for d in range(4)]
    return [[chosen.choice(names), chosen.sample(MESH_AXES, chosen.randrange(3))] for _ in range(chosen.randrange(1, 9))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("flax")
    chosen = random.Random(arguments.seed)
    with open(os.path.join(interop.HERE, "..", "..", "mappings", "common.json"), encoding="utf-8") as file:
        maxtext = json.load(file)["schemes"]["maxtext"]["axis_rules"]
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for fixture in ("qwen3", "llama3.1", "mixtral"):
            for mesh in MESHES:
                plan = tool.json("plan", os.path.join(interop.ORACLE, fixture), "--mesh", mesh)
                compare(tool, plan, maxtext, mesh, f"{fixture} {mesh}")
        source, rules_file = tool.path("model.safetensors"), tool.path("rules.json")
        write_safetensors(source)
        for number in range(arguments.rounds):
            rules = random_rules(chosen)
            with open(rules_file, "w", encoding="utf-8") as file:
                json.dump(rules, file)
            named = sorted({axis for _, axes in rules for axis in axes})
            if not named:
                continue
            mesh = ",".join(f"{axis}={chosen.choice((1, 2, 4))}" for axis in named)
            plan = tool.json("plan", source, "--scheme", "hf", "--mesh", mesh, "--rules", rules_file)
            compare(tool, plan, rules, mesh, f"seed {arguments.seed} round {number}: {rules} on {mesh}")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
