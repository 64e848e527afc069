#!/usr/bin/env python3
"""Checks that real torch.distributed.checkpoint loads the output of --to dcp, bit for bit, on other meshes than its
own.

A model with every dtype and with dims that don't divide is written for several meshes. peers/dcp_load.py loads each
whole and as shards of two, three and four processes. `verify` and the export to safetensors agree. Workers write the
same bytes.
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import struct
import sys
import tempfile

import dcp_variants
import interop

MESHES = {"none": [], "rows": ["fsdp=4"], "uneven": ["fsdp=3"], "both": ["fsdp=2,tensor=2"], "columns": ["tensor=3"], "many": ["fsdp=64"],
          "refined": ["fsdp=4", "fsdp=2,tensor=2"]}
LIMITS = "floor_bytes=16,file_min_bytes=8192,file_max_bytes=8192,merge_bytes=4096"
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "C64": 8, "F8_E4M3": 1,
         "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}


def write_source(path):
    """Writes a safetensors file, and config.json next to it."""
    made = random.Random(5)
    arrays = [(f"types.{dtype}", dtype, (13, 6)) for dtype in SIZES]
    arrays += [("scalar", "F32", ()), ("empty", "F32", (0, 4)), ("vector", "BF16", (17,)), ("five", "F16", (5, 3, 2, 1, 3)),
               ("tall", "BF16", (101, 7)), ("wide", "F32", (3, 53)), ("odd.\u00fc", "I8", (1, 5))]
    header, data = {}, b""
    for name, dtype, shape in arrays:
        count = SIZES[dtype]
        for extent in shape:
            count *= extent
        bytes_ = bytes(made.randrange(2) for _ in range(count)) if dtype == "BOOL" else made.randbytes(count)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + count]}
        data += bytes_
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "any"}, file)


def same_trees(a, b):
    names = sorted(os.listdir(a))
    return names == sorted(os.listdir(b)) and not any(filecmp.cmpfiles(a, b, names, shallow=False)[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True, help="the test tool")
    args = parser.parse_args()
    python = dcp_variants.torch_python()
    folder = tempfile.mkdtemp()
    try:
        tool = interop.Program(args.hfshard, folder)
        source = tool.path("source")
        os.mkdir(source)
        write_source(source)
        written = []
        for name, meshes in MESHES.items():
            out = tool.path(name)
            words = ["convert", source, out, "--to", "dcp", "--chunk-bytes", "200", "--limits", LIMITS]
            for mesh in meshes:
                words += ["--mesh", mesh]
            tool.run(*words)
            tool.run("verify", out, source)
            written.append(out)
        tool.expect(len([name for name in os.listdir(tool.path("rows")) if name.endswith(".distcp")]) > 1, "several data files")
        differing = dcp_variants.peer(python, "dcp_load.py", os.path.join(source, "model.safetensors"), *written)
        tool.expect(not differing, f"torch loads other values: {differing[:5]}")
        tool.run("convert", tool.path("uneven"), tool.path("back"), "--to", "safetensors", "--scheme", "hf")
        tool.run("verify", tool.path("back"), source)
        tool.expect(os.path.exists(tool.path("back", "config.json")), "config.json goes along")
        for worker in ("1/2", "0/2"):
            tool.run("convert", source, tool.path("shared"), "--to", "dcp", "--chunk-bytes", "200", "--mesh", "fsdp=3", "--limits", LIMITS,
                     "--worker", worker)
        tool.run("finalize", tool.path("shared"), "--limits", LIMITS)
        tool.expect(same_trees(tool.path("uneven"), tool.path("shared")), "workers make the same bytes")
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
