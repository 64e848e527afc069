"""Loads checkpoints like torchtitan, with real torch.distributed.checkpoint, and prints a description of each tensor.

    dcp_hashes.py < {"CHECKPOINT": {"name": shape}} > {"CHECKPOINT": {"name": {"dtype", "shape", "sha256"}}}

The loaded state dict has exactly the requested names. dcp.load refuses one that is missing or has another shape.
Dtypes are those of the checkpoint. If a checkpoint can't be loaded, the answer is its error.
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


def load(path, wanted, dtype_for=lambda dtype: dtype):
    """Returns name -> tensor for the checkpoint's tensors with these names, in the dtype that a stored one allows."""
    stored = FileSystemReader(path).read_metadata().state_dict_metadata
    state = {}
    for name, shape in wanted.items():
        dtype = stored[name].properties.dtype if name in stored else torch.float32
        state[name] = torch.full(shape, 1, dtype=dtype_for(dtype))
    dcp.load(state, checkpoint_id=path, no_dist=True)
    return state


def or_error(action):
    """Returns the result of a call, or its error as a text."""
    try:
        return action()
    except Exception as error:  # pylint: disable=broad-except
        return f"{type(error).__name__}: {str(error)[:1000]}"


def hashes(describe_one, **words):
    """Returns the hashes of every checkpoint that standard input requests."""
    def of_one(path, wanted):
        return {name: describe_one(tensor) for name, tensor in load(path, wanted, **words).items()}
    return {path: or_error(lambda path=path, wanted=wanted: of_one(path, wanted)) for path, wanted in json.load(sys.stdin).items()}


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(json.dumps(hashes(describe)))


if __name__ == "__main__":
    main()
