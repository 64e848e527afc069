"""Writes checkpoints with real torch.distributed.checkpoint, in many ways, and prints what torch loads from each.

One process and three forked from it are the ranks of all variants. By variant, the printed JSON has name -> dtype,
shape and sha256 of the row-major bytes of each tensor, and the names of its objects.
"""

import argparse
import functools
import hashlib
import json
import os
import pickle
import types
import warnings

import dcp_state
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.filesystem as filesystem
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import BytesStorageMetadata
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WORLD = 4
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32", "uint64")


def noise(*shape, dtype="float32", seed=0):
    """Returns random bytes as a tensor."""
    dtype = getattr(torch, dtype)
    made = torch.Generator().manual_seed(seed + 7 * len(shape) + sum(shape))
    count = int(torch.Size(shape).numel())
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=made).bool()
    bytes_ = torch.randint(0, 256, (count * dtype.itemsize,), generator=made, dtype=torch.uint8)
    return bytes_.view(dtype).reshape(shape)


# -- One process


def small():
    return {"a.weight": noise(8, 6, dtype="bfloat16"), "a.bias": noise(7), "b": noise(3, 4, 5, dtype="int16")}


def all_dtypes():
    return {f"t.{name}": noise(5, 6, dtype=name) for name in DTYPES} | {f"s.{name}": noise(1, dtype=name)[0] for name in DTYPES}


def shapes():
    return {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "empty2": torch.zeros(3, 0, 2), "one": noise(1, 1, 1),
            "five": noise(2, 3, 2, 3, 2), "seven": noise(1, 2, 1, 2, 1, 2, 3)}


def views():
    base = noise(40, 30)
    image = noise(2, 3, 4, 5).to(memory_format=torch.channels_last)
    return {"rows": base[4:9], "columns": base[:, 3:9], "transposed": base.t(), "steps": base[::2, ::3], "expanded": noise(1, 3).expand(5, 3),
            "channels_last": image, "permuted": noise(3, 4, 5).permute(2, 0, 1), "last": base[-1], "flipped": base.flip(0)}


def tied():
    base = noise(6, 4)
    return {"embed": base, "head": base, "part": base[2:4], "parameter": torch.nn.Parameter(base.clone())}


def nested():
    return {"model": {"layers": [{"w": noise(2, 3)}, {"w": noise(3, 2), "b": torch.tensor(1)}], "name.with.dots": noise(2)},
            "step": 7, "text": "a", "many": {"lr": [0.1, 0.2], "betas": (0.9, 0.95), "none": None, "big": 1 << 80}, "\u00fc": noise(3)}


def large():
    return {"embedding": noise(3001, 1024, dtype="bfloat16"), "matrix": noise(2048, 1024), "vector": noise(1200000)}


def packable():
    """Returns blocks that zstd can't compress, and blocks that it compresses to almost nothing, in one tensor."""
    steps = torch.arange(1 << 20)
    mixed = noise(1 << 20).view(16, -1)
    mixed[::2] = 1.5
    return {"noise": noise(1500, 1024, dtype="bfloat16"), "ramp": (steps // 4096).float().reshape(1024, 1024),
            "zeros": torch.zeros(2000, 1000), "mixed": mixed, "stack": noise(6, 256, 300, dtype="bfloat16"), "tied": mixed,
            "transposed": noise(300, 500).t()}


def optimizer():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5))
    adam = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 6)).sum().backward()
    adam.step()
    return {"model": model.state_dict(), "optimizer": adam.state_dict(), "train_state": {"step": torch.tensor(3), "seen": 12}}


def save(state, path, **writer):
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(path, **writer), no_dist=True)


def save_protocol(protocol, state, path):
    """Saves metadata with the protocols that other Python versions use by default."""
    def dump(value, file):
        pickle.dump(value, file, protocol=protocol)

    shim = types.SimpleNamespace(**{name: getattr(pickle, name) for name in dir(pickle) if name[0] != "_"})
    shim.dump = dump
    filesystem.pickle = shim
    try:
        save(state, path)
    finally:
        filesystem.pickle = pickle


def save_async(state, path):
    dcp.async_save(state(), checkpoint_id=path, no_dist=True).result()


def save_safetensors(state, path):
    form = filesystem.SerializationFormat.SAFETENSORS
    save(state, path, serialization_format=form)
    # Torch's own reader doesn't read these, so the saved values are expected.
    return describe({name: value for name, value in state().items()})


ALONE = {
    "small": functools.partial(save, small),
    "all_dtypes": functools.partial(save, all_dtypes),
    "shapes": functools.partial(save, shapes),
    "views": functools.partial(save, views),
    "tied": functools.partial(save, tied),
    "nested": functools.partial(save, nested),
    "large": functools.partial(save, large),
    "large_in_threads": functools.partial(save, large, thread_count=3),
    "optimizer": functools.partial(save, optimizer),
    "threads": functools.partial(save, views, thread_count=4),
    "file_per_item": functools.partial(save, shapes, single_file_per_rank=False),
    "file_per_item_in_threads": functools.partial(save, nested, single_file_per_rank=False, thread_count=3),
    "not_synced": functools.partial(save, small, sync_files=False),
    "protocol_2": functools.partial(save_protocol, 2, nested),
    "protocol_3": functools.partial(save_protocol, 3, optimizer),
    "protocol_4": functools.partial(save_protocol, 4, nested),
    "protocol_5": functools.partial(save_protocol, 5, optimizer),
    "async": functools.partial(save_async, nested),
    "packed": functools.partial(save, views, _extensions=[ZStandard()]),
    "packed_dtypes": functools.partial(save, all_dtypes, _extensions=[ZStandard()]),
    "packed_shapes": functools.partial(save, shapes, _extensions=[ZStandard()], single_file_per_rank=False),
    "packed_tied": functools.partial(save, tied, _extensions=[ZStandard()]),
    "packed_nested": functools.partial(save, nested, _extensions=[ZStandard()]),
    "packed_large": functools.partial(save, packable, _extensions=[ZStandard()]),
    "safetensors": functools.partial(save_safetensors, lambda: {"w": noise(5, 3, dtype="bfloat16"), "v": noise(7), "k": noise(2, 2, 2)}),
}

ALONE |= {name: functools.partial(save, make, **dcp_state.WRITERS.get(name, {})) for name, make in dcp_state.STATES.items()}


# -- Several ranks: (ranks, what they save). Called on each rank with the group and its rank.


def sharded(group, *placements, shape=None, tensors=None):
    mesh = (init_device_mesh("cpu", shape) if shape else DeviceMesh.from_group(group, "cpu"))
    state = tensors or {"w": noise(7, 10), "v": noise(10, dtype="bfloat16"), "u": noise(5, 3, 6, dtype="int32"), "t": noise(1, 4)}
    out = {}
    for name, value in state.items():
        fitting = [p if not isinstance(p, Shard) or p.dim < value.dim() else Replicate() for p in placements]
        out[name] = distribute_tensor(value, mesh, fitting)
    out["buffer"] = noise(3)
    return out


def fsdp(group, with_optimizer=False, shape=None, tensor_parallel=False):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 7))
    if shape:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("a", "b"))
    else:
        mesh = DeviceMesh.from_group(group, "cpu")
    if tensor_parallel:
        parallelize_module(model, mesh["b"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
        mesh = mesh["a"]
    fully_shard(model, mesh=mesh)
    state = {"model": model.state_dict()}
    if with_optimizer:
        adam = torch.optim.AdamW(model.parameters(), lr=0.1)
        for parameter in model.parameters():
            local = torch.full_like(parameter.to_local(), 0.5)
            parameter.grad = DTensor.from_local(local, parameter.device_mesh, parameter.placements, shape=parameter.shape,
                                                stride=parameter.stride())
        adam.step()
        state |= {"optimizer": adam.state_dict(), "train_state": {"step": torch.tensor(9)}, "rank": "text"}
    return state


def uneven(group):
    return sharded(group, Shard(0), tensors={"five": noise(5, 2), "nine": noise(9, 3), "one": noise(1, 6), "ten": noise(10)})


def floats():
    """Returns tensors that torch's Hugging Face writer consolidates: no scalars, no integers."""
    return {"w": noise(7, 10), "v": noise(10, dtype="bfloat16"), "t": noise(1, 4), "u": noise(5, 3, 6, dtype="float16")}


def mixed():
    return {"w": noise(7, 10), "v": noise(10, dtype="bfloat16"), "u": noise(5, 3, 6, dtype="int32"), "t": noise(1, 4)}


# Layouts that no torch reader loads whole: (ranks, placement, tensors, how they are saved).
UNLOADED = {
    "own_metadata_1": (1, Shard(0), mixed, {"use_collectives": False}),
    "own_metadata_4": (4, Shard(0), mixed, {"use_collectives": False}),
    "own_metadata_columns_3": (3, Shard(1), mixed, {"use_collectives": False}),
    "hf_shards_1": (1, Shard(0), mixed, {"save_distributed": True}),
    "hf_shards_4": (4, Shard(0), mixed, {"save_distributed": True}),
    "hf_shards_columns_3": (3, Shard(1), mixed, {"save_distributed": True}),
    "hf_shards_files_3": (3, Shard(0), mixed, {"save_distributed": True, "files": 3}),
    "hf_consolidated_2": (2, Shard(0), floats, {"save_distributed": True, "enable_consolidation": True}),
}


def write_unloaded(rank, groups, folder):
    for name, (size, placement, make, words) in UNLOADED.items():
        path = os.path.join(folder, name)
        if rank < size:
            state = sharded(groups[size], placement, tensors=make())
            words = dict(words)
            if files := words.pop("files", 0):  # the last one saves nothing, like MTP layers that a model lacks
                words["fqn_to_index_mapping"] = {key: i % (files - 1) + 1 for i, key in enumerate(sorted(state))} | {"mtp": files}
            if "use_collectives" in words:
                dcp.save(state, checkpoint_id=path, process_group=groups[size], **words)
            else:
                dcp.save(state, storage_writer=HuggingFaceStorageWriter(path, **words), process_group=groups[size])
        dist.barrier()


def known_unloaded():
    out = {}
    for name, (_, _, make, words) in UNLOADED.items():
        below = name + "/sharded" if "enable_consolidation" in words else name
        out[below] = describe(make() | {"buffer": noise(3)})
    return out


TOGETHER = {
    "fsdp_1": (1, fsdp),
    "fsdp_2": (2, fsdp),
    "fsdp_3": (3, fsdp),
    "fsdp_4": (4, fsdp),
    "fsdp_optimizer_2": (2, functools.partial(fsdp, with_optimizer=True)),
    "fsdp_optimizer_4": (4, functools.partial(fsdp, with_optimizer=True)),
    "hsdp": (4, functools.partial(fsdp, shape=(2, 2))),
    "fsdp_tensor": (4, functools.partial(fsdp, shape=(2, 2), tensor_parallel=True)),
    "uneven_2": (2, uneven),
    "uneven_3": (3, uneven),
    "uneven_4": (4, uneven),
    "columns_2": (2, lambda group: sharded(group, Shard(1))),
    "columns_3": (3, lambda group: sharded(group, Shard(1))),
    "columns_4": (4, lambda group: sharded(group, Shard(1))),
    "last_dim_3": (3, lambda group: sharded(group, Shard(2))),
    "replicated": (4, lambda group: sharded(group, Replicate())),
    "two_dims": (4, lambda group: sharded(group, Shard(0), Shard(1), shape=(2, 2))),
    "two_dims_turned": (4, lambda group: sharded(group, Shard(1), Shard(0), shape=(2, 2))),
    "one_dim_twice": (4, lambda group: sharded(group, Shard(0), Shard(0), shape=(2, 2))),
    "replicated_columns": (4, lambda group: sharded(group, Replicate(), Shard(1), shape=(2, 2))),
    "in_threads_4": (4, lambda group: sharded(group, Shard(0))),
    "files_per_item_2": (2, uneven),
    "packed_fsdp_2": (2, functools.partial(fsdp, with_optimizer=True)),
    "packed_uneven_3": (3, uneven),
    "packed_columns_3": (3, lambda group: sharded(group, Shard(1))),
    "packed_one_dim_twice": (4, lambda group: sharded(group, Shard(0), Shard(0), shape=(2, 2))),
    "async_4": (4, lambda group: sharded(group, Shard(0))),
}
WRITERS = {"in_threads_4": {"thread_count": 2}, "files_per_item_2": {"single_file_per_rank": False}}
WRITERS |= {name: {"_extensions": [ZStandard()]} for name in TOGETHER if name.startswith("packed")}


def write_together(rank, folder):
    groups = {size: dist.new_group(list(range(size))) for size in range(1, WORLD + 1)}
    for name, (size, make) in TOGETHER.items():
        if rank < size:
            path = os.path.join(folder, name)
            if name.startswith("async"):
                dcp.async_save(make(groups[size]), checkpoint_id=path, process_group=groups[size]).result()
            else:
                dcp.save(make(groups[size]), storage_writer=dcp.FileSystemWriter(path, **WRITERS.get(name, {})),
                         process_group=groups[size])
        dist.barrier()
    write_unloaded(rank, groups, folder)


# -- Torch's reading of it


def describe(tensors):
    out = {}
    for name, value in tensors.items():
        flat = value.detach().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        out[name] = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
                     "sha256": hashlib.sha256(data).hexdigest()}
    return {"tensors": out, "objects": []}


def load(path):
    metadata = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    tensors = {}
    for name, info in metadata.items():
        if not isinstance(info, BytesStorageMetadata):
            tensors[name] = torch.empty(info.size, dtype=info.properties.dtype)
    dcp.load(tensors, checkpoint_id=path, no_dist=True)
    out = describe(tensors)
    out["objects"] = sorted(name for name, info in metadata.items() if isinstance(info, BytesStorageMetadata))
    return out


def start(rank, folder):
    os.environ.update(GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/.store", rank=rank, world_size=WORLD)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    children = []
    for rank in range(1, WORLD):
        child = os.fork()
        if child == 0:
            start(rank, args.folder)
            write_together(rank, args.folder)
            os._exit(0)
        children.append(child)
    start(0, args.folder)
    write_together(0, args.folder)
    dist.destroy_process_group()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    out = {name: load(os.path.join(args.folder, name)) for name in TOGETHER} | known_unloaded()
    for name, write in ALONE.items():
        known = write(os.path.join(args.folder, name))
        out[name] = known or load(os.path.join(args.folder, name))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
