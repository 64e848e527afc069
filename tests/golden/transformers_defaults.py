#!/usr/bin/env python3
"""Writes transformers_defaults.json: what transformers' config classes use for a key that config.json leaves out.

`cases` has one config.json for each model_type. `defaults` of a case has the value of the class for each key that the
family's table reads, computed without that key. tests/unit/mapping/resolve/absent_keys_test.cpp compares the tables with it.

Run it again after a table reads a new key, with a Python that has transformers:

    python tests/golden/transformers_defaults.py
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MAPPINGS = os.path.join(HERE, os.pardir, os.pardir, "mappings")
ORACLE = os.path.join(HERE, os.pardir, "oracle")
OUT = os.path.join(HERE, "transformers_defaults.json")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
ROPE = ("rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq")
# Keys that aren't sizes or facts of a model.
ASIDE = {"model_type", "architectures", "quantization_config", "torch_dtype", "dtype", "transformers_version", "name", "config", "per_layer_config"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
# What a class's null means to its layers.
NULL_MEANS = {"use_bidirectional_attention": False, "sliding_window": 0, "final_logit_softcapping": 0, "attn_logit_softcapping": 0,
              "n_group": 1, "topk_group": 1}
OTHER_NULLS = {("gemma4", "use_bidirectional_attention")}
# (name, family, directory of tests/oracle or None for the family's example, {dotted key: another value, or None for no key})
CASES = []


def first_full(config):
    kinds = getattr(config, "layer_types", None) or []
    return kinds.index("full_attention") + 1 if "full_attention" in kinds else None


def head_dim(config):
    config.allow_global_per_layer_attribute_access = True
    said = getattr(config, "head_dim", None)
    return said or (config.hidden_size // config.num_attention_heads if hasattr(config, "num_attention_heads") else None)


def global_head_dim(config):
    layers = getattr(config, "per_layer_config", None)
    return max(layer.head_dim for layer in layers) if layers else None


def linear_interval(config):
    return first_full(config) if hasattr(config, "linear_num_key_heads") else None


def hash_layers(config):
    return (getattr(config, "mlp_layer_types", None) or []).count("hash_moe") or None


# Keys that a class turns into others, or that only its layers read.
COMPUTED = {"head_dim": head_dim, "full_attention_interval": linear_interval, "sliding_window_pattern": first_full,
            "global_head_dim": global_head_dim, "num_hash_layers": hash_layers}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return json.load(file)


def case(name, family, base=None, **changes):
    CASES.append((name, family, base, changes))


def at(config, path, make=False):
    """Returns the object that holds a dotted path, and the last key."""
    *folders, last = path.split(".")
    for folder in folders:
        if make:
            config = config.setdefault(folder, {})
        else:
            config = config.get(folder) if isinstance(config, dict) else None
            if config is None:
                return None, last
    return config, last


def without(config, path):
    config = json.loads(json.dumps(config))
    holder, last = at(config, path)
    if holder is not None:
        if last == "rope_parameters":
            for key in ROPE:
                holder.pop(key, None)
        holder.pop(last, None)
    return config


def words_of(family):
    """Returns every name that a table, or a part of common.json, can mean a key by."""
    found = set()

    def walk(value):
        if isinstance(value, str):
            for name in NAME.findall(value):
                name = re.sub(r"^(config|uncut)\.", "", name)
                found.add("rope_parameters" if name.startswith("rope.") else re.split(r"\.\d", name)[0])
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key not in ("sizes", "example", "source", "sources", "about", "quantization"):
                    walk(item)

    walk(family)
    walk(read(MAPPINGS, "common.json")["parts"])
    return found | {"rope_theta"} if "rope_parameters" in found else found


def constructed(config):
    from transformers import CONFIG_MAPPING

    config = json.loads(json.dumps(config))
    for key in ("quantization_config", "torch_dtype", "dtype", "transformers_version"):
        config.pop(key, None)
    kind = config.pop("model_type")
    return CONFIG_MAPPING[kind](**config)


def value_at(said, path):
    """Returns the class's value at a path, and whether it has one."""
    for step in path.split("."):
        if isinstance(said, dict):
            if step not in said:
                return None, False
            said = said[step]
        else:
            # Gemma 4 has values for each layer.
            said.allow_global_per_layer_attribute_access = True
            if not hasattr(said, step):
                return None, False
            said = getattr(said, step)
    return said, True


def plain(value):
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value if callable(value) else json.loads(json.dumps(value, default=str))


def computed(word, place, config):
    """Returns what the class computes, or None."""
    config = without(config, place + word)
    if word == "full_attention_interval":  # else the list decides
        config = without(config, place + "layer_types")
    try:
        made = constructed(config)
        return COMPUTED[word](value_at(made, place[:-1])[0] if place else made)
    except Exception:  # a part of the config without such keys
        return None


def places(family, config):
    for place in family.get("config_at", ["."]):
        if place == ".":
            yield ""
        else:
            holder, last = at(config, place)
            if holder and isinstance(holder.get(last), dict):
                yield place + "."


def default_of(word, place, config, refused):
    """Returns (value,), or () if the class doesn't have the key."""
    path = place + word
    if word in COMPUTED:
        said = computed(word, place, config)
        return () if said is None else (said,)
    try:
        made = constructed(without(config, path))
    except Exception as error:  # the class refuses this config with its own default
        refused[path] = str(error).splitlines()[-1]
        made = constructed({"model_type": config["model_type"]})
    said, has = value_at(made, path)
    said = plain(said)
    if not has or callable(said) or isinstance(said, dict) and not word.startswith("rope"):
        return ()
    return (said,)


def defaults_of(family, config):
    out, refused = {}, {}
    for word in sorted(words_of(family)):
        if word.split(".")[0] in ASIDE:
            continue
        for place in places(family, config):
            path = place + word
            if path.split(".")[-1] in ASIDE or at(config, path)[0] is None:
                continue
            found = default_of(word, place, config, refused)
            if found and word == "rope_theta":  # its config keeps the other rotary parameters
                found = (plain(value_at(constructed(without(config, path)), place + "rope_parameters")[0]),)
            if found:
                out[path] = NULL_MEANS.get(word) if found[0] is None and (family["family"], word) not in OTHER_NULLS else found[0]
    return out, refused


def main():
    import transformers

    cases = []
    for name, family, base, changes in CASES:
        table = read(MAPPINGS, f"{family}.json")
        config = read(ORACLE, base, "config.json") if base else table["example"]
        config = json.loads(json.dumps(config))
        if changes.pop("nested", False):
            inner = {key: config.pop(key) for key in list(config) if key not in ("model_type", "architectures", "vision_config")}
            config["text_config"] = inner
        for path, value in changes.items():
            holder, last = at(config, path.replace("__", "."), make=True)
            if value is None:
                holder.pop(last, None)
            else:
                holder[last] = value
        try:
            constructed(config)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        out, refused = defaults_of(table, config)
        for path, why in refused.items():
            print(f"{name} {path}: {why}", file=sys.stderr)
        cases.append({"name": name, "family": family, "config": config, "defaults": out})
    lines = [f' "transformers": "{transformers.__version__}",', ' "cases": [']
    for number, item in enumerate(cases):
        lines.append(f'  {{"name": "{item["name"]}", "family": "{item["family"]}",')
        lines.append(f'   "config": {json.dumps(item["config"])},')
        rows = [f'    {json.dumps(path)}: {json.dumps(value)}' for path, value in sorted(item["defaults"].items())]
        lines.append('   "defaults": {\n' + ",\n".join(rows) + "}}" + ("," if number + 1 < len(cases) else "]"))
    with open(OUT, "w", encoding="utf-8") as file:
        file.write("{\n" + "\n".join(lines) + "\n}\n")


WIDE = {"hidden_size": 96, "num_attention_heads": 12, "num_key_value_heads": 6}
case("llama", "llama", **WIDE, rope_scaling=LLAMA3)
case("llama_plain", "llama", **WIDE, rope_scaling=None)
case("mistral", "mistral", **WIDE, sliding_window=9)
case("mixtral", "mixtral", **WIDE)
case("phi3", "phi3", **WIDE)
case("gemma", "gemma", **WIDE)
case("gemma2", "gemma2", **WIDE)
case("gemma3", "gemma3", "gemma3", hidden_size=None)
case("gemma3_wide", "gemma3", "gemma3", text_config__head_dim=256, text_config__num_attention_heads=6, text_config__hidden_size=24,
     vision_config={"model_type": "siglip_vision_model", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 2})
case("gemma3_text", "gemma3", "gemma3-text")
case("gemma3_text_deep", "gemma3", "gemma3-text", num_hidden_layers=12, layer_types=None, hidden_size=24, num_attention_heads=3, head_dim=256)
case("gemma4", "gemma4", "gemma4-dense")
case("gemma4_tower", "gemma4", "gemma4-dense", text_config__num_attention_heads=6,
     vision_config={"model_type": "gemma4_vision", "hidden_size": 768, "num_attention_heads": 12, "head_dim": 64, "num_hidden_layers": 2})
case("gemma4_e2b", "gemma4", "gemma4-e2b")
case("gemma4_moe", "gemma4", "gemma4-moe")
case("gemma4_text", "gemma4", "gemma4-text", num_attention_heads=6)
case("qwen2", "qwen2", **WIDE, num_hidden_layers=29)
case("qwen2_windows", "qwen2", **WIDE, num_hidden_layers=29, use_sliding_window=True)
case("qwen2_vl", "qwen2_vl", "qwen2-vl", nested=True)
case("qwen2_5_vl", "qwen2_vl", "qwen2-vl", nested=True, model_type="qwen2_5_vl")
case("qwen2_vl_windows", "qwen2_vl", "qwen2-vl", nested=True, text_config__use_sliding_window=True, text_config__num_hidden_layers=29)
case("qwen3", "qwen3", **WIDE, num_hidden_layers=29)
case("qwen3_windows", "qwen3", **WIDE, num_hidden_layers=29, use_sliding_window=True)
case("qwen3_moe", "qwen3_moe", **WIDE, num_hidden_layers=29)
case("qwen3_moe_windows", "qwen3_moe", **WIDE, num_hidden_layers=29, use_sliding_window=True)
case("qwen3_next", "qwen3_next", **WIDE, layer_types=None)
case("qwen3_vl", "qwen3_vl", "qwen3-vl")
case("qwen3_vl_moe", "qwen3_vl", "qwen3-vl-moe")
case("qwen3_omni_moe", "qwen3_omni", "qwen3-omni", thinker_config__text_config__num_attention_heads=6,
     thinker_config__text_config__hidden_size=24)
case("qwen3_5", "qwen3_5", "qwen3.5-dense")
case("qwen3_5_moe", "qwen3_5", "qwen3.5")
case("qwen3_5_moe_text", "qwen3_5", "qwen3.5-text", layer_types=None)
case("olmo3", "olmo3", **WIDE)
case("gpt_oss", "gpt_oss", **WIDE)
case("llama4", "llama4", "llama4-maverick")
case("llama4_text", "llama4", "llama4-scout-text")
case("deepseek_v2", "deepseek", "deepseek2")
case("deepseek_v3", "deepseek", "deepseek3")
case("deepseek_v3_yarn", "deepseek", "deepseek3", rope_scaling=YARN)
case("deepseek_v32", "deepseek", "deepseek3.2")
case("deepseek_v4", "deepseek_v4", "deepseek4")
case("muse_glimmer", "muse_glimmer", text_config__hidden_size=96, text_config__num_attention_heads=12)

if __name__ == "__main__":
    sys.exit(main())
