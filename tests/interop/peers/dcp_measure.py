"""Loads checkpoints with real torch.distributed.checkpoint on several meshes, and counts what each rank reads.

    dcp_measure.py SOURCE.safetensors CHECKPOINT:MESH...

MESH is 4x1, 2x2, 4, 1, ...: dim 0 is split over the first number of ranks, dim 1 over the second. It prints a JSON
list with an object for each argument. By rank, the object has `needed_bytes` of the shards with elements,
`read_bytes` of the chunks that they touch, `item_bytes` of the archives around them, `requests` (one for each), and
`file_bytes` read from the files. `differing` lists the tensors with wrong values.
"""

import argparse
import json
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

import dcp_load

WORLD = 4


class Counted:
    """A file that counts the bytes read from it."""

    def __init__(self, file, reader):
        self.file, self.reader = file, reader

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size=-1):
        data = self.file.read(size)
        self.reader.file_bytes += len(data)
        return data

    def readinto(self, buffer):
        count = self.file.readinto(buffer)
        self.reader.file_bytes += count
        return count


class CountingReader(dcp.FileSystemReader):
    file_bytes = read_bytes = item_bytes = requests = 0

    def _slice_file(self, file, sinfo):
        return Counted(super()._slice_file(file, sinfo), self)

    def read_data(self, plan, planner):
        metadata = planner.metadata.state_dict_metadata
        for item in plan.items:
            info = metadata[item.storage_index.fqn]
            chunk = next(each for each in info.chunks if each.offsets == item.storage_index.offset)
            self.read_bytes += chunk.sizes.numel() * info.properties.dtype.itemsize
            self.item_bytes += self.storage_data[item.storage_index].length
            self.requests += 1
        return super().read_data(plan, planner)


def measure(path, text, wanted, rank, groups):
    """Returns the bytes that this rank reads, or nothing if it has no part."""
    shape = tuple(int(word) for word in text.split("x"))
    size = shape[0] * (shape[1] if len(shape) > 1 else 1)
    if rank >= size:
        return None
    mesh = DeviceMesh.from_group(groups[size], "cpu", mesh=torch.arange(size)) if len(shape) == 1 else groups[text]
    tensors = {}
    for name, value in wanted.items():
        tensors[name] = distribute_tensor(value, mesh, [Shard(dim) for dim in range(len(shape))])
    locals_ = {name: value.to_local().clone() for name, value in tensors.items()}
    for value in tensors.values():
        value.to_local().copy_(dcp_load.blank(value.to_local()))
    reader = CountingReader(path)
    dcp.load(tensors, storage_reader=reader, process_group=groups[size])
    differing = dcp_load.compare({name: value.to_local() for name, value in tensors.items()}, locals_, f"{path} {text} rank {rank}")
    needed = sum(value.numel() * value.element_size() for value in locals_.values())
    return {"needed_bytes": needed, "read_bytes": reader.read_bytes, "item_bytes": reader.item_bytes, "requests": reader.requests, "file_bytes": reader.file_bytes,
            "differing": differing}


def measure_all(words, wanted, rank):
    groups = {size: dist.new_group(list(range(size))) for size in range(1, WORLD + 1)}
    for word in words:
        text = word.rpartition(":")[2]
        if "x" in text and text not in groups:
            shape = tuple(int(each) for each in text.split("x"))
            groups[text] = DeviceMesh("cpu", torch.arange(WORLD).reshape(shape))
    return [measure(word.rpartition(":")[0], word.rpartition(":")[2], wanted, rank, groups) for word in words]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("words", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = dcp_load.read_safetensors(args.source)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(1, WORLD):
            child = os.fork()
            if child == 0:
                dcp_load.start(rank, folder)
                with open(os.path.join(folder, str(rank)), "w", encoding="utf-8") as file:
                    json.dump(measure_all(args.words, wanted, rank), file)
                os._exit(0)
            children.append(child)
        dcp_load.start(0, folder)
        ranks = [measure_all(args.words, wanted, 0)]
        dist.destroy_process_group()
        for rank, child in enumerate(children, 1):
            assert os.waitpid(child, 0)[1] == 0
            with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                ranks.append(json.load(file))
    out = []
    for number in range(len(args.words)):
        parts = [each[number] for each in ranks if each[number] is not None]
        out.append({key: [part[key] for part in parts] for key in parts[0] if key != "differing"} |
                   {"differing": [name for part in parts for name in part["differing"]]})
    print(json.dumps(out))


if __name__ == "__main__":
    main()
