#!/usr/bin/env python3
"""Checks FP8 codes that stay codes, with their scales: converted, exported and compared.

    kept_codes.py --hfshard PROGRAM

tests/oracle/qwen3.5-fp8 is the output of MaxText 0.2.5's own converter (fixtures.py). This test covers the same
checkpoint with scales in f32, and with fused experts as transformers 5 saves them. It covers the export with and
without a record, bit for bit, and refused options.
"""

import json
import os
import shutil
import tempfile

import interop

SOURCE = os.path.join(interop.ORACLE, "qwen3.5-fp8")
KEEP = ("--dtype", "keep")


def arrays_of(path):
    """Returns names, dtypes and bytes of a safetensors file, as numpy arrays of bytes if numpy has no such dtype."""
    import numpy

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    size = {"F32": "<u4", "BF16": "<u2", "F8_E4M3": "u1"}
    return {name: (facts["dtype"], numpy.frombuffer(data[slice(*facts["data_offsets"])], size[facts["dtype"]]).reshape(facts["shape"]))
            for name, facts in header.items() if name != "__metadata__"}


def write(folder, arrays):
    os.mkdir(folder)
    shutil.copy(os.path.join(SOURCE, "config.json"), folder)
    header, data = {}, b""
    for name, (dtype, array) in sorted(arrays.items()):
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    return folder


def wide_scales(arrays):
    """Returns scales in f32, with bits that bf16 doesn't have."""
    return {name: ("F32", (array.astype("<u4") << 16) + 77) if name.endswith("_scale_inv") else (dtype, array) for name, (dtype, array) in arrays.items()}


def fused(arrays):
    import numpy

    out = {name: array for name, array in arrays.items() if ".experts." not in name}
    for layer in {name[:name.index(".experts.")] for name in arrays if ".experts." in name}:
        for end, put in ((".weight", ""), (".weight_scale_inv", "_scale_inv")):
            of = [{part: arrays[f"{layer}.experts.{e}.{part}_proj{end}"] for part in ("gate", "up", "down")} for e in range(3)]
            dtype = of[0]["gate"][0]
            out[f"{layer}.experts.gate_up_proj{put}"] = (dtype, numpy.stack([numpy.concatenate([e["gate"][1], e["up"][1]]) for e in of]))
            out[f"{layer}.experts.down_proj{put}"] = (dtype, numpy.stack([e["down"][1] for e in of]))
    return out


def check_equal(tool, a, b):
    said = tool.json("diff", a, b)
    tool.expect(said["equal"] and said["compared_tensors"] > 50, f"{a} and {b} differ: {str(said)[:300]}")


def check_back(tool, name, source, layers):
    """Checks that the tensors come back, by the record and by --config alone. `next` names the scales."""
    tree, alone = tool.path(f"{name}-{layers}"), tool.path(f"{name}-{layers}-alone")
    said = tool.json("convert", source, tree, *KEEP, "--layers", layers)["next"]
    for word in ("model_name=qwen3.5-35b-a3b-fp8", "weight_block_size=8"):
        tool.expect(word in said, f"{name}: {word} is not among {said}")
    check_equal(tool, source, tree)
    shutil.copytree(tree, alone)
    os.remove(os.path.join(alone, "0", "hfshard.json"))
    check_equal(tool, source, alone)
    wanted = interop.tensors_of(source)
    for place, words in ((tree, ()), (alone, ("--config", source))):
        back = place + "-back"
        tool.run("convert", place, back, "--to", "safetensors", *words)
        tool.expect(name == "fused" or interop.tensors_of(back) == wanted, f"{place}: other tensors than the source's")
        with open(os.path.join(back, "config.json"), encoding="utf-8") as file:
            tool.expect("quantization_config" in json.load(file), f"{place}: config.json has no quantization_config")
        check_equal(tool, tree, back)
    anew = tool.path(f"{name}-{layers}-anew")
    said = tool.json("reshard", alone, anew, "--mesh", "fsdp=2", "--config", source)["next"]
    tool.expect("model_name=qwen3.5-35b-a3b-fp8" in said, f"{name}: next of a reshard is {said}")
    check_equal(tool, tree, anew)
    tool.run("verify", tree)


def check_decoded(tool):
    """Checks that without --dtype keep none of this happens, and the two trees differ."""
    kept, decoded = tool.path("split-stacked"), tool.path("decoded")
    tool.run("convert", SOURCE, decoded)
    said = tool.json("diff", kept, decoded, status=5)
    tool.expect(not said["equal"], "codes equal what they stand for")
    os.remove(os.path.join(decoded, "0", "hfshard.json"))
    check_equal(tool, SOURCE, decoded)


def check_refused(tool):
    other = os.path.join(interop.ORACLE, "qwen3-moe-fp8")
    cases = (((SOURCE, *KEEP, "--maxtext", "0.2.4"), 3, "MaxText 0.2.4 has no place for scales"),
             ((other, *KEEP), 3, "MaxText 0.2.5 has no place for its scales"),
             ((SOURCE, "--dtype", "bf16", "--option", "codes=kept"), 2, "leave out one of the two"),
             ((SOURCE, "--option", "codes=coded"), 2, "needs kept or decoded"))
    for words, status, text in cases:
        done = tool.run("convert", words[0], tool.path("refused"), *words[1:], status=status)
        tool.expect(text in done.stderr, f"{words}: {done.stderr}")
    for key, value, text in (("weight_block_size", [8, 4], "square blocks"), ("weight_block_size", [6, 6], "whole blocks"), ("weight_block_size", [4, 4], "heads")):
        folder = tool.path(f"sizes-{value[0]}-{value[1]}")
        shutil.copytree(SOURCE, folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["quantization_config"][key] = value
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        done = tool.run("convert", folder, tool.path("refused"), *KEEP, status=3)
        tool.expect(text in done.stderr, f"{value}: {done.stderr}")


def main():
    arguments = interop.start(__doc__)
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        arrays = arrays_of(os.path.join(SOURCE, "model.safetensors"))
        for name, source in (("split", SOURCE), ("wide", write(tool.path("wide"), wide_scales(arrays))), ("fused", write(tool.path("fused"), fused(arrays)))):
            for layers in ("stacked", "separate"):
                check_back(tool, name, source, layers)
        check_equal(tool, tool.path("split-stacked"), tool.path("fused-stacked"))
        check_decoded(tool)
        check_refused(tool)
        raise SystemExit(tool.verdict())


if __name__ == "__main__":
    main()
