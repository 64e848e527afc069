#!/usr/bin/env python3
"""Rewrites the names in the header of a safetensors file: rename_tensors.py FILE EXPRESSION (of name `n`; None leaves a tensor out)."""

import json
import re
import struct
import sys


def main(path, expression):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    out, payload = {"__metadata__": {"format": "pt"}}, b""
    header.pop("__metadata__", None)
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        new = eval(expression, {"re": re}, {"n": name})  # a test's own text
        if new is None:
            continue
        begin, end = entry["data_offsets"]
        out[new] = entry | {"data_offsets": [len(payload), len(payload) + end - begin]}
        payload += data[8 + length + begin : 8 + length + end]
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + payload)


if __name__ == "__main__":
    main(*sys.argv[1:])
