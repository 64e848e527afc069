#!/usr/bin/env python3
"""Checks layers and experts with several dtypes in one stack: FP8 or f32 next to bf16, each decoded and cast
separately.

The dtype of the stack is --dtype, or config.json's. Without both, the message names --dtype. The test compares with
torch's own `.to()`, for stacked and separate layers and for experts, through Orbax and DCP and back. The Python with
torch is HFSHARD_PEER_PYTHON.
"""

import argparse
import glob
import importlib
import json
import os
import sys
import tempfile

import interop

DENSE = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 7, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 10, "vocab_size": 22, "hidden_size": 26, "intermediate_size": 14,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "attention_bias": False}
MOE = {**DENSE, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 4, "moe_intermediate_size": 14,
       "num_experts": 5, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
MEMBERS = {"bf16": "bfloat16", "f32": "float32", "f16": "float16"}


def load(folder):
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))) for name, tensor in load_file(path).items()}


def write(folder, config, tensors):
    from safetensors.torch import save_file

    os.makedirs(folder)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def example(tool, config):
    """Makes a model with values other than its example's. Rounding changes all of them."""
    import torch

    torch.manual_seed(7)
    path = tool.path("example")
    with open(tool.path("config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    tool.run("mappings", "example", config["model_type"], path, "--config", tool.path("config.json"))
    return {name: torch.randn(tensor.shape) for name, tensor in load(path).items()}


def layer_of(name):
    return int(name.split(".layers.")[1].split(".")[0])


def expert_of(name):
    return int(name.split(".experts.")[1].split(".")[0])


def as_fp8(name, tensor):
    """Returns codes with one scale for each row, and their values."""
    import torch

    scale = tensor.abs().amax(1, keepdim=True) / 448
    codes = (tensor / scale).to(torch.float8_e4m3fn)
    return {name: codes, f"{name}_scale": scale}, codes.float() * scale


def mixed(values, kind_of):
    """Returns tensors as they are stored, and their f32 values."""
    import torch

    stored, wanted = {}, {}
    for name, tensor in values.items():
        kind = kind_of(name) if ".layers." in name else "bf16"
        if kind == "fp8" and (tensor.ndim < 2 or "norm" in name or name.endswith("mlp.gate.weight")):
            kind = "bf16"
        if kind == "fp8":
            codes, wanted[name] = as_fp8(name, tensor)
            stored |= codes
        else:
            stored[name] = tensor.to(getattr(torch, MEMBERS[kind]))
            wanted[name] = stored[name].float()
    return stored, wanted


# The stored dtype of each tensor in a layer.
DENSE_CASES = {
    "first and last layers are not converted": lambda name: "bf16" if layer_of(name) in (0, 6) else "fp8",
    "every other layer": lambda name: "bf16" if layer_of(name) % 2 else "fp8",
    "some projections": lambda name: "fp8" if "down_proj" in name and layer_of(name) == 3 else "bf16",
    "f32 beside bf16": lambda name: "f32" if layer_of(name) in (1, 2, 5) else "bf16",
    "three kinds": lambda name: ("fp8", "f32", "bf16")[layer_of(name) % 3],
    "f16 beside bf16": lambda name: "f16" if layer_of(name) > 3 else "bf16"}
MOE_CASES = {
    "some experts": lambda name: "fp8" if ".experts." in name and (expert_of(name) + layer_of(name)) % 3 else "bf16",
    "experts of one layer": lambda name: "f32" if ".experts." in name and layer_of(name) == 2 else "bf16",
    "one expert": lambda name: "fp8" if ".experts." in name and (expert_of(name), layer_of(name)) == (2, 1) else "bf16"}


def compare(tool, what, folder, wanted, dtype):
    import torch

    found = load(folder)
    tool.expect(sorted(found) == sorted(wanted), f"{what}: names differ")
    for name in sorted(set(found) & set(wanted)):
        value = wanted[name].to(dtype)  # torch's own cast decides
        if found[name].shape != value.shape or not torch.equal(found[name].to(dtype).float(), value.float()):
            tool.expect(False, f"{what}: {name} differs from torch's cast")
            return
    tool.expect(True, what)


def check(tool, name, config, stored, wanted):
    import torch

    what = f"{config['model_type']}, {name}"
    source = tool.path("source")
    write(source, config, stored)
    for number, (to, layers) in enumerate((("orbax", "stacked"), ("orbax", "separate"), ("dcp", "stacked"), ("dcp", "separate"))):
        for flag, member in MEMBERS.items():
            if number and flag == "f16":
                continue
            out, back = tool.path(f"out-{number}-{flag}"), tool.path(f"back-{number}-{flag}")
            tool.run("convert", source, out, "--to", to, "--scheme", "maxtext", "--layers", layers, "--dtype", flag, "--quiet")
            tool.run("verify", out, source)
            tool.run("verify", out)
            tool.run("convert", out, back, "--to", "safetensors", "--dtype", flag, "--quiet")
            compare(tool, f"{what} {to} {layers} --dtype {flag}", back, wanted, getattr(torch, member))
    # Without a requested dtype, config.json's applies.
    out, back = tool.path("out"), tool.path("back")
    tool.run("convert", source, out, "--quiet")
    tool.run("convert", out, back, "--to", "safetensors", "--quiet")
    compare(tool, f"{what}: the dtype of config.json", back, wanted, torch.bfloat16)
    tool.run("convert", source, tool.path("names"), "--to", "safetensors", "--scheme", "hf", "--dtype", "bf16", "--quiet")
    compare(tool, f"{what}: by names", tool.path("names"), wanted, torch.bfloat16)


def check_unsaid(tool, config, stored):
    """Checks that without --dtype and without a dtype in config.json, nothing decides between f32 and bf16."""
    source = tool.path("unsaid")
    write(source, {key: value for key, value in config.items() if key != "torch_dtype"}, stored)
    done = tool.run_any("convert", source, tool.path("unsaid-out"))
    tool.expect(done.returncode == 3 and "--dtype" in done.stderr, f"{done.returncode} {done.stderr}")
    tool.run("convert", source, tool.path("unsaid-said"), "--dtype", "f32", "--quiet")
    tool.run("convert", source, tool.path("unsaid-separate"), "--layers", "separate", "--quiet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    interop.use_peer_python()
    for name in ("torch", "safetensors.torch"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(interop.SKIP_STATUS)
    failures = checks = 0
    for config, cases in ((DENSE, DENSE_CASES), (MOE, MOE_CASES)):
        for name, kind_of in cases.items():
            with tempfile.TemporaryDirectory(prefix="hfshard-mixed-") as work:
                tool = interop.Program(arguments.hfshard, work)
                stored, wanted = mixed(example(tool, config), kind_of)
                check(tool, name, config, stored, wanted)
                if name == "f32 beside bf16":
                    check_unsaid(tool, config, stored)
                failures += tool.failures
                checks += tool.checks
    print(f"{checks - failures} of {checks} checks passed")
    sys.exit(1 if failures or not checks else 0)


if __name__ == "__main__":
    main()
