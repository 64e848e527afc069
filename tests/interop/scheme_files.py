#!/usr/bin/env python3
"""Checks model files with the names of a trainer: Meta's consolidated.NN.pth, and a state of torchtitan in safetensors.

Meta's files have torchtitan's names, and its order of the rows of queries and keys. The oracle for both is the code of
transformers that converts Meta's files (convert_llama_weights_to_hf.py, permute), turned around. Meta cuts each matrix
along its rows or columns for tensor parallelism. Llama 2 cuts the embedding along its columns, Llama 3 along its rows.
"""

import json
import os
import shutil
import tempfile

import interop

NAMES = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight", "lm_head.weight": "output.weight",
         "input_layernorm.weight": "attention_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
         "self_attn.q_proj.weight": "attention.wq.weight", "self_attn.k_proj.weight": "attention.wk.weight",
         "self_attn.v_proj.weight": "attention.wv.weight", "self_attn.o_proj.weight": "attention.wo.weight",
         "mlp.gate_proj.weight": "feed_forward.w1.weight", "mlp.down_proj.weight": "feed_forward.w2.weight",
         "mlp.up_proj.weight": "feed_forward.w3.weight"}


def meta_name(name):
    if not name.startswith("model.layers."):
        return NAMES[name]
    _, _, number, rest = name.split(".", 3)
    return f"layers.{number}.{NAMES[rest]}"


def interleaved(tensor, heads):
    """Undoes `permute`: w.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)."""
    rows, columns = tensor.shape
    return tensor.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def to_meta(tensors, config):
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    out = {}
    for name, tensor in tensors.items():
        kind = name.split(".")[-2][0] if name.endswith(("q_proj.weight", "k_proj.weight")) else None
        out[meta_name(name)] = interleaved(tensor, heads[kind]) if kind else tensor
    return out


def shards(tensor, name, ranks, embedding_axis):
    if tensor.dim() == 1:
        return [tensor] * ranks
    axis = embedding_axis if name.startswith("tok_embeddings") else 1 if name.endswith(("wo.weight", "w2.weight")) else 0
    return [part.contiguous().clone() for part in tensor.chunk(ranks, axis)]


def write_meta(folder, tensors, ranks, embedding_axis):
    import torch

    os.makedirs(folder)
    for rank in range(ranks):
        part = {name: shards(tensor, name, ranks, embedding_axis)[rank] for name, tensor in tensors.items()}
        part["rope.freqs"] = torch.arange(4, dtype=torch.float32)
        torch.save(part, os.path.join(folder, f"consolidated.{rank:02}.pth"))
    with open(os.path.join(folder, "params.json"), "w", encoding="utf-8") as file:
        json.dump({"dim": 1}, file)


def check_source(tool, what, source, model, config_words):
    """Checks that a source converts like the model itself."""
    outs = {"safetensors": ["--to", "safetensors", "--scheme", "hf"], "maxtext": [], "separate": ["--layers", "separate", "--dtype", "f32"],
            "torchtitan": ["--to", "dcp", "--scheme", "torchtitan"], "dcp": ["--to", "dcp", "--scheme", "hf"]}
    for name, words in outs.items():
        out, wanted = tool.path(f"{what}-{name}"), tool.path(f"model-{name}")
        done = tool.run("convert", source, out, *words, *config_words)
        said = " ".join(done.stderr.split())
        tool.expect("torchtitan's names" in said, f"{what} {name}: no note on the names: {said}")
        tool.expect("rope.freqs" in said or "meta" not in what, f"{what} {name}: no note on rope.freqs: {said}")
        if not os.path.exists(wanted):
            tool.run("convert", model, wanted, *words)
        tool.run("diff", out, wanted, "--quiet")
        tool.run("verify", out, "--quiet")
        if not config_words:
            tool.run("verify", out, source, "--quiet")
        if name == "safetensors":
            tool.expect(interop.tensors_of(out) == interop.tensors_of(wanted), f"{what}: other bytes")
        shutil.rmtree(out)
    for sides in ((source, model), (model, source), (source, tool.path("model-maxtext")), (source, tool.path("model-torchtitan"))):
        found = tool.json("diff", *sides, *config_words)
        tool.expect(found["compared_arrays" if "compared_arrays" in found else "compared_tensors"] > 0, f"{what}: diff {sides}: {found}")


def main():
    arguments = interop.start(__doc__)
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        model = tool.path("model")
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "vocab_size": 64, "rope_theta": 500000.0,
                  "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
        path = tool.path("config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        tool.run("mappings", "example", "llama", model, "--config", path, "--quiet")
        tensors = load_file(os.path.join(model, "model.safetensors"))
        meta = to_meta(tensors, config)
        for what, ranks, axis in (("meta-1", 1, 0), ("meta-2-rows", 2, 0), ("meta-2-columns", 2, 1)):
            write_meta(tool.path(what), meta, ranks, axis)
            check_source(tool, what, tool.path(what), model, ["--config", model])
        state = tool.path("titan")
        os.makedirs(state)
        save_file({name: tensor.contiguous() for name, tensor in meta.items()}, os.path.join(state, "model.safetensors"), {"format": "pt"})
        shutil.copy(os.path.join(model, "config.json"), state)
        check_source(tool, "titan", state, model, [])
        # The error names a missing tensor as the source does.
        del meta["layers.1.attention.wk.weight"]
        save_file({name: tensor.contiguous() for name, tensor in meta.items()}, os.path.join(state, "model.safetensors"), {"format": "pt"})
        for words in ([], ["--to", "safetensors"]):
            done = tool.run("convert", state, tool.path("never"), *words, status=3)
            tool.expect('"layers.1.attention.wk.weight"' in done.stderr, f"{words}: {done.stderr}")
        raise SystemExit(tool.verdict())


if __name__ == "__main__":
    main()
