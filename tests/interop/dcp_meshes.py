#!/usr/bin/env python3
"""Checks that real torch processes read what plan --load-mesh predicts for a DCP, on other meshes than its own.

The model's dims don't divide. It is written for one mesh or for several (the grid is their common refinement).
peers/dcp_measure.py loads it with 1 to 4 gloo processes on other meshes. It compares the values, and counts chunks
and bytes.
"""

import argparse
import json
import os
import random
import shutil
import struct
import sys
import tempfile

import dcp_variants
import interop

# The mesh for writing, the mesh for reading, and the largest share read of the needed bytes (without archives).
CASES = {
    "4x1 and 2x2": (["fsdp=4", "fsdp=2,tensor=2"], {"4x1": 1.0, "2x2": 1.0, "1": 1.0}),
    "4x1": (["fsdp=4"], {"2x2": 2.3, "1": 1.0, "4x1": 1.0}),
    "2x2": (["fsdp=2,tensor=2"], {"4x1": 2.3, "2x2": 1.0}),
    "1": (["fsdp=1"], {"4": 4.0, "1": 1.0}),
    "4": (["fsdp=4"], {"1": 1.0, "3": 1.8}),
    "3": (["fsdp=3"], {"2": 1.5, "4": 2.0}),
}
SHAPES = {"even": (256, 160), "rows": (267, 130), "columns": (140, 253), "tall": (803, 36), "three": (62, 50, 35), "five": (5, 600)}
LIMITS = ["--limits", "floor_bytes=16,file_min_bytes=65536,file_max_bytes=65536"]


def write_source(path):
    made = random.Random(11)
    header, data = {}, b""
    for name, shape in SHAPES.items():
        count = 4
        for extent in shape:
            count *= extent
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + count]}
        data += b"".join(struct.pack("<f", made.random()) for _ in range(count // 4))
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def mesh_words(text):
    """Returns fsdp=2,tensor=2 for 2x2."""
    sizes = text.split("x")
    return f"fsdp={sizes[0]}" + (f",tensor={sizes[1]}" if len(sizes) > 1 else "")


def predicted(tool, command, words, texts):
    loads = []
    for text in texts:
        loads.append("--load-mesh")
        loads.append(mesh_words(text))
    return dict(zip(texts, tool.json(command, *words, *loads, "--quiet")["loads"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hfshard", required=True, help="the test tool")
    args = parser.parse_args()
    python = dcp_variants.torch_python()
    folder = tempfile.mkdtemp()
    try:
        tool = interop.Program(args.hfshard, folder)
        source = tool.path("source.safetensors")
        write_source(source)
        words, claims = [], []
        for name, (meshes, readers) in CASES.items():
            out = tool.path(name.replace(" ", "_"))
            asked = [word for mesh in meshes for word in ("--mesh", mesh)] + ["--to", "dcp", *LIMITS]
            tool.run("convert", source, out, *asked)
            of_plan = predicted(tool, "plan", [source, *asked], readers)
            of_stored = predicted(tool, "inspect", [out], readers)
            for text, most in readers.items():
                words.append(f"{out}:{text}")
                claims.append((f"{name} on {text}", of_plan[text], of_stored[text], most))
        for found, (name, plan, stored, most) in zip(dcp_variants.peer(python, "dcp_measure.py", source, *words), claims):
            tool.expect(not found["differing"], f"{name}: {found['differing'][:3]}")
            needed, read = sum(found["needed_bytes"]), sum(found["read_bytes"])
            tool.expect(plan["needed_bytes"] == stored["needed_bytes"] == needed, f"{name}: torch needs {needed}, {plan['needed_bytes']} are predicted")
            tool.expect([host["requests"] for host in plan["per_host"]] == found["requests"],
                        f"{name}: requests {found['requests']}, {plan['per_host']} are predicted")
            # Chunks at the edge are shorter than plan assumes. inspect assumes that all have their mean length.
            items = sum(found["item_bytes"])
            tool.expect(items <= plan["read_bytes"] <= 1.04 * items, f"{name}: torch reads {items}, {plan['read_bytes']} are predicted")
            tool.expect(abs(stored["read_bytes"] - items) <= 0.02 * items, f"{name}: inspect predicts {stored['read_bytes']}, {items} are read")
            tool.expect(read <= most * needed, f"{name}: {read / needed:.3f} times what is needed, at most {most}")
            # Torch looks for the directory of an archive more than once.
            around = sum(found["file_bytes"]) - items
            tool.expect(0 < around < 4096 * sum(found["requests"]), f"{name}: {sum(found['file_bytes'])} bytes of files, {items} of archives")
        return tool.verdict()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
