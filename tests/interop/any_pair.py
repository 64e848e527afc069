#!/usr/bin/env python3
"""Converts from any scheme to any other, without the model between them. The result is the same as from the model
itself.

Every other directory of tests/oracle becomes a tree of MaxText. That becomes one with the other layout of layers,
which real TensorStore reads and the test compares with expected.json. If a family also has torchtitan's names, each
becomes a DCP with those, and the tree again. Every directory of tests/torchtitan becomes a tree of MaxText, and then
torchtitan's tensors. The test compares them with those of torchtitan's own adapter. Chunks, meshes and compression
differ on both sides, so no piece is a piece of the other. A note names values that MaxText's tree has rounded (a
scaled query), and they come back within one ulp.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile

import interop
import oracle_dirs
import way_back

sys.path.insert(0, os.path.join(interop.HERE, os.pardir, "torchtitan"))
import check as torchtitan  # noqa: E402

SMALL = way_back.SMALL
WITHOUT_TOWER = "this checkpoint was made without it"
# Cases of tests/torchtitan that MaxText has no model for, or that need tensors for which MaxText's tree has no place.
NO_MODEL = {"flux", "muse_glimmer", "qwen3_5_moe", "qwen3_5_moe_transposed", "deepseek_v3"}  # their copies are left out
NO_TOWER = {"kimi_k2_5", "kimi_vl"}
# Queries that are decoded and scaled. They are rounded once from the model, and again from a tree that has them
# decoded.
ROUNDED_TWICE = ("llama-fp8",)


def has_scheme(tool, oracle):
    """Returns whether torchtitan has a model for this checkpoint."""
    done = tool.run_any("plan", oracle.path, "--to", "dcp", "--scheme", "torchtitan", *oracle.words())
    return done.returncode == 0


def expect_tree(tool, out, expected, what):
    import orbax_peer as peer
    import orbax_read

    found = {leaf: peer.describe(value) for leaf, value in orbax_read.Readers(peer.item_path(out), expected, with_state=True)
             .tensorstore().items()}
    tool.expect(peer.compare(what, expected, found) == 0, f"{what}: leaves differ")


def layouts(tool, oracle, number):
    """Converts stacked to separate, or the reverse."""
    both = oracle.layouts()
    if len(both) < 2:
        return
    one, other = both if number % 2 else reversed(both)
    first, second = way_back.meshes_of(tool, oracle, one)[0], way_back.meshes_of(tool, oracle, other)[1]
    coding, coding_after = way_back.CODINGS[number % 2]
    trees = [tool.path(f"{oracle.name}-{part}") for part in ("one", "other")]
    tool.run("convert", oracle.path, trees[0], "--layers", one, "--mesh", first, *oracle.words(), *SMALL, *coding)
    told = tool.json("convert", trees[0], trees[1], "--layers", other, "--mesh", second, *oracle.words(), *SMALL, *coding_after)
    tool.expect(not any(note.startswith("not exact") for note in told["notes"]), f"{oracle.name}: a rule and its inverse cancel: {told}")
    expect_tree(tool, trees[1], oracle.kept(other), f"{oracle.name} {one} -> {other}")
    tool.run("verify", trees[1], trees[0])
    if number % 4 == 0:  # and the result converts further like one from the model
        back = [tool.path(f"{oracle.name}-{part}") for part in ("back", "usual")]
        tool.run("convert", trees[1], back[0], "--to", "safetensors")
        tool.run("convert", trees[0], back[1], "--to", "safetensors")
        tool.expect(interop.tensors_of(back[0]) == interop.tensors_of(back[1]), f"{oracle.name}: the way back is another one")


def fewer_layers(tool):
    """Converts part of a tree to its own tree, and exports it to a model of that size."""
    source = os.path.join(interop.ORACLE, "qwen3")
    for name, words in {"whole": [], "first": ["--num-layers", "1"], "rest": ["--exclude", "*.norm.weight"]}.items():
        tree, direct, back = (tool.path(f"fewer-{name}-{part}") for part in ("tree", "direct", "back"))
        tool.run("convert", source, tool.path(f"fewer-{name}"), "--layers", "separate")
        tool.run("convert", tool.path(f"fewer-{name}"), tree, "--to", "dcp", "--scheme", "torchtitan", *words)
        tool.run("convert", source, direct, "--to", "dcp", "--scheme", "torchtitan", *words)
        report = tool.json("diff", tree, direct)
        tool.expect(report["equal"] and report["compared_tensors"] > 8, f"{name}: {report}")
        tool.run("convert", tree, back, "--to", "safetensors")
        tool.run("convert", direct, back + "-direct", "--to", "safetensors")
        tool.expect(interop.tensors_of(back) == interop.tensors_of(back + "-direct"), f"{name}: goes back to another model")
        for made in (tree, direct):
            tool.run("reshard", made, made + "-again", "--mesh", "fsdp=2")
            tool.run("convert", made + "-again", made + "-back", "--to", "safetensors")
            tool.expect(interop.tensors_of(back) == interop.tensors_of(made + "-back"), f"{made}: a copy goes back to another model")
        layers = oracle_dirs.read_json(back, "config.json")["num_hidden_layers"]
        tool.expect(layers == (1 if name == "first" else oracle_dirs.read_json(source, "config.json")["num_hidden_layers"]),
                    f"{name}: config.json says {layers} layers")


def by_torchtitan(tool, oracle, number):
    layers = oracle.layouts()[number % len(oracle.layouts())]
    dcp, tree = tool.path(f"{oracle.name}-dcp"), tool.path(f"{oracle.name}-tree")
    tool.run("convert", oracle.path, dcp, "--to", "dcp", "--scheme", "torchtitan", *oracle.words(), *SMALL)
    tool.run("convert", dcp, tree, "--layers", layers, *oracle.words(), *SMALL)
    expect_tree(tool, tree, oracle.kept(layers), f"{oracle.name} torchtitan -> {layers}")
    tool.run("verify", tree, dcp)
    tool.run("verify", tree)
    if number % 4 or any(facts["dtype"] != "bfloat16" for facts in oracle.kept(layers).values()):
        return  # a config states one dtype
    for name in ("hfshard.json", "config.json"):  # as torchtitan would have written it
        os.remove(os.path.join(dcp, name))
    told = tool.run("convert", dcp, tool.path("refused"), status=2).stderr
    tool.expect("--config" in told, f"{oracle.name}: {told}")
    tool.run("convert", dcp, tree + "-config", "--config", oracle.path, "--layers", layers, *oracle.words(), *SMALL)
    expect_tree(tool, tree + "-config", oracle.kept(layers), f"{oracle.name} torchtitan -> {layers} by --config")
    tool.run("verify", tree + "-config", dcp)


def from_maxtext(tool, case, number):
    """Converts a tree of MaxText to the result of torchtitan's adapter for the model."""
    import numpy

    source = os.path.join(torchtitan.HERE, case)
    tree, out = tool.path(f"{case}-maxtext"), tool.path(f"{case}-names")
    words = torchtitan.options_of(case)  # FP8 is bf16 in MaxText's tree, so no cast gives the adapter's result
    layers = ("stacked", "separate")[number % 2]
    vision = ["--with", "vision"] if case.startswith("qwen3_5") else []
    made = tool.run_any("convert", source, tree, "--layers", layers, *vision, *words, *SMALL)
    tool.expect((made.returncode != 0) == (case in NO_MODEL), f"{case}: {made.stderr}")
    if made.returncode != 0:
        return
    done = tool.run_any("convert", tree, out, "--scheme", "torchtitan", "--to", "safetensors", *words, "--json")
    if case in NO_TOWER:
        tool.expect(done.returncode == 3 and WITHOUT_TOWER in done.stdout, f"{case}: {done.stdout}{done.stderr}")
        return
    tool.expect(done.returncode == 0, f"{case}: {done.stdout}{done.stderr}")
    inexact = any(note.startswith("not exact") for note in json.loads(done.stdout)["notes"])
    tool.run("convert", source, tool.path(f"{case}-direct"), "--scheme", "torchtitan", "--to", "safetensors", *words)
    found, direct, expected = interop.tensors_of(out), interop.tensors_of(tool.path(f"{case}-direct")), torchtitan.expected_of(case)
    tool.expect(set(found) == set(expected), f"{case}: names differ: {sorted(set(found) ^ set(expected))[:4]}")
    equal = 0
    for name in sorted(set(found) & set(expected)):
        dtype, shape, data = found[name]
        tool.expect(found[name][:2] == direct[name][:2] and shape == expected[name]["shape"], f"{case}: {name} is {dtype} {shape}")
        equal += hashlib.sha256(data).hexdigest() == expected[name]["sha256"]
        if data != direct[name][2]:
            steps = way_back.ulps(numpy.frombuffer(data, "<u2"), numpy.frombuffer(direct[name][2], "<u2"))
            tool.expect(inexact and steps == 1, f"{case}: {name} differs by {steps} ulp")
    tool.expect(equal == len(expected) or inexact or case.endswith("fp8"), f"{case}: {equal} of {len(expected)} are as torchtitan makes them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("names", nargs="*", help="directories of tests/oracle or tests/torchtitan; all if there are none")
    options = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    with tempfile.TemporaryDirectory() as folder:
        tool = interop.Program(options.hfshard, folder)
        if not options.names:
            fewer_layers(tool)
        shared = []
        for number, name in enumerate(oracle_dirs.oracle_names()):
            if options.names and name not in options.names:
                continue
            oracle = oracle_dirs.OracleDir(name)
            if number % 2 == 0 or options.names:  # for all families: unit/plan/compile/through_test.cpp
                layouts(tool, oracle, number // 2)
            if name not in ROUNDED_TWICE and has_scheme(tool, oracle):
                shared.append(name)
                by_torchtitan(tool, oracle, number)
        for number, case in enumerate(torchtitan.cases()):
            if options.names and case not in options.names:
                continue
            from_maxtext(tool, case, number)
        print(f"{len(shared)} of MaxText's checkpoints by way of torchtitan: {', '.join(shared)}")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
