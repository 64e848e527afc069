"""Other names, shapes and dtypes for the tensors of an example, as some releases store them. For plans.py.

The files of an example have no data, so only the header changes.
"""

import json
import math
import os
import re
import struct

# Part of a name: the names of its halves. Both are [experts, rows, columns].
FUSED = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def store(folder, changes):
    """Renames tensors by pairs of a pattern and its replacement. `split` gives each expert tensors of its own, `turned`
    exchanges the last two axes of fused experts. With `wide`, bf16 is f32."""
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    tensors = [(name, facts["dtype"], facts["shape"], facts["data_offsets"]) for name, facts in header.items() if name != "__metadata__"]
    out, end = {}, 0
    for name, dtype, shape, (begin, stop) in sorted(tensors):
        width = (stop - begin) // math.prod(shape)
        if changes.get("wide") and dtype == "BF16":
            dtype, width = "F32", 4
        for named, extents in stored(name, shape, changes):
            size = width * math.prod(extents)
            out[named] = {"dtype": dtype, "shape": extents, "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def stored(name, shape, changes):
    """Returns what a tensor becomes: [(name, shape)]."""
    for pattern, replacement in changes.get("names", []):
        name = re.sub(pattern, replacement, name)
    fused = re.fullmatch(r"(.*\bexperts)\.(gate_up_proj|down_proj)", name)
    if not fused:
        return [(name, shape)]
    experts, *matrix = shape
    if "turned" in changes:
        matrix.reverse()
    if "split" not in changes:
        return [(name, [experts, *matrix])]
    halves = FUSED[fused[2]]
    if changes["split"] == "in_out":
        matrix.reverse()
    return [(f"{fused[1]}.{expert}.{half}.weight", [matrix[0] // len(halves), matrix[1]]) for expert in range(experts) for half in halves]
