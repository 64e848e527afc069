#!/usr/bin/env python3
"""torchtitan_models.py [--check]: writes the facts about torchtitan's models in mappings/loaders.json.

torchtitan itself must be importable. Each flavor of its models has the sizes that the mappings use, under the name of the
config that uses it. "flavor" marks one that no config uses. --check only prints what would change.
"""

import argparse
import ast
import dataclasses
import importlib
import importlib.metadata
import inspect
import os
import re
import sys

import maxtext_models

SCHEME = "torchtitan"
BACKENDS = {"attn_backend": "flex", "moe_comm_backend": "standard"}
# Places where a model's or a layer's dataclass has a setting. A layer of another kind doesn't have it.
MODEL = {"dim": "dim", "vocab_size": "vocab_size", "enable_weight_tying": "enable_weight_tying", "norm_eps": "norm.eps"}
LAYER = {
    "n_heads": "attention.n_heads", "n_kv_heads": "attention.n_kv_heads", "head_dim": "attention.rope.dim",
    "rope_theta": "attention.rope.theta", "q_lora_rank": "attention.q_lora_rank", "kv_lora_rank": "attention.kv_lora_rank",
    "qk_nope_head_dim": "attention.qk_nope_head_dim", "v_head_dim": "attention.v_head_dim", "mscale": "attention.mscale",
    "hidden_dim": "feed_forward.w1.out_features", "num_experts": "moe.num_experts", "top_k": "moe.router.top_k",
    "score_func": "moe.router.score_func", "route_norm": "moe.router.route_norm", "route_scale": "moe.router.route_scale",
    "num_expert_groups": "moe.router.num_expert_groups", "num_limited_groups": "moe.router.num_limited_groups",
    "moe_hidden_dim": "moe.routed_experts.inner_experts.hidden_dim", "rope_scaling": "attention.rope.scaling"}
# Settings of the scaling that a layer has.
SCALING = {"none": [], "llama": ["scaling_factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
           "yarn": ["rope_factor", "beta_fast", "beta_slow", "original_seq_len", "truncate"]}


def at(config, path):
    for key in path.split("."):
        config = getattr(config, key, None)
    return config


def arguments_of(make):
    return {name: BACKENDS[name] for name, one in inspect.signature(make).parameters.items() if one.default is one.empty}


def settings_of(module, config):
    found = {"--module": module}
    found |= {name: at(config, path) for name, path in MODEL.items()}
    found["n_layers"] = len(config.layers)
    for name, path in LAYER.items():
        values = [value for value in (at(layer, path) for layer in config.layers) if value is not None]
        if values:
            found[name] = values[0]
    if "num_experts" in found:  # without groups, one
        found = {"num_expert_groups": 1, "num_limited_groups": 1, **found}
    for name in SCALING[found.get("rope_scaling", "none")]:
        found[name] = next(at(layer, f"attention.rope.{name}") for layer in config.layers if at(layer, "attention.rope"))
    if found.get("q_lora_rank") is not None:  # DeepSeek's
        found["n_dense_layers"] = sum(at(layer, "moe") is None for layer in config.layers)
        found["num_shared_experts"] = at(config.layers[-1], "moe.shared_experts.w1.out_features") // found["moe_hidden_dim"]
    explicit = [value for value in (at(layer, "attention.head_dim") for layer in config.layers) if value]
    if explicit:  # rotary embeddings can rotate a part of each head
        found["head_dim"] = explicit[0]
    return {name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in found.items() if value is not None}


def plain(text):
    return re.sub("[^a-z0-9]", "", text.lower())


def config_names(module):
    """Returns {flavor: the config that is exactly that flavor}. Reads the text, since importing it needs packages
    for data and logs."""
    path = os.path.join(*importlib.import_module(f"torchtitan.models.{module}").__path__, "config_registry.py")
    with open(path, encoding="utf-8") as file:
        functions = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef)]
    found = {}
    for function in sorted(functions, key=lambda one: len(one.name)):
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "model_registry" and isinstance(call.args[0], ast.Constant):
                flavor = call.args[0].value
                if plain(function.name).endswith(plain(flavor)):
                    found.setdefault(flavor, function.name)
    return found


def flavors_of(module):
    for name, flavors in vars(importlib.import_module(f"torchtitan.models.{module}")).items():
        if name.endswith("_configs") and isinstance(flavors, dict):
            yield from ((flavor, make) for flavor, make in flavors.items() if "debug" not in flavor)


def facts():
    from torchtitan.models import _supported_models

    models = {}
    for module in sorted(_supported_models - {"flux"}):  # their models have no decoder
        names = config_names(module)
        for flavor, make in flavors_of(module):
            config = make(**arguments_of(make))
            if not dataclasses.is_dataclass(config) or not hasattr(config, "layers"):
                continue
            settings = settings_of(module, config)
            models[names.get(flavor, f"{module}:{flavor}")] = settings if flavor in names else {"flavor": flavor, **settings}
    return {"source": f"pytorch/torchtitan {importlib.metadata.version('torchtitan')} torchtitan/models (scripts/torchtitan_models.py)",
            "models": dict(sorted(models.items()))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="writes nothing; ends with 1 if the file is not what it would be")
    return maxtext_models.write(SCHEME, facts(), parser.parse_args().check, "torchtitan_models.py")


if __name__ == "__main__":
    sys.exit(main())
