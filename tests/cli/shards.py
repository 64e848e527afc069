#!/usr/bin/env python3
"""Splits a safetensors file into shards with an index, like save_pretrained: shards.py FILE COUNT."""

import json
import os
import struct
import sys


def main(path, count):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    names = sorted(header)
    weight_map = {}
    for shard in range(count):
        name = f"model-{shard + 1:05}-of-{count:05}.safetensors"
        out, payload = {"__metadata__": {"format": "pt"}}, b""
        for tensor in names[shard::count]:
            begin, end = header[tensor]["data_offsets"]
            out[tensor] = header[tensor] | {"data_offsets": [len(payload), len(payload) + end - begin]}
            payload += data[8 + length + begin : 8 + length + end]
            weight_map[tensor] = name
        text = json.dumps(out).encode()
        with open(os.path.join(os.path.dirname(path), name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + payload)
    os.remove(path)
    with open(path + ".index.json", "w") as file:
        json.dump({"metadata": {"total_size": len(data) - 8 - length}, "weight_map": weight_map}, file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
