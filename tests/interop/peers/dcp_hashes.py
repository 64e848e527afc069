"""Loads checkpoints as torchtitan does, with real torch.distributed.checkpoint, and prints what each tensor is.

    dcp_hashes.py < {"CHECKPOINT": {"name": shape}} > {"CHECKPOINT": {"name": {"dtype", "shape", "sha256"}}}

The state dict that is loaded has exactly the names of the request: dcp.load refuses one that is missing or has another shape. Dtypes
are those of the checkpoint. A checkpoint that cannot be loaded is its error.
"""

import hashlib
import json
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader


def describe(tensor):
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()}


def load(path, wanted):
    stored = FileSystemReader(path).read_metadata().state_dict_metadata
    state = {}
    for name, shape in wanted.items():
        dtype = stored[name].properties.dtype if name in stored else torch.float32
        state[name] = torch.full(shape, 1, dtype=dtype)
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return {name: describe(tensor) for name, tensor in state.items()}


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    out = {}
    for path, wanted in json.load(sys.stdin).items():
        try:
            out[path] = load(path, wanted)
        except Exception as error:  # pylint: disable=broad-except
            out[path] = f"{type(error).__name__}: {str(error)[:1000]}"
    print(json.dumps(out))


if __name__ == "__main__":
    main()
