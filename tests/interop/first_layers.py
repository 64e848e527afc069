#!/usr/bin/env python3
"""Compares --num-layers N with the conversion of a checkpoint with only the first N layers, which this script cuts.

    first_layers.py --hfshard PROGRAM [NAME...]

The test covers every example of a family and every checkpoint of tests/oracle, in each layout, for each N. The files
of the output must be the same, except for what names the source. hf/config.json must be the same. hfshard must not
read more bytes. It must refuse an N that MaxText has no layers for, with its neighbors. This script defines a cut
checkpoint, and the possible N, from the models' code in transformers and MaxText, not from mappings/.
"""

import argparse
import json
import math
import os
import re
import shutil
import sys
import tempfile

import interop
import oracle_dirs

LAYER = re.compile(r"((?:thinker\.)?(?:language_model\.)?(?:model\.)?(?:language_model\.)?layers\.)(\d+)(\..*)")
PARTS = {"deepseek": "mtp", "gemma3": "vision", "gemma4": "vision", "qwen3_5": "vision", "qwen3_vl": "vision",
         "qwen3_omni": "vision,audio"}
READ_MORE = 1.05
# Gemma's embeddings of layers. A cut checkpoint has the first layers' part: columns of one, rows of the other.
OF_ALL_LAYERS = ("embed_tokens_per_layer.weight", "per_layer_model_projection.weight")


def decoder_of(config):
    """Returns the decoder's part of a config.json."""
    config = config.get("thinker_config", config)
    text = config.get("text_config", {})
    return text if "num_hidden_layers" in text or "num_hidden_layers" not in config else config


def cut_config(config, count):
    """Returns config.json of a checkpoint with `count` layers."""
    out = json.loads(json.dumps(config))
    text = decoder_of(out)
    whole = depth_of(config)
    text["num_hidden_layers"] = count
    for key in ("layer_types", "mlp_layer_types", "no_rope_layers", "compress_ratios"):
        if text.get(key) is not None:
            text[key] = text[key][:count]
    for key in ("moe_layers", "mlp_only_layers"):
        if text.get(key) is not None:
            text[key] = [layer for layer in text[key] if layer < count]
    for key in ("first_k_dense_replace", "num_hash_layers", "max_window_layers"):
        if text.get(key) is not None:
            text[key] = min(text[key], count)
    if text.get("num_kv_shared_layers") is not None:
        first_shared = whole - text["num_kv_shared_layers"]
        text["num_kv_shared_layers"] = sum(1 for layer in range(count) if layer >= first_shared)
    if text.get("per_layer_config") is not None:
        text["per_layer_config"] = {layer: facts for layer, facts in text["per_layer_config"].items() if int(layer) < count}
    return out


def cut_name(name, whole, count):
    """Returns the name of a tensor in it, or None. An MTP layer comes after the last layer, wherever that is."""
    found = LAYER.fullmatch(name)
    if not found or int(found[2]) < count:
        return name
    layer = int(found[2])
    return f"{found[1]}{layer - whole + count}{found[3]}" if layer >= whole else None


def cut_tensors(tensors, config, count):
    """Returns its tensors. Gemma's embeddings of layers have the first layers' part."""
    width = count * decoder_of(config).get("hidden_size_per_layer_input", 0)
    out = {}
    for name, tensor in tensors.items():
        kept = cut_name(name, depth_of(config), count)
        if kept is None:
            continue
        if name.endswith(OF_ALL_LAYERS[0]):
            tensor = first_columns(tensor, width)
        elif name.endswith(OF_ALL_LAYERS[1]):
            tensor = first_rows(tensor, width)
        out[kept] = tensor
    return out


def depth_of(config):
    return decoder_of(config)["num_hidden_layers"]


def cycle_of(config, default):
    """Returns the number of layers from one with full attention to the next."""
    text = decoder_of(config)
    types = text.get("layer_types") or []
    if "full_attention" in types:
        return types.index("full_attention") + 1
    return text.get("full_attention_interval", default)


def fits(config, layers, count):
    """Returns whether MaxText has `count` layers of this model. In a stack, blocks of layers are whole."""
    text = decoder_of(config)
    kind = text.get("model_type", config["model_type"]).removesuffix("_text")
    stacked = layers == "stacked"
    if kind == "gemma2":
        return count % 2 == 0
    if kind == "gemma4":
        return count % cycle_of(config, 6) == 0
    if kind == "llama4":
        step = text.get("interleave_moe_layer_step", 1)
        return count % (math.lcm(4, step) if stacked else step) == 0
    if kind == "deepseek_v4":
        hashed = text.get("num_hash_layers", 3)
        return count <= hashed or (count - hashed) % 2 == 0
    if not stacked:
        return True
    if kind in ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"):
        return count > text.get("first_k_dense_replace", 0)
    if kind in ("qwen3_next", "qwen3_5", "qwen3_5_moe"):
        return count % cycle_of(config, 4) == 0
    return count % {"olmo3": 4, "gpt_oss": 2}.get(kind, 1) == 0


def first_columns(tensor, count):
    import numpy as np

    rows, columns = tensor["shape"]
    data = np.frombuffer(tensor["data"], np.uint8).reshape(rows, columns, -1)[:, :count]
    return {"dtype": tensor["dtype"], "shape": [rows, count], "data": data.tobytes()}


def first_rows(tensor, count):
    rows, columns = tensor["shape"]
    return {"dtype": tensor["dtype"], "shape": [count, columns], "data": bytes(tensor["data"][:len(tensor["data"]) // rows * count])}


def read_tensors(folder):
    """Returns name -> dtype, shape and bytes, by the safetensors library, in the order of the files, as in outputs."""
    import safetensors

    out = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            tensors = dict(safetensors.deserialize(data))
            out.update({key: tensors[key] for key in sorted(tensors, key=lambda key, header=header: header[key]["data_offsets"])})
    return out


def write_checkpoint(folder, config, tensors):
    """Writes a checkpoint in one file, in which the safetensors library finds these tensors."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as file:
        json.dump(config, file, indent=2)
    header, end = {}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + len(tensor["data"])
        header[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(bytes(tensor["data"]) for tensor in tensors.values()))
    assert read_tensors(folder) == tensors


# Files that follow from the source's name and the plan id. files_of compares the files themselves.
FOLLOWING = ("files", "identity", "plan_id", "record_sha256", "root_digest", "rules", "side_files", "tensors")


def normal_manifest(manifest, renamed):
    """Returns hfshard.json without what names the source: tensors by name, rules by pointer, without drops of left
    out layers."""
    tensors = [{**tensor, "name": renamed(tensor["name"])} for tensor in manifest["tensors"]]
    rules = manifest["rules"]
    parts = [index for index, tensor in enumerate(tensors) if tensor["name"] and tensor["name"].endswith(OF_ALL_LAYERS)]
    for index in parts:
        tensors[index].pop("shape")

    def named(entry):
        entry = {**entry, "rule": rules[entry["rule"]]}
        if set(parts) & set(entry.get("sources", [])):
            entry = {key: value for key, value in entry.items() if key not in ("map", "digests")}  # by places in the source
        if "sources" in entry:
            entry["sources"] = [tensors[source] for source in entry["sources"]]
        for key in ("source", "same_as"):
            if key in entry:
                entry[key] = tensors[entry[key]]
        return entry

    out = {key: value for key, value in manifest.items() if key not in FOLLOWING}
    out["drops"] = sorted((drop for drop in map(named, manifest["drops"])
                           if drop["rule"] != "--num-layers" and "left out (--num-layers)" not in drop["why"]), key=json.dumps)
    out["transfers"] = [named(transfer) for transfer in manifest["transfers"]]
    out["fills"] = [named(fill) for fill in manifest["fills"]]
    return out


def files_of(root, renamed):
    """Returns every file below, without what follows from the plan id. JSON files are values."""
    out = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                data = file.read()
            if name == "hfshard.json":
                data = normal_manifest(json.loads(data), renamed)
            elif name in ("_CHECKPOINT_METADATA", "_METADATA"):
                data = json.loads(data)
                for key in ("plan_id", "root_digest"):
                    data["custom_metadata"]["hfshard"].pop(key)
            elif name == "manifest.ocdbt":
                data = data[:14] + data[30:-4]  # without its uuid and checksum
            elif name == "config.json":
                data = json.loads(data)
            out[os.path.relpath(path, root)] = data
    return out


class Source:
    """A checkpoint, and the arguments of its conversion. It's an example of a family, or one of tests/oracle."""

    def __init__(self, path, words, is_example):
        self.path = path
        self.words = words
        self.is_example = is_example
        self.config = oracle_dirs.read_json(path, "config.json")
        self.tensors = read_tensors(path)


def sources(tool, names):
    for family in sorted(json.loads(tool.run("mappings", "list", "--json").stdout)["families"], key=lambda row: row["name"]):
        name = family["name"]
        if (names and name not in names) or "maxtext" not in family["schemes"]:
            continue
        parts = ["--with", PARTS[name]] if name in PARTS else []
        tool.run("mappings", "example", name, tool.path(name), *parts, "--quiet")
        yield name, Source(tool.path(name), parts, True)
    for name in oracle_dirs.oracle_names():
        if not names or name in names:
            oracle = oracle_dirs.OracleDir(name)
            yield name, Source(oracle.path, oracle.words(), False)


def plan(tool, source, words):
    done = tool.run_any("plan", source, "--to", "null", "--json", "--quiet", *words)
    return json.loads(done.stdout)


def check_refused(tool, what, source, layers, count, answer):
    whole = depth_of(source.config)
    near = [next((n for n in numbers if fits(source.config, layers, n)), None)
            for numbers in (range(count - 1, 0, -1), range(count + 1, whole + 1))]
    wanted = " or ".join(str(n) for n in near if n)
    error = answer.get("error", {})
    tool.expect(error.get("code") == "usage" and f"pass --num-layers {wanted}" in error.get("hint", ""),
                f"{what}: {error}, and the numbers that fit are {wanted}")


def check(tool, what, source, layers, count):
    words = [*source.words, "--layers", layers]
    found, cut, expected = tool.path("found"), tool.path("cut"), tool.path("expected")
    for folder in (found, expected):
        shutil.rmtree(folder, ignore_errors=True)
    write_checkpoint(cut, cut_config(source.config, count), cut_tensors(source.tensors, source.config, count))
    mine = json.loads(tool.run("convert", source.path, found, "--json", "--quiet", *words, "--num-layers", str(count)).stdout)
    theirs = json.loads(tool.run("convert", cut, expected, "--json", "--quiet", *words).stdout)
    ours = files_of(found, lambda name: cut_name(name, depth_of(source.config), count))
    wanted = files_of(expected, lambda name: name)
    tool.expect(ours.keys() - {"hf/tokenizer_config.json", "hf/generation_config.json"} == wanted.keys(),
                f"{what}: {sorted(ours.keys() ^ wanted.keys())} are files of one of them")
    for name in sorted(ours.keys() & wanted.keys()):
        tool.expect(ours[name] == wanted[name], f"{what}: {name} differs")
    # Each row of Gemma's table holds a part of every layer, so it is read whole.
    table = sum(len(tensor["data"]) for name, tensor in source.tensors.items() if name.endswith(OF_ALL_LAYERS[0]))
    tool.expect(0 < mine["source_bytes"] <= READ_MORE * theirs["source_bytes"] + table * (1 - count / depth_of(source.config)),
                f"{what}: {mine['source_bytes']} bytes are read, of the cut checkpoint {theirs['source_bytes']}")
    named = next((word for word in mine["next"] if word.startswith("base_num_decoder_layers=")), "")
    blocks = 2 if source.config["model_type"] == "gemma2" else 1
    tool.expect(count == depth_of(source.config) or named == f"base_num_decoder_layers={count // blocks}", f"{what}: next is {mine['next']}")


def counts_to_try(source, layers, whole):
    """Returns the numbers of layers to try. For the stacked tree of an example, it's every number. For other
    checkpoints, and for separate layers, which nothing joins, it's the ends and the middle."""
    every = range(1, whole + 1)
    if layers == "stacked" and source.is_example:
        return every
    fitting = [count for count in every if fits(source.config, layers, count)]
    wanted = {*fitting[:1], *fitting[len(fitting) // 2:][:1], *fitting[-1:]}
    return [count for count in every if count in wanted or count not in fitting]


def check_source(tool, name, source):
    whole = depth_of(source.config)
    for layers in ("stacked", "separate"):
        if "error" in plan(tool, source.path, [*source.words, "--layers", layers]):
            continue
        counts = counts_to_try(source, layers, whole)
        first = next(count for count in counts if fits(source.config, layers, count))
        for count in counts:
            what = f"{name} {layers} --num-layers {count}"
            if fits(source.config, layers, count):
                check(tool, what, source, layers, count)
                if count == first:
                    tool.run("verify", tool.path("found"), source.path, "--quiet")
            else:
                answer = plan(tool, source.path, [*source.words, "--layers", layers, "--num-layers", str(count)])
                check_refused(tool, what, source, layers, count, answer)
    answer = plan(tool, source.path, [*source.words, "--num-layers", str(whole + 1)])
    tool.expect(answer.get("error", {}).get("code") == "usage" and f"{whole} layers" in answer["error"]["message"],
                f"{name}: {whole + 1} layers: {answer.get('error')}")


def read_by_child():
    """Returns the bytes that ended children of this process have read with read(2) and similar calls."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(re.search(r"rchar: (\d+)", file.read())[1])


def check_reads(tool):
    """Checks the system's counts. Two layers of a model with 16 are converted, from files that are read and not
    mapped."""
    config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 16, "num_attention_heads": 8, "num_key_value_heads": 8,
              "intermediate_size": 2048, "vocab_size": 1000, "tie_word_embeddings": False}
    with open(tool.path("config.json"), "w", encoding="ascii") as file:
        json.dump(config, file)
    tool.run("mappings", "example", "llama", tool.path("large"), "--config", tool.path("config.json"), "--quiet")
    write_checkpoint(tool.path("two"), cut_config(config, 2), cut_tensors(read_tensors(tool.path("large")), config, 2))
    counts = []
    for source, words in (("large", ["--num-layers", "2"]), ("two", [])):
        before = read_by_child()
        tool.run("convert", tool.path(source), tool.path(f"out-{source}"), "--quiet", "--io", "buffered", *words)
        counts.append(read_by_child() - before)
    size = os.path.getsize(tool.path("two", "model.safetensors"))
    tool.expect(size <= counts[1] and counts[0] <= READ_MORE * counts[1],
                f"{counts[0]} bytes are read for two of 16 layers, {counts[1]} where there are no others ({size} in the file)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("names", nargs="*", help="just these families and folders of tests/oracle")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("safetensors")
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        seen = 0
        for name, source in sources(tool, arguments.names):
            check_source(tool, name, source)
            seen += 1
        check_reads(tool)
        print(f"{seen} models")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
