#!/usr/bin/env python3
"""Loads a checkpoint of tests/oracle in MaxText, through MaxText's own code, and compares its logits with
transformers'.

    maxtext_load.py --hfshard PROGRAM [--update] FIXTURE...

It uses stacked and separate layers, NNX and Linen modules, and one layout with --dtype f32, which doesn't round. If
MaxText's model is known to differ, that layout compares with transformers' model changed to it. For each,
docs/loading.md states the largest difference of all logits, and the share of positions with the same likeliest
token, or that MaxText refuses. A difference of more than twice the stated one fails. So does another share, another
refusal, or an extra row. If MaxText's own converter made the fixture's tree, the leaves must be the same, so that
its figure is hfshard's. `--update` writes the rows again. HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC name
MaxText (scripts/test --with-maxtext, or --with-maxtext-release, which also sets HFSHARD_MAXTEXT_RELEASE).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import interop
import oracle_dirs

PAGE = os.path.join(interop.HERE, os.pardir, os.pardir, "docs", "loading.md")
HEAD = "| fixture | MaxText's model | layers | modules | largest difference | largest logit | same argmax | MaxText's converter |"
TOWERS = ("vision", "audio")
# Facts in addition to expected.json:
# - `reference`: changes to transformers' model if MaxText's differs, for the row with --dtype f32.
# - `of`, `family` and `config`: an example checkpoint with a fixture's config.json, changed in these places, and the
# `maxtext_settings` that change with them.
# - `of` and `num_layers`: the first layers of a fixture. MaxText loads it with the arguments from `plan`, and
# transformers with the config.json that convert writes.
# - An example without `of` has its whole `config`, `model`, the `options` of the conversion, and `model_type` if
# transformers has its model under another one.
# - A fixture that MaxText's converter didn't make has `model` and `maxtext_settings` here. It has `config` if its own
# isn't enough to compute with. It has `text` if transformers gets only its text model: the part of its config, and the
# prefix of its tensors' names.
# - `inputs`: "image" or "sound", with which the towers are loaded and run too.
SETTINGS = os.path.join(interop.HERE, "maxtext_settings.json")
RELATIVE = 2e-5  # sums of float32 in another order, which changes from run to run, to the largest logit
# transformers 5.24.0 stops in its own forward pass: its output of experts has no image_outputs.
NOT_WITH_RELEASE = {"llama4-scout-image"}
PEER = os.path.join(interop.HERE, "peers", "maxtext_logits.py")
# The suffix of the kind of modules in rows for a release other than the clone's, which has no Linen modules.
RELEASE = "" if interop.maxtext_release() == interop.CLONE_RELEASE else " " + interop.maxtext_release()


def use_maxtext(any_release=True):
    """Starts over under MaxText's Python. Ends the test without one, or for a release if only the clone's code is
    known."""
    if not any_release and RELEASE:
        print(f"PEER MISSING maxtext: a clone, not{RELEASE} (scripts/test --with-maxtext)")
        sys.exit(interop.SKIP_STATUS)
    python = os.environ.get("HFSHARD_MAXTEXT_PYTHON", "")
    if not python or not os.path.isdir(os.path.join(os.environ.get("HFSHARD_MAXTEXT_SRC", ""), "maxtext")):
        print("PEER MISSING maxtext: HFSHARD_MAXTEXT_PYTHON and HFSHARD_MAXTEXT_SRC (scripts/test --with-maxtext)")
        sys.exit(interop.SKIP_STATUS)
    os.environ["HFSHARD_PEER_PYTHON"] = python
    interop.use_peer_python()


class Source:
    """A checkpoint, and MaxText's name and settings for it."""

    def __init__(self, tool, name):
        known = oracle_dirs.read_json(SETTINGS).get(name, {})
        self.name = name
        self.is_fixture = "family" not in known
        self.oracle = oracle_dirs.OracleDir(known.get("of", name)) if self.is_fixture or "of" in known else None
        facts = self.oracle.facts if self.oracle else {}
        self.model = known.get("model") or facts["maxtext_model_name"]
        self.settings = {**facts.get("maxtext_settings", {}), **known.get("maxtext_settings", {})}
        self.inputs = known.get("inputs", "")
        self.options = known.get("options") or (self.oracle.options if self.oracle else {})
        self.layouts = known.get("layouts") or (self.oracle.layouts() if self.oracle else list(oracle_dirs.LAYOUTS))
        mended = RELEASE and RELEASE.strip() == known.get("mended")
        self.reference = {} if mended else known.get("reference", {})
        self.model_type = known.get("model_type", "")
        self.first = ["--num-layers", str(known["num_layers"])] if "num_layers" in known else []
        self.path = self.oracle.path if self.is_fixture else make_example(tool, name, self.oracle, known)
        if self.is_fixture and "config" in known:
            self.path = with_config(tool, f"{name}-source", self.path, changed(oracle_dirs.read_json(self.path, "config.json"), known["config"]))
        self.read_by_transformers = self.path
        if self.first:
            self.take_first(tool)
        if quantization(oracle_dirs.read_json(self.path, "config.json")).get("quant_method", "mxfp4") != "mxfp4":
            self.read_by_transformers = decode(tool, name, self.path, **known.get("text", {}))

    def take_first(self, tool):
        """Returns the settings from `plan`, and the checkpoint with the output's config.json."""
        words = words_of(self, self.layouts[0])
        said = tool.json("plan", self.path, "--quiet", *words, *self.first)["load_words"]
        self.settings.update({word.split("=")[0]: int(word.split("=")[1]) for word in said if re.search(r"layers=\d", word)})
        output = tool.path(f"{self.name}-first")
        tool.run("convert", self.path, output, "--quiet", *words, *self.first)
        self.read_by_transformers = with_config(tool, f"{self.name}-source", self.path, oracle_dirs.read_json(output, "hf", "config.json"))


def write_config(folder, config):
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as file:
        json.dump(config, file)


def with_config(tool, name, path, config):
    """Returns the tensors of a checkpoint with another config.json."""
    folder = tool.path(name)
    os.mkdir(folder)
    for file in os.listdir(path):
        if "safetensors" in file:
            os.symlink(os.path.abspath(os.path.join(path, file)), os.path.join(folder, file))
    write_config(folder, config)
    return folder


def changed(config, changes):
    """Returns nested dicts in which the entries of `changes` are changed or new."""
    for name, value in changes.items():
        config[name] = changed(config[name], value) if isinstance(config.get(name), dict) else value
    return config


def quantization(config):
    """Returns the facts about codes in a config or its text's config."""
    return config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}


def decode(tool, name, path, config="", prefix="", put=""):
    """Decodes a checkpoint of codes to float32 with numpy. transformers itself needs a GPU for them, or another
    library.

    `config` and `prefix`: for a text model inside another one, which is extracted. `put` replaces the prefix.
    """
    from safetensors.numpy import save_file
    import hf_decoded

    whole = oracle_dirs.read_json(path, "config.json")
    part = whole[config] if config else whole
    tensors = hf_decoded.decoded(stored_arrays(path), quantization(whole).get("weight_block_size"))
    folder = tool.path(f"{name}-decoded")
    os.mkdir(folder)
    head = "lm_head." if put else prefix
    save_file({tensor.replace(prefix, put, 1): as_f32(array) for tensor, array in tensors.items() if tensor.startswith((prefix, head))},
              os.path.join(folder, "model.safetensors"), {"format": "pt"})
    write_config(folder, {key: value for key, value in part.items() if key != "quantization_config"})
    return folder


def stored_arrays(path):
    """Reads arrays, also codes, which safetensors' numpy side doesn't read."""
    import ml_dtypes
    import numpy as np
    import safetensors

    dtypes = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
              "I8": np.int8, "I32": np.int32, "I64": np.int64}
    with open(os.path.join(path, "model.safetensors"), "rb") as file:
        found = safetensors.deserialize(file.read())
    return {name: np.frombuffer(entry["data"], dtypes[entry["dtype"]]).reshape(entry["shape"]) for name, entry in found}


def as_f32(array):
    import numpy as np

    return np.ascontiguousarray(array if array.dtype.kind in "iu" else array.astype(np.float32))


def make_example(tool, name, oracle, known):
    """Makes a checkpoint with random values. Its config is its own, or a fixture's with changes. If towers get no
    inputs, it has only the text."""
    config = known["config"]
    if oracle:
        config = oracle_dirs.read_json(oracle.path, "config.json")
        for tower in TOWERS if not known.get("inputs") else ():
            config.pop(f"{tower}_config", None)
        config = changed(config, known["config"])
    write_config(tool.path(), config)
    tool.run("mappings", "example", known["family"], tool.path(f"{name}-source"), "--config", tool.path("config.json"), "--quiet",
             *(oracle_dirs.words_of(known.get("options") or oracle.options) if known.get("inputs") else ()))
    return tool.path(f"{name}-source")


def words_of(source, layers):
    """Returns the options as text, without towers if they get no inputs."""
    options = {name: value for name, value in source.options.items() if source.inputs or name not in TOWERS}
    return ["--layers", layers, *oracle_dirs.words_of({**options, "maxtext": interop.maxtext_release()})]


def converter_row(tool, source, layers, output):
    """Returns the comparison of the output of MaxText's own converter with hfshard's."""
    import orbax_peer as peer

    oracle = source.oracle
    if RELEASE or not source.is_fixture or source.first or "maxtext_model_name" not in oracle.facts:
        return "not run"
    if any("added" in entry for entry in oracle.differences()):
        return "stops"
    expected = oracle.kept(layers)
    found = {peer.leaf_of(name): facts for name, facts in peer.describe_arrays(peer.item_path(output)).items() if peer.leaf_of(name)}
    differ = [leaf for leaf, facts in found.items() if expected.get(leaf) != facts]
    differ += [leaf for leaf in expected.keys() - found.keys() if source.inputs or not leaf.startswith(("vision_encoder/", "audio_encoder/"))]
    tool.expect(not differ, f"{oracle.name} {layers}: {differ[:5]} are not as MaxText's converter makes them")
    shipped = any("as_shipped" in oracle.tree(layers)[leaf] for leaf in found)
    return "other leaves" if shipped else "same leaves"


def row(source, load, answer):
    """Returns one row of the table. The difference is rounded up."""
    names = [source.name, source.model, load["layers"], load["modules"] + RELEASE]
    if "error" in answer:
        return [*names, "refused: " + re.sub(r"\s+", " ", answer["error"]).replace("|", "/")[:160].strip(), "", "", ""]
    exponent = f"{answer['difference']:.1e}".split("e")
    return [*names, f"{float(exponent[0]) + 0.05:.1f}e{exponent[1]}", f"{answer['largest']:.2f}", f"{answer['argmax']:.0%}",
            load["converter"]]


def measure(tool, name):
    """Returns the rows of one fixture."""
    source = Source(tool, name)
    loads = []
    keeps_codes = source.options.get("codes") == "kept"
    wide = [] if keeps_codes else [(source.layouts[0], "f32")]
    for layers, dtype in [*((layers, "") for layers in source.layouts), *wide]:
        output = tool.path(f"{name}-{layers}-{dtype}")
        words = [*words_of(source, layers), *source.first, *(["--dtype", dtype] if dtype else [])]
        tool.run("convert", source.path, output, "--quiet", *words)
        load = {"path": os.path.join(output, "0", "items"), "scan": layers == "stacked", "layers": layers,
                "reference": {}, "converter": converter_row(tool, source, layers, output) if not dtype else ""}
        if dtype:
            load.update(layers=f"{layers}, {dtype}{', as MaxText' if source.reference else ''}", reference=source.reference)
        loads += [{**load, "modules": modules} for modules in (["nnx"] if dtype or RELEASE else ["nnx", "linen"])]
    task = {"source": source.read_by_transformers, "model_type": source.model_type, "inputs": source.inputs, "model_name": source.model, "settings": source.settings, "keeps_codes": keeps_codes, "loads": loads}
    done = subprocess.run([sys.executable, PEER], input=json.dumps(task), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tool.expect(False, f"{name}: {done.stderr[-2000:]}")
        return []
    return [row(source, load, answer) for load, answer in zip(loads, json.loads(done.stdout), strict=True)]


def read_page():
    """Returns the text before the table, its rows, and the text after it."""
    with open(PAGE, encoding="ascii") as file:
        before, table = file.read().split(HEAD + "\n")
    lines = table.splitlines(keepends=True)
    count = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[1:count]]
    return before, rows, "".join(lines[count:])


def is_measured(cells, name):
    """Returns whether a row is for this fixture and for the loaded release."""
    return cells[0] == name and (cells[3].endswith(RELEASE) if RELEASE else " " not in cells[3])


def write_page(before, rows, behind):
    with open(PAGE, "w", encoding="ascii") as file:
        file.write(before + HEAD + "\n|---|---|---|---|---:|---:|---:|---|\n")
        file.writelines(f"| {' | '.join(cells)} |\n" for cells in rows)
        file.write(behind)


def compare(tool, stated, found):
    what = " ".join(found[:4])
    if "refused" in stated[4] or "refused" in found[4]:
        tool.expect(stated[4][:60] == found[4][:60], f"{what}: {found[4]}; docs/loading.md has {stated[4]}")
        return
    tool.expect(float(found[4]) <= max(2 * float(stated[4]), RELATIVE * max(1, float(found[5]))),
                f"{what}: the largest difference is {found[4]}, docs/loading.md has {stated[4]}")
    tool.expect(found[5:] == stated[5:], f"{what}: {found[5:]}, docs/loading.md has {stated[5:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--update", action="store_true", help="writes the rows of these fixtures in docs/loading.md")
    parser.add_argument("fixtures", nargs="+", help="folders of tests/oracle that MaxText's converter made, or examples")
    arguments = parser.parse_args()
    use_maxtext()
    interop.import_peers()
    with tempfile.TemporaryDirectory(prefix="hfshard-maxtext-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for name in arguments.fixtures:
            if RELEASE and name in NOT_WITH_RELEASE:
                print(f"{name}: transformers itself can't run it with this release")
                return 77
            if oracle_dirs.keeps_codes(name) and not RELEASE:
                print(f"{name}: only 0.2.5 has a place for scales (scripts/test --with-maxtext-release 0.2.5)")
                return 77
            found = measure(tool, name)
            print("\n".join(" | ".join(cells) for cells in found), flush=True)
            before, rows, behind = read_page()
            stated = [cells for cells in rows if is_measured(cells, name)]
            if arguments.update:
                write_page(before, sorted([cells for cells in rows if not is_measured(cells, name)] + found), behind)
                continue
            tool.expect([cells[:4] for cells in stated] == sorted(cells[:4] for cells in found),
                        f"{name}: docs/loading.md has {len(stated)} rows, {len(found)} were measured")
            for one in found:
                for other in stated:
                    if other[:4] == one[:4]:
                        compare(tool, other, one)
        return 0 if arguments.update and not tool.failures else tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
