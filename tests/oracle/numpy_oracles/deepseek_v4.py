"""DeepSeek V4: the names of the released files and those of the modules, FP8 blocks, FP4 experts in three dtypes.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:3896-4215,
standalone_scripts/deepseek_dequantize.py:37-115, src/maxtext/layers/attention_compressed.py, src/maxtext/layers/mhc.py,
src/maxtext/layers/moe.py:319-332 and 443-456.
"""

import re

import numpy as np

from .common import E8M0, F4, F32, Checkpoint, check_dims, in_heads, stacked, under

DIMS = {"D": 32, "Fe": 64, "H": 8, "h": 10, "r": 28, "G": 2, "o": 22, "Hi": 9, "di": 7, "E": 3, "k": 2, "V": 26}
BLOCK = (16, 24)
# Variables of MaxText's model that are no parameters: Tid2EidVar and MoEBiasVar.
TABLE, BIAS = "mlp/MoeBlock_0/tid2eid", "mlp/MoeBlock_0/gate/bias"
EXPERT_NAMES = (("wi_0", "w1"), ("wi_1", "w3"), ("wo", "w2"))
# Names of the released files -> those of the modules, in this order.
MODULE_NAMES = (
    (r"^embed\.", "model.embed_tokens."), (r"^norm\.", "model.norm."), (r"^head\.", "lm_head."),
    (r"^hc_head_", "model.hc_head.hc_"), (r"^(layers|mtp)\.", r"model.\1."), (r"\.attn_norm\.", ".input_layernorm."),
    (r"\.ffn_norm\.", ".post_attention_layernorm."), (r"\.hc_(attn|ffn)_", r".\1_hc."),
    (r"\.attn\.indexer\.compressor\.", ".self_attn.compressor.indexer."),
    (r"\.attn\.indexer\.weights_proj\.", ".self_attn.compressor.indexer.scorer.weights_proj."),
    (r"\.attn\.indexer\.", ".self_attn.compressor.indexer."), (r"\.attn\.", ".self_attn."),
    (r"\.(compressor|indexer)\.norm\.", r".\1.kv_norm."), (r"\.q_norm\.", ".q_a_norm."), (r"\.wkv\.", ".kv_proj."),
    (r"\.wgate\.", ".gate_proj."), (r"\.ape$", ".position_bias"), (r"\.w(q|o)_(a|b)\b", r".\1_\2_proj"),
    (r"\.attn_sink$", ".sinks"), (r"\.ffn\.", ".mlp."), (r"\.gate\.bias$", ".gate.e_score_correction_bias"),
    (r"\.shared_experts\.w1\b", ".shared_experts.gate_proj"), (r"\.shared_experts\.w3\b", ".shared_experts.up_proj"),
    (r"\.shared_experts\.w2\b", ".shared_experts.down_proj"))


def module_name(name):
    for pattern, new in MODULE_NAMES:
        name = re.sub(pattern, new, name)
    return name


class Released(Checkpoint):
    """The released files: UE8M0 scales beside the FP8 blocks. `packed`: dtype of the packed experts.

    `hashed`: so many layers have a hash router, and are never stacked.
    """

    def __init__(self, name, ratios, hashed, packed):
        super().__init__(name, config(ratios, hashed), {"maxtext": "0.2.4"})  # of 0.2.5: tests/interop/releases.py
        self.ratios = ratios
        self.hashed = hashed
        self.packed = packed

    def linear(self, stem, rows, cols):
        self.fp8(f"{stem}.weight", rows, cols, BLOCK, f"{stem}.scale", E8M0)

    def expert(self, stem, rows, cols):
        self.mx(f"{stem}.weight", f"{stem}.weight", f"{stem}.scale", (rows, cols), split=False, dtype=self.packed,
                exponent_dtype=E8M0)


class Modules(Released):
    """The names of the modules, and f32 scales that are named as in DeepSeek V3."""

    def _store(self, tensor, array):
        super()._store(module_name(tensor), array)

    def _mean(self, tensor, values, dtype):
        super()._mean(module_name(tensor), values, dtype)

    def ignored(self, tensor, *shape, **kinds):
        super().ignored(tensor, *shape, **kinds)
        self.dropped[-1] = module_name(tensor)

    def linear(self, stem, rows, cols):
        self.fp8(f"{stem}.weight", rows, cols, BLOCK)

    def reader(self, dtype=None):
        inner = super().reader(dtype)
        return lambda tensor: inner(module_name(tensor))


def config(ratios, hashed):
    d = DIMS
    check_dims(d, ("Fe", "k"))
    return {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": d["D"],
            "moe_intermediate_size": d["Fe"], "num_hidden_layers": len(ratios), "num_attention_heads": d["H"],
            "num_key_value_heads": 1, "head_dim": d["h"], "q_lora_rank": d["r"], "o_groups": d["G"],
            "o_lora_rank": d["o"], "index_n_heads": d["Hi"], "index_head_dim": d["di"], "n_routed_experts": d["E"],
            "num_experts_per_tok": d["k"],
            "n_shared_experts": 1, "num_hash_layers": hashed, "hc_mult": 4, "compress_ratios": ratios,
            "vocab_size": d["V"], "tie_word_embeddings": False, "num_nextn_predict_layers": 1,
            "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0",
                                    "weight_block_size": list(BLOCK)}}


def store(c):
    d = DIMS
    c.plain("embed.weight", d["V"], d["D"])
    c.plain("head.weight", d["V"], d["D"])
    c.plain("norm.weight", d["D"], dtype=F32)
    c.plain("hc_head_fn", 4, 4 * d["D"], dtype=F32)
    c.plain("hc_head_base", 4, dtype=F32)
    c.plain("hc_head_scale", 1, dtype=F32)
    for i, ratio in enumerate(c.ratios):
        store_attention(c, f"layers.{i}.", ratio)
        store_experts(c, f"layers.{i}.ffn.", i)
    c.ignored("mtp.0.e_proj.weight", 4, 4)


def store_attention(c, p, ratio):
    d, a = DIMS, f"{p}attn."
    c.plain(f"{p}attn_norm.weight", d["D"], dtype=F32)
    c.plain(f"{p}ffn_norm.weight", d["D"], dtype=F32)
    for part in ("attn", "ffn"):
        c.plain(f"{p}hc_{part}_fn", 24, 4 * d["D"])
        c.plain(f"{p}hc_{part}_base", 24, dtype=F32)
        c.plain(f"{p}hc_{part}_scale", 3, dtype=F32)
    c.linear(f"{a}wq_a", d["r"], d["D"])
    c.plain(f"{a}q_norm.weight", d["r"], dtype=F32)
    c.linear(f"{a}wq_b", d["H"] * d["h"], d["r"])
    c.linear(f"{a}wkv", d["h"], d["D"])
    c.plain(f"{a}kv_norm.weight", d["h"], dtype=F32)
    c.plain(f"{a}attn_sink", d["H"], dtype=F32)
    c.linear(f"{a}wo_a", d["G"] * d["o"], d["H"] * d["h"] // d["G"])
    c.linear(f"{a}wo_b", d["D"], d["G"] * d["o"])
    if ratio:
        store_compressor(c, f"{a}compressor.", d["h"], ratio)
    if ratio == 4:
        c.linear(f"{a}indexer.wq_b", d["Hi"] * d["di"], d["r"])
        c.plain(f"{a}indexer.weights_proj.weight", d["Hi"], d["D"])
        store_compressor(c, f"{a}indexer.compressor.", d["di"], ratio)


def store_compressor(c, p, width, ratio):
    """Ratio 4 overlaps two windows, so everything but the norm is twice as wide."""
    wide = 2 * width if ratio == 4 else width
    c.plain(f"{p}wkv.weight", wide, DIMS["D"])
    c.plain(f"{p}wgate.weight", wide, DIMS["D"])
    c.plain(f"{p}ape", ratio, wide, dtype=F32)
    c.plain(f"{p}norm.weight", width, dtype=F32)


def store_experts(c, f, i):
    d = DIMS
    c.plain(f"{f}gate.weight", d["E"], d["D"])
    if i < c.hashed:
        c.table(f"{f}gate.tid2eid", (d["V"], d["k"]), d["E"])
    else:
        c.plain(f"{f}gate.bias", d["E"], dtype=F32)
    for name, rows, cols in (("w1", d["Fe"], d["D"]), ("w3", d["Fe"], d["D"]), ("w2", d["D"], d["Fe"])):
        c.linear(f"{f}shared_experts.{name}", rows, cols)
        for e in range(d["E"]):
            c.expert(f"{f}experts.{e}.{name}", rows, cols)


def hyper_connection(w, p, part):
    """One matrix, one vector and three scalars carry nine leaves."""
    fn, base, scale = (w(f"{p}hc_{part}_{name}") for name in ("fn", "base", "scale"))
    return {"mhc_norm/scale": np.ones(4 * DIMS["D"], F32),
            "pre_alpha": fn[:4].T, "post_alpha": fn[4:8].T, "res_alpha": fn[8:24].T,
            "pre_beta": base[:4], "post_beta": base[4:8], "res_beta": base[8:24].reshape(4, 4),
            "pre_alpha_scale": scale[0:1], "post_alpha_scale": scale[1:2], "res_alpha_scale": scale[2:3]}


def compressor(w, p):
    return {"kv_proj/kernel": w(f"{p}wkv.weight").T, "gate_proj/kernel": w(f"{p}wgate.weight").T,
            "position_bias": w(f"{p}ape"), "kv_norm/scale": w(f"{p}norm.weight")}


def attention(w, a, ratio):
    d = DIMS
    o_a = w(f"{a}wo_a.weight").reshape(d["G"], d["o"], d["H"] * d["h"] // d["G"])
    out = {"wq_a/kernel": w(f"{a}wq_a.weight").T, "q_norm/scale": w(f"{a}q_norm.weight"),
           "wq_b/kernel": in_heads(w(f"{a}wq_b.weight"), d["H"], d["h"]),
           "wkv/kernel": in_heads(w(f"{a}wkv.weight"), 1, d["h"]), "kv_norm/scale": w(f"{a}kv_norm.weight"),
           "sinks": w(f"{a}attn_sink"), "o_a_proj/kernel": o_a.transpose(0, 2, 1),
           "o_b_proj/kernel": w(f"{a}wo_b.weight").T}
    if ratio == 128:
        out.update(under("hca_compressor/", compressor(w, f"{a}compressor.")))
    if ratio == 4:
        out.update(under("csa_compressor/", compressor(w, f"{a}compressor.")))
        indexer = {**compressor(w, f"{a}indexer.compressor."), "q_proj/kernel": w(f"{a}indexer.wq_b.weight").T,
                   "weights_proj/kernel": w(f"{a}indexer.weights_proj.weight").T}
        out.update(under("csa_compressor/indexer/", indexer))
    return out


def layer(w, i, ratio, hashed):
    p, f = f"layers.{i}.", f"layers.{i}.ffn."
    out = {"pre_self_attention_layer_norm/scale": w(f"{p}attn_norm.weight"),
           "post_self_attention_layer_norm/scale": w(f"{p}ffn_norm.weight"),
           **under("mhc_attention/", hyper_connection(w, p, "attn")),
           **under("mhc_mlp/", hyper_connection(w, p, "ffn")),
           **under("self_attention/", attention(w, f"{p}attn.", ratio)),
           "mlp/MoeBlock_0/gate/kernel": w(f"{f}gate.weight").T}
    out.update({TABLE: w(f"{f}gate.tid2eid")} if hashed else {BIAS: w(f"{f}gate.bias")})
    for leaf, name in EXPERT_NAMES:
        experts = [w(f"{f}experts.{e}.{name}.weight").T for e in range(DIMS["E"])]
        out[f"mlp/MoeBlock_0/{leaf}"] = np.stack(experts)
        out[f"mlp/shared_experts/{leaf}/kernel"] = w(f"{f}shared_experts.{name}.weight").T
    return out


def trees_of(ratios, hashed):
    def trees(w):
        top = {"token_embedder/embedding": w("embed.weight"), "decoder/decoder_norm/scale": w("norm.weight"),
               "decoder/logits_dense/kernel": w("head.weight").T, "decoder/hc_head/hc_fn": w("hc_head_fn").T,
               "decoder/hc_head/hc_base": w("hc_head_base"), "decoder/hc_head/hc_scale": w("hc_head_scale")}
        layers = [layer(w, i, ratio, i < hashed) for i, ratio in enumerate(ratios)]
        separate, scanned = dict(top), dict(top)
        for i, one in enumerate(layers):
            separate.update(under(f"decoder/layers_{i}/", one))
            if i < hashed:
                scanned.update(under(f"decoder/layers_{i}/", one))
        for slot in range(2):
            block = stacked(layers[hashed + slot::2])
            block[BIAS] = block[BIAS].T  # only parameters are stacked on axis 1
            scanned.update(under(f"decoder/scanned_blocks/layers_{slot}/", block))
        return {"scanned": scanned, "unscanned": separate}
    return trees


def make(c):
    store(c)
    return c, {"trees": trees_of(c.ratios, c.hashed), "floors": ("*/mhc_norm/scale", f"*/{TABLE}")}


def released():
    return make(Released("deepseek4-released", [0, 0, 4, 128, 4], 3, np.int8))


def released_f4():
    """Experts with the F4 of safetensors."""
    return make(Released("deepseek4-f4", [0, 128, 4], 1, F4))


def modules():
    """Two pairs in the stack; the bytes of the experts are unsigned."""
    return make(Modules("deepseek4-modules", [4, 128, 4, 128, 4], 1, np.uint8))


MAKERS = (released, released_f4, modules)
