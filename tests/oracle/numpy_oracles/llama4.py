"""Llama 4, text and vision.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/standalone_scripts/
llama_or_mistral_ckpt.py:586-1080 (stacked), llama4_ckpt_unscanned.py:198-560 (separate, vision).
"""

import numpy as np

from .common import Checkpoint, check_dims, from_heads, gated_mlp, in_heads, stacked, under
from .dense import attention

TEXT = {"D": 12, "H": 4, "K": 2, "h": 10, "F": 22, "Fe": 18, "E": 7, "V": 26}
VISION = {"Dv": 12, "Hv": 3, "Fv": 22, "P": 10, "Do": 18, "Lv": 2, "p": 4}
PARTS = (("wi_0", "gate_proj"), ("wi_1", "up_proj"), ("wo", "down_proj"))


def text_config(layers, step, tied):
    check_dims(TEXT)
    return {"model_type": "llama4_text", "hidden_size": TEXT["D"], "num_hidden_layers": layers,
            "num_attention_heads": TEXT["H"], "num_key_value_heads": TEXT["K"], "head_dim": TEXT["h"],
            "intermediate_size": TEXT["Fe"], "intermediate_size_mlp": TEXT["F"], "num_local_experts": TEXT["E"],
            "num_experts_per_tok": 1, "interleave_moe_layer_step": step,
            "moe_layers": list(range(step - 1, layers, step)), "vocab_size": TEXT["V"], "attention_bias": False,
            "tie_word_embeddings": tied}


def store_text(c, prefix, layers, step, tied):
    t = TEXT
    c.plain(f"{prefix}model.embed_tokens.weight", t["V"], t["D"])
    c.plain(f"{prefix}model.norm.weight", t["D"])
    if not tied:
        c.plain(f"{prefix}lm_head.weight", t["V"], t["D"])
    for i in range(layers):
        p = f"{prefix}model.layers.{i}."
        c.plain(f"{p}input_layernorm.weight", t["D"])
        c.plain(f"{p}post_attention_layernorm.weight", t["D"])
        for name, heads in (("q", t["H"]), ("k", t["K"]), ("v", t["K"])):
            c.plain(f"{p}self_attn.{name}_proj.weight", heads * t["h"], t["D"])
        c.plain(f"{p}self_attn.o_proj.weight", t["D"], t["H"] * t["h"])
        f = f"{p}feed_forward."
        if (i + 1) % step:
            store_mlp(c, f, t["F"])
            continue
        c.plain(f"{f}router.weight", t["E"], t["D"])
        c.plain(f"{f}experts.gate_up_proj", t["E"], t["D"], 2 * t["Fe"])
        c.plain(f"{f}experts.down_proj", t["E"], t["Fe"], t["D"])
        store_mlp(c, f"{f}shared_expert.", t["Fe"])


def store_mlp(c, prefix, width):
    c.plain(f"{prefix}gate_proj.weight", width, TEXT["D"])
    c.plain(f"{prefix}up_proj.weight", width, TEXT["D"])
    c.plain(f"{prefix}down_proj.weight", TEXT["D"], width)


def text_layer(w, p, has_experts):
    out = {"pre_self_attention_layer_norm/scale": w(f"{p}input_layernorm.weight"),
           "post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
           **under("self_attention/", attention(w, f"{p}self_attn.", TEXT))}
    f, block = f"{p}feed_forward.", "Llama4MoEBlock_0/"
    if not has_experts:
        return {**out, **under("mlp/", gated_mlp(w, f))}
    gate, up = np.split(w(f"{f}experts.gate_up_proj"), 2, axis=-1)
    return {**out, f"{block}MoeBlock_0/gate/kernel": w(f"{f}router.weight").T, f"{block}MoeBlock_0/wi_0": gate,
            f"{block}MoeBlock_0/wi_1": up, f"{block}MoeBlock_0/wo": w(f"{f}experts.down_proj"),
            **under(f"{block}shared_experts/", gated_mlp(w, f"{f}shared_expert."))}


def store_vision(c):
    v, model = VISION, "vision_model."
    c.plain(f"{model}class_embedding", v["Dv"])
    c.plain(f"{model}positional_embedding_vlm", 3 * 3 + 1, v["Dv"])
    c.plain(f"{model}patch_embedding.linear.weight", v["Dv"], 3 * v["p"] * v["p"])
    for where in ("pre", "post"):
        c.plain(f"{model}layernorm_{where}.weight", v["Dv"])
        c.plain(f"{model}layernorm_{where}.bias", v["Dv"])
    c.plain(f"{model}vision_adapter.mlp.fc1.weight", v["P"], v["Fv"])
    c.plain(f"{model}vision_adapter.mlp.fc2.weight", v["P"], v["P"])
    c.plain("multi_modal_projector.linear_1.weight", TEXT["D"], v["Do"])
    for i in range(v["Lv"]):
        p = f"{model}model.layers.{i}."
        for name in "qkvo":
            c.plain(f"{p}self_attn.{name}_proj.weight", v["Dv"], v["Dv"])
            c.plain(f"{p}self_attn.{name}_proj.bias", v["Dv"])
        for norm in ("input_layernorm", "post_attention_layernorm"):
            c.plain(f"{p}{norm}.weight", v["Dv"])
            c.plain(f"{p}{norm}.bias", v["Dv"])
        c.plain(f"{p}mlp.fc1.weight", v["Fv"], v["Dv"])
        c.plain(f"{p}mlp.fc1.bias", v["Fv"])
        c.plain(f"{p}mlp.fc2.weight", v["Dv"], v["Fv"])
        c.plain(f"{p}mlp.fc2.bias", v["Dv"])


def vision_leaves(w):
    v, model, root = VISION, "vision_model.", "vision_encoder/Llama4VisionModel_0/"
    heads, width = v["Hv"], v["Dv"] // v["Hv"]
    out = {f"{root}class_embedding": w(f"{model}class_embedding"),
           f"{root}positional_embedding_vlm": w(f"{model}positional_embedding_vlm"),
           f"{root}Llama4UnfoldConvolution_0/vit_unfold_linear/kernel": w(f"{model}patch_embedding.linear.weight").T,
           "vision_encoder/Llama4MultiModalProjector_0/vit_multi_modal_projector/kernel":
               w("multi_modal_projector.linear_1.weight").T}
    for where in ("pre", "post"):
        out[f"{root}layernorm_{where}/scale"] = w(f"{model}layernorm_{where}.weight")
        out[f"{root}layernorm_{where}/bias"] = w(f"{model}layernorm_{where}.bias")
    for n in "12":
        shuffle = f"Llama4VisionPixelShuffleMLP_0/pixel_shuffle_mlp/vit_pixel_shuffle_mlp_fc{n}/kernel"
        out[f"{root}{shuffle}"] = w(f"{model}vision_adapter.mlp.fc{n}.weight").T
    for i in range(v["Lv"]):
        p, o = f"{model}model.layers.{i}.", f"{root}Llama4VisionEncoder_0/layers_{i}/"
        for leaf, name in (("query", "q"), ("key", "k"), ("value", "v")):
            a, s = f"{o}self_attention_vision/{leaf}/", f"{p}self_attn.{name}_proj."
            out[f"{a}kernel"] = in_heads(w(f"{s}weight"), heads, width)
            out[f"{a}bias"] = w(f"{s}bias").reshape(heads, width)
        out[f"{o}self_attention_vision/out/kernel"] = from_heads(w(f"{p}self_attn.o_proj.weight"), heads, width)
        out[f"{o}self_attention_vision/out/bias"] = w(f"{p}self_attn.o_proj.bias")
        for n in "12":
            mlp = f"{o}Llama4VisionMLP_0/vit_encoder_layer_mlp_fc{n}/"
            out[f"{mlp}kernel"], out[f"{mlp}bias"] = w(f"{p}mlp.fc{n}.weight").T, w(f"{p}mlp.fc{n}.bias")
        for name in ("input", "post_attention"):
            norm = f"{o}{name}_layer_norm/"
            out[f"{norm}scale"], out[f"{norm}bias"] = w(f"{p}{name}_layernorm.weight"), w(f"{p}{name}_layernorm.bias")
    return out


def trees_of(prefix, layers, step, tied, vision):
    def trees(w):
        top = {"token_embedder/embedding": w(f"{prefix}model.embed_tokens.weight"),
               "decoder/decoder_norm/scale": w(f"{prefix}model.norm.weight"), **(vision_leaves(w) if vision else {})}
        if not tied:
            top["decoder/logits_dense/kernel"] = w(f"{prefix}lm_head.weight").T
        text = [text_layer(w, f"{prefix}model.layers.{i}.", (i + 1) % step == 0) for i in range(layers)]
        separate, scanned = dict(top), dict(top)
        for i, one in enumerate(text):
            separate.update(under(f"decoder/layers_{i}/", one))
        for slot in range(4):
            scanned.update(under(f"decoder/layers/layers_{slot}/", stacked(text[slot::4])))
        return {"scanned": scanned, "unscanned": separate}
    return trees


def maverick():
    """Experts in every second layer, 8 layers, the tower beside them."""
    text = text_config(8, 2, False)
    v = VISION
    config = {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "text_config": text,
              "vision_config": {"model_type": "llama4_vision_model", "hidden_size": v["Dv"],
                                "num_hidden_layers": v["Lv"], "num_attention_heads": v["Hv"], "intermediate_size": v["Fv"], "patch_size": v["p"],
                                "image_size": 3 * v["p"], "num_channels": 3, "projector_input_dim": v["P"],
                                "projector_output_dim": v["P"], "vision_output_dim": v["Do"]},
              "tie_word_embeddings": False}
    check_dims(VISION, ("Hv", "Dv", "p"))
    c = Checkpoint("llama4-maverick", config, {"vision": "true"})
    store_text(c, "language_model.", 8, 2, False)
    store_vision(c)
    return c, {"trees": trees_of("language_model.", 8, 2, False, True)}


def scout():
    """Experts in every layer, 4 layers, text only with plain names, tied."""
    config = {"architectures": ["Llama4ForCausalLM"], **text_config(4, 1, True)}
    c = Checkpoint("llama4-scout-text", config)
    store_text(c, "", 4, 1, True)
    return c, {"trees": trees_of("", 4, 1, True, False)}


MAKERS = (maverick, scout)
