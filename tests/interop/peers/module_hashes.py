"""Hashes the tensors with the names of a model's modules, in a PyTorch checkpoint or in the model that transformers
loads.

    module_hashes.py dcp < {"CHECKPOINT": {"name": shape}} > {"CHECKPOINT": {"name": {"shape", "sha256"}}}
    module_hashes.py transformers DIR... > {"DIR": {"state": {"name": {"shape", "sha256"}}, "missing": [], "unexpected":
[]}}
    module_hashes.py rewrite PREFIX CHECKPOINT...
    module_hashes.py strict DIR CHECKPOINT > {"differ": []}

Floats are hashed as f32, which holds the values of f16 and bf16 exactly, since a model can be loaded in any dtype.
`rewrite` saves the tensors of a checkpoint again with torch.distributed.checkpoint as CHECKPOINT-theirs, with a
prefix before their names. `strict` loads a checkpoint into the model of DIR, whose state was set to NaN before, like
`dcp.load({"model": model.state_dict()})`.
"""

import json
import os
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter

import dcp_hashes


def in_f32(dtype):
    return torch.float32 if dtype.is_floating_point else dtype


def describe(tensor):
    out = dcp_hashes.describe(tensor.detach().to(in_f32(tensor.dtype)))
    del out["dtype"]
    return out


def model_of(path):
    """Loads a model by its own class, in f32, with transformers' messages about keys."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    more = {}
    method = (config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}).get("quant_method")
    if method == "fp8":
        more["quantization_config"] = transformers.FineGrainedFP8Config(dequantize=True)
    if method == "mxfp4":
        more["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    if config["model_type"] == "phi3":  # its default is beyond a small vocabulary
        more["pad_token_id"] = None
    kind = getattr(transformers, config["architectures"][0])
    return kind.from_pretrained(path, dtype=torch.float32, output_loading_info=True, experts_implementation="eager",
                                ignore_mismatched_sizes=True, **more)


def loaded(path):
    model, info = model_of(path)
    return {"state": {name: describe(tensor) for name, tensor in model.state_dict().items()},
            "missing": sorted(info["missing_keys"]), "unexpected": sorted(info["unexpected_keys"]),
            "mismatched": sorted(item[0] for item in info["mismatched_keys"])}


def strict(path, checkpoint):
    model, _ = model_of(path)
    state = model.state_dict()
    wanted = {name: tensor.clone() for name, tensor in state.items()}
    for tensor in state.values():
        tensor.fill_(float("nan") if tensor.is_floating_point() else 7)
    dcp.load({"model": state}, checkpoint_id=checkpoint, no_dist=True)
    model.load_state_dict(state, strict=True)
    return {"differ": [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, wanted[name])]}


def rewrite(prefix, path):
    stored = FileSystemReader(path).read_metadata().state_dict_metadata
    state = {name: torch.zeros(facts.size, dtype=facts.properties.dtype) for name, facts in stored.items()}
    dcp.load(state, checkpoint_id=path, no_dist=True)
    dcp.save({prefix + name: tensor for name, tensor in state.items()}, storage_writer=FileSystemWriter(path + "-theirs"), no_dist=True)


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    mode, *words = sys.argv[1:]
    out = {"dcp": lambda: dcp_hashes.hashes(describe, dtype_for=in_f32),
           "transformers": lambda: {path: dcp_hashes.or_error(lambda path=path: loaded(path)) for path in words},
           "rewrite": lambda: [rewrite(words[0], path) for path in words[1:]],
           "strict": lambda: strict(*words)}[mode]()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
