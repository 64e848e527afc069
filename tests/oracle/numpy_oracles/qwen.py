"""Qwen 3 MoE in FP8, Qwen3-Next, dense and text-only Qwen 3.5, the text parts of Qwen3-VL and Qwen3-Omni.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:596-855 (Qwen 3),
:1388-1624 (Next), :858-1386 (3.5), :3660-3891 (VL), :1980-2400 (Omni).
"""

import numpy as np

from .common import BF16, F32, Checkpoint, check_dims, gated_mlp, in_heads, split_experts, stacked, under
from .dense import attention, layer as dense_layer, store as store_dense

DIMS = {"D": 16, "H": 8, "K": 4, "h": 6, "V": 26, "F": 22, "Fe": 14, "E": 7}
LINEAR = {"Hk": 3, "dk": 9, "dv": 11, "w": 5}
# Value heads for each key head.
PER_KEY = 2


def text_config(model_type, layers, **more):
    d = DIMS
    check_dims({**d, **LINEAR})
    return {"model_type": model_type, "hidden_size": d["D"], "intermediate_size": d["F"], "num_hidden_layers": layers,
            "num_attention_heads": d["H"], "num_key_value_heads": d["K"], "head_dim": d["h"], "vocab_size": d["V"],
            "attention_bias": False, **more}


def moe_facts():
    return {"num_experts": DIMS["E"], "num_experts_per_tok": 2, "moe_intermediate_size": DIMS["Fe"],
            "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}


def linear_facts():
    return {"linear_num_key_heads": LINEAR["Hk"], "linear_num_value_heads": PER_KEY * LINEAR["Hk"],
            "linear_key_head_dim": LINEAR["dk"], "linear_value_head_dim": LINEAR["dv"],
            "linear_conv_kernel_dim": LINEAR["w"], "full_attention_interval": 4}


def put_mlp(put, prefix, width):
    put(f"{prefix}gate_proj.weight", width, DIMS["D"])
    put(f"{prefix}up_proj.weight", width, DIMS["D"])
    put(f"{prefix}down_proj.weight", DIMS["D"], width)


def put_attention(c, p, doubled=False, put=None):
    """`doubled`: the query projection carries an output gate in the second half of each head."""
    d, put = DIMS, put or c.plain
    for name, heads in (("q", d["H"] * (2 if doubled else 1)), ("k", d["K"]), ("v", d["K"])):
        put(f"{p}self_attn.{name}_proj.weight", heads * d["h"], d["D"])
    put(f"{p}self_attn.o_proj.weight", d["D"], d["H"] * d["h"])
    c.plain(f"{p}self_attn.q_norm.weight", d["h"])
    c.plain(f"{p}self_attn.k_norm.weight", d["h"])


def put_top(c, prefix, head):
    c.plain(f"{prefix}embed_tokens.weight", DIMS["V"], DIMS["D"])
    c.plain(f"{prefix}norm.weight", DIMS["D"])
    if head:
        c.plain(head, DIMS["V"], DIMS["D"])


def put_norms(c, p):
    c.plain(f"{p}input_layernorm.weight", DIMS["D"])
    c.plain(f"{p}post_attention_layernorm.weight", DIMS["D"])


def top_leaves(w, prefix, head):
    out = {"token_embedder/embedding": w(f"{prefix}embed_tokens.weight"),
           "decoder/decoder_norm/scale": w(f"{prefix}norm.weight")}
    return {**out, "decoder/logits_dense/kernel": w(head).T} if head else out


def tree_pair(top, layers, cycle, slot_name="layer"):
    """Both trees; with a cycle, the layers of one slot are stacked."""
    separate, scanned = dict(top), dict(top)
    for i, one in enumerate(layers):
        separate.update(under(f"decoder/layers_{i}/", one))
    for slot in range(cycle):
        name = f"decoder/layers/{slot_name}_{slot}/" if cycle > 1 else "decoder/layers/"
        scanned.update(under(name, stacked(layers[slot::cycle])))
    return {"scanned": scanned if len(layers) % cycle == 0 else None, "unscanned": separate}


def qwen3_layer(w, p, experts):
    """Qwen 3 MoE; `experts(w, prefix)` gives wi_0, wi_1 and wo."""
    return {"pre_self_attention_layer_norm/scale": w(f"{p}input_layernorm.weight"),
            "post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
            **under("self_attention/", attention(w, f"{p}self_attn.", DIMS, head_norms=True)),
            "moe_block/gate/kernel": w(f"{p}mlp.gate.weight").T, **under("moe_block/", experts(w, f"{p}mlp.experts."))}


def one_by_one(w, prefix):
    return split_experts(w, prefix, DIMS["E"])


def moe_fp8():
    """Qwen 3 MoE with FP8 blocks of 16 x 8."""
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 8]}
    c = Checkpoint("qwen3-moe-fp8", {"architectures": ["Qwen3MoeForCausalLM"], **text_config(
        "qwen3_moe", 3, **moe_facts(), tie_word_embeddings=False, quantization_config=quantization)})
    put_top(c, "model.", "lm_head.weight")
    put = lambda tensor, rows, cols: c.fp8(tensor, rows, cols, (16, 8))
    for i in range(3):
        p = f"model.layers.{i}."
        put_norms(c, p)
        put_attention(c, p, put=put)
        c.plain(f"{p}mlp.gate.weight", DIMS["E"], DIMS["D"])
        for e in range(DIMS["E"]):
            put_mlp(put, f"{p}mlp.experts.{e}.", DIMS["Fe"])

    def trees(w):
        return tree_pair(top_leaves(w, "model.", "lm_head.weight"),
                         [qwen3_layer(w, f"model.layers.{i}.", one_by_one) for i in range(3)], 1)
    return c, {"trees": trees}


def put_linear_attention(c, p, split, wide=F32):
    """`wide`: dtype of A_log and of the norm."""
    n, d = LINEAR, DIMS["D"]
    keys, values = n["Hk"] * n["dk"], PER_KEY * n["Hk"] * n["dv"]
    a = f"{p}linear_attn."
    if split:
        c.plain(f"{a}in_proj_qkv.weight", 2 * keys + values, d)
        c.plain(f"{a}in_proj_z.weight", values, d)
        c.plain(f"{a}in_proj_b.weight", PER_KEY * n["Hk"], d)
        c.plain(f"{a}in_proj_a.weight", PER_KEY * n["Hk"], d)
    else:
        c.plain(f"{a}in_proj_qkvz.weight", 2 * keys + 2 * values, d)
        c.plain(f"{a}in_proj_ba.weight", 2 * PER_KEY * n["Hk"], d)
    c.plain(f"{a}conv1d.weight", 2 * keys + values, 1, n["w"])
    c.plain(f"{a}A_log", PER_KEY * n["Hk"], dtype=wide)
    c.plain(f"{a}dt_bias", PER_KEY * n["Hk"])
    c.plain(f"{a}norm.weight", n["dv"], dtype=wide)
    c.plain(f"{a}out_proj.weight", d, values)


def linear_attention(w, a, split):
    n, d = LINEAR, DIMS["D"]
    heads, keys = n["Hk"], n["Hk"] * n["dk"]
    if split:
        qkv, z = w(f"{a}in_proj_qkv.weight"), w(f"{a}in_proj_z.weight")
        parts = [qkv[:keys].reshape(heads, -1, d), qkv[keys:2 * keys].reshape(heads, -1, d),
                 qkv[2 * keys:].reshape(heads, -1, d), z.reshape(heads, -1, d)]
        qkvz = np.concatenate(parts, 1).reshape(-1, d)
        b, alpha = (w(f"{a}in_proj_{name}.weight").reshape(heads, PER_KEY, d) for name in "ba")
        ba = np.concatenate([b, alpha], 1).reshape(-1, d)
    else:
        qkvz, ba = w(f"{a}in_proj_qkvz.weight"), w(f"{a}in_proj_ba.weight")
    return {"in_proj_qkvz/kernel": qkvz.T, "in_proj_ba/kernel": ba.T,
            "conv1d/kernel": w(f"{a}conv1d.weight").transpose(2, 1, 0), "A_log": w(f"{a}A_log"),
            "dt_bias": w(f"{a}dt_bias"), "norm/rms_norm/scale": w(f"{a}norm.weight"),
            "out_proj/kernel": w(f"{a}out_proj.weight").T}


def hybrid_layer(w, p, i, split, mlp):
    out = {"input_layernorm/scale": w(f"{p}input_layernorm.weight"),
           "post_attention_layernorm/scale": w(f"{p}post_attention_layernorm.weight"),
           **under("mlp/", mlp(w, f"{p}mlp."))}
    if i % 4 != 3:
        return {**out, **under("attention/", linear_attention(w, f"{p}linear_attn.", split))}
    # A head of the query projection holds the query and its output gate; the output projection stays a matrix.
    d, s = DIMS, f"{p}self_attn."
    a = {"query/kernel": in_heads(w(f"{s}q_proj.weight"), d["H"], 2 * d["h"]),
         "key/kernel": in_heads(w(f"{s}k_proj.weight"), d["K"], d["h"]),
         "value/kernel": in_heads(w(f"{s}v_proj.weight"), d["K"], d["h"]), "out/kernel": w(f"{s}o_proj.weight").T,
         "query_norm/scale": w(f"{s}q_norm.weight"), "key_norm/scale": w(f"{s}k_norm.weight")}
    return {**out, **under("attention/attention/", a)}


def put_hybrid(c, prefix, layers, split, put_feed_forward, wide=F32):
    for i in range(layers):
        p = f"{prefix}layers.{i}."
        put_norms(c, p)
        if i % 4 == 3:
            put_attention(c, p, doubled=True)
        else:
            put_linear_attention(c, p, split, wide)
        put_feed_forward(f"{p}mlp.")


def put_shared_and_split(c, m):
    d = DIMS
    c.plain(f"{m}gate.weight", d["E"], d["D"])
    c.plain(f"{m}shared_expert_gate.weight", 1, d["D"])
    put_mlp(c.plain, f"{m}shared_expert.", d["Fe"])
    for e in range(d["E"]):
        put_mlp(c.plain, f"{m}experts.{e}.", d["Fe"])


def shared_and_split(w, m):
    return {"routed_experts/gate/kernel": w(f"{m}gate.weight").T,
            "shared_expert_gate/kernel": w(f"{m}shared_expert_gate.weight").T,
            **under("shared_expert/", gated_mlp(w, f"{m}shared_expert.")),
            **under("routed_experts/", split_experts(w, f"{m}experts.", DIMS["E"]))}


def qwen_next(name, layers, wide=F32):
    c = Checkpoint(name, {"architectures": ["Qwen3NextForCausalLM"], **text_config(
        "qwen3_next", layers, **moe_facts(), **linear_facts(), shared_expert_intermediate_size=DIMS["Fe"],
        tie_word_embeddings=False)}, {"maxtext": "0.2.4"})  # of 0.2.5: tests/interop/releases.py
    put_top(c, "model.", "lm_head.weight")
    put_hybrid(c, "model.", layers, False, lambda m: put_shared_and_split(c, m), wide)
    c.ignored("mtp.fc.weight", 4, 8)

    def trees(w):
        made = [hybrid_layer(w, f"model.layers.{i}.", i, False, shared_and_split) for i in range(layers)]
        return tree_pair(top_leaves(w, "model.", "lm_head.weight"), made, 4)
    return c, {"trees": trees}


def next_six():
    """Six layers: no stacked form."""
    return qwen_next("qwen3-next-six", 6)


def next_eight():
    """Eight layers: every stack has two."""
    return qwen_next("qwen3-next-eight", 8, BF16)


def text_35(name="qwen3.5-text", wide=F32):
    """Qwen 3.5 MoE, text only: plain names, one tensor per expert, MTP tensors beside them."""
    c = Checkpoint(name, {"architectures": ["Qwen3_5MoeForCausalLM"], **text_config(
        "qwen3_5_moe_text", 4, **moe_facts(), **linear_facts(), shared_expert_intermediate_size=DIMS["Fe"],
        attn_output_gate=True, tie_word_embeddings=True)})
    put_top(c, "model.", None)
    put_hybrid(c, "model.", 4, True, lambda m: put_shared_and_split(c, m), wide)
    c.ignored("mtp.fc.weight", 4, 8)

    def trees(w):
        layers = [hybrid_layer(w, f"model.layers.{i}.", i, True, shared_and_split) for i in range(4)]
        return tree_pair(top_leaves(w, "model.", None), layers, 4)
    return c, {"trees": trees}


def bf16_35():
    """A_log and the norm of the linear attention in bf16 as everything else: nothing makes them wider."""
    return text_35("qwen3.5-bf16", BF16)


def dense_35():
    """Dense Qwen 3.5, which MaxText lacks: the MLP as the only routed expert, beside a shared expert of zeros."""
    text = text_config("qwen3_5_text", 8, **linear_facts(), attn_output_gate=True)
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
              "tie_word_embeddings": True}
    c = Checkpoint("qwen3.5-dense", config)
    prefix = "model.language_model."
    put_top(c, prefix, None)
    put_hybrid(c, prefix, 8, True, lambda m: put_mlp(c.plain, m, DIMS["F"]))

    def mlp(w, m):
        only = {leaf.removesuffix("/kernel"): array[None] for leaf, array in gated_mlp(w, m).items()}
        dtype = only["wo"].dtype
        return {**under("routed_experts/", only), "routed_experts/gate/kernel": np.zeros((DIMS["D"], 1), dtype),
                "shared_expert_gate/kernel": np.zeros((DIMS["D"], 1), dtype),
                **{f"shared_expert/{leaf}/kernel": np.zeros(array.shape[1:], dtype) for leaf, array in only.items()}}

    def trees(w):
        layers = [hybrid_layer(w, f"{prefix}layers.{i}.", i, True, mlp) for i in range(8)]
        return tree_pair(top_leaves(w, prefix, None), layers, 4)
    return c, {"trees": trees}


def vl_config(architecture, model_type, text, tied):
    vision = {"model_type": model_type, "depth": 2, "hidden_size": 12, "intermediate_size": 20, "num_heads": 3,
              "num_position_embeddings": 9, "in_channels": 3, "patch_size": 2, "temporal_patch_size": 2,
              "spatial_merge_size": 2, "out_hidden_size": DIMS["D"], "deepstack_visual_indexes": [0]}
    return {"architectures": [architecture], "model_type": model_type, "text_config": text, "vision_config": vision,
            "tie_word_embeddings": tied}


def vl_text():
    """The text part of a dense Qwen3-VL: without the deep-stack tower the layers can be stacked."""
    d = {**DIMS, "L": 3}
    text = text_config("qwen3_vl_text", 3)
    c = Checkpoint("qwen3-vl-text", vl_config("Qwen3VLForConditionalGeneration", "qwen3_vl", text, True))
    prefix = "model.language_model."
    store_dense(c, d, True, prefix=prefix, head_norms=True)
    c.ignored("model.visual.patch_embed.proj.bias", 12)
    c.ignored("model.visual.deepstack_merger_list.0.norm.weight", 48)

    def trees(w):
        layers = [dense_layer(w, f"{prefix}layers.{i}.", d, head_norms=True) for i in range(3)]
        return tree_pair(top_leaves(w, prefix, None), layers, 1)
    return c, {"trees": trees}


def fused_out_in(w, prefix):
    """Experts as [expert, 2 * width, in] and [expert, out, width]."""
    both, down = w(f"{prefix}gate_up_proj").transpose(0, 2, 1), w(f"{prefix}down_proj").transpose(0, 2, 1)
    return {"wi_0": both[..., :DIMS["Fe"]], "wi_1": both[..., DIMS["Fe"]:], "wo": down}


def vl_out_in():
    """Text part of a Qwen3-VL MoE whose experts are stored [out, in], as transformers 5 holds them."""
    d = DIMS
    text = text_config("qwen3_vl_moe_text", 3, **moe_facts())
    c = Checkpoint("qwen3-vl-moe-out-in", vl_config("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", text, False))
    prefix = "model.language_model."
    put_top(c, prefix, "lm_head.weight")
    for i in range(3):
        p = f"{prefix}layers.{i}."
        put_norms(c, p)
        put_attention(c, p)
        c.plain(f"{p}mlp.gate.weight", d["E"], d["D"])
        c.plain(f"{p}mlp.experts.gate_up_proj", d["E"], 2 * d["Fe"], d["D"])
        c.plain(f"{p}mlp.experts.down_proj", d["E"], d["D"], d["Fe"])
    c.ignored("model.visual.pos_embed.weight", 9, 12)

    def trees(w):
        layers = [qwen3_layer(w, f"{prefix}layers.{i}.", fused_out_in) for i in range(3)]
        return tree_pair(top_leaves(w, prefix, "lm_head.weight"), layers, 1)
    return c, {"trees": trees}


def put_moe_text(c, prefix, head, layers):
    """The text part with one tensor per expert in every layer."""
    put_top(c, prefix, head)
    for i in range(layers):
        p = f"{prefix}layers.{i}."
        put_norms(c, p)
        put_attention(c, p)
        c.plain(f"{p}mlp.gate.weight", DIMS["E"], DIMS["D"])
        for e in range(DIMS["E"]):
            put_mlp(c.plain, f"{p}mlp.experts.{e}.", DIMS["Fe"])


def omni_text():
    """The thinker's text part; towers, talker and vocoder go nowhere."""
    text = text_config("qwen3_omni_moe_text", 3, **moe_facts(), tie_word_embeddings=False)
    config = {"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "qwen3_omni_moe",
              "thinker_config": {"model_type": "qwen3_omni_moe_thinker", "text_config": text}}
    c = Checkpoint("qwen3-omni-text", config)
    prefix, head = "thinker.model.", "thinker.lm_head.weight"
    put_moe_text(c, prefix, head, 3)
    for tensor in ("thinker.visual.pos_embed.weight", "thinker.audio_tower.conv_out.weight",
                   "talker.model.norm.weight", "code2wav.decoder.0.conv.weight"):
        c.ignored(tensor, 6, 4)

    def trees(w):
        layers = [qwen3_layer(w, f"{prefix}layers.{i}.", one_by_one) for i in range(3)]
        return tree_pair(top_leaves(w, prefix, head), layers, 1)
    return c, {"trees": trees}


MAKERS = (moe_fp8, next_six, next_eight, text_35, bf16_35, dense_35, vl_text, vl_out_in, omni_text)
