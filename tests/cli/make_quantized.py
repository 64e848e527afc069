#!/usr/bin/env python3
"""Stores the matrices in the layers of a tiny model as codes: make_quantized.py DIR KIND [METHOD]. Codes and scales are
arbitrary.

KIND names a library's form, one of those in `coded`. METHOD goes to quantization_config, or is all of it as JSON.
"""

import json
import os
import struct
import sys


def tensor(dtype, bits, *shape):
    count = 1
    for extent in shape:
        count *= extent
    filler = {"F32": struct.pack("<f", 0.5), "BF16": b"\x00\x3f"}.get(dtype)
    return dtype, list(shape), filler * count if filler else bytes([0x31]) * (count * bits // 8)


def unlike(*shape):
    """Returns scales of which no two are equal."""
    count = shape[0] * shape[1]
    return "F32", list(shape), struct.pack(f"<{count}f", *range(1, count + 1))


def stated(*shape):
    """Returns a tensor that holds a shape."""
    return "I64", [len(shape)], struct.pack(f"<{len(shape)}q", *shape)


def coded(kind, name, rows, cols):
    """Returns the stored form of a matrix."""
    stem = name.removesuffix(".weight")
    scale = f"{stem}.weight_scale"
    words = {f"{stem}.qweight": tensor("I32", 32, cols // 8, rows), f"{stem}.qzeros": tensor("I32", 32, 1, rows // 8 + 1),
             f"{stem}.scales": tensor("F16", 16, 1, rows)}
    return {
        "fp8": {name: tensor("F8_E4M3", 8, rows, cols), scale: tensor("BF16", 16, rows, 1)},
        "modelopt": {name: tensor("F8_E4M3", 8, rows, cols), scale: tensor("F32", 32), f"{stem}.input_scale": tensor("F32", 32)},
        "nvfp4": {f"{name}_packed": tensor("U8", 8, rows, cols // 2), scale: tensor("F8_E4M3", 8, rows, cols // 16),
                  f"{name}_global_scale": tensor("F32", 32, 1)},
        "int4": {f"{name}_packed": tensor("I32", 32, rows, cols // 8), scale: tensor("BF16", 16, rows, cols // 16),
                 f"{name}_zero_point": tensor("I32", 32, (rows + 7) // 8, cols // 16), f"{name}_shape": stated(rows, cols)},
        "int8": {name: tensor("I8", 8, rows, cols), scale: tensor("F32", 32, rows)},
        "awq": {f"{stem}.qweight": tensor("I32", 32, cols, rows // 8 + 1), f"{stem}.qzeros": tensor("I32", 32, 1, 1),
                f"{stem}.scales": tensor("BF16", 16, 1, rows)},
        "bnb": {name: tensor("U8", 8, rows * cols // 2, 1), f"{name}.absmax": tensor("F32", 32, 4)},
        "mlx": {name: tensor("U32", 32, rows, cols // 8), f"{stem}.scales": tensor("BF16", 16, rows, 1),
                f"{stem}.biases": tensor("BF16", 16, rows, 1)},
        "bnb8": {name: tensor("I8", 8, rows, cols), f"{stem}.SCB": tensor("F32", 32, rows), f"{stem}.weight_format": tensor("U8", 8)},
        "gptq": {**words, f"{stem}.g_idx": tensor("I32", 32, cols)},
        "hqq": {f"{stem}.W_q": tensor("U8", 8, rows // 2, cols), f"{stem}.scale": tensor("BF16", 16, rows, 1),
                f"{stem}.zero": tensor("BF16", 16, rows, 1)},
        "quanto": {f"{name}._data": tensor("I8", 8, rows, cols), f"{name}._scale": tensor("BF16", 16, rows, 1)},
        "torchao": {f"{name}_qdata": tensor("I8", 8, rows, cols), scale: tensor("F32", 32, rows)},
        "eetq": {name: tensor("I8", 8, cols, rows), f"{stem}.weight_scales": tensor("F16", 16, rows)},
        "bitnet": {name: tensor("U8", 8, rows // 4 + 1, cols), scale: tensor("BF16", 16, 1)},
        "mxfp8": {name: tensor("F8_E4M3", 8, rows, cols), scale: tensor("F8_E8M0", 8, rows, cols // 32 + 1)},
        "inv": {name: tensor("F8_E5M2", 8, rows, cols), f"{name}_scale_inv": tensor("F32", 32)},
        "other_scale": {name: tensor("F8_E4M3", 8, rows, cols), f"{stem}.scale": tensor("F32", 32)},
        "blocks": {name: tensor("F8_E4M3", 8, rows, cols), f"{name}_scale_inv": unlike((rows + 7) // 8, (cols + 7) // 8)},
        "int8_words": {f"{name}_packed": tensor("I32", 32, rows, cols // 4), scale: tensor("BF16", 16, rows, 1), f"{name}_shape": stated(rows, cols)},
        "padded": {f"{name}_packed": tensor("I32", 32, rows, cols // 4), scale: tensor("BF16", 16, rows, 1), f"{name}_shape": stated(rows, cols - 1)},
        "shapeless": {f"{name}_packed": tensor("I32", 32, rows, cols // 4), scale: tensor("BF16", 16, rows, 1),
                      f"{name}_shape": tensor("F32", 32, 2)},
        "words": {f"{name}_words": tensor("I32", 32, rows, cols // 8), f"{name}_scales": tensor("BF16", 16, rows, 1)},
        "g_idx": {f"{name}_packed": tensor("I32", 32, rows, cols // 8), scale: tensor("BF16", 16, rows, 2),
                  f"{name}_g_idx": tensor("I32", 32, cols)}}[kind]


def main(folder, kind, method=None):
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out, payload = {}, b""
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        stored = {name: (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])}
        if ".layers." in name and len(entry["shape"]) == 2:
            stored = coded(kind, name, *entry["shape"])
            if name.endswith("k_proj.weight") and kind == "modelopt":
                stored[name.replace("weight", "k_scale")] = tensor("F32", 32)
        for key, (dtype, shape, raw) in stored.items():
            out[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(payload), len(payload) + len(raw)]}
            payload += raw
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + payload)
    if method is None:
        return
    config_path = os.path.join(folder, "config.json")
    with open(config_path, encoding="utf-8") as file:
        config = json.load(file)
    config["quantization_config"] = json.loads(method) if method.startswith("{") else {"quant_method": method}
    with open(config_path, "w", encoding="utf-8") as file:
        json.dump(config, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
