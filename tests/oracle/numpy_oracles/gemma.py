"""Gemma 1, and variants of Gemma 2, 3 and 4 that MaxText's fixtures do not have.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/standalone_scripts/convert_gemma_chkpt.py
(leaves of Gemma 1), utils/param_mapping.py:332-585 (Gemma 2), :61-310 (Gemma 3), :2788-3050 and :3282-3499 (Gemma 4).
"""

import numpy as np

from .common import (BF16, F32, Checkpoint, check_dims, fit_rows, gated_mlp, plus_one, scaled, split_experts, stacked,
                     under)
from .dense import attention, by_root, store

NORMS = ("*norm*/scale", "*norm/scale")
MOE_NORMS = ("pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2")


def root(size):
    return np.sqrt(np.float64(size))


def tree_pair(top, layers, scanned):
    """Both trees from the layers in order and the stacked part."""
    separate = dict(top)
    for i, one in enumerate(layers):
        separate.update(under(f"decoder/layers_{i}/", one))
    return {"scanned": scanned and {**top, **scanned}, "unscanned": separate}


def gemma1(name, tied, rows, options=None):
    """Gemma 1: query scale and embedding scale folded, norms + 1. `rows`: vocabulary rows of the target."""
    d = {"D": 20, "F": 36, "V": 44, "H": 4, "K": 2, "h": 14, "L": 3}
    check_dims(d)
    config = {"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_size": d["D"],
              "intermediate_size": d["F"], "num_hidden_layers": d["L"], "num_attention_heads": d["H"],
              "num_key_value_heads": d["K"], "head_dim": d["h"], "vocab_size": d["V"]}
    c = Checkpoint(name, config if tied else {**config, "tie_word_embeddings": False}, options)
    store(c, d, tied)

    def trees(w):
        layers = []
        for i in range(d["L"]):
            p = f"model.layers.{i}."
            a = attention(w, f"{p}self_attn.", d)
            a["query/kernel"] = by_root(a["query/kernel"], d["h"])
            layers.append({"pre_self_attention_norm/scale": plus_one(w(f"{p}input_layernorm.weight")),
                           "pre_ffw_norm/scale": plus_one(w(f"{p}post_attention_layernorm.weight")),
                           **under("self_attention/", a), **under("mlp/", gated_mlp(w, f"{p}mlp."))})
        top = {"token_embedder/embedding": scaled(fit_rows(w("model.embed_tokens.weight"), rows), root(d["D"])),
               "decoder/decoder_norm/scale": plus_one(w("model.norm.weight"))}
        if not tied:
            top["decoder/logits_dense/kernel"] = fit_rows(w("lm_head.weight"), rows).T
        return tree_pair(top, layers, under("decoder/layers/", stacked(layers)))
    return c, {"trees": trees, "floors": NORMS}


def gemma():
    """Tied, vocabulary padded."""
    return gemma1("gemma", True, 48, {"vocab": "48"})


def gemma_untied():
    """A head of its own, which has no scale."""
    return gemma1("gemma-untied", False, 44)


def store_four_norms(c, prefix, dims, head_norms, layers=None):
    """Layers of Gemma 2 and 3: four norms, a gated MLP."""
    for i in range(dims["L"]) if layers is None else layers:
        p = f"{prefix}layers.{i}."
        for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            c.plain(f"{p}{norm}_layernorm.weight", dims["D"])
        for name, heads in (("q", dims["H"]), ("k", dims["K"]), ("v", dims["K"])):
            c.plain(f"{p}self_attn.{name}_proj.weight", heads * dims["h"], dims["D"])
        c.plain(f"{p}self_attn.o_proj.weight", dims["D"], dims["H"] * dims["h"])
        if head_norms:
            c.plain(f"{p}self_attn.q_norm.weight", dims["h"])
            c.plain(f"{p}self_attn.k_norm.weight", dims["h"])
        c.plain(f"{p}mlp.gate_proj.weight", dims["F"], dims["D"])
        c.plain(f"{p}mlp.up_proj.weight", dims["F"], dims["D"])
        c.plain(f"{p}mlp.down_proj.weight", dims["D"], dims["F"])


def four_norms(w, p, suffix="", of=plus_one):
    names = (("pre_self_attention_norm", "input_layernorm"), ("post_self_attention_norm", "post_attention_layernorm"),
             ("pre_ffw_norm", "pre_feedforward_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm"))
    return {f"{leaf}{suffix}/scale": of(w(f"{p}{name}.weight")) for leaf, name in names}


def gemma2_scalar():
    """query_pre_attn_scalar other than head_dim: the model's own factor, where MaxText's converter takes head_dim."""
    d = {"D": 20, "F": 36, "V": 44, "H": 4, "K": 2, "h": 6, "L": 6}
    check_dims(d, ("L",))
    config = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": d["D"],
              "intermediate_size": d["F"], "num_hidden_layers": d["L"], "num_attention_heads": d["H"],
              "num_key_value_heads": d["K"], "head_dim": d["h"], "query_pre_attn_scalar": 5, "vocab_size": d["V"]}
    c = Checkpoint("gemma2-scalar", config)
    c.plain("model.embed_tokens.weight", d["V"], d["D"])
    c.plain("model.norm.weight", d["D"])
    store_four_norms(c, "model.", d, False)

    def layer(w, i, scalar):
        p, side = f"model.layers.{i}.", ("_local", "_global")[i % 2]
        a = attention(w, f"{p}self_attn.", d)
        a["query/kernel"] = by_root(a["query/kernel"], scalar)
        return {**four_norms(w, p, side), **under(f"self_attention{side}/", a),
                **under(f"mlp{side}/", gated_mlp(w, f"{p}mlp."))}

    def trees(w, scalar=5):
        pairs = [{**layer(w, i, scalar), **layer(w, i + 1, scalar)} for i in range(0, d["L"], 2)]
        top = {"token_embedder/embedding": scaled(w("model.embed_tokens.weight"), root(d["D"])),
               "decoder/decoder_norm/scale": plus_one(w("model.norm.weight"))}
        return tree_pair(top, pairs, under("decoder/layers/", stacked(pairs)))

    def as_shipped(w):
        return {layout: {leaf: array for leaf, array in tree.items() if leaf.endswith("query/kernel")}
                for layout, tree in trees(w, d["h"]).items()}
    return c, {"trees": trees, "floors": NORMS, "as_shipped": as_shipped}


def gemma3(name, d, tied, rows, options=None):
    """Text-only names, cycles of six layers and a remainder; rows of the vocabulary cut after scaling."""
    check_dims(d, ("L",))
    config = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": d["D"],
              "intermediate_size": d["F"], "num_hidden_layers": d["L"], "num_attention_heads": d["H"],
              "num_key_value_heads": d["K"], "head_dim": d["h"], "query_pre_attn_scalar": d["h"],
              "sliding_window_pattern": 6, "vocab_size": d["V"]}
    c = Checkpoint(name, config if tied else {**config, "tie_word_embeddings": False}, options)
    c.plain("model.embed_tokens.weight", d["V"], d["D"])
    if rows < d["V"]:
        c.dropped.append("model.embed_tokens.weight")
    c.plain("model.norm.weight", d["D"])
    store_four_norms(c, "model.", d, True)
    if not tied:
        c.plain("lm_head.weight", d["V"], d["D"])

    def trees(w):
        layers = []
        for i in range(d["L"]):
            p = f"model.layers.{i}."
            a = attention(w, f"{p}self_attn.", d, head_norms=True)
            for norm in ("query_norm/scale", "key_norm/scale"):
                a[norm] = plus_one(a[norm])
            layers.append({**four_norms(w, p), **under("self_attention/", a),
                           **under("mlp/", gated_mlp(w, f"{p}mlp."))})
        top = {"token_embedder/embedding": fit_rows(scaled(w("model.embed_tokens.weight"), root(d["D"]), BF16), rows),
               "decoder/decoder_norm/scale": plus_one(w("model.norm.weight"))}
        if not tied:
            top["decoder/logits_dense/kernel"] = fit_rows(w("lm_head.weight"), rows).T
        return tree_pair(top, layers, gemma3_scanned(layers))
    return c, {"trees": trees, "floors": NORMS}


def gemma3_scanned(layers):
    """Whole cycles stacked, the layers behind them one by one."""
    whole, scanned = len(layers) // 6 * 6, {}
    for slot in range(6):
        scanned.update(under(f"decoder/layers/layers_{slot}/", stacked(layers[slot:whole:6])))
    for r, one in enumerate(layers[whole:]):
        scanned.update(under(f"decoder/layers_remainder/layers_{r}/", one))
    return scanned


def gemma3_text():
    """Eight layers: one cycle and a remainder of two."""
    d = {"D": 12, "F": 22, "V": 46, "H": 4, "K": 2, "h": 10, "L": 8}
    return gemma3("gemma3-text", d, True, 40, {"vocab": "40"})


def gemma3_untied():
    """Two cycles and a remainder; the root of hidden_size is not exact, so its rounding to bf16 shows."""
    d = {"D": 14, "F": 22, "V": 26, "H": 4, "K": 2, "h": 10, "L": 14}
    return gemma3("gemma3-untied", d, False, d["V"])


def gemma4_config(d, text, vision):
    out = {"architectures": ["Gemma4ForConditionalGeneration" if vision else "Gemma4ForCausalLM"]}
    return {**out, "model_type": "gemma4", "text_config": text, "vision_config": vision} if vision else {**out, **text}


def gemma4_dims():
    d = {"D": 20, "F": 26, "V": 44, "H": 4, "K": 2, "h": 6, "hg": 14, "L": 6}
    check_dims(d, ("L",))
    return d


def gemma4_dense():
    """Dense, text only with plain names; sizes of the full layers as per_layer_config states them; value kernels."""
    d = gemma4_dims()
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(d["L"])]
    text = {"model_type": "gemma4_text", "hidden_size": d["D"], "intermediate_size": d["F"],
            "num_hidden_layers": d["L"], "num_attention_heads": d["H"], "num_key_value_heads": d["K"],
            "head_dim": d["h"], "layer_types": kinds, "attention_k_eq_v": False, "enable_moe_block": False,
            "per_layer_config": {"05": {"head_dim": d["hg"], "num_key_value_heads": 1}}, "vocab_size": d["V"],
            "hidden_size_per_layer_input": 0, "tie_word_embeddings": True}
    c = Checkpoint("gemma4-text", gemma4_config(d, text, None))
    sides = [{**d, "h": d["hg"], "K": 1} if kind == "full_attention" else d for kind in kinds]
    store_gemma4(c, "model.", d, sides)

    def trees(w):
        layers = [gemma4_layer(w, f"model.layers.{i}.", side) for i, side in enumerate(sides)]
        return gemma4_trees(w, d, layers)
    return c, {"trees": trees}


def store_gemma4(c, prefix, d, sides):
    c.plain(f"{prefix}embed_tokens.weight", d["V"], d["D"])
    c.plain(f"{prefix}norm.weight", d["D"])
    for i, side in enumerate(sides):
        store_four_norms(c, prefix, side, True, [i])
        c.plain(f"{prefix}layers.{i}.layer_scalar", 1)


def gemma4_layer(w, p, side):
    return {**four_norms(w, p, of=lambda x: x), "layer_scalar": w(f"{p}layer_scalar"),
            **under("self_attention/", attention(w, f"{p}self_attn.", side, head_norms=True)),
            **under("mlp/", gated_mlp(w, f"{p}mlp."))}


def gemma4_scanned(layers):
    """Blocks of five local layers and a global one: [.., block, slot, ..] and [.., block, ..]."""
    blocks = [stacked(layers[b:b + 5]) for b in range(0, len(layers), 6)]
    out = under("decoder/scanned_blocks/local_layers/", stacked(blocks))
    return {**out, **under("decoder/scanned_blocks/global_layer/", stacked(layers[5::6]))}


def gemma4_split():
    """Experts beside a dense MLP, one tensor for each expert and projection."""
    d = {**gemma4_dims(), "D": 16, "E": 5, "Fe": 18}
    check_dims(d, ("L",))
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(d["L"])]
    text = {"model_type": "gemma4_text", "hidden_size": d["D"], "intermediate_size": d["F"],
            "num_hidden_layers": d["L"], "num_attention_heads": d["H"], "num_key_value_heads": d["K"],
            "head_dim": d["h"], "global_head_dim": d["hg"], "layer_types": kinds, "attention_k_eq_v": False,
            "enable_moe_block": True, "num_experts": d["E"], "top_k_experts": 2, "moe_intermediate_size": d["Fe"],
            "vocab_size": d["V"], "hidden_size_per_layer_input": 0, "tie_word_embeddings": True}
    c = Checkpoint("gemma4-split", gemma4_config(d, text, None))
    sides = [{**d, "h": d["hg"]} if kind == "full_attention" else d for kind in kinds]
    store_gemma4(c, "model.", d, sides)
    for i in range(d["L"]):
        p = f"model.layers.{i}."
        for norm in MOE_NORMS:
            c.plain(f"{p}{norm}.weight", d["D"])
        c.plain(f"{p}router.scale", d["D"])
        c.plain(f"{p}router.proj.weight", d["E"], d["D"])
        c.plain(f"{p}router.per_expert_scale", d["E"])
        for e in range(d["E"]):
            for name, shape in (("gate", (d["Fe"], d["D"])), ("up", (d["Fe"], d["D"])), ("down", (d["D"], d["Fe"]))):
                c.plain(f"{p}experts.{e}.{name}_proj.weight", *shape)

    def trees(w):
        layers = [gemma4_moe_layer(w, f"model.layers.{i}.", side) for i, side in enumerate(sides)]
        return gemma4_trees(w, d, layers)
    return c, {"trees": trees}


def gemma4_trees(w, d, layers):
    """Both trees of a text model, from its layers."""
    top = {"token_embedder/embedding": scaled(w("model.embed_tokens.weight"), root(d["D"])),
           "decoder/decoder_norm/scale": w("model.norm.weight")}
    return tree_pair(top, layers, gemma4_scanned(layers))


def gemma4_moe_layer(w, p, side):
    """The dense MLP is the shared expert of the block."""
    one = {name: leaf for name, leaf in gemma4_layer(w, p, side).items() if not name.startswith("mlp/")}
    block = {**under("shared_experts/", gated_mlp(w, f"{p}mlp.")),
             **under("MoeBlock_0/", split_experts(w, f"{p}experts.", side["E"])),
             "MoeBlock_0/gate/kernel": w(f"{p}router.proj.weight").T,
             "MoeBlock_0/per_expert_scale": w(f"{p}router.per_expert_scale")}
    return {**one, **{f"mlp/{norm}/scale": w(f"{p}{norm}.weight") for norm in MOE_NORMS},
            "mlp/pre_forward_scale_2": w(f"{p}router.scale"), **under("mlp/moe_block/", block)}


def gemma4_plain_vision():
    """A tower that is not standardised: the file has no std_scale and std_bias, MaxText's model has both."""
    d, v = gemma4_dims(), {"Dv": 12, "Fv": 22, "Hv": 3, "N": 9, "p": 2, "Lv": 2}
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(d["L"])]
    text = {"model_type": "gemma4_text", "hidden_size": d["D"], "intermediate_size": d["F"],
            "num_hidden_layers": d["L"], "num_attention_heads": d["H"], "num_key_value_heads": d["K"],
            "head_dim": d["h"], "global_head_dim": d["hg"], "layer_types": kinds, "attention_k_eq_v": False,
            "enable_moe_block": False, "vocab_size": d["V"], "hidden_size_per_layer_input": 0}
    vision = {"model_type": "gemma4_vision", "hidden_size": v["Dv"], "intermediate_size": v["Fv"],
              "num_hidden_layers": v["Lv"], "num_attention_heads": v["Hv"], "head_dim": v["Dv"] // v["Hv"],
              "patch_size": v["p"], "position_embedding_size": v["N"], "standardize": False}
    c = Checkpoint("gemma4-plain-vision", gemma4_config(d, text, vision), {"vision": "true"})
    sides = [{**d, "h": d["hg"]} if kind == "full_attention" else d for kind in kinds]
    store_gemma4(c, "model.language_model.", d, sides)
    store_gemma4_vision(c, d, v)

    def trees(w):
        layers = [gemma4_layer(w, f"model.language_model.layers.{i}.", side) for i, side in enumerate(sides)]
        top = {"token_embedder/embedding": scaled(w("model.language_model.embed_tokens.weight"), root(d["D"])),
               "decoder/decoder_norm/scale": w("model.language_model.norm.weight"), **gemma4_vision(w, v)}
        return tree_pair(top, layers, gemma4_scanned(layers))
    return c, {"trees": trees, "floors": ("*/std_scale", "*/std_bias")}


def store_gemma4_vision(c, d, v):
    tower = "model.vision_tower."
    c.plain(f"{tower}patch_embedder.input_proj.weight", v["Dv"], 3 * v["p"] * v["p"])
    c.plain(f"{tower}patch_embedder.position_embedding_table", 2, v["N"], v["Dv"])
    c.plain("model.embed_vision.embedding_projection.weight", d["D"], v["Dv"])
    for i in range(v["Lv"]):
        p = f"{tower}encoder.layers.{i}."
        for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            c.plain(f"{p}{norm}_layernorm.weight", v["Dv"])
        for name in "qkvo":
            c.plain(f"{p}self_attn.{name}_proj.linear.weight", v["Dv"], v["Dv"])
        for name in "qk":
            c.plain(f"{p}self_attn.{name}_norm.weight", v["Dv"] // v["Hv"])
        for name, shape in (("gate", (v["Fv"], v["Dv"])), ("up", (v["Fv"], v["Dv"])), ("down", (v["Dv"], v["Fv"]))):
            c.plain(f"{p}mlp.{name}_proj.linear.weight", *shape)


def gemma4_vision(w, v):
    tower, e = "model.vision_tower.", "vision_encoder/Gemma4VisionEncoderLayer_0/"
    linear = lambda tensor: w(tensor.replace("_proj.weight", "_proj.linear.weight"))
    dims = {"H": v["Hv"], "K": v["Hv"], "h": v["Dv"] // v["Hv"]}
    table = w(f"{tower}patch_embedder.position_embedding_table")
    out = {f"{e}vision_entry/input_projection/kernel": w(f"{tower}patch_embedder.input_proj.weight").T,
           f"{e}vision_entry/pos_emb_param": table.transpose(1, 0, 2),
           f"{e}std_scale": np.ones(v["Dv"], F32), f"{e}std_bias": np.zeros(v["Dv"], F32),
           "vision_encoder/Gemma4VisionProjector_0/projection/kernel":
               w("model.embed_vision.embedding_projection.weight").T}
    names = (("pre_attention_norm", "input"), ("post_attention_norm", "post_attention"),
             ("pre_ffw_norm", "pre_feedforward"), ("post_ffw_norm", "post_feedforward"))
    for i in range(v["Lv"]):
        p, o = f"{tower}encoder.layers.{i}.", f"{e}layer_{i}/"
        out.update({f"{o}{leaf}/scale": w(f"{p}{name}_layernorm.weight") for leaf, name in names})
        out.update(under(f"{o}attention/", attention(linear, f"{p}self_attn.", dims, head_norms=True)))
        out.update(under(f"{o}mlp/", gated_mlp(linear, f"{p}mlp.")))
    return out


MAKERS = (gemma, gemma_untied, gemma2_scalar, gemma3_text, gemma3_untied, gemma4_dense, gemma4_split,
          gemma4_plain_vision)
