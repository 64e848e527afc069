#!/usr/bin/env python3
"""Compares `plan` with MaxText's own parameter trees at real model sizes (tests/oracle/trees), on every mesh.

For each model, the test makes a checkpoint without data from its config (`mappings example --sparse`), and runs
`plan` for each layout and mesh. Names, shapes and shards must be MaxText's. So must logical axes, except for known
oddities of MaxText's. hfshard must refuse a mesh that MaxText refuses.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile

import folded_names
import interop
import oracle_dirs

TREES = os.path.join(interop.ORACLE, "trees")
DIGITS = re.compile(r"\d+")


def fold_leaves(leaves):
    """Returns leaf -> facts. Folds the numbers in the names of leaves with the same facts."""
    groups = {}
    for name, facts in leaves.items():
        key = (DIGITS.sub("{}", name), json.dumps(facts))
        groups.setdefault(key, set()).add(tuple(int(number) for number in DIGITS.findall(name)))
    out = {}
    for (template, facts), numbers in groups.items():
        for sets in folded_names.products(numbers):
            ranges = [folded_names.ranges_of(one) for one in sets]
            texts = [text if text.isdecimal() else "{" + text + "}" for text in ranges]
            out[template.format(*texts)] = json.loads(facts)
    return dict(sorted(out.items()))


def unfold_leaves(folded):
    return {name: facts for pattern, facts in folded.items() for name in folded_names.unfold([pattern])}


def tree_text(facts):
    """Returns one line for each folded leaf."""
    def leaves(tree):
        rows = [f"  {json.dumps(leaf)}: {json.dumps(facts, separators=(',', ':'))}" for leaf, facts in tree.items()]
        return "{\n" + ",\n".join(rows) + "}"

    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in facts.items() if k not in ("trees", "more")]
    trees = [f'{{"layers": {json.dumps(tree["layers"])}, "with": {json.dumps(tree["with"])}, "leaves": '
             + leaves(tree["leaves"]) + "}" for tree in facts["trees"]]
    lines.append('"trees": [\n' + ",\n".join(trees) + "]")
    if "more" in facts:
        more = ",\n".join(f"{json.dumps(part)}: " + leaves(tree) for part, tree in facts["more"].items())
        lines.append('"more": {\n' + more + "}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def plain_axes(axes):
    """Returns none for axes without names, which MaxText writes in several ways."""
    out = [axis or None for axis in axes or []]
    return out if any(out) else []


def compare(tool, plan, wanted, mesh, what):
    found = {leaf["path"].removeprefix("params.params.").replace(".", "/"): leaf for leaf in plan["leaves"]}
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    tool.expect(not missing and not extra, f"{what}: missing {missing[:5]}, extra {extra[:5]}")
    odd = []
    for name in sorted(wanted.keys() & found.keys()):
        facts, leaf = wanted[name], found[name]
        tool.expect(leaf["shape"] == facts["shape"], f"{what}: {name} is {leaf['shape']}, MaxText's {facts['shape']}")
        if mesh in facts["shard"]:
            shard = facts["shard"][mesh]
            tool.expect(leaf["shard"] == shard, f"{what}: {name} has shards {leaf['shard']}, MaxText's are {shard}")
        if plain_axes(leaf["axes"]) != plain_axes(facts["axes"]):
            odd.append(name)
    return odd


def check_axes(tool, model, layers, odd, wanted, what):
    """Checks that axes differ exactly where and as oddities.json says."""
    oddities = [entry for entry in oracle_dirs.read_json(TREES, "oddities.json")
                if model["model"] in entry["models"] and layers in entry["layers"]]
    known, idle = oracle_dirs.matching(odd, [entry["leaves"] for entry in oddities])
    tool.expect(len(known) == len(odd), f"{what}: axes of {sorted(set(odd) - known)[:5]} differ")
    tool.expect(not idle, f"{what}: axes of {idle} do not differ")
    for entry in oddities:
        for name in oracle_dirs.matching(odd, [entry["leaves"]])[0]:
            axes = wanted[name]["axes"]
            tool.expect(axes == entry["axes"], f"{what}: MaxText's axes of {name} are {axes}")


def check_tree(tool, model, source, layers, parts, wanted):
    """Checks one layout with the parts that `--with` names."""
    words = ["--maxtext", "0.2.4", "--layers", layers, *(["--with", ",".join(parts)] if parts else [])]
    meshes = sorted({mesh for facts in wanted.values() for mesh in facts["shard"]} | set(model["refused"]))
    odd = None
    for mesh in ("", *meshes):
        what = f"{model['model']} {' '.join(words)} {mesh}".rstrip()
        command = ["plan", source, "--to", "null", "--json", *words, *(["--mesh", mesh] if mesh else [])]
        if mesh in model["refused"]:
            said = tool.run_any(*command).stdout
            tool.expect("doesn't divide" in said, f"{what}: MaxText refuses this mesh, we say {said[:300]}")
            continue
        done = tool.run_any(*command)
        tool.expect(done.returncode == 0, f"{what}: ends with {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
        if done.returncode == 0:
            odd = compare(tool, json.loads(done.stdout), wanted, mesh, what)
    check_axes(tool, model, layers, odd or [], wanted, f"{model['model']} {' '.join(words)}")


def check_model(tool, name):
    model = oracle_dirs.read_json(TREES, f"{name}.json")
    source, config = tool.path("source"), tool.path("config.json")
    shutil.rmtree(source, ignore_errors=True)
    with open(config, "w", encoding="utf-8") as file:
        json.dump(model["config"], file)
    more = model.get("more", {})
    parts = sorted({part for tree in model["trees"] for part in tree["with"]} | more.keys())
    tool.run("mappings", "example", model["family"], source, "--config", config, "--sparse", "--quiet",
             *(["--with", ",".join(parts)] if parts else []))
    for tree in model["trees"]:
        leaves = unfold_leaves(tree["leaves"])
        check_tree(tool, model, source, tree["layers"], tree["with"], leaves)
        for part, further in more.items():
            check_tree(tool, model, source, tree["layers"], [*tree["with"], part], {**leaves, **unfold_leaves(further)})


def model_names():
    return sorted(name.removesuffix(".json") for name in os.listdir(TREES)
                  if name.endswith(".json") and name != "oddities.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--part", default="1/1", help="I/N: every N-th model from the I-th on")
    parser.add_argument("models", nargs="*", help="just these files of tests/oracle/trees")
    arguments = parser.parse_args()
    part, parts = (int(number) for number in arguments.part.split("/"))
    models = arguments.models or model_names()[part - 1::parts]
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        tool.expect(models, "tests/oracle/trees has no model")
        for name in models:
            check_model(tool, name)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
