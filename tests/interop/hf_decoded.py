#!/usr/bin/env python3
"""Checks decoding to transformers' values: --scheme hf --dtype bf16 for MXFP4, FP4, int4 and FP8, against numpy.

Names, shapes and values are those of the checkpoint without codes, computed here from the stored arrays alone. Every
format gives the same. config.json names no quantization. The export of a tree gives the same files. Sources of the
layouts: huggingface/transformers src/transformers/integrations/mxfp4.py (convert_moe_packed_tensors: experts are
transposed), vllm-project/compressed-tensors pack_quantized (weight_packed, weight_scale, weight_shape).
"""

import argparse
import json
import os
import sys
import tempfile

import interop

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def e2m1(nibbles):
    import numpy as np

    return np.where(nibbles & 8, np.float32(-1), np.float32(1)) * np.array(E2M1, np.float32)[nibbles & 7]


def nibble_pairs(array):
    """Returns [..., 2n] codes for [..., n] bytes, the low nibble first."""
    import numpy as np

    raw = array.view(np.uint8)
    return np.stack([raw & 15, raw >> 4], -1).reshape(*array.shape[:-1], -1)


def powers(scales):
    import numpy as np

    if scales.dtype.name == "float8_e8m0fnu":  # one of them is NaN
        return scales.astype(np.float32)
    return np.ldexp(np.float32(1), scales.view(np.uint8).astype(np.int32) - 127)


def mx_experts(blocks, scales):
    """Returns [E, 32 G, R] for [E, R, G, 16] bytes and [E, R, G] exponents."""
    values = e2m1(nibble_pairs(blocks)) * powers(scales)[..., None]
    return values.reshape(*blocks.shape[:2], -1).transpose(0, 2, 1)


def int4_groups(words, scales):
    """Returns [N, K] for [N, K/8] words of eight codes (value + 8, lowest first) and a scale for each group of
    columns."""
    import numpy as np

    codes = np.stack([(words.view(np.uint32) >> np.uint32(4 * k)) & np.uint32(15) for k in range(8)], -1).reshape(len(words), -1)
    return (codes.astype(np.float32) - 8) * np.repeat(scales.astype(np.float32), codes.shape[1] // scales.shape[1], 1)


def fp8_blocks(codes, scales, block):
    """Decodes blocks, which can be cut off at the edges. Without blocks, one scale applies to the tensor."""
    import numpy as np

    if not block:
        return codes.astype(np.float32) * scales.astype(np.float32).reshape(())
    rows, cols = codes.shape
    wide = np.repeat(np.repeat(scales.astype(np.float32), block[0], 0), block[1], 1)
    return codes.astype(np.float32) * wide[:rows, :cols]


def decoded(stored, block):
    """Returns the result for each array, in f32 if it was coded."""
    out = {}
    for name, array in stored.items():
        kind = array.dtype.name
        if name.endswith(("_scales", "_scale_inv", ".weight_scale", ".activation_scale", ".weight_shape")) or f"{name[:-6]}.weight" in stored and name.endswith(".scale"):
            continue
        if name.endswith("_blocks"):
            out[name[:-7]] = mx_experts(array, stored[f"{name[:-7]}_scales"])
        elif name.endswith("_packed"):
            out[name[:-7]] = int4_groups(array, stored[f"{name[:-7]}_scale"])
        elif kind == "int8":
            scales = stored[f"{name[:-7]}.scale"]
            values = e2m1(nibble_pairs(array))
            out[name] = values * np_repeat(powers(scales), values.shape[1] // scales.shape[1])
        elif kind == "float8_e4m3fn":
            scales = stored.get(f"{name}_scale_inv", stored.get(f"{name[:-7]}.scale"))
            out[name] = fp8_blocks(array, scales, block)
        else:
            out[name] = array
    return out


def np_repeat(array, count):
    import numpy as np

    return np.repeat(array, count, 1)


def gpt_oss():
    """Makes MXFP4 with pairwise different dims: D = 96, F = 160, 3 experts."""
    import numpy as np
    from numpy_oracles import common
    from numpy_oracles import gpt_oss as oracle

    d = {"D": 96, "F": 160, "H": 5, "K": 1, "h": 4, "E": 3, "V": 7}
    config = {"model_type": "gpt_oss", "torch_dtype": "bfloat16", "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2,
              "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 3, "attention_bias": True,
              "vocab_size": 7, "tie_word_embeddings": False, "quantization_config": {"quant_method": "mxfp4"}}
    c = common.Checkpoint("hf_decoded", config)
    oracle.store(c, d, 2, True)
    rng = np.random.default_rng(5)
    for name in [name for name in c.stored if name.endswith("_blocks")]:
        shape = c.stored[name].shape
        c.stored[name] = rng.integers(0, 256, shape, np.uint8)
        c.stored[f"{name[:-7]}_scales"] = rng.integers(0, 254, shape[:-1], np.uint8)
    return c, None


def kimi():
    import decoders

    c, _ = decoders.kimi_words()
    return c, None


def deepseek_v4():
    import decoders

    c, _ = decoders.deepseek_v4_rows()
    return c, c.config.get("quantization_config", {}).get("weight_block_size", [128, 128])


def llama_fp8():
    import decoders

    c, _ = decoders.llama_blocks()
    return c, [1, 256]


def mistral_fp8():
    import decoders

    c, _ = decoders.mistral_tensors()
    return c, None


def check(tool, checks, make):
    import ml_dtypes
    import numpy as np
    from safetensors.numpy import load_file
    import decoders

    name = make.__name__
    checkpoint, block = make()
    source = tool.path(name)
    decoders.write_checkpoint(source, checkpoint)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = decoded(checkpoint.stored, block)
    words = ["--scheme", "hf", "--dtype", "bf16", "--quiet"]
    outputs = {to: tool.path(f"{name}-{to}") for to in ("safetensors", "dcp", "orbax")}
    for to, output in outputs.items():
        tool.run("convert", source, output, "--to", to, *words)
        tool.run("verify", output)
        tool.run("verify", output, source)
    found = {}
    for file in sorted(os.listdir(outputs["safetensors"])):
        if file.endswith(".safetensors"):
            found |= load_file(os.path.join(outputs["safetensors"], file))
    tool.expect(sorted(found) == sorted(wanted), f"{name}: names {sorted(set(found) ^ set(wanted))[:6]}")
    for tensor, values in wanted.items():
        if tensor not in found:
            continue
        is_float = values.dtype.kind == "f" or values.dtype == ml_dtypes.bfloat16
        with np.errstate(over="ignore", invalid="ignore"):
            checks.equal(f"{name}: {tensor}", found[tensor], values.astype(ml_dtypes.bfloat16) if is_float else values)
    with open(os.path.join(outputs["safetensors"], "config.json"), encoding="utf-8") as file:
        tool.expect("quantization_config" not in json.load(file), f"{name}: config.json names a quantization")
    for to in ("dcp", "orbax"):
        tool.run("diff", outputs["safetensors"], outputs[to])
        back = tool.path(f"{name}-back-{to}")
        tool.run("convert", outputs[to], back, "--to", "safetensors", "--quiet")
        tool.run("diff", outputs["safetensors"], back)
    tool.run("diff", source, outputs["safetensors"], "--dtype-aware")
    # Without --dtype, codes stay codes.
    kept = tool.path(f"{name}-kept")
    tool.run("convert", source, kept, "--to", "safetensors", "--quiet")
    tool.run("diff", source, kept)


def check_refused(tool):
    """Checks codes with a missing part, and codes that hfshard can't decode."""
    import numpy as np
    import decoders

    checkpoint, _ = gpt_oss()
    name = "model.layers.1.mlp.experts.down_proj"
    scales = checkpoint.stored.pop(f"{name}_scales")
    decoders.write_checkpoint(tool.path("lost"), checkpoint)
    done = tool.run("plan", tool.path("lost"), "--to", "dcp", "--dtype", "bf16", status=3)
    tool.expect(f"{name}_scales" in done.stderr, done.stderr)
    checkpoint.stored[f"{name}_scales"] = scales
    checkpoint.stored[name] = np.zeros((2, 3), np.float32)
    decoders.write_checkpoint(tool.path("both"), checkpoint)
    done = tool.run("plan", tool.path("both"), "--to", "dcp", "--dtype", "bf16", status=3)
    tool.expect("the source also has the tensor" in done.stderr, done.stderr)
    checkpoint, _ = kimi()
    name = next(name for name in checkpoint.stored if name.endswith("_packed"))
    checkpoint.stored[f"{name[:-7]}_zero_point"] = np.zeros((2,), np.int32)
    decoders.write_checkpoint(tool.path("zero"), checkpoint)
    done = tool.run("plan", tool.path("zero"), "--to", "dcp", "--dtype", "bf16", status=3)
    tool.expect("zero points" in done.stderr, done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes", "safetensors")
    sys.path.insert(0, interop.ORACLE)
    import decoders

    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        checks = decoders.Checks(tool)
        for make in (gpt_oss, kimi, deepseek_v4, llama_fp8, mistral_fp8):
            check(tool, checks, make)
        check_refused(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
