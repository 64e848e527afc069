#!/usr/bin/env python3
"""Writes checkpoints by torch.save into a folder, and prints what torch.load(weights_only=True) finds in each.

    torch_write.py FOLDER ORACLE     variants of views, dtypes and nesting; models of ORACLE as pytorch_model.bin

Prints {"views": {"tensors": {name: {"dtype", "shape", "sha256"}}}, ...}; sha256 is of the packed row-major bytes.
"""

import collections
import glob
import hashlib
import json
import math
import os
import shutil
import sys

import safetensors.torch
import torch
from torch.distributed.tensor import Replicate, Shard

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "float8_e4m3fn",
          "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32", "uint64")
MODELS = ("llama3.1", "qwen3", "gemma3", "qwen3-moe", "deepseek3-fp8", "mistral", "phi3-tied")


def values(dtype, *shape):
    """Returns arbitrary bits of a dtype, the same each time."""
    size = torch.empty(0, dtype=dtype).element_size()
    count = size
    for each in shape:
        count *= each
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def views():
    """Returns tensors that share storages, and aren't packed rows of them."""
    base = values(torch.float32, 37, 53)
    image = values(torch.bfloat16, 3, 5, 7, 11)
    large = values(torch.bfloat16, 1031, 517)
    return {"base": base, "transposed": base.t(), "rows": base[3:9], "columns": base[:, 5:17], "one_column": base[:, 7],
            "steps": base[::3, ::5], "expanded": base[0].expand(19, 53), "expanded_inside": base[:, :1].expand(37, 4),
            "repeated": torch.tensor([1.5], dtype=torch.float16).expand(6, 2), "scalar": base[2, 3],
            "permuted": image.permute(2, 0, 3, 1), "channels_last": image.contiguous(memory_format=torch.channels_last),
            "inner": image[1:, 2:4, :, ::2], "bytes": values(torch.uint8, 9, 41).t(), "as_strided": base.as_strided((5, 6), (7, 3), 11),
            "windows": base.as_strided((6, 5), (1, 1), 2), "large": large, "large_transposed": large.t(), "large_columns": large[:, 100:301],
            "ones_transposed": values(torch.float32, 1, 9).t(), "empty_transposed": values(torch.float32, 0, 4).t()}


def small_state():
    return {"a.weight": values(torch.float32, 4, 6), "a.bias": values(torch.bfloat16, 6), "b": values(torch.int64, 3)}


def nested():
    """Returns what trainers save around a model."""
    optimizer = {"state": {0: {"exp_avg": values(torch.float32, 4, 6)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    return {"nested_model": {"epoch": 3, "model": small_state(), "optimizer": optimizer},
            "nested_state_dict": {"state_dict": small_state(), "global_step": 7, "loops": [1.5, None, True]},
            "nested_module": {"module": small_state(), "args": "text"},
            "nested_deep": {"state": {"x": 1}, "model": {"module": small_state(), "version": (1, 2)}}}


def parameters():
    module = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.LayerNorm(5), torch.nn.BatchNorm1d(5))
    return {**module.state_dict(), "parameter": torch.nn.Parameter(values(torch.float32, 2, 3)),
            "frozen": torch.nn.Parameter(values(torch.float32, 3), requires_grad=False)}


def variants():
    out = {"dtypes": {f"t.{name}": values(getattr(torch, name), 5, 3) for name in DTYPES}, "views": views(), "parameters": parameters(),
           "module": collections.OrderedDict(small_state()), "protocol_4": small_state(), "others": {**small_state(), "note": "x", "n": 3},
           "scalars": {"one": torch.tensor(3), "none": torch.zeros(0), "five": values(torch.int16, 2, 1, 3, 2, 2)}, **nested()}
    tied = values(torch.float32, 8, 4)
    out["tied"] = {"embed.weight": tied, "head.weight": tied}
    return out


def described(path, weights_only=True):
    found = torch.load(path, weights_only=weights_only, map_location="cpu")
    while not any(isinstance(each, torch.Tensor) for each in found.values()):
        found = next(found[key] for key in ("model", "state_dict", "module") if key in found)
    return hashed(found)


def hashed(state):
    out = {}
    for name, tensor in state.items():
        if isinstance(tensor, torch.Tensor):
            raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            out[name] = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
                         "sha256": hashlib.sha256(raw).hexdigest()}
    return out


def write_model(source, folder, index=True):
    """Writes a model's safetensors as the .bin files that save_pretrained used to write."""
    os.makedirs(folder)
    for path in glob.glob(os.path.join(source, "*.json")):
        if not path.endswith((".index.json", "expected.json")):
            shutil.copy(path, folder)
    files = sorted(glob.glob(os.path.join(source, "*.safetensors")))
    weight_map, out = {}, {}
    for number, path in enumerate(files):
        tensors = safetensors.torch.load_file(path)
        name = "pytorch_model.bin" if len(files) == 1 else f"pytorch_model-{number + 1:05}-of-{len(files):05}.bin"
        torch.save(tensors, os.path.join(folder, name))
        weight_map.update(dict.fromkeys(tensors, name))
        out.update(described(os.path.join(folder, name)))
    if index and len(files) > 1:
        with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": 1}, "weight_map": weight_map}, file)
    return out


def write_twice(folder, of_index):
    """Writes two files that both have two tensors, one of them not contiguous. The tensor in the index's file
    counts, wherever that is."""
    os.makedirs(folder)
    names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    files = [{"a.weight": torch.randn(3, 4), "x.weight": torch.randn(5, 6), "y.weight": torch.randn(4, 2).t()},
             {"b.weight": torch.randn(2, 2), "x.weight": torch.randn(6, 5).t(), "y.weight": torch.randn(2, 4)}]
    weight_map = {"a.weight": names[0], "b.weight": names[1], "x.weight": names[of_index], "y.weight": names[of_index]}
    states = []
    for name, state in zip(names, files):
        torch.save(state, os.path.join(folder, name))
        states.append(described(os.path.join(folder, name)))
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
    return {name: states[names.index(file)][name] for name, file in weight_map.items()}


def write_ranks(folder, state, mesh_shape, placements, config=None):
    """Writes what each rank of verl's trainers saves: its DTensors, on a mesh that exists only for this process."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, init_device_mesh
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.makedirs(folder)
    ranks = math.prod(mesh_shape)
    for rank in range(ranks):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
        mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("ddp", "fsdp", "tp")[len(mesh_shape) == 1:][:len(mesh_shape)])
        saved = {}
        for name, tensor in state.items():
            placed = placements if tensor.dim() > 1 or len(placements) == 1 else [each if each.is_replicate() or each.dim == 0 else Replicate() for each in placements]
            if tensor.dim() == 0:
                saved[name] = tensor
                continue
            shape, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placed)
            local = tensor[tuple(slice(begin, begin + size) for begin, size in zip(offset, shape))].clone()
            saved[name] = DTensor.from_local(local, mesh, placed, run_check=False, shape=tensor.shape, stride=tensor.stride())
        torch.save(saved, os.path.join(folder, f"model_world_size_{ranks}_rank_{rank}.pt"))
        torch.save({"step": 1}, os.path.join(folder, f"extra_state_world_size_{ranks}_rank_{rank}.pt"))
        dist.destroy_process_group()
    if config:
        os.makedirs(os.path.join(folder, "huggingface"))
        shutil.copy(config, os.path.join(folder, "huggingface"))


def all_ranks(folder, oracle):
    out = {}
    files = sorted(glob.glob(os.path.join(oracle, "qwen3", "*.safetensors")))
    model = {key: value for path in files for key, value in safetensors.torch.load_file(path).items()}
    odd = {"w": values(torch.float32, 7, 10), "short": values(torch.bfloat16, 3, 5), "b": values(torch.bfloat16, 9), "large": values(torch.float32, 2000, 300), "count": torch.tensor(5)}
    for name, mesh, placements in (("fsdp_4", (4,), [Shard(0)]), ("hsdp_2_2", (2, 2), [Replicate(), Shard(0)]), ("hsdp_2_3", (2, 3), [Replicate(), Shard(0)]),
                                   ("columns_3", (3,), [Shard(-1)]), ("two_dims", (2, 3), [Shard(0), Shard(1)]), ("one", (1,), [Shard(0)]), ("middle", (2, 2, 2), [Replicate(), Shard(0), Replicate()])):
        write_ranks(os.path.join(folder, name), odd, mesh, placements)
        out[name] = {"tensors": hashed(odd)}
    write_ranks(os.path.join(folder, "verl"), model, (2,), [Shard(0)], os.path.join(oracle, "qwen3", "config.json"))
    out["verl"] = {"tensors": hashed(model), "of": "qwen3"}
    return out


def meta(folder):
    """Writes Meta's shards, split like its ColumnParallelLinear, RowParallelLinear and embeddings."""
    out = {}
    for name, shards, embedding_dim in (("meta_llama2", 2, 1), ("meta_llama3", 4, 0), ("meta_one", 1, 0)):
        state = {"tok_embeddings.weight": values(torch.bfloat16, 32, 16), "norm.weight": values(torch.bfloat16, 16), "output.weight": values(torch.bfloat16, 32, 16),
                 "rope.freqs": values(torch.bfloat16, 4), "layers.0.attention_norm.weight": values(torch.bfloat16, 16)}
        dims = {"tok_embeddings.weight": embedding_dim, "output.weight": 0}
        for part, shape, dim in (("attention.wq", (16, 16), 0), ("attention.wk", (8, 16), 0), ("attention.wv", (8, 16), 0), ("attention.wo", (16, 16), 1),
                                 ("feed_forward.w1", (24, 16), 0), ("feed_forward.w2", (16, 24), 1), ("feed_forward.w3", (24, 16), 0)):
            state[f"layers.0.{part}.weight"] = values(torch.bfloat16, *shape)
            dims[f"layers.0.{part}.weight"] = dim
        os.makedirs(os.path.join(folder, name))
        for shard in range(shards):
            part = {key: value.chunk(shards, dims[key])[shard].clone() if key in dims else value for key, value in state.items()}
            torch.save(part, os.path.join(folder, name, f"consolidated.{shard:02}.pth"))
        out[name] = {"tensors": hashed(state)}
    return out


def main():
    folder, oracle = sys.argv[1:]
    torch.manual_seed(7)
    out = {}
    for name, tensors in variants().items():
        os.makedirs(os.path.join(folder, name))
        path = os.path.join(folder, name, "pytorch_model.bin")
        torch.save(tensors, path, pickle_protocol=4 if name == "protocol_4" else 2)
        # The unpickler for weights alone supports only protocol 2.
        out[name] = {"tensors": described(path, weights_only=name != "protocol_4")}
    for name, tensors in (("old_format", {**small_state(), **parameters()}), ("old_views", views()), ("old_nested", nested()["nested_model"])):
        os.makedirs(os.path.join(folder, name))
        path = os.path.join(folder, name, "pytorch_model.bin")
        torch.save(tensors, path, _use_new_zipfile_serialization=False)
        out[name] = {"tensors": described(path)}
    for model in MODELS:
        out["model." + model] = {"tensors": write_model(os.path.join(oracle, model), os.path.join(folder, "model." + model)), "of": model}
    out["no_index"] = {"tensors": write_model(os.path.join(oracle, "qwen3"), os.path.join(folder, "no_index"), index=False), "of": "qwen3"}
    for number in (0, 1):
        out[f"twice_{number}"] = {"tensors": write_twice(os.path.join(folder, f"twice_{number}"), number)}
    out.update(all_ranks(folder, oracle))
    out.update(meta(folder))
    print(json.dumps(out))


if __name__ == "__main__":
    main()
