"""Phi-3: Llama's layers with fused projections.

Source: huggingface/transformers src/transformers/models/phi3/modeling_phi3.py (Phi3Attention slices qkv_proj's rows into
queries, keys and values, in this order; Phi3MLP chunks gate_up_proj's output into gate and up). The tree is MaxText's llama
tree with plain rotary halves: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/standalone_scripts/
llama_or_mistral_ckpt.py:586-1060 (Llama 2, Mistral), with the query scale of utils/param_mapping.py:2414-2570.
"""

import numpy as np

from . import dense
from .common import Checkpoint

DIMS = {"D": 20, "F": 36, "V": 44, "H": 4, "K": 2, "h": 14, "L": 3}


def split(w):
    """The tensors under the names that Llama gives them, cut out of the fused ones."""
    bounds = np.cumsum([DIMS["H"] * DIMS["h"], DIMS["K"] * DIMS["h"]])

    def named(name):
        stem, _, leaf = name.removesuffix(".weight").rpartition(".")
        if leaf in ("q_proj", "k_proj", "v_proj"):
            return np.split(w(f"{stem}.qkv_proj.weight"), bounds)["qkv".index(leaf[0])]
        if leaf in ("gate_proj", "up_proj"):
            return np.split(w(f"{stem}.gate_up_proj.weight"), 2)[leaf == "up_proj"]
        return w(name)
    return named


def phi3(name, tied, options=None, rows=None, **more):
    c = Checkpoint(name, dense.config_of("phi3", "Phi3ForCausalLM", DIMS, tied, **more), options)
    d = DIMS
    c.plain("model.embed_tokens.weight", d["V"], d["D"])
    c.plain("model.norm.weight", d["D"])
    if not tied:
        c.plain("lm_head.weight", d["V"], d["D"])
    for i in range(d["L"]):
        p = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            c.plain(f"{p}{norm}.weight", d["D"])
        c.plain(f"{p}self_attn.qkv_proj.weight", (d["H"] + 2 * d["K"]) * d["h"], d["D"])
        c.plain(f"{p}self_attn.o_proj.weight", d["D"], d["H"] * d["h"])
        c.plain(f"{p}mlp.gate_up_proj.weight", 2 * d["F"], d["D"])
        c.plain(f"{p}mlp.down_proj.weight", d["D"], d["F"])
    trees = dense.trees_of(DIMS, tied, rows=rows, scale=dense.by_root)
    return c, {"trees": lambda w: trees(split(w))}


def untied():
    """A head of its own, a sliding window, whole heads rotated."""
    return phi3("phi3", False, sliding_window=2047, partial_rotary_factor=1.0)


def tied():
    """Tied, rotary positions scaled, vocabulary padded."""
    scaling = {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}
    return phi3("phi3-tied", True, {"vocab": "50"}, rows=50, rope_scaling=scaling)


MAKERS = (untied, tied)
