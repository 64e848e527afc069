#!/usr/bin/env python3
"""One emulated host: reads its slice of every leaf of an Orbax item through TensorStore, and says what that cost.

    load_host.py TASK.json [--source DIR]

TASK.json is made by load.py: the context and the spec of every leaf, both by Orbax's own functions, and the block of
each leaf that each host to be emulated needs. Only TensorStore and numpy are imported here, so that the peak is that of
the read (and of an interpreter, 50 MB). Per host: all leaves are opened, then all are read at once into memory made as
Orbax makes it. Prints a JSON list:

seconds               from before the first open until all is read
data_bytes, requests  what TensorStore's file driver read after all leaves were open: of local files, each chunk with
                      one request of its own, and all of it
index_bytes           what it read to open them: manifest, B+tree nodes, zarr.json
rchar                 what the kernel says was read after the open; must agree with data_bytes
peak_bytes            VmHWM when all is read; of the first host only, if there are more

With --source the slices of three leaves are compared with the safetensors that they come from; a difference ends the
program with status 1.
"""

import argparse
import asyncio
import json
import mmap
import os
import struct
import sys
import time

import ml_dtypes  # noqa: F401, gives numpy bfloat16
import numpy as np
import tensorstore as ts

# Leaf -> tensor of the source, {} its layer. Layers are axis 1 of a stacked leaf, and kernels are transposed.
CHECKED = {
    "params.params.token_embedder.embedding": "model.embed_tokens.weight",
    "params.params.decoder.layers.mlp.wi_0.kernel": "model.layers.{}.mlp.gate_proj.weight",
    "params.params.decoder.layers.mlp.wo.kernel": "model.layers.{}.mlp.down_proj.weight",
}
# /proc/self/io itself is a read of about 100 bytes.
RCHAR_SLACK = 1024


class Source:
    """Slices of leaves, straight from the safetensors of a Qwen3 checkpoint."""

    def __init__(self, folder):
        self.tensors = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".safetensors"):
                self._open(os.path.join(folder, name))

    def _open(self, path):
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, facts in json.loads(data[8:start]).items():
            if name != "__metadata__" and facts["dtype"] == "BF16":
                begin, end = facts["data_offsets"]
                flat = np.frombuffer(data, np.uint16, (end - begin) // 2, start + begin)
                self.tensors[name] = flat.reshape(facts["shape"])

    def leaf(self, name, index):
        """The bits of leaf[index]."""
        template = CHECKED[name]
        if "{}" not in template:
            return self.tensors[template][index]
        before, layers, after = index
        count = sum(1 for tensor in self.tensors if tensor.endswith(template.split("{}")[1]))
        chosen = [self.tensors[template.format(layer)][after, before].T for layer in range(count)[layers]]
        return np.stack(chosen, axis=1)

    def check(self, name, index, value):
        """Ends the program where value is not leaf[index]."""
        found = np.ascontiguousarray(value).view(np.uint16)
        if not np.array_equal(found, self.leaf(name, index)):
            sys.exit(f"WRONG VALUE: {name}{list(index)} differs from the source")


def file_metrics():
    """Bytes and reads of TensorStore's file driver so far."""
    found = {metric["name"]: metric["values"][0]["value"]
             for metric in ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/")
             if metric["name"].endswith(("/bytes_read", "/read"))}
    return (found.get("/tensorstore/kvstore/file/bytes_read", 0), found.get("/tensorstore/kvstore/file/read", 0))


def rchar():
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def index_of(block):
    return tuple(slice(begin, end) for begin, end in block)


async def read_slice(array, block):
    """As Orbax reads a shard: _src/serialization/serialization.py _read_shard."""
    domain = ts.IndexDomain(shape=array.shape)[ts.d[:][index_of(block)]]
    out = np.zeros(domain.shape, dtype=array.dtype.numpy_dtype)
    await ts.array(out)[ts.d[:].translate_to[domain.origin]][domain].write(array[domain])
    return out


async def load(task, blocks):
    """Reads one host's blocks: leaf -> value, and the costs."""
    names = list(blocks)
    at_start = file_metrics()
    started = time.monotonic()
    context = ts.Context(task["context"])
    arrays = await asyncio.gather(*[ts.open(task["specs"][name], open=True, context=context) for name in names])
    opened, rchar_opened = file_metrics(), rchar()
    values = await asyncio.gather(*[read_slice(array, blocks[name]) for name, array in zip(names, arrays)])
    seconds = time.monotonic() - started
    rchar_read, read = rchar(), file_metrics()
    facts = {"seconds": seconds, "data_bytes": read[0] - opened[0], "requests": read[1] - opened[1],
             "index_bytes": opened[0] - at_start[0], "rchar": rchar_read - rchar_opened, "peak_bytes": peak_bytes()}
    return dict(zip(names, values)), facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--source", help="the Hugging Face directory that the item comes from")
    options = parser.parse_args()
    with open(options.task, encoding="utf-8") as file:
        task = json.load(file)
    out = []
    for blocks in task["hosts"]:
        values, facts = asyncio.run(load(task, blocks))
        if abs(facts["rchar"] - facts["data_bytes"]) > RCHAR_SLACK:
            sys.exit(f"the kernel counted {facts['rchar']} bytes read, TensorStore {facts['data_bytes']}")
        if options.source:
            source = Source(options.source)
            for name in CHECKED:
                source.check(name, index_of(blocks[name]), values[name])
        del values
        out.append(facts)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
