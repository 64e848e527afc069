"""Loads checkpoints with real torch.distributed.checkpoint and compares them with a safetensors file, bit for bit.

    dcp_load.py SOURCE.safetensors CHECKPOINT...

Each checkpoint is loaded whole without a process group, and by dcp_to_torch_save. Four forked ranks load it as
DTensors, in rows, columns and both, and so do two and three of them. It prints a JSON list of the differences.
"""

import argparse
import json
import os
import struct
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

WORLD = 4
DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
          "U8": "uint8", "BOOL": "bool", "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "U16": "uint16",
          "U32": "uint32", "U64": "uint64", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, info in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        dtype = getattr(torch, DTYPES[info["dtype"]])
        raw = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=torch.uint8) if end > begin else \
            torch.zeros(0, dtype=torch.uint8)
        out[name] = raw.view(dtype).reshape(info["shape"])
    return out


def same(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return not a.numel() or torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def blank(value):
    """Returns a tensor that a load must overwrite."""
    out = torch.empty_like(value)
    if out.numel():
        out.reshape(-1).view(torch.uint8).fill_(1 if value.dtype == torch.bool else 0xA5)
    return out


def compare(found, wanted, what):
    return [f"{what}: {name}" for name in wanted if not same(found[name], wanted[name])]


def load_alone(path, wanted):
    tensors = {name: blank(value) for name, value in wanted.items()}
    dcp.load(tensors, checkpoint_id=path, no_dist=True)
    out = compare(tensors, wanted, f"{path} alone")
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path)) as file:
        dcp_to_torch_save(path, file.name)
        out += compare(torch.load(file.name), wanted, f"{path} by dcp_to_torch_save")
    return out


# Ranks, and the split of their dims.
LAYOUTS = {"rows/4": (4, None, (Shard(0),)), "columns/4": (4, None, (Shard(1),)), "rows x columns": (4, (2, 2), (Shard(0), Shard(1))),
           "rows/3": (3, None, (Shard(0),)), "rows/2": (2, None, (Shard(0),)), "hsdp": (4, (2, 2), (Replicate(), Shard(0)))}


def load_together(paths, wanted, rank):
    """Returns the differences in this rank's shards."""
    groups = {size: dist.new_group(list(range(size))) for size in (2, 3, 4)}
    out = []
    for name, (size, shape, placements) in LAYOUTS.items():
        mesh = init_device_mesh("cpu", shape) if shape else None
        if rank >= size:
            continue
        mesh = mesh or DeviceMesh.from_group(groups[size], "cpu")
        for path in paths:
            tensors = {}
            for key, value in wanted.items():
                fitting = [p if not isinstance(p, Shard) or p.dim < value.dim() else Replicate() for p in placements]
                tensors[key] = distribute_tensor(value, mesh, fitting)
            locals_ = {key: value.to_local().clone() for key, value in tensors.items()}
            for value in tensors.values():
                local = value.to_local()
                local.copy_(blank(local))
            dcp.load(tensors, checkpoint_id=path, process_group=groups[size])
            out += compare({key: value.to_local() for key, value in tensors.items()}, locals_, f"{path} {name} rank {rank}")
    return out


def start(rank, folder):
    os.environ.update(GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("checkpoints", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    wanted = read_safetensors(args.source)
    # Collectives don't support 8-bit floats and wide unsigned integers, so those are loaded alone.
    known = {torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool}
    spread = {name: value for name, value in wanted.items() if value.dtype in known and value.numel()}
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(1, WORLD):
            child = os.fork()
            if child == 0:
                start(rank, folder)
                with open(os.path.join(folder, str(rank)), "w", encoding="utf-8") as file:
                    json.dump(load_together(args.checkpoints, spread, rank), file)
                os._exit(0)
            children.append(child)
        start(0, folder)
        out = load_together(args.checkpoints, spread, 0)
        dist.destroy_process_group()
        for rank, child in enumerate(children, 1):
            assert os.waitpid(child, 0)[1] == 0
            with open(os.path.join(folder, str(rank)), encoding="utf-8") as file:
                out += json.load(file)
        for path in args.checkpoints:
            out += load_alone(path, wanted)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
