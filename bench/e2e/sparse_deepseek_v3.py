#!/usr/bin/env python3
"""Writes a tree of DeepSeek-V3's size and names that takes no disk: real headers, full file sizes, no data.

    sparse_deepseek_v3.py OUT        (a new or empty directory; 92 thousand tensors in 163 files, 689 GB, all zeros)

It stands in for the published checkpoint where only headers are read (plan) or where zeros will do (memory tests).
Names, shapes and dtypes follow deepseek-ai/DeepSeek-V3: config.json, and README_WEIGHTS.md for the extra layer that
predicts further tokens and for the FP8 weights, whose 128 x 128 blocks have an f32 scale each.
"""

import argparse
import json
import os
import struct
import sys

FILES = 163
BLOCK = 128
DTYPE_BYTES = {"BF16": 2, "F8_E4M3": 1, "F32": 4}

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "ep_size": 1,
    "first_k_dense_replace": 3,
    "hidden_act": "silu",
    "hidden_size": 7168,
    "initializer_range": 0.02,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [BLOCK, BLOCK]},
    "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 10000,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "tie_word_embeddings": False,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "v_head_dim": 128,
    "vocab_size": 129280,
}


def fp8(name, rows, columns):
    """A quantized matrix and the scales of its blocks."""
    yield name + ".weight", "F8_E4M3", [rows, columns]
    yield name + ".weight_scale_inv", "F32", [-(-rows // BLOCK), -(-columns // BLOCK)]


def mlp(prefix, width, hidden):
    yield from fp8(prefix + "gate_proj", width, hidden)
    yield from fp8(prefix + "up_proj", width, hidden)
    yield from fp8(prefix + "down_proj", hidden, width)


def attention(prefix, config):
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    rope, nope = config["qk_rope_head_dim"], config["qk_nope_head_dim"]
    yield from fp8(prefix + "q_a_proj", config["q_lora_rank"], hidden)
    yield prefix + "q_a_layernorm.weight", "BF16", [config["q_lora_rank"]]
    yield from fp8(prefix + "q_b_proj", heads * (nope + rope), config["q_lora_rank"])
    yield from fp8(prefix + "kv_a_proj_with_mqa", config["kv_lora_rank"] + rope, hidden)
    yield prefix + "kv_a_layernorm.weight", "BF16", [config["kv_lora_rank"]]
    yield from fp8(prefix + "kv_b_proj", heads * (nope + config["v_head_dim"]), config["kv_lora_rank"])
    yield from fp8(prefix + "o_proj", hidden, heads * config["v_head_dim"])


def layer(index, config):
    hidden, width = config["hidden_size"], config["moe_intermediate_size"]
    prefix = f"model.layers.{index}."
    yield from attention(prefix + "self_attn.", config)
    if index < config["first_k_dense_replace"]:
        yield from mlp(prefix + "mlp.", config["intermediate_size"], hidden)
    else:
        yield prefix + "mlp.gate.weight", "BF16", [config["n_routed_experts"], hidden]
        yield prefix + "mlp.gate.e_score_correction_bias", "F32", [config["n_routed_experts"]]
        yield from mlp(prefix + "mlp.shared_experts.", config["n_shared_experts"] * width, hidden)
        for expert in range(config["n_routed_experts"]):
            yield from mlp(f"{prefix}mlp.experts.{expert}.", width, hidden)
    yield prefix + "input_layernorm.weight", "BF16", [hidden]
    yield prefix + "post_attention_layernorm.weight", "BF16", [hidden]


def tensors(config):
    """(name, dtype, shape) of the whole checkpoint, in the order of the layers."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    layers = config["num_hidden_layers"]
    yield "model.embed_tokens.weight", "BF16", [vocabulary, hidden]
    for index in range(layers):
        yield from layer(index, config)
    for index in range(layers, layers + config["num_nextn_predict_layers"]):
        prefix = f"model.layers.{index}."
        yield prefix + "embed_tokens.weight", "BF16", [vocabulary, hidden]
        yield prefix + "enorm.weight", "BF16", [hidden]
        yield prefix + "hnorm.weight", "BF16", [hidden]
        yield prefix + "eh_proj.weight", "BF16", [hidden, 2 * hidden]
        yield from layer(index, config)
        yield prefix + "shared_head.norm.weight", "BF16", [hidden]
        yield prefix + "shared_head.head.weight", "BF16", [vocabulary, hidden]
    yield "model.norm.weight", "BF16", [hidden]
    yield "lm_head.weight", "BF16", [vocabulary, hidden]


def size_bytes(dtype, shape):
    size = DTYPE_BYTES[dtype]
    for extent in shape:
        size *= extent
    return size


def cut(items, total, files):
    """Whole tensors in `files` lists of about the same size."""
    out, done = [[]], 0
    for item in items:
        if done * files >= total * len(out) and len(out) < files:
            out.append([])
        out[-1].append(item)
        done += size_bytes(*item[1:])
    return out


def write_file(path, items):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in items:
        begin, end = end, end + size_bytes(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_json(path, value):
    with open(path, "w", encoding="ascii") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", metavar="OUT", help="a new or empty directory")
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)
    if os.listdir(out):
        sys.exit(f"{out} is not empty")
    items = list(tensors(CONFIG))
    total = sum(size_bytes(dtype, shape) for _, dtype, shape in items)
    weight_map = {}
    shards = cut(items, total, FILES)
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):06}.safetensors"
        write_file(os.path.join(out, name), shard)
        weight_map |= {item[0]: name for item in shard}
    write_json(os.path.join(out, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": weight_map})
    write_json(os.path.join(out, "config.json"), CONFIG)
    print(f"{out}: {len(items)} tensors in {len(shards)} files, {total} bytes, sparse")


if __name__ == "__main__":
    main()
