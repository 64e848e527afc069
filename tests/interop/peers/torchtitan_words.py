"""Gives words to torchtitan's own parser of its configuration, and prints the tensors of the model that they name.

    torchtitan_words.py < [{"what": NAME, "words": [...]}] > {NAME: {"tensors": {name: shape}, "enable": ..., "path":
..., "model_only": ...}}

A task {"what": NAME, "facts": FOLDER} has as its answer what torchtitan_models.py of that folder says of torchtitan's models.

The model is built on the meta device, with shapes and without values. If torchtitan refuses, the answer is {"error":
text}.
"""

import json
import sys
import types
import unittest.mock

import torch

# torchtitan's configs import these packages for data and logs, but models don't need them.
sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=None)
for absent in ("datasets", "datasets.distributed", "requests", "torchvision", "torchvision.io", "torchvision.transforms",
               "torchvision.transforms.functional", "torchvision.transforms.v2", "torchvision.transforms.v2.functional", "PIL", "PIL.Image", "av", "einops"):
    try:
        __import__(absent)
    except ImportError:
        sys.modules[absent] = unittest.mock.MagicMock()

try:
    from torchtitan.config.manager import ConfigManager
except ImportError as error:
    print(f"PEER MISSING torchtitan: {error}")
    sys.exit(77)


def read(words):
    config = ConfigManager().parse_args(list(words))
    checkpoint = config.checkpoint
    with torch.device("meta"):
        model = config.model_spec.model.build()
    return {"tensors": {name: list(tensor.shape) for name, tensor in model.state_dict().items()}, "assets": config.hf_assets_path,
            "enable": checkpoint.enable, "path": checkpoint.initial_load_path, "model_only": checkpoint.initial_load_model_only}


def facts(folder):
    sys.path.insert(0, folder)
    import torchtitan_models

    return torchtitan_models.facts()


def main():
    out = {}
    for task in json.load(sys.stdin):
        try:
            out[task["what"]] = facts(task["facts"]) if "facts" in task else read(task["words"])
        except (Exception, SystemExit) as error:  # every exception of torchtitan is its answer
            out[task["what"]] = {"error": f"{type(error).__name__}: {error}"[:600]}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
