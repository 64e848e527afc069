"""Qwen3-VL and Qwen3-Omni with towers but without deep-stack mergers: the only way to stack their text layers.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:3660-3891 (VL),
:1980-2400 (Omni), src/maxtext/configs/types.py:3276-3281 (no scanned layers with deep-stack).
"""

from .common import Checkpoint, check_dims, from_heads, in_heads, under
from .qwen import moe_facts, one_by_one, put_moe_text, qwen3_layer, text_config, top_leaves, tree_pair

LAYERS = 3
VISION = {"Dv": 12, "Fv": 20, "Hw": 3, "N": 9, "C": 5, "t": 2, "p": 7, "Do": 11}
AUDIO = {"Da": 10, "Fa": 22, "Ha": 5, "ds": 4, "mel": 13, "Oa": 9}
# Blocks of each tower.
DEPTH = 3
# Patches that the merger joins.
MERGED = 4


def vision_config(model_type):
    v = VISION
    check_dims(v)
    return {"model_type": model_type, "depth": DEPTH, "hidden_size": v["Dv"], "intermediate_size": v["Fv"],
            "num_heads": v["Hw"], "num_position_embeddings": v["N"], "in_channels": v["C"], "patch_size": v["p"],
            "temporal_patch_size": v["t"], "spatial_merge_size": 2, "out_hidden_size": v["Do"],
            "deepstack_visual_indexes": []}


def audio_config():
    a = AUDIO
    check_dims(a)
    return {"model_type": "qwen3_omni_moe_audio_encoder", "d_model": a["Da"], "encoder_layers": DEPTH,
            "encoder_attention_heads": a["Ha"], "encoder_ffn_dim": a["Fa"], "downsample_hidden_size": a["ds"],
            "num_mel_bins": a["mel"], "output_dim": a["Oa"]}


def put_biased(c, stem, rows, cols):
    c.plain(f"{stem}.weight", rows, cols)
    c.plain(f"{stem}.bias", rows)


def put_layer_norm(c, stem, width):
    c.plain(f"{stem}.weight", width)
    c.plain(f"{stem}.bias", width)


def linear(w, stem, leaf):
    return {f"{leaf}/kernel": w(f"{stem}.weight").T, f"{leaf}/bias": w(f"{stem}.bias")}


def layer_norm(w, stem, leaf):
    return {f"{leaf}/scale": w(f"{stem}.weight"), f"{leaf}/bias": w(f"{stem}.bias")}


def put_vision(c, tower, merger):
    """`merger`: names of its norm and of its two linear layers."""
    v, norm, first, second = VISION, *merger
    c.plain(f"{tower}patch_embed.proj.weight", v["Dv"], v["C"], v["t"], v["p"], v["p"])
    c.plain(f"{tower}patch_embed.proj.bias", v["Dv"])
    c.plain(f"{tower}pos_embed.weight", v["N"], v["Dv"])
    put_layer_norm(c, f"{tower}merger.{norm}", v["Dv"])
    put_biased(c, f"{tower}merger.{first}", MERGED * v["Dv"], MERGED * v["Dv"])
    put_biased(c, f"{tower}merger.{second}", v["Do"], MERGED * v["Dv"])
    for b in range(DEPTH):
        p = f"{tower}blocks.{b}."
        put_layer_norm(c, f"{p}norm1", v["Dv"])
        put_layer_norm(c, f"{p}norm2", v["Dv"])
        put_biased(c, f"{p}attn.qkv", 3 * v["Dv"], v["Dv"])
        put_biased(c, f"{p}attn.proj", v["Dv"], v["Dv"])
        put_biased(c, f"{p}mlp.linear_fc1", v["Fv"], v["Dv"])
        put_biased(c, f"{p}mlp.linear_fc2", v["Dv"], v["Fv"])


def vision_block(w, p):
    v = VISION
    width = v["Dv"] // v["Hw"]
    weight, bias = w(f"{p}attn.qkv.weight"), w(f"{p}attn.qkv.bias")
    out = {**layer_norm(w, f"{p}norm1", "ln1"), **layer_norm(w, f"{p}norm2", "ln2"),
           "attn/attn/out/kernel": from_heads(w(f"{p}attn.proj.weight"), v["Hw"], width),
           "attn/attn/out/bias": w(f"{p}attn.proj.bias"),
           **linear(w, f"{p}mlp.linear_fc1", "mlp"), **linear(w, f"{p}mlp.linear_fc2", "mlp_out")}
    for k, leaf in enumerate(("query", "key", "value")):
        rows = slice(k * v["Dv"], (k + 1) * v["Dv"])
        out[f"attn/attn/{leaf}/kernel"] = in_heads(weight[rows], v["Hw"], width)
        out[f"attn/attn/{leaf}/bias"] = bias[rows].reshape(v["Hw"], width)
    return out


def vision_leaves(w, tower, merger, kind):
    """`kind` is in the names of MaxText's modules."""
    encoder, projector = f"vision_encoder/{kind}VisionEncoder_0/", f"vision_encoder/{kind}VisionProjector_0/merger/"
    norm, first, second = merger
    out = {"patch_embed/proj/kernel": w(f"{tower}patch_embed.proj.weight").transpose(2, 3, 4, 1, 0),
           "patch_embed/proj/bias": w(f"{tower}patch_embed.proj.bias"),
           "pos_embed_interpolate/pos_embed": w(f"{tower}pos_embed.weight")}
    for b in range(DEPTH):
        out.update(under(f"blocks_{b}/", vision_block(w, f"{tower}blocks.{b}.")))
    joined = {**layer_norm(w, f"{tower}merger.{norm}", "ln_q"), **linear(w, f"{tower}merger.{first}", "mlp_0"),
              **linear(w, f"{tower}merger.{second}", "mlp_2")}
    return {**under(encoder, out), **under(projector, joined)}


def put_audio(c, tower):
    a = AUDIO
    c.plain(f"{tower}conv2d1.weight", a["ds"], 1, 3, 3)
    for k in (2, 3):
        c.plain(f"{tower}conv2d{k}.weight", a["ds"], a["ds"], 3, 3)
    for k in (1, 2, 3):
        c.plain(f"{tower}conv2d{k}.bias", a["ds"])
    bins = a["mel"]
    for _ in range(3):
        bins = (bins + 1) // 2
    c.plain(f"{tower}conv_out.weight", a["Da"], a["ds"] * bins)
    put_layer_norm(c, f"{tower}ln_post", a["Da"])
    put_biased(c, f"{tower}proj1", a["Da"], a["Da"])
    put_biased(c, f"{tower}proj2", a["Oa"], a["Da"])
    for b in range(DEPTH):
        p = f"{tower}layers.{b}."
        put_layer_norm(c, f"{p}self_attn_layer_norm", a["Da"])
        put_layer_norm(c, f"{p}final_layer_norm", a["Da"])
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            put_biased(c, f"{p}self_attn.{name}", a["Da"], a["Da"])
        put_biased(c, f"{p}fc1", a["Fa"], a["Da"])
        put_biased(c, f"{p}fc2", a["Da"], a["Fa"])


def audio_block(w, p):
    a, s = AUDIO, f"{p}self_attn."
    width = a["Da"] // a["Ha"]
    out = {"out/kernel": from_heads(w(f"{s}out_proj.weight"), a["Ha"], width), "out/bias": w(f"{s}out_proj.bias")}
    for leaf, name in (("query", "q"), ("key", "k"), ("value", "v")):
        out[f"{leaf}/kernel"] = in_heads(w(f"{s}{name}_proj.weight"), a["Ha"], width)
        out[f"{leaf}/bias"] = w(f"{s}{name}_proj.bias").reshape(a["Ha"], width)
    return {**layer_norm(w, f"{p}self_attn_layer_norm", "input_layer_norm"),
            **layer_norm(w, f"{p}final_layer_norm", "post_attention_layer_norm"), **under("self_attention_audio/", out),
            **linear(w, f"{p}fc1", "AudioMLP/wi"), **linear(w, f"{p}fc2", "AudioMLP/wo")}


def audio_leaves(w, tower):
    out = {"conv_out/kernel": w(f"{tower}conv_out.weight").T, **layer_norm(w, f"{tower}ln_post", "layernorm_post")}
    for k in (1, 2, 3):
        out[f"conv2d{k}/kernel"] = w(f"{tower}conv2d{k}.weight").transpose(2, 3, 1, 0)
        out[f"conv2d{k}/bias"] = w(f"{tower}conv2d{k}.bias")
    for b in range(DEPTH):
        out.update(under(f"layers_{b}/", audio_block(w, f"{tower}layers.{b}.")))
    projector = {**linear(w, f"{tower}proj1", "proj1"), **linear(w, f"{tower}proj2", "proj2")}
    return {**under("audio_encoder/Qwen3OmniAudioEncoder_0/", out),
            **under("audio_encoder/Qwen3OmniAudioProjector_0/", projector)}


def trees_of(prefix, head, towers):
    def trees(w):
        layers = [qwen3_layer(w, f"{prefix}layers.{i}.", one_by_one) for i in range(LAYERS)]
        return tree_pair({**top_leaves(w, prefix, head), **towers(w)}, layers, 1)
    return trees


def vl_flat():
    """Qwen3-VL MoE with one tensor for each expert and projection, and the vision tower."""
    text = text_config("qwen3_vl_moe_text", LAYERS, **moe_facts())
    config = {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe",
              "text_config": text, "vision_config": vision_config("qwen3_vl_moe"), "tie_word_embeddings": False}
    c = Checkpoint("qwen3-vl-flat", config, {"vision": "true"})
    prefix, tower, merger = "model.language_model.", "model.visual.", ("norm", "linear_fc1", "linear_fc2")
    put_moe_text(c, prefix, "lm_head.weight", LAYERS)
    put_vision(c, tower, merger)
    return c, {"trees": trees_of(prefix, "lm_head.weight", lambda w: vision_leaves(w, tower, merger, "Qwen3VL"))}


def omni_flat():
    """Qwen3-Omni's thinker with both towers."""
    text = text_config("qwen3_omni_moe_text", LAYERS, **moe_facts(), tie_word_embeddings=False)
    thinker = {"model_type": "qwen3_omni_moe_thinker", "text_config": text,
               "vision_config": vision_config("qwen3_omni_moe_vision_encoder"), "audio_config": audio_config()}
    config = {"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "qwen3_omni_moe",
              "thinker_config": thinker}
    c = Checkpoint("qwen3-omni-flat", config, {"vision": "true", "audio": "true"})
    prefix, head, merger = "thinker.model.", "thinker.lm_head.weight", ("ln_q", "mlp.0", "mlp.2")
    put_moe_text(c, prefix, head, LAYERS)
    put_vision(c, "thinker.visual.", merger)
    put_audio(c, "thinker.audio_tower.")
    c.ignored("talker.model.norm.weight", 6)

    def towers(w):
        return {**vision_leaves(w, "thinker.visual.", merger, "Qwen3OmniMoe"),
                **audio_leaves(w, "thinker.audio_tower.")}
    return c, {"trees": trees_of(prefix, head, towers)}


MAKERS = (vl_flat, omni_flat)
