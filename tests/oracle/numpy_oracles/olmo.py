"""OLMo 3 with biases and two cycles of layers.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:3501-3655,
src/maxtext/models/olmo3.py:115-150 (biases of all four projections), :270 (blocks of four layers).
"""

from .common import Checkpoint, check_dims, gated_mlp, put_biased_attention, stacked, under
from .dense import attention, config_of

CYCLE = 4


def store(c, d):
    """All tensors: norms behind attention and MLP only, query and key norms over all heads."""
    c.plain("model.embed_tokens.weight", d["V"], d["D"])
    c.plain("model.norm.weight", d["D"])
    c.plain("lm_head.weight", d["V"], d["D"])
    for i in range(d["L"]):
        p = f"model.layers.{i}."
        for norm in ("post_attention_layernorm", "post_feedforward_layernorm"):
            c.plain(f"{p}{norm}.weight", d["D"])
        put_biased_attention(c, p, d)
        c.plain(f"{p}self_attn.q_norm.weight", d["H"] * d["h"])
        c.plain(f"{p}self_attn.k_norm.weight", d["K"] * d["h"])
        for name, shape in (("gate", (d["F"], d["D"])), ("up", (d["F"], d["D"])), ("down", (d["D"], d["F"]))):
            c.plain(f"{p}mlp.{name}_proj.weight", *shape)


def layer(w, p, d):
    a = attention(w, f"{p}self_attn.", d, bias=True, head_norms=True)
    a["out/bias"] = w(f"{p}self_attn.o_proj.bias")
    return {"post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
            "post_mlp_layer_norm/scale": w(f"{p}post_feedforward_layernorm.weight"),
            **under("attention/", a), **under("mlp/", gated_mlp(w, f"{p}mlp."))}


def biased():
    """Eight layers: every stack has two, which shows their order."""
    d = {"D": 20, "F": 26, "V": 44, "H": 6, "K": 3, "h": 4, "L": 8}
    check_dims(d)
    c = Checkpoint("olmo3-biased", config_of("olmo3", "Olmo3ForCausalLM", d, False, attention_bias=True))
    store(c, d)

    def trees(w):
        top = {"token_embedder/embedding": w("model.embed_tokens.weight"),
               "decoder/decoder_norm/scale": w("model.norm.weight"),
               "decoder/logits_dense/kernel": w("lm_head.weight").T}
        layers = [layer(w, f"model.layers.{i}.", d) for i in range(d["L"])]
        separate, scanned = dict(top), dict(top)
        for i, one in enumerate(layers):
            separate.update(under(f"decoder/layers_{i}/", one))
        for slot in range(CYCLE):
            scanned.update(under(f"decoder/layers/layers_{slot}/", stacked(layers[slot::CYCLE])))
        return {"scanned": scanned, "unscanned": separate}
    return c, {"trees": trees}


MAKERS = (biased,)
