"""Llama, Mistral and the dense Qwen families.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:596-855 (Qwen),
:2414-2570 (Llama 3.1), standalone_scripts/llama_or_mistral_ckpt.py:586-1060 (Llama 2, 3, 3.3, Mistral),
src/maxtext/layers/attentions.py:894-960 (which names have interleaved rotary pairs).
"""

import numpy as np

from .common import (BF16, E4M3, F16, Checkpoint, check_dims, divided, fit_rows, from_heads, gated_mlp, in_heads,
                     rope_interleave, scaled, stacked, under)

DIMS = {"D": 20, "F": 36, "V": 44, "H": 4, "K": 2, "h": 14, "L": 3}


def config_of(model_type, architecture, dims, tied, **more):
    derived = (("K",) if dims["K"] == dims["H"] else ()) + (("h",) if dims["H"] * dims["h"] == dims["D"] else ())
    check_dims(dims, derived)
    return {"architectures": [architecture], "model_type": model_type, "hidden_size": dims["D"],
            "intermediate_size": dims["F"], "num_hidden_layers": dims["L"], "num_attention_heads": dims["H"],
            "num_key_value_heads": dims["K"], "head_dim": dims["h"], "vocab_size": dims["V"],
            "tie_word_embeddings": tied, **more}


def store(c, dims, tied, prefix="model.", bias=False, head_norms=False, linear=None):
    """All tensors of a decoder with separate q, k, v and a gated MLP. `linear(tensor, rows, cols)` stores a matrix."""
    d, linear = dims, linear or c.plain
    c.plain(f"{prefix}embed_tokens.weight", d["V"], d["D"])
    c.plain(f"{prefix}norm.weight", d["D"])
    if not tied:
        c.plain("lm_head.weight", d["V"], d["D"])
    for i in range(d["L"]):
        p = f"{prefix}layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            c.plain(f"{p}{norm}.weight", d["D"])
        for name, heads in (("q", d["H"]), ("k", d["K"]), ("v", d["K"])):
            linear(f"{p}self_attn.{name}_proj.weight", heads * d["h"], d["D"])
            if bias:
                c.plain(f"{p}self_attn.{name}_proj.bias", heads * d["h"])
        linear(f"{p}self_attn.o_proj.weight", d["D"], d["H"] * d["h"])
        if head_norms:
            c.plain(f"{p}self_attn.q_norm.weight", d["h"])
            c.plain(f"{p}self_attn.k_norm.weight", d["h"])
        linear(f"{p}mlp.gate_proj.weight", d["F"], d["D"])
        linear(f"{p}mlp.up_proj.weight", d["F"], d["D"])
        linear(f"{p}mlp.down_proj.weight", d["D"], d["F"])


def attention(w, p, dims, bias=False, head_norms=False):
    """Query, key, value and out of one layer, below `self_attn.`, without any scale."""
    out = {"out/kernel": from_heads(w(f"{p}o_proj.weight"), dims["H"], dims["h"])}
    for leaf, name, heads in (("query", "q", dims["H"]), ("key", "k", dims["K"]), ("value", "v", dims["K"])):
        out[f"{leaf}/kernel"] = in_heads(w(f"{p}{name}_proj.weight"), heads, dims["h"])
        if bias:
            out[f"{leaf}/bias"] = w(f"{p}{name}_proj.bias").reshape(heads, dims["h"])
    if head_norms:
        out["query_norm/scale"], out["key_norm/scale"] = w(f"{p}q_norm.weight"), w(f"{p}k_norm.weight")
    return out


def layer(w, p, dims, scale=None, interleave=False, **kinds):
    """One decoder layer; `scale(x, h)` folds the query scale."""
    a = attention(w, f"{p}self_attn.", dims, **kinds)
    if interleave:
        a["query/kernel"], a["key/kernel"] = rope_interleave(a["query/kernel"]), rope_interleave(a["key/kernel"])
    if scale:
        a["query/kernel"] = scale(a["query/kernel"], dims["h"])
    return {"pre_self_attention_layer_norm/scale": w(f"{p}input_layernorm.weight"),
            "post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
            **under("self_attention/", a), **under("mlp/", gated_mlp(w, f"{p}mlp."))}


def by_root(x, h):
    """The factor h^-1/2 in f32."""
    return scaled(x, 1 / np.sqrt(np.float64(h)))


def by_bf16_root(x, h):
    """The standalone script's division by the square root of h rounded to bf16."""
    return divided(x, np.sqrt(np.float64(h)), BF16)


def trees_of(dims, tied, prefix="model.", rows=None, **kinds):
    """The function that makes both trees. `rows`: vocabulary rows of the target."""
    def trees(w):
        layers = [layer(w, f"{prefix}layers.{i}.", dims, **kinds) for i in range(dims["L"])]
        top = {"token_embedder/embedding": fit_rows(w(f"{prefix}embed_tokens.weight"), rows or dims["V"]),
               "decoder/decoder_norm/scale": w(f"{prefix}norm.weight")}
        if not tied:
            top["decoder/logits_dense/kernel"] = fit_rows(w("lm_head.weight"), rows or dims["V"]).T
        separate = dict(top)
        for i, one in enumerate(layers):
            separate.update(under(f"decoder/layers_{i}/", one))
        return {"scanned": {**top, **under("decoder/layers/", stacked(layers))}, "unscanned": separate}
    return trees


def queries_only(trees):
    """Just the query kernels of both trees."""
    return lambda w: {layout: {leaf: array for leaf, array in tree.items() if leaf.endswith("query/kernel")}
                      for layout, tree in trees(w).items()}


def mistral():
    """Untied, head_dim * heads other than hidden_size, vocabulary padded, head too."""
    c = Checkpoint("mistral", config_of("mistral", "MistralForCausalLM", DIMS, False, sliding_window=None),
                   {"vocab": "50"})
    store(c, DIMS, False)
    return c, {"trees": trees_of(DIMS, False, rows=50, scale=by_root),
               "as_shipped": queries_only(trees_of(DIMS, False, rows=50, scale=by_bf16_root))}


def mistral_fp8():
    """One scale for each matrix, scales of activations beside them."""
    config = config_of("mistral", "MistralForCausalLM", DIMS, False, sliding_window=None,
                       quantization_config={"quant_method": "fp8", "activation_scheme": "static",
                                            "weight_block_size": None})
    c = Checkpoint("mistral-fp8", config)
    store(c, DIMS, False, linear=c.fp8)
    for tensor in [name for name, array in c.stored.items() if array.dtype == E4M3]:
        c.ignored(tensor.removesuffix("weight") + "activation_scale", dtype=np.float32)
    return c, {"trees": trees_of(DIMS, False, scale=by_root)}


def llama2():
    """As many key heads as query heads, float16, rotary frequencies in the file, no rotary permutation."""
    dims = {**DIMS, "K": DIMS["H"]}
    c = Checkpoint("llama2", config_of("llama", "LlamaForCausalLM", dims, False), dtype=F16)
    store(c, dims, False)
    for i in range(dims["L"]):
        c.ignored(f"model.layers.{i}.self_attn.rotary_emb.inv_freq", dims["h"] // 2, dtype=np.float32)
    return c, {"trees": trees_of(dims, False, scale=by_root),
               "as_shipped": queries_only(trees_of(dims, False, scale=by_bf16_root))}


def llama32():
    """Tied with the head stored twice, Llama 3 rotary scaling, vocabulary cut."""
    rope = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_type": "llama3"}
    c = Checkpoint("llama3.2", config_of("llama", "LlamaForCausalLM", DIMS, True, rope_scaling=rope), {"vocab": "40"})
    store(c, DIMS, True)
    c.copy("lm_head.weight", "model.embed_tokens.weight")
    c.dropped.append("model.embed_tokens.weight")
    return c, {"trees": trees_of(DIMS, True, rows=40, scale=by_root, interleave=True)}


def llama33():
    """Llama 3 rotary scaling, but pairs kept in halves as MaxText's llama3.3-70b wants them."""
    rope = {"factor": 8.0, "rope_type": "llama3"}
    c = Checkpoint("llama3.3", config_of("llama", "LlamaForCausalLM", DIMS, False, rope_scaling=rope),
                   {"rope": "halves"})
    store(c, DIMS, False)
    return c, {"trees": trees_of(DIMS, False, scale=by_root),
               "as_shipped": queries_only(trees_of(DIMS, False, scale=by_bf16_root))}


def llama_fp8():
    """Blocks of 8 x 12 with ragged edges, f32 scales."""
    config = config_of("llama", "LlamaForCausalLM", DIMS, True, quantization_config={
        "quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [8, 12]})
    c = Checkpoint("llama-fp8", config)
    store(c, DIMS, True, linear=lambda tensor, rows, cols: c.fp8(tensor, rows, cols, (8, 12)))
    return c, {"trees": trees_of(DIMS, True, scale=by_root)}


def qwen25(name, dtype):
    """Biases, an untied head, no head_dim in config.json."""
    dims = {**DIMS, "H": 10, "h": 2, "K": 5}
    config = config_of("qwen2", "Qwen2ForCausalLM", dims, False, use_sliding_window=False)
    del config["head_dim"]
    c = Checkpoint(name, config, dtype=dtype)
    store(c, dims, False, bias=True)
    return c, {"trees": trees_of(dims, False, bias=True)}


def qwen25_untied():
    return qwen25("qwen2.5-untied", np.float32)


def qwen25_bf16():
    return qwen25("qwen2.5-bf16", BF16)


def qwen2_vl():
    """The text part of a vision model with the old names; the tower goes nowhere."""
    dims = {**DIMS, "H": 10, "h": 2, "K": 5}
    config = config_of("qwen2_vl", "Qwen2VLForConditionalGeneration", dims, False, vision_config={"depth": 1})
    del config["head_dim"]
    c = Checkpoint("qwen2-vl", config)
    store(c, dims, False, bias=True)
    c.ignored("visual.patch_embed.proj.weight", 6, 3, 2, 4, 4)
    c.ignored("visual.merger.mlp.0.bias", 24)
    return c, {"trees": trees_of(dims, False, bias=True)}


def qwen3_untied():
    """Norms of query and key heads, an untied head, vocabulary padded."""
    c = Checkpoint("qwen3-untied", config_of("qwen3", "Qwen3ForCausalLM", DIMS, False), {"vocab": "48"})
    store(c, DIMS, False, head_norms=True)
    return c, {"trees": trees_of(DIMS, False, rows=48, head_norms=True)}


MAKERS = (mistral, mistral_fp8, llama2, llama32, llama33, llama_fp8, qwen25_untied, qwen25_bf16, qwen2_vl,
          qwen3_untied)
