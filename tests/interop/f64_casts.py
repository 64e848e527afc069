#!/usr/bin/env python3
"""Casts tensors of float64 to bf16, f16 and f32 with one rounding to nearest even, everywhere that casts exist.

numpy decides for f32 and f16. In torch and ml_dtypes, casts from float64 to bf16 round to f32 first. So for bf16,
the nearest of all 65536 bf16 numbers decides. The test covers files to MaxText stacked and separate, DCP and files,
and exports from trees of float64. The Python with torch is HFSHARD_PEER_PYTHON.
"""

import argparse
import glob
import importlib
import json
import os
import sys
import tempfile

import interop

CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 10, "vocab_size": 22, "hidden_size": 26, "intermediate_size": 14,
          "tie_word_embeddings": False, "torch_dtype": "bfloat16", "attention_bias": False}
GEMMA = {**CONFIG, "model_type": "gemma", "architectures": ["GemmaForCausalLM"], "head_dim": 10, "tie_word_embeddings": True,
         "hidden_act": "gelu_pytorch_tanh", "num_hidden_layers": 2}
STORED = ("mlp.gate_proj", "self_attn.o_proj", "norm", "embed_tokens")


def load(folder):
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))) for name, tensor in load_file(path).items()}


def hard_values(count, seed):
    """Returns numbers halfway between two of the target's, and next to it: subnormal, too large, infinities, NaNs."""
    import numpy

    random = numpy.random.default_rng(seed)
    with numpy.errstate(all="ignore"):
        bf16 = (random.integers(0, 1 << 16, count, dtype=numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
        f16 = random.integers(0, 1 << 16, count, dtype=numpy.uint16).view(numpy.float16).astype(numpy.float64)
        f32 = random.integers(0, 1 << 32, count, dtype=numpy.uint32).view(numpy.float32).astype(numpy.float64)
        out = numpy.where(random.random(count) < 0.4, bf16 * (1 + 2.0**-8), numpy.where(random.random(count) < 0.5, f16 * (1 + 2.0**-11), f32))
        nudged = numpy.nextafter(out, numpy.where(random.random(count) < 0.5, numpy.inf, -numpy.inf))
    out = numpy.where(random.random(count) < 0.5, out, nudged)
    special = [numpy.inf, -numpy.inf, numpy.nan, -0.0, 5e-324, -1e-310, 1.7e308, 3.4028235677973366e38, 65519.99999999999, 65520.0]
    out[:len(special)] = special[:count]
    return out


def as_bf16(values):
    """Returns the nearest bf16 numbers, as float64. For a tie, it takes the one whose last bit is 0. It
    doesn't cast."""
    import numpy

    numbers = (numpy.arange(0x7f80, dtype=numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    beyond = numpy.append(numbers, 2.0**128)  # rounding there gives infinity
    size = numpy.abs(values)
    above = numpy.clip(numpy.searchsorted(beyond, size), 1, len(beyond) - 1)
    up, down = beyond[above] - size, size - beyond[above - 1]
    near = numpy.where(up < down, above, numpy.where(down < up, above - 1, above - above % 2))
    out = numpy.where(size >= 2.0**128, numpy.inf, numpy.append(numbers, numpy.inf)[near])
    return numpy.copysign(numpy.where(numpy.isnan(values), numpy.nan, out), values)


def wanted(tensor, flag):
    """Returns the result of a cast of a tensor, as float64."""
    import numpy

    values = tensor.double().numpy()
    with numpy.errstate(all="ignore"):
        if flag == "bf16":
            return as_bf16(values.reshape(-1)).reshape(values.shape)
        return values.astype({"f32": numpy.float32, "f16": numpy.float16}[flag]).astype(numpy.float64)


def compare(tool, what, folder, tensors, flag, untouched=()):
    import numpy
    import torch

    member = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}[flag]
    found = load(folder)
    tool.expect(sorted(found) == sorted(tensors), f"{what}: names differ")
    for name in sorted(set(found) & set(tensors)):
        if any(part in name for part in untouched):
            continue
        good = found[name].dtype == member
        expected, seen = wanted(tensors[name], flag), found[name].double().numpy()
        same = numpy.array_equal(expected, seen, equal_nan=True) and numpy.array_equal(numpy.signbit(expected), numpy.signbit(seen))
        tool.expect(good and same, f"{what}: {name} is not the nearest {flag} ({found[name].dtype})")


def write_model(tool, config, seed):
    import torch
    from safetensors.torch import save_file

    path = tool.path(f"model-{seed}")
    with open(tool.path("config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    tool.run("mappings", "example", config["model_type"], path, "--config", tool.path("config.json"))
    tensors = load(path)
    for number, name in enumerate(sorted(tensors)):
        if any(part in name for part in STORED):
            shape = tensors[name].shape
            tensors[name] = torch.from_numpy(hard_values(tensors[name].numel(), seed + number).reshape(shape))
    save_file(tensors, os.path.join(path, "model.safetensors"), {"format": "pt"})
    return path, tensors


def check_files(tool):
    source, tensors = write_model(tool, CONFIG, 1)
    for flag in ("bf16", "f32", "f16"):
        out = tool.path(f"files-{flag}")
        done = tool.run("convert", source, out, "--to", "safetensors", "--scheme", "hf", "--dtype", flag)
        compare(tool, f"files {flag}", out, tensors, flag)
        tool.expect("became infinite" in done.stdout, f"{flag}: nothing is said of values that became infinite\n{done.stdout}")
        tool.run("verify", out, source)
    for number, (to, layers) in enumerate((("orbax", "stacked"), ("orbax", "separate"), ("dcp", "stacked"))):
        for flag in ("bf16", "f32", "f16")[:3 if number == 0 else 1]:
            out, back = tool.path(f"{to}-{layers}-{flag}"), tool.path(f"back-{to}-{layers}-{flag}")
            tool.run("convert", source, out, "--to", to, "--scheme", "maxtext", "--layers", layers, "--dtype", flag, "-q")
            tool.run("verify", out, source)
            tool.run("convert", out, back, "--to", "safetensors", "--dtype", flag, "-q")
            compare(tool, f"{to} {layers} {flag}", back, tensors, flag)
    out = tool.path("by-config")
    tool.run("convert", source, out, "-q")
    tool.run("convert", out, tool.path("by-config-back"), "--to", "safetensors", "--dtype", "bf16", "-q")
    compare(tool, "the dtype of config.json", tool.path("by-config-back"), tensors, "bf16")
    keeps = tool.path("keeps")
    tool.run("convert", source, keeps, "--scheme", "hf", "--to", "dcp", "-q")
    tool.run("reshard", keeps, tool.path("resharded"), "--to", "orbax", "-q")
    for tree in (keeps, tool.path("resharded")):  # trees of float64 are cast too
        back = tool.path("from-" + os.path.basename(tree))
        tool.run("convert", tree, back, "--to", "safetensors", "--config", source, "--dtype", "bf16", "-q")
        compare(tool, f"from {os.path.basename(tree)}", back, tensors, "bf16")
    tool.run("diff", source, tool.path("files-bf16"), "--dtype-aware")


def check_rules(tool):
    """Checks Gemma's norms, to which 1 is added: once in float64, and then one rounding to f32."""
    import numpy

    source, tensors = write_model(tool, GEMMA, 100)
    out = tool.path("gemma")
    tool.run("convert", source, out, "--dtype", "bf16", "--layers", "separate", "-q")
    import orbax.checkpoint as ocp

    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.restore(os.path.join(out, "0", "items"))
    found = tree["params"]["params"]["decoder"]["decoder_norm"]["scale"]
    with numpy.errstate(all="ignore"):
        expected = (tensors["model.norm.weight"].numpy() + 1.0).astype(numpy.float32)
    tool.expect(str(found.dtype) == "float32" and numpy.array_equal(expected, numpy.asarray(found), equal_nan=True),
                "Gemma's norm is not weight + 1, rounded once")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    interop.use_peer_python()
    for name in ("torch", "safetensors.torch", "orbax.checkpoint"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(interop.SKIP_STATUS)
    with tempfile.TemporaryDirectory(prefix="hfshard-f64-") as work:
        tool = interop.Program(arguments.hfshard, work)
        check_files(tool)
        check_rules(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
