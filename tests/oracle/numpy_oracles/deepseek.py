"""DeepSeek V2 and V3 and Kimi K2: low-rank queries, the MTP layer, FP8 blocks, packed 4-bit experts.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:1626-1795,
standalone_scripts/convert_deepseek_family_ckpt.py:56-81, 336-363 (Kimi, MTP), deepseek_dequantize.py:42-68.
"""

from .common import BF16, F32, Checkpoint, check_dims, from_heads, gated_mlp, in_heads, split_experts, stacked, under

DIMS = {"D": 16, "F": 22, "Fe": 14, "V": 26, "H": 6, "E": 5, "r": 8, "c": 12, "dn": 7, "dr": 4, "dv": 9}


def config_of(model_type, architecture, d, layers, dense, shared, **more):
    check_dims(d)
    return {"architectures": [architecture], "model_type": model_type, "hidden_size": d["D"],
            "intermediate_size": d["F"], "moe_intermediate_size": d["Fe"], "num_hidden_layers": layers,
            "first_k_dense_replace": dense, "n_routed_experts": d["E"], "n_shared_experts": shared,
            "num_attention_heads": d["H"], "num_key_value_heads": d["H"], "q_lora_rank": d["r"],
            "kv_lora_rank": d["c"], "qk_nope_head_dim": d["dn"], "qk_rope_head_dim": d["dr"], "v_head_dim": d["dv"],
            "moe_layer_freq": 1, "vocab_size": d["V"], "tie_word_embeddings": False, **more}


def store_layer(c, p, d, dense, shared, bias, linear, expert):
    """One layer; `linear` stores matrices, `expert` those of routed experts. `bias`: dtype of the router's, or None."""
    c.plain(f"{p}input_layernorm.weight", d["D"])
    c.plain(f"{p}post_attention_layernorm.weight", d["D"])
    a = f"{p}self_attn."
    linear(f"{a}q_a_proj.weight", d["r"], d["D"])
    c.plain(f"{a}q_a_layernorm.weight", d["r"])
    linear(f"{a}q_b_proj.weight", d["H"] * (d["dn"] + d["dr"]), d["r"])
    linear(f"{a}kv_a_proj_with_mqa.weight", d["c"] + d["dr"], d["D"])
    c.plain(f"{a}kv_a_layernorm.weight", d["c"])
    linear(f"{a}kv_b_proj.weight", d["H"] * (d["dn"] + d["dv"]), d["c"])
    linear(f"{a}o_proj.weight", d["D"], d["H"] * d["dv"])

    def mlp(prefix, width, put):
        put(f"{prefix}gate_proj.weight", width, d["D"])
        put(f"{prefix}up_proj.weight", width, d["D"])
        put(f"{prefix}down_proj.weight", d["D"], width)
    if dense:
        mlp(f"{p}mlp.", d["F"], linear)
        return
    c.plain(f"{p}mlp.gate.weight", d["E"], d["D"])
    if bias is not None:
        c.plain(f"{p}mlp.gate.e_score_correction_bias", d["E"], dtype=bias)
    for e in range(d["E"]):
        mlp(f"{p}mlp.experts.{e}.", d["Fe"], expert)
    mlp(f"{p}mlp.shared_experts.", shared * d["Fe"], linear)


def store(c, d, layers, dense, shared, bias=F32, prefix="model.", head="lm_head", linear=None, expert=None):
    linear = linear or c.plain
    c.plain(f"{prefix}embed_tokens.weight", d["V"], d["D"])
    c.plain(f"{prefix}norm.weight", d["D"])
    c.plain(f"{head}.weight", d["V"], d["D"])
    for i in range(layers):
        store_layer(c, f"{prefix}layers.{i}.", d, i < dense, shared, bias, linear, expert or linear)


def layer(w, p, d, dense, bias):
    a, s = f"{p}self_attn.", "self_attention/"
    out = {"pre_self_attention_layer_norm/scale": w(f"{p}input_layernorm.weight"),
           "post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
           f"{s}wq_a/kernel": w(f"{a}q_a_proj.weight").T, f"{s}q_norm/scale": w(f"{a}q_a_layernorm.weight"),
           f"{s}wq_b/kernel": in_heads(w(f"{a}q_b_proj.weight"), d["H"], d["dn"] + d["dr"]),
           f"{s}wkv_a/kernel": w(f"{a}kv_a_proj_with_mqa.weight").T,
           f"{s}kv_norm/scale": w(f"{a}kv_a_layernorm.weight"),
           f"{s}wkv_b/kernel": in_heads(w(f"{a}kv_b_proj.weight"), d["H"], d["dn"] + d["dv"]),
           f"{s}out/kernel": from_heads(w(f"{a}o_proj.weight"), d["H"], d["dv"])}
    if dense:
        return {**out, **under("mlp/", gated_mlp(w, f"{p}mlp."))}
    block = "DeepSeekMoeBlock_0/"
    out[f"{block}MoeBlock_0/gate/kernel"] = w(f"{p}mlp.gate.weight").T
    if bias:
        out[f"{block}MoeBlock_0/gate/bias"] = w(f"{p}mlp.gate.e_score_correction_bias")
    return {**out, **under(f"{block}MoeBlock_0/", split_experts(w, f"{p}mlp.experts.", d["E"])),
            **under(f"{block}shared_experts/", gated_mlp(w, f"{p}mlp.shared_experts."))}


def trees_of(d, layers, dense, bias=True, prefix="model.", head="lm_head", more=lambda w: {}):
    def trees(w):
        top = {"token_embedder/embedding": w(f"{prefix}embed_tokens.weight"),
               "decoder/decoder_norm/scale": w(f"{prefix}norm.weight"),
               "decoder/logits_dense/kernel": w(f"{head}.weight").T, **more(w)}
        made = [layer(w, f"{prefix}layers.{i}.", d, i < dense, bias) for i in range(layers)]
        separate, scanned = dict(top), dict(top)
        for kind, part in (("dense", made[:dense]), ("moe", made[dense:])):
            for i, one in enumerate(part):
                separate.update(under(f"decoder/{kind}_layers_{i}/", one))
            if part:
                scanned.update(under(f"decoder/{kind}_layers/", stacked(part)))
        return {"scanned": scanned, "unscanned": separate}
    return trees


def store_mtp(c, p, d, linear=None):
    """The multi-token-prediction layer; three tensors repeat those of the main model."""
    linear = linear or c.plain
    store_layer(c, p, d, False, 1, F32, linear, linear)
    c.plain(f"{p}enorm.weight", d["D"])
    c.plain(f"{p}hnorm.weight", d["D"])
    linear(f"{p}eh_proj.weight", d["D"], 2 * d["D"])
    c.copy(f"{p}embed_tokens.weight", "model.embed_tokens.weight")
    c.copy(f"{p}shared_head.head.weight", "lm_head.weight")
    c.copy(f"{p}shared_head.norm.weight", "model.norm.weight")


def mtp():
    """DeepSeek-V3 with its MTP layer."""
    d, layers = DIMS, 5
    c = Checkpoint("deepseek3-mtp", config_of("deepseek_v3", "DeepseekV3ForCausalLM", d, layers, 2, 1,
                                              topk_method="noaux_tc", num_nextn_predict_layers=1), {"mtp": "true"})
    store(c, d, layers, 2, 1)
    p = f"model.layers.{layers}."
    store_mtp(c, p, d)

    def more(w):
        out = {"mtp_1_embedding_norm/scale": w(f"{p}enorm.weight"),
               "mtp_1_hidden_state_norm/scale": w(f"{p}hnorm.weight"),
               "mtp_1_projection/kernel": w(f"{p}eh_proj.weight").T,
               **under("mtp_1_transformer_layer/", layer(w, p, d, False, True))}
        return under("mtp_block/mtp_layer_1/", out)
    return c, {"trees": trees_of(d, layers, 2, more=more)}


def fp8():
    """DeepSeek-V3 in FP8 with blocks of 128 x 128, ragged at both edges, no dense layer; the MTP layer goes nowhere."""
    d = {**DIMS, "D": 132, "F": 26, "Fe": 10, "V": 14, "E": 3, "c": 20, "dv": 23}
    layers = 2
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                    "weight_block_size": [128, 128]}
    c = Checkpoint("deepseek3-fp8", config_of("deepseek_v3", "DeepseekV3ForCausalLM", d, layers, 0, 1,
                                              topk_method="noaux_tc", num_nextn_predict_layers=1,
                                              quantization_config=quantization))
    linear = lambda tensor, rows, cols: c.fp8(tensor, rows, cols, (128, 128))
    store(c, d, layers, 0, 1, linear=linear)
    for tensor, shape in (("eh_proj.weight", (6, 4)), ("enorm.weight", (4,)), ("embed_tokens.weight", (5, 4))):
        c.ignored(f"model.layers.{layers}.{tensor}", *shape)
    return c, {"trees": trees_of(d, layers, 0)}


def v2():
    """DeepSeek-V2 with low-rank queries: no router bias, two shared experts in one MLP."""
    d, layers = DIMS, 4
    c = Checkpoint("deepseek2-lora", config_of("deepseek_v2", "DeepseekV2ForCausalLM", d, layers, 1, 2,
                                               topk_method="group_limited_greedy"))
    store(c, d, layers, 1, 2, bias=None)
    return c, {"trees": trees_of(d, layers, 1, bias=False)}


def bf16_bias():
    """DeepSeek-V3 whose router biases are bf16 as everything else: nothing makes them wider."""
    d, layers = DIMS, 3
    c = Checkpoint("deepseek3-bf16", config_of("deepseek_v3", "DeepseekV3ForCausalLM", d, layers, 1, 1,
                                               topk_method="noaux_tc"))
    store(c, d, layers, 1, 1, bias=BF16)
    return c, {"trees": trees_of(d, layers, 1)}


def kimi():
    """Kimi K2.5: the text model inside a vision model, routed experts in packed 4-bit integers."""
    d, layers = {**DIMS, "D": 32, "Fe": 64, "E": 3, "c": 20, "r": 44}, 3
    packed = {"format": "pack-quantized", "quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "weights": {"group_size": 32, "num_bits": 4, "strategy": "group", "symmetric": True, "type": "int"}}}}
    text = config_of("kimi_k2", "DeepseekV3ForCausalLM", d, layers, 1, 1, topk_method="noaux_tc",
                     quantization_config=packed, num_nextn_predict_layers=0)
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "text_config": text,
              "tie_word_embeddings": False}
    c = Checkpoint("kimi-int4", config)
    prefix, head = "language_model.model.", "language_model.lm_head"
    store(c, d, layers, 1, 1, prefix=prefix, head=head, expert=c.int4)
    c.ignored("vision_tower.patch_embed.proj.weight", 6, 3, 2, 2)
    c.ignored("mm_projector.proj.0.weight", 6, 4)
    return c, {"trees": trees_of(d, layers, 1, prefix=prefix, head=head)}


MAKERS = (mtp, fp8, v2, bf16_bias, kimi)
