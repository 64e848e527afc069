#!/usr/bin/env python3
"""Makes gpt_oss_wide: a gpt-oss whose experts have several MXFP4 blocks in every row, unlike the adapter's own case.

The checkpoint is tests/oracle/gpt-oss-mxfp4-wide. The expected tensors follow from the names in pytorch/torchtitan
torchtitan/models/gpt_oss/moe.py and from the OCP Microscaling specification 1.0 (E2M1, low half first, 32 codes to a
scale 2^(s - 127)). Nothing here reads hfshard's tables.
"""

import hashlib
import json
import os
import shutil
import struct

import check

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, os.pardir, "oracle", "gpt-oss-mxfp4-wide")
OUT = os.path.join(HERE, "gpt_oss_wide")
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
PLAIN = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight", "lm_head.weight": "lm_head.weight"}
OF_LAYER = {"input_layernorm.weight": "attention_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
            "self_attn.sinks": "attention.sinks", "self_attn.o_proj.weight": "attention.wo.weight", "self_attn.o_proj.bias": "attention.wo.bias",
            "mlp.router.weight": "moe.router.gate.weight", "mlp.router.bias": "moe.router.gate.bias",
            "mlp.experts.gate_up_proj_bias": "moe.routed_experts.inner_experts.mlp1_bias_EG",
            "mlp.experts.down_proj_bias": "moe.routed_experts.inner_experts.mlp2_bias_ED"}
OF_LAYER |= {f"self_attn.{x}_proj.{kind}": f"attention.qkv_linear.w{x}.{kind}" for x in "qkv" for kind in ("weight", "bias")}
CODED = {"mlp.experts.gate_up_proj_blocks": "moe.routed_experts.inner_experts.mlp1_weight_EGD",
         "mlp.experts.down_proj_blocks": "moe.routed_experts.inner_experts.mlp2_weight_EDF"}


def decoded(codes, scales):
    """Returns bf16 for E2M1 codes, which it represents exactly."""
    out = bytearray()
    for place, byte in enumerate(codes):
        scale = 2.0 ** (scales[place // 16] - 127)
        for code in (byte & 15, byte >> 4):
            value = E2M1[code & 7] * scale * (-1 if code & 8 else 1)
            bits = struct.pack("<f", value)
            assert bits[:2] == b"\0\0"
            out += bits[2:]
    return bytes(out)


def main():
    tensors = check.tensors_of(SOURCE)
    made = {}
    for name, (dtype, shape, data) in tensors.items():
        if name in PLAIN:
            made[PLAIN[name]] = dtype, shape, data
            continue
        _, _, layer, part = name.split(".", 3)
        if part in OF_LAYER:
            made[f"layers.{layer}.{OF_LAYER[part]}"] = dtype, shape, data
        elif part in CODED:
            scales = tensors[name.replace("_blocks", "_scales")][2]
            made[f"layers.{layer}.{CODED[part]}"] = "BF16", [*shape[:2], shape[2] * 32], decoded(data, scales)
        else:
            assert part.endswith("_scales"), name
            made[f"layers.{layer}.moe.expert_bias_E"] = "F32", shape[:1], bytes(4 * shape[0])
    os.makedirs(OUT, exist_ok=True)
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(os.path.join(SOURCE, file), os.path.join(OUT, file))
    rows = [f" {json.dumps(name)}: " + json.dumps({"shape": shape, "dtype": check.NUMPY[dtype], "sha256": hashlib.sha256(data).hexdigest()})
            for name, (dtype, shape, data) in sorted(made.items())]
    with open(os.path.join(OUT, "expected.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
