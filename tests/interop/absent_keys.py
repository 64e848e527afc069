#!/usr/bin/env python3
"""Checks that a key that config.json lacks has transformers' default, not the nearest MaxText model's value.

The test removes one key after another from the example of each family. It applies the arguments of the conversion
over the settings of the model that they name. The result must equal the config class of transformers itself
(HFSHARD_MAXTEXT_PYTHON).
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import interop
import next_words
import oracle_dirs
import transformers_load

# Key of config.json, MaxText's argument for it.
KEYS = {"rms_norm_eps": "normalization_layer_epsilon", "rope_theta": "rope_max_timescale", "num_experts_per_tok": "num_experts_per_tok",
        "routed_scaling_factor": "routed_scaling_factor", "sliding_window": "sliding_window_size", "swiglu_limit": "mlp_activations_limit",
        "attn_logit_softcapping": "attn_logits_soft_cap", "final_logit_softcapping": "final_logits_soft_cap",
        "use_qk_norm": "use_qk_norm"}
# MaxText's layers of these families have no windows, so a warning is printed.
NOT_SAID = {("sliding_window", family) for family in ("mistral", "mixtral", "phi3", "qwen2", "qwen2_vl", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_omni")}
LEAST = 40


def text_of(config):
    config = config.get("thinker_config", config)
    return config.get("text_config", config)


def default(model_type, key):
    """Returns the config class's value if no key states it, or None without such a key."""
    from transformers import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        return None
    said = CONFIG_MAPPING[model_type]().to_dict()
    if key != "rope_theta":
        return said.get(key)
    rope = said.get("rope_parameters") or {}
    for kind in ("full_attention", "main"):
        rope = rope.get(kind, rope)
    return rope.get("rope_theta")


def without(config, key):
    if isinstance(config, dict):
        return {name: without(value, key) for name, value in config.items() if name not in (key, "rope_parameters", "rope_scaling")}
    return config


def said_by(words, loaders):
    told = dict(word.split("=", 1) for word in words)
    named = loaders["models"].get(told.get("model_name"), {})
    while isinstance(named, str):
        named = loaders["models"][named]
    return {**loaders["defaults"], **named, **told}


def number(value):
    return float({"true": 1, "false": 0}.get(value, value))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    transformers_load.use_transformers()
    loaders = oracle_dirs.read_json(next_words.MAPPINGS, "loaders.json")["maxtext"]
    compared = 0
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for family in json.loads(tool.run("mappings", "list", "--json").stdout)["families"]:
            if "maxtext" not in family["schemes"]:
                continue
            source = tool.path(family["name"])
            tool.run("mappings", "example", family["name"], source, "--quiet")
            config = oracle_dirs.read_json(source, "config.json")
            for key, argument in KEYS.items():
                wanted = default(text_of(config).get("model_type", config["model_type"]), key)
                if wanted is None or (key, family["name"]) in NOT_SAID:
                    continue
                cut = tool.path(f"{family['name']}-{key}")
                shutil.copytree(source, cut)
                with open(os.path.join(cut, "config.json"), "w", encoding="utf-8") as file:
                    json.dump(without(config, key), file)
                done = tool.run_any("plan", cut, "--to", "null", "--json", "--quiet")
                if done.returncode != 0:
                    continue  # it is requested
                found = said_by(json.loads(done.stdout)["load_words"], loaders)[argument]
                tool.expect(number(found) == number(wanted), f"{family['name']} without {key}: {argument} is {found}, transformers has {wanted}")
                compared += 1
        tool.expect(compared >= LEAST, f"only {compared} keys were compared")
        print(f"{compared} keys of {len(KEYS)} kinds")
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
