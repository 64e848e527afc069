#!/usr/bin/env python3
"""Checks trees that differ between releases of MaxText. TensorStore's reading of one equals numpy's result for the
other.

- Qwen3-Next, stacked. In 0.2.4, layer_0, layer_1, ... of a cycle are separate arrays. In 0.2.5, the linear ones are
  together in local_layers, [blocks, position] after the first axis, and the last is global_layer.
- DeepSeek V4. In 0.2.4, the routers' tables and biases are below params.params. In 0.2.5, train.py reads them from
  collections next to it, and from_pretrained from there. hfshard's tree has both, and MaxText's converter writes only
  the collections (`--option routers=collections`).

tests/oracle proves both trees against MaxText's own converters. maxtext_load checks that MaxText loads them. Every
export, and `reshard --config`, finds the release by the tree, without a record too. So does `reshard` of a tree with
the names of MaxText's modules, as SFT saves it. If releases agree, hfshard prints nothing. Source: maxtext 0.2.5
src/maxtext/checkpoint_conversion/utils/param_mapping.py (QWEN3_NEXT_MAXTEXT_TO_HF_PARAM_MAPPING, DEEPSEEK_V4_...).
"""

import os
import re
import tempfile

import interop

CYCLE = 4
FORMS = ((), ("--mesh", "fsdp=2", *interop.FEWER_FILES), ("--dtype", "f32"))
SEPARATE = ("--layers", "separate")
RECORDS = ("hfshard.json",)


def collected(arrays):
    """Returns DeepSeek V4's tree of 0.2.5, from that of 0.2.4."""
    out = dict(arrays)
    for name, array in arrays.items():
        for end, collection in (("gate.bias", "MoEBiasVar"), ("tid2eid", "Tid2EidVar")):
            if name.endswith(f".mlp.MoeBlock_0.{end}"):
                out[name.replace("params.params.", f"params.{collection}.")] = array
    return out


def grouped(arrays):
    """Returns Qwen3-Next's tree of 0.2.5, from that of 0.2.4."""
    import numpy as np

    out, slots = {}, {}
    for name, array in arrays.items():
        slot = re.match(r"(.*\.layers\.)layer_(\d+)\.(.*)", name)
        if slot is None:
            out[name] = array
        elif int(slot[2]) == CYCLE - 1:
            out[f"{slot[1]}global_layer.{slot[3]}"] = array
        else:
            slots.setdefault(f"{slot[1]}local_layers.{slot[3]}", {})[int(slot[2])] = array
    for name, parts in slots.items():
        out[name] = np.stack([parts[slot] for slot in sorted(parts)], axis=2)
    return out


def read_arrays(output):
    import orbax_peer as peer

    item = peer.item_path(output)
    return {name: peer.open_array(item, name).read().result() for name in peer.array_names(item)}


def without_record(output):
    for folder, _, names in os.walk(output):
        for name in set(names) & set(RECORDS):
            os.remove(os.path.join(folder, name))


def check_back(tool, source, output, what):
    for step in ("record", "no record"):
        back = tool.path(f"{what}-{step}".replace(" ", "-").replace("/", "-"))
        tool.run("convert", output, back, "--to", "safetensors", "--config", source, "--quiet")
        said = tool.json("diff", source, back, "--exclude", "mtp.*")
        tool.expect(said["equal"], f"{what}, {step}: the export differs: {str(said)[:300]}")
        tool.expect(tool.json("diff", source, output, "--exclude", "mtp.*")["equal"], f"{what}, {step}: diff of the tree")
        without_record(output)


def check_form(tool, name, words, newer):
    source = os.path.join(interop.ORACLE, name)
    made = {}
    for release in ("0.2.4", "0.2.5", "default"):
        label = "".join((name, "-", release, *words[:2]))
        output = tool.path(label)
        asked = [] if release == "default" else ["--maxtext", release]
        done = tool.run("convert", source, output, *words, *asked)
        told = release.replace("default", "0.2.5")
        tool.expect(f"The tree fits MaxText {told};" in " ".join(done.stdout.split()), f"{name}: next names no release: {done.stdout}")
        made[release] = read_arrays(output)
        tool.run("verify", output, source, "--quiet")
        if "--dtype" not in words:
            check_back(tool, source, output, label)
    wanted = newer(made["0.2.4"])
    for release in ("0.2.5", "default"):
        found = made[release]
        tool.expect(found.keys() == wanted.keys(), f"{name} {release}: {sorted(found.keys() ^ wanted.keys())[:4]}")
        for leaf in sorted(wanted):
            same = found[leaf].dtype == wanted[leaf].dtype and found[leaf].tobytes() == wanted[leaf].tobytes()
            tool.expect(found[leaf].shape == wanted[leaf].shape and same, f"{name} {release} {' '.join(words)}: {leaf}")


def check_modules(tool, name):
    """Checks trees with `value` below each weight, saved by real Orbax. hfshard splits them along their model's logical
    axes, like the plain tree, and changes no value."""
    import numpy as np
    import orbax.checkpoint as ocp
    import orbax_peer as peer

    source = os.path.join(interop.ORACLE, name)
    for release in ("0.2.4", "0.2.5"):
        plain, cut, saved, out = (tool.path(f"{name}-{release}-{what}") for what in ("plain", "cut", "modules", "resharded"))
        tool.run("convert", source, plain, "--maxtext", release, "--dtype", "f32", "--quiet")
        tool.run("reshard", plain, cut, *FORMS[1], "--quiet")
        read = read_arrays(plain)
        names = {name.split(".", 2)[-1]: name for name in read if name != "step"}
        arrays = {leaf: read[name] for leaf, name in names.items()}
        tree = peer.unflatten({leaf.replace(".", "/") + "/value": array for leaf, array in arrays.items()})
        ocp.PyTreeCheckpointer().save(os.path.join(saved, "3", "model_params"), tree)
        tool.run("reshard", saved, out, *FORMS[1], "--quiet", "--config", source, "--items", "model_params")
        found = read_arrays(os.path.join(out, "3", "model_params"))
        same = all(np.array_equal(found[f"{leaf}.value"], array) for leaf, array in arrays.items())
        tool.expect(same and len(found) == len(arrays), f"{name} {release}: other arrays in the names of modules")
        chunks = {leaf["path"]: leaf["chunk"] for leaf in tool.json("inspect", os.path.join(out, "3", "model_params"))["leaves"]}
        wanted = {leaf["path"]: leaf["chunk"] for leaf in tool.json("inspect", cut)["leaves"]}
        other = [leaf for leaf in arrays if chunks[f"{leaf}.value"] != wanted[names[leaf]]]
        tool.expect(not other, f"{name} {release}: {other[:3]} are cut in another way")


def check_collections(tool, name):
    """Exports a tree whose router arrays are only in the collections."""
    source = os.path.join(interop.ORACLE, name)
    for words in ((), SEPARATE):
        label = "".join((name, "-only", *words))
        output = tool.path(label)
        tool.run("convert", source, output, *words, "--option", "routers=collections")
        arrays = read_arrays(output)
        tool.expect(not any(leaf.endswith(("tid2eid", "gate.bias")) for leaf in arrays if leaf.startswith("params.params.")), f"{sorted(arrays)}")
        check_back(tool, source, output, label)
    done = tool.run("convert", source, tool.path("refused"), "--option", "routers=none", status=2)
    tool.expect("both, collections, params" in done.stderr, done.stderr)


def check_agreeing(tool):
    """Checks releases with the same tree: no message, and the same bytes."""
    digests = set()
    for source, words in (("qwen3", ()), ("qwen3-next-six", ("--layers", "separate"))):
        for release in ("0.2.4", "0.2.5"):
            done = tool.run("convert", os.path.join(interop.ORACLE, source), tool.path("agree"), "--overwrite", "--maxtext", release, *words)
            tool.expect("release" not in done.stdout + done.stderr, f"{source}: releases agree: {done.stdout}")
            digests.add((source, re.search(r"digest +(\w+)", done.stdout)[1]))
    tool.expect(len(digests) == 2, f"other bytes where releases agree: {digests}")


def check_words(tool):
    source = os.path.join(interop.ORACLE, "qwen3-next-eight")
    plans = {release: tool.json("plan", source, "--maxtext", release)["plan_id"] for release in ("0.2.5", "0.2.4", "e591f30cbbf2")}
    tool.expect(plans["0.2.4"] == plans["e591f30cbbf2"] != plans["0.2.5"], f"plan ids {plans}")
    for words, hint in ((["--maxtext", "0.1"], "releases are 0.2.5, 0.2.4"), (["--scheme", "hf", "--maxtext", "0.2.5"], "leave out --maxtext"),
                        (["--option", "maxtext=e591f30c"], "needs the release 0.2.4")):
        done = tool.run("convert", source, tool.path("refused"), *words, status=2)
        tool.expect(hint in done.stderr, f"{words}: {done.stderr}")


def main():
    arguments = interop.start(__doc__)
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name in ("qwen3-next", "qwen3-next-eight"):
            for words in FORMS:
                check_form(tool, name, words, grouped)
            check_modules(tool, name)
        for words in (*FORMS, SEPARATE):
            check_form(tool, "deepseek4-collections", words, collected)
        check_modules(tool, "deepseek4-collections")
        check_collections(tool, "deepseek4-collections")
        check_agreeing(tool)
        check_words(tool)
        raise SystemExit(tool.verdict())


if __name__ == "__main__":
    main()
