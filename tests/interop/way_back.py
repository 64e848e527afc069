#!/usr/bin/env python3
"""Converts Hugging Face -> tree -> another mesh (reshard) -> Hugging Face. Every tensor must be the same as before.

The test covers every directory of tests/oracle, stacked or separate, raw and as zstd frames, with and without inner
chunks. Sizes give every matrix several chunks. hfshard reads the pieces of one mesh for the units of another, and
unpacks stacks whose pieces feed several tensors. The bytes in the source's own files are expected. Tensors that were
computed on the way come back within one ulp, and a note names them. The source shows which tensors were left out or
decoded.
"""

import argparse
import json
import os
import sys
import tempfile

import interop
import oracle_dirs

MESHES = ("fsdp=4,tensor=2", "fsdp=2,tensor=2", "fsdp=4", "tensor=2", "fsdp=2", "expert=2", "data=2")
# hfshard checks every file of a source before each commit, so hundreds of files in hundreds of commits take long.
SMALL = interop.FEWER_FILES
INNER = [*SMALL[:3], SMALL[3] + ",outer_shards=2"]
# For the first tree and the second.
CODINGS = (([], ["--compress", "zstd"]), (["--compress", "zstd"], ["--checksum", "none"]))


def ulps(seen, wanted):
    """Returns the largest distance of two arrays of 16-bit floats in steps of their bits."""
    import numpy

    def ordered(bits):
        bits = bits.astype(numpy.int32)
        return numpy.where(bits & 0x8000, 0x8000 - bits, bits)

    return int(abs(ordered(seen) - ordered(wanted)).max(initial=0))


def compare(tool, name, source, found, notes):
    """Counts unchanged tensors. The rest must have a reason."""
    import numpy

    coded = {tensor for tensor, (dtype, _, _) in source.items() if dtype.startswith(("F4", "F8", "U8", "I8")) or tensor.endswith("_packed")}
    quantized = bool(coded)
    missing = [tensor for tensor in source if tensor not in found]
    if missing and not quantized:
        told = [note for note in notes if f"{len(missing)} of {len(source)} tensors" in note]
        tool.expect(told, f"{name}: {missing[:3]} are missing, and no note says so: {notes}")
    extra = [tensor for tensor in found if tensor not in source]
    tool.expect(not extra or quantized, f"{name}: what is {extra[:3]}?")
    inexact = any(note.startswith("not exact") for note in notes)
    for tensor, (dtype, shape, data) in source.items():
        if tensor not in found or tensor in coded:
            continue
        seen = found[tensor]
        tool.expect(seen[:2] == (dtype, shape), f"{name}: {tensor} is {seen[:2]}, not {dtype} {shape}")
        if seen[2] == data:
            continue
        cut = "filled with zeros" in " ".join(notes)
        steps = ulps(numpy.frombuffer(seen[2], "<u2"), numpy.frombuffer(data, "<u2")) if dtype in ("BF16", "F16") else None
        tool.expect(cut or (inexact and steps is not None and steps <= 1), f"{name}: {tensor} ({dtype}) differs by {steps} ulp")


def meshes_of(tool, oracle, layers):
    fit = (mesh for mesh in MESHES
           if tool.run_any("plan", oracle.path, "--to", "null", "--layers", layers, "--mesh", mesh, *oracle.words()).returncode == 0)
    return next(fit), next(fit)


def check(tool, oracle, number):
    source = interop.tensors_of(oracle.path)
    layouts = oracle.layouts()
    layers = layouts[number // 2 % len(layouts)]
    first, second = meshes_of(tool, oracle, layers)
    one, other = CODINGS[number % 2]
    sizes = INNER if number % 3 == 0 else SMALL
    trees = [tool.path(f"{oracle.name}-{part}") for part in ("tree", "again", "back")]
    tool.run("convert", oracle.path, trees[0], "--layers", layers, "--mesh", first, *oracle.words(), *sizes, *one)
    tool.run("reshard", trees[0], trees[1], "--mesh", second, *sizes, *other)
    told = tool.json("convert", trees[1], trees[2], "--to", "safetensors", *SMALL[2:])
    tool.run("verify", *[[trees[2], trees[1]], [trees[1], trees[0]], [trees[1]], [trees[2]]][number % 4])
    compare(tool, f"{oracle.name} {layers}", source, interop.tensors_of(trees[2]), told["notes"])


def small_slab(tool):
    """Checks that hfshard unpacks a piece that feeds more than a run can hold at once. It doesn't refuse it."""
    config = oracle_dirs.read_json(interop.ORACLE, "qwen3", "config.json") | {"vocab_size": 4000}
    with open(tool.path("config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    tool.run("mappings", "example", "qwen3", tool.path("wide"), "--config", tool.path("config.json"))
    tool.run("convert", tool.path("wide"), tool.path("wide-tree"))
    tool.run("convert", tool.path("wide-tree"), tool.path("wide-back"), "--to", "safetensors", "--limits",
             "merge_bytes=16384,slab_bytes=65536")
    tool.expect(interop.tensors_of(tool.path("wide-back")) == interop.tensors_of(tool.path("wide")), "a small slab changes tensors")


def tall(tool):
    """Exports a transposed matrix of which 64 MiB are less than all. It goes in slices, in memory that can't hold
    it."""
    config = oracle_dirs.read_json(interop.ORACLE, "qwen3", "config.json")
    config |= {"hidden_size": 1032, "intermediate_size": 33000, "num_hidden_layers": 1}
    with open(tool.path("config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    source, tree, back = tool.path("tall"), tool.path("tall-tree"), tool.path("tall-back")
    tool.run("mappings", "example", "qwen3", source, "--config", tool.path("config.json"))
    tool.run("convert", source, tree, "--mesh", "fsdp=8")
    tool.run("convert", tree, back, "--to", "safetensors", "--max-memory", "160MiB")
    tool.expect(interop.tensors_of(back) == interop.tensors_of(source), "a tall matrix does not come back")
    rows = {rule.get("row") for rule in oracle_dirs.read_json(back, "hfshard.json")["transfers"]}
    tool.expect(rows == {None, 516, 16500}, f"the rows are {rows}")
    tool.run("verify", back, "--max-memory", "160MiB")
    tool.run("verify", back, tree, "--max-memory", "224MiB")


def raw_stacks(tool):
    """Checks stacks that real Orbax stored uncompressed, too long to unpack whole. They are read by layers, a few at
    a time, or in place. They become layers, transposed and not, and another mesh. Nothing is read twice."""
    import orbax.checkpoint as ocp
    import orbax_peer

    oracle = oracle_dirs.OracleDir("qwen3")
    source, tree, raw = interop.tensors_of(oracle.path), tool.path("stacks"), tool.path("raw")
    tool.run("convert", oracle.path, tree, *oracle.words())
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        value = checkpointer.restore(orbax_peer.item_path(tree))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_compression=False)) as checkpointer:
        checkpointer.save(raw, value)
    config = ("--config", oracle.path)
    scratch = tool.json("plan", raw, "--to", "safetensors", *config, *SMALL[2:])["scratch_bytes"]
    tool.expect(scratch == 0, f"{scratch} bytes of disk for small stacks")
    for number, run in enumerate((1, 64, 300, 1 << 20)):
        limits = (*SMALL[:3], f"{SMALL[3]},unpack_bytes=1,part_run_bytes={run}")
        back, again, returned = (tool.path(f"raw-{name}-{number}") for name in ("back", "mesh", "returned"))
        tool.run("convert", raw, back, "--to", "safetensors", *config, *limits[2:])
        compare(tool, f"raw stacks, runs of {run}", source, interop.tensors_of(back), [])
        tool.run("verify", back, raw, *limits[2:])
        tool.run("reshard", raw, again, "--mesh", "fsdp=4", *config, *limits)
        tool.run("convert", again, returned, "--to", "safetensors", *config)
        compare(tool, f"raw stacks, runs of {run}, another mesh", source, interop.tensors_of(returned), [])
        tool.run("diff", raw, again, *limits[2:])


def boxed(tree):
    """Makes a tree of NNX modules as Orbax stores it: layers NAME_0, NAME_1, ... in a list, and `value` below each
    weight."""
    if not isinstance(tree, dict):
        return {"value": tree}
    out = {name: boxed(value) for name, value in tree.items() if not name.rpartition("_")[2].isdigit() or "layers" not in name}
    for name in sorted((name for name in tree if name not in out), key=lambda name: int(name.rpartition("_")[2])):
        out.setdefault(name.rpartition("_")[0], []).append(boxed(tree[name]))
    return out


def forms_of(tree):
    """Returns the forms of MaxText's trainers: items of a step. maxtext_forms.py has them from MaxText's own code."""
    import numpy

    weights = tree["params"]["params"]
    aside = {"decoder": {"decoder_norm": weights["decoder"]["decoder_norm"]}}  # like a variable that isn't a parameter
    rest = {**weights, "decoder": {name: value for name, value in weights["decoder"].items() if name != "decoder_norm"}}
    generator = {"params": {"key": {"value": numpy.arange(2, dtype=numpy.uint32)}}}
    sft = {**boxed(weights), "rngs": generator, "dropout_rngs": generator}
    moments = {"count": numpy.int32(3), "mu": {"params": weights}, "nu": {"params": weights}}
    return {
        "pretraining": {"items": {"params": {"params": rest}, "step": numpy.int32(3), "opt_state": [moments, None],
                                  "nnx_aux": {"model": {**aside, "rngs": {"key": numpy.arange(2, dtype=numpy.uint32)}}}}},
        "parameters": {"items": {"params": weights}},
        "sft": {"model_params": sft, "optimizer_state": {"mu": boxed(weights)}},
        "rl": {"model_params": {"base": sft}, "optimizer_state": {"mu": {"base": boxed(weights)}}},
    }


def trainers_forms(tool):
    """Checks that the output of MaxText's trainers is exported bit for bit, and that reshard splits it like the
    plain tree."""
    import orbax.checkpoint as ocp
    import orbax_peer

    oracle = oracle_dirs.OracleDir("qwen3")
    source, config = interop.tensors_of(oracle.path), ("--config", oracle.path)
    for layers in oracle.layouts():
        tree, plain = tool.path(f"forms-{layers}"), tool.path(f"forms-{layers}-plain")
        tool.run("convert", oracle.path, tree, "--layers", layers)
        tool.run("reshard", tree, plain, "--mesh", "fsdp=2,tensor=2", *SMALL)
        wanted = {leaf["path"].removeprefix("params.params."): leaf["chunk"] for leaf in tool.json("inspect", plain)["leaves"]}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            value = checkpointer.restore(orbax_peer.item_path(tree))
        for form, items in forms_of(value).items():
            run, back, again = (tool.path(f"forms-{layers}-{form}{part}") for part in ("", "-back", "-mesh"))
            with ocp.CheckpointManager(run, item_names=tuple(items)) as manager:
                manager.save(3, args=ocp.args.Composite(**{name: ocp.args.PyTreeSave(item) for name, item in items.items()}))
            notes = tool.json("convert", run, back, "--to", "safetensors", *config)["notes"]
            what = f"{layers}, as {form} saves it"
            tool.expect(interop.tensors_of(back) == source, f"{what}: other tensors")
            tool.run("verify", back, run)
            if "model_params" in items:
                tool.expect(any("2 arrays of random" in note and "dropout_rngs.params.key.value" in note for note in notes), f"{what}: {notes}")
                tool.expect(any("left out" in note and "optimizer_state" in note for note in notes), f"{what}: {notes}")
                tool.run("reshard", run, again, "--mesh", "fsdp=2", *config, status=3)  # which item?
                moments = tool.path(f"forms-{layers}-{form}-optimizer")
                tool.run("reshard", run, moments, "--mesh", "fsdp=2,tensor=2", "--items", "optimizer_state", *config, *SMALL)
                for leaf in tool.json("inspect", moments)["leaves"]:
                    tool.expect(leaf["chunk"] == wanted[short_name(leaf["path"])], f"{what}: {leaf['path']} is cut as {leaf['chunk']}")
            item = ("--items", "model_params" if "model_params" in items else "items")
            told = tool.json("reshard", run, again, "--mesh", "fsdp=2,tensor=2", *item, *config, *SMALL)["next"]
            loads = form == "pretraining" or ("model_params" in items and layers == "stacked")  # MaxText doesn't load lists
            tool.expect(told[0].startswith("load_") == loads and ("scan_layers=" in " ".join(told)) == loads, f"{what}: next is {told}")
            for leaf in tool.json("inspect", again)["leaves"]:
                name = short_name(leaf["path"])
                tool.expect(wanted.get(name, leaf["chunk"]) == leaf["chunk"], f"{what}: {leaf['path']} is cut as {leaf['chunk']}")
            cut = {short_name(leaf["path"]) for leaf in tool.json("inspect", again)["leaves"]}
            tool.expect(wanted.keys() - cut <= {"step"}, f"{what}: {sorted(wanted.keys() - cut)} were not compared")
            tool.run("diff", os.path.join(run, "3", item[1]), os.path.join(again, "3", item[1]))


def short_name(name):
    """Returns the short name of a weight, or of an optimizer's array for one, in any form."""
    parts = [part for part in name.removeprefix("opt_state.0.").removesuffix(".value").split(".") if part not in ("params", "base", "mu", "nu")]
    out = []
    for part in parts:
        out = [*out[:-1], f"{out[-1]}_{part}"] if part.isdigit() else [*out, part]
    return ".".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("oracles", nargs="*")
    options = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers()
    names = options.oracles or oracle_dirs.oracle_names()
    with tempfile.TemporaryDirectory() as folder:
        tool = interop.Program(options.hfshard, folder)
        small_slab(tool)
        tall(tool)
        raw_stacks(tool)
        trainers_forms(tool)
        for number, name in enumerate(names):
            check(tool, oracle_dirs.OracleDir(name), number)
        print(f"{len(names)} checkpoints, {tool.checks} checks, {tool.failures} failures")
        return 1 if tool.failures else 0


if __name__ == "__main__":
    sys.exit(main())
