"""gpt-oss with MXFP4 experts as published, and a bf16 one of odd depth.

Source: AI-Hypercomputer/maxtext e591f30c src/maxtext/checkpoint_conversion/utils/param_mapping.py:1798-1978,
standalone_scripts/dequantize_mxfp4.py:44-70, 122-140.
"""

from .common import Checkpoint, check_dims, from_heads, in_heads, put_biased_attention, stacked, under


def config_of(d, layers, **more):
    check_dims(d)
    return {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": d["D"],
            "intermediate_size": d["F"], "num_hidden_layers": layers, "num_attention_heads": d["H"],
            "num_key_value_heads": d["K"], "head_dim": d["h"], "num_local_experts": d["E"], "num_experts_per_tok": 2,
            "attention_bias": True, "vocab_size": d["V"], "tie_word_embeddings": False, **more}


def store(c, d, layers, packed):
    c.plain("model.embed_tokens.weight", d["V"], d["D"])
    c.plain("model.norm.weight", d["D"])
    c.plain("lm_head.weight", d["V"], d["D"])
    for i in range(layers):
        p = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            c.plain(f"{p}{norm}.weight", d["D"])
        put_biased_attention(c, p, d)
        c.plain(f"{p}self_attn.sinks", d["H"])
        c.plain(f"{p}mlp.router.weight", d["E"], d["D"])
        c.plain(f"{p}mlp.router.bias", d["E"])
        for name, out, inner in (("gate_up_proj", 2 * d["F"], d["D"]), ("down_proj", d["D"], d["F"])):
            expert = f"{p}mlp.experts.{name}"
            c.plain(f"{expert}_bias", d["E"], out)
            if packed:
                c.mx(expert, f"{expert}_blocks", f"{expert}_scales", (d["E"], out, inner))
            else:
                c.plain(expert, d["E"], inner, out)


def layer(w, p, d, packed):
    a, m = "GptOssAttention/", "GptOssMlp/"
    # The blocks are [expert, out, in]; expanded, the files have [expert, in, out].
    matrix = (lambda tensor: w(tensor).transpose(0, 2, 1)) if packed else w
    both, biases = matrix(f"{p}mlp.experts.gate_up_proj"), w(f"{p}mlp.experts.gate_up_proj_bias")
    out = {"pre_self_attention_layer_norm/scale": w(f"{p}input_layernorm.weight"),
           "post_self_attention_layer_norm/scale": w(f"{p}post_attention_layernorm.weight"),
           f"{a}out/kernel": from_heads(w(f"{p}self_attn.o_proj.weight"), d["H"], d["h"]),
           f"{a}out/bias": w(f"{p}self_attn.o_proj.bias"), f"{a}sinks": w(f"{p}self_attn.sinks"),
           f"{m}gate/kernel": w(f"{p}mlp.router.weight").T, f"{m}gate/bias": w(f"{p}mlp.router.bias"),
           f"{m}wi_0": both[..., 0::2], f"{m}wi_1": both[..., 1::2],
           f"{m}wi_0_bias": biases[:, 0::2], f"{m}wi_1_bias": biases[:, 1::2],
           f"{m}wo": matrix(f"{p}mlp.experts.down_proj"), f"{m}wo_bias": w(f"{p}mlp.experts.down_proj_bias")}
    for leaf, name, heads in (("query", "q", d["H"]), ("key", "k", d["K"]), ("value", "v", d["K"])):
        out[f"{a}{leaf}/kernel"] = in_heads(w(f"{p}self_attn.{name}_proj.weight"), heads, d["h"])
        out[f"{a}{leaf}/bias"] = w(f"{p}self_attn.{name}_proj.bias").reshape(heads, d["h"])
    return out


def trees_of(d, depth, packed):
    def trees(w):
        layers = [layer(w, f"model.layers.{i}.", d, packed) for i in range(depth)]
        top = {"token_embedder/embedding": w("model.embed_tokens.weight"),
               "decoder/decoder_norm/scale": w("model.norm.weight"),
               "decoder/logits_dense/kernel": w("lm_head.weight").T}
        separate, scanned = dict(top), dict(top)
        for i, one in enumerate(layers):
            separate.update(under(f"decoder/layers_{i}/", one))
        for slot in range(2):
            scanned.update(under(f"decoder/layers/layers_{slot}/", stacked(layers[slot::2])))
        return {"scanned": scanned if depth % 2 == 0 else None, "unscanned": separate}
    return trees


def mxfp4():
    """Experts in blocks of 32, as published. hidden_size and intermediate_size are equal there, here they are not."""
    d = {"D": 64, "F": 32, "H": 6, "K": 3, "h": 4, "E": 5, "V": 22}
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    c = Checkpoint("gpt-oss-mxfp4", config_of(d, 4, quantization_config=quantization))
    store(c, d, 4, True)
    return c, {"trees": trees_of(d, 4, True)}


def mxfp4_wide():
    """Three blocks along intermediate_size: their order shows."""
    d = {"D": 64, "F": 96, "H": 10, "K": 5, "h": 4, "E": 3, "V": 22}
    c = Checkpoint("gpt-oss-mxfp4-wide", config_of(d, 2, quantization_config={"quant_method": "mxfp4"}))
    store(c, d, 2, True)
    return c, {"trees": trees_of(d, 2, True)}


def square():
    """Equal hidden_size and intermediate_size, as in the published sizes: shapes tell no orientation. Odd depth."""
    d = {"D": 12, "F": 12, "H": 4, "K": 2, "h": 6, "E": 5, "V": 34}
    config = config_of({**d, "D": 22, "F": 26}, 3)
    config.update(hidden_size=d["D"], intermediate_size=d["F"])
    c = Checkpoint("gpt-oss-square", config)
    store(c, d, 3, False)
    return c, {"trees": trees_of(d, 3, False)}


MAKERS = (mxfp4, mxfp4_wide, square)
