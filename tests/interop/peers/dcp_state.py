"""Compares training states with objects next to tensors, as real torch.distributed.checkpoint loads them.

dcp_write.py saves STATES. `A B ...` (`A#KEY`: the part of A below a key) loads both of each pair in three ways:
dcp.load into a state of the same structure, dcp.load without one, and dcp_to_torch_save. It compares everything:
keys, types, kinds of containers and values, also with the state itself. It prints JSON: the differences, by the
second of each pair.
"""

import argparse
import json
import os
import tempfile
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import format_utils
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, StateDictOptions
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

WRITERS = {"packed_training": {"_extensions": [ZStandard()]}, "training_file_per_item": {"single_file_per_rank": False}}


def trained():
    """Returns a model, its optimizer and its learning-rate schedule after three steps."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.LayerNorm(12), torch.nn.Linear(12, 5))
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    adam = torch.optim.AdamW([{"params": matrices, "lr": 0.1, "betas": (0.8, 0.9)}, {"params": others, "weight_decay": 0.0}], lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=9)
    for step in range(3):
        adam.zero_grad()
        model(torch.full((2, 6), step + 1.0)).square().sum().backward()
        adam.step()
        schedule.step()
    return model, adam, schedule


def training():
    """Returns the states that trainers save: as torch returns them, flattened ones, and everything that isn't a
    tensor."""
    model, adam, schedule = trained()
    flat = get_state_dict(model, adam, options=StateDictOptions(flatten_optimizer_state_dict=True))[1]
    return {
        "model": model.state_dict(),
        "optimizer": adam.state_dict(),
        "flat_optimizer": flat,
        "lr_scheduler": schedule.state_dict(),
        "dataloader": {"dp_rank_0": b"\x80\x04state" * 999, "world_size": 1, "seen": [1, 2, 3]},
        "random": [torch.get_rng_state(), {"numpy": ("MT19937", 5), "cuda": None}],
        "train_state": {"step": torch.tensor(3), "tokens": 1 << 70, "loss": [0.5, float("inf")]},
        "flags": {"done": False, "name": "run \u00fc", "empty": "", "none": None, "complex": 1j},
        "nested": [[torch.ones(2, 3), 5, {"deep": [torch.zeros(4), "text"]}], "end", (1, 2)],
        "name.with.dots": torch.arange(6.0),
        "dots.in": {"dict.keys": {"a.b": torch.arange(3), "c": 7}},
        "tuple": (torch.ones(3), 4),
    }


def list_and_text():
    return {"w": torch.arange(12.0).reshape(3, 4), "note": "text", "list": [torch.ones(2), 3]}


STATES = {"training": training, "packed_training": training, "training_file_per_item": training,
          "list_and_text": list_and_text}


def cleared(value):
    """Returns the same structure with other values, into which torch loads."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: cleared(each) for key, each in value.items()}
    if isinstance(value, list):
        return [cleared(each) for each in value]
    return "not loaded"


def differences(a, b, at="", out=None):
    """Returns paths at which two values differ in type, in keys, or in values."""
    out = [] if out is None else out
    if type(a) is not type(b):
        out.append(f"{at}: {type(a).__name__} and {type(b).__name__}")
    elif isinstance(a, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
            out.append(f"{at}: tensors")
    elif isinstance(a, dict):
        if set(a) != set(b):
            out.append(f"{at}: keys {sorted(map(str, set(a) ^ set(b)))[:5]}")
        for key in set(a) & set(b):
            differences(a[key], b[key], f"{at}.{key}", out)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            out.append(f"{at}: {len(a)} and {len(b)} items")
        for i, (one, other) in enumerate(zip(a, b)):
            differences(one, other, f"{at}[{i}]", out)
    elif a != b:
        out.append(f"{at}: {a!r} and {b!r}")
    return out


def loaded(path, like):
    """Returns the state, loaded in three ways."""
    into = cleared(like)
    dcp.load(into, checkpoint_id=path, no_dist=True)
    whole = {}
    _load_state_dict(whole, storage_reader=dcp.FileSystemReader(path), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "state.pt")
        format_utils.dcp_to_torch_save(path, file)
        saved = torch.load(file, weights_only=False)
    return {"into": into, "whole": whole, "saved": saved}


def compare(pairs):
    out = {}
    for a, b in pairs:
        name, _, root = os.path.basename(a).partition("#")
        like = STATES[name]()
        if root:  # a list is the state of its items
            like = dict(like[root]) if isinstance(like[root], dict) else {str(i): each for i, each in enumerate(like[root])}
        found = loaded(b, like)
        out[b] = differences(plain(like), plain(found["into"]), "original")
        out[b] += differences(loaded(a, like), found) if not root else differences(found["whole"], found["saved"])
    return out


def plain(value):
    """Converts OrderedDict, which torch returns, to a dict, as which torch loads it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(json.dumps(compare(zip(args.paths[::2], args.paths[1::2]))))


if __name__ == "__main__":
    main()
