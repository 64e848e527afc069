#!/usr/bin/env python3
"""Checks that checkpoints quantized by the real compressed-tensors become that package's own decompression, cast to
bf16.

The test covers every preset that stores weights in a different form on qwen3, and some on other families and with other
forms of scales and zero points. It makes the layouts of ModelOpt, fbgemm and vLLM's FP8 from the same tensors. Each is
converted to Orbax, to DCP and back, and with `--scheme hf`. hfshard drops tensors next to codes (scales of activations,
of the cache) by name. It refuses methods that it can't decode by name.

The Python is HFSHARD_PEER_PYTHON. compressed-tensors can be in the folder HFSHARD_COMPRESSED_TENSORS (scripts/test).
"""

import argparse
import glob
import importlib
import json
import os
import sys
import tempfile

import interop

# Preset of compressed-tensors -> its format.
FORMATS = {
    "W8A8": "int-quantized", "FP8": "float-quantized", "FP8_DYNAMIC": "float-quantized", "FP8_BLOCK": "float-quantized",
    "NVFP4": "nvfp4-pack-quantized", "NVFP4A16": "nvfp4-pack-quantized", "MXFP4": "mxfp4-pack-quantized",
    "MXFP4A16": "mxfp4-pack-quantized", "MXFP8": "mxfp8-quantized", "MXFP8A16": "mxfp8-quantized", "W4A16": "pack-quantized",
    "W4A16_ASYM": "pack-quantized", "W8A16": "pack-quantized", "W4A8": "pack-quantized"}
COMMON = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 96,
          "hidden_size": 256, "intermediate_size": 384, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-6,
          "rope_theta": 1e6, "max_position_embeddings": 512, "hidden_act": "silu", "attention_bias": False}
MOE = {"moe_intermediate_size": 384, "num_experts": 3, "num_local_experts": 3, "num_experts_per_tok": 2, "decoder_sparse_step": 1,
       "mlp_only_layers": [], "norm_topk_prob": True}
FAMILIES = {
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "mistral": {"model_type": "mistral", "architectures": ["MistralForCausalLM"]},
    "qwen3_moe": {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], **MOE},
    "mixtral": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], **MOE},
    "phi3": {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"]},
    "gpt_oss": {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_local_experts": 3, "num_experts_per_tok": 2,
                "attention_bias": True, "sliding_window": 128, "swiglu_limit": 7.0},
    "gemma2": {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "tie_word_embeddings": True, "head_dim": 64,
               "query_pre_attn_scalar": 64, "hidden_activation": "gelu_pytorch_tanh"},
    "gemma3": {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "tie_word_embeddings": True,
               "num_hidden_layers": 6, "query_pre_attn_scalar": 64, "hidden_activation": "gelu_pytorch_tanh"}}


class Scheme:
    """The form of quantized weights: arguments of compressed-tensors and the format that stores them."""

    def __init__(self, name, layout, weights, scale="bf16", label=None):
        import torch

        self.name, self.layout, self.weights = label or name, layout, weights
        self.scale = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[scale]


def preset(name, **changes):
    from compressed_tensors.quantization.quant_scheme import PRESET_SCHEMES

    scale = changes.pop("scale", "bf16")
    weights = PRESET_SCHEMES[name]["weights"].model_copy(update=changes)
    words = [name, *(f"{key}={value}" for key, value in changes.items()), *([scale] if scale != "bf16" else [])]
    return Scheme(name, FORMATS[name], weights, scale, " ".join(words))


def observed(weight, args):
    """Returns scale, zero point and global scale like an observer: from minimum and maximum of each part."""
    import torch
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam

    values, strategy, group = weight.float(), args.strategy, args.group_size
    if strategy == "tensor":
        low, high = values.min(), values.max()
    elif strategy == "channel":
        low, high = values.amin(1, keepdim=True), values.amax(1, keepdim=True)
    elif strategy == "block":
        rows, cols = args.block_structure
        padded = torch.nn.functional.pad(values, (0, -values.shape[1] % cols, 0, -values.shape[0] % rows))
        parts = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // cols, cols)
        low, high = parts.amin((1, 3)), parts.amax((1, 3))
    else:
        parts = values.reshape(values.shape[0], -1, group)
        low, high = parts.amin(2), parts.amax(2)
    whole = generate_gparam(values.min(), values.max()) if strategy == "tensor_group" else None
    scale, zero = calculate_qparams(low, high, args, global_scale=whole)
    return scale, zero, whole


def is_quantized(name, tensor):
    return (name.endswith(".weight") and tensor.ndim == 2 and ".layers." in name and "norm" not in name and "router" not in name
            and not name.endswith("gate.weight"))


def quantize(stored, scheme):
    """Returns tensors as they are stored, and as the package decompresses them, in its own dtype."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.quant_scheme import QuantizationScheme

    whole = QuantizationScheme(targets=["Linear"], weights=scheme.weights)
    compressor = BaseCompressor.get_value_from_registry(scheme.layout)
    out, wanted = {}, {}
    for name, weight in stored.items():
        if not is_quantized(name, weight):
            out[name] = wanted[name] = weight
            continue
        scale, zero, factor = observed(weight, scheme.weights)
        narrow = not scheme.layout.startswith(("nvfp4", "mx"))
        state = {"weight": weight, "weight_scale": scale.to(scheme.scale) if narrow else scale}
        if not scheme.weights.symmetric:
            state["weight_zero_point"] = zero
        if factor is not None:
            state["weight_global_scale"] = factor
        state = compressor.compress(state, whole)
        wanted[name] = compressor.decompress({key: value.clone() for key, value in state.items()}, whole)["weight"]
        for key, value in state.items():
            out[f"{name.removesuffix('.weight')}.{key}"] = value.detach().contiguous()
    return out, wanted


def quantization_config(scheme):
    from compressed_tensors.quantization.quant_scheme import QuantizationScheme

    group = QuantizationScheme(targets=["Linear"], weights=scheme.weights)
    return {"quant_method": "compressed-tensors", "format": scheme.layout, "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": json.loads(group.model_dump_json(exclude_none=False)) | {"format": scheme.layout}}}


def write(folder, config, tensors):
    from safetensors.torch import save_file

    os.makedirs(folder)
    tensors = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def load(folder):
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))) for name, tensor in load_file(path).items()}


class Models:
    """A small model for each family, made once."""

    def __init__(self, tool):
        self.tool = tool
        self.made = {}

    def get(self, family, **changes):
        config = {**COMMON, **FAMILIES[family], **changes}
        key = family + json.dumps(changes, sort_keys=True)
        if key not in self.made:
            path = self.tool.path(f"model-{len(self.made)}")
            with open(self.tool.path("config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            self.tool.run("mappings", "example", family, path, "--config", self.tool.path("config.json"))
            self.made[key] = load(path)
        return config, self.made[key]


def compare(tool, what, found, wanted, most_ulp=0):
    """Compares bit for bit, or within that many units in the last place of bf16."""
    import torch

    def order(tensor):
        bits = tensor.contiguous().view(torch.int16).long()
        return torch.where(bits < 0, -(bits & 0x7fff), bits)

    tool.expect(sorted(found) == sorted(wanted), f"{what}: names differ: {sorted(set(found) ^ set(wanted))[:4]}")
    for name in sorted(set(found) & set(wanted)):
        value = wanted[name].to(found[name].dtype)
        if found[name].dtype != torch.bfloat16 or not most_ulp:
            same = torch.equal(found[name].nan_to_num(7), value.nan_to_num(7))
        else:
            same = int((order(found[name]) - order(value)).abs().max()) <= most_ulp
        if not same or found[name].shape != value.shape:
            tool.expect(False, f"{what}: {name} differs")
            return
    tool.expect(True, what)


def ways(tool, what, source, wanted, most_ulp, every):
    """Converts to a tree of MaxText and back. With `every`, also through DCP, with separate layers, and by names."""
    routes = [["--dtype", "bf16"]]
    if every:
        routes += [["--layers", "separate"], ["--to", "dcp", "--scheme", "maxtext", "--dtype", "bf16"],
                   ["--to", "dcp", "--scheme", "hf", "--dtype", "bf16"]]
    for number, words in enumerate(routes):
        out, back = tool.path(f"{what}-{number}"), tool.path(f"{what}-{number}-back")
        tool.run("convert", source, out, "--quiet", *words)
        if every or number == 0:
            tool.run("verify", out, source)
        tool.run("convert", out, back, "--to", "safetensors", "--quiet")
        compare(tool, f"{what} {' '.join(words)}", load(back), wanted, most_ulp)
        with open(os.path.join(back, "config.json"), encoding="utf-8") as file:
            tool.expect("quantization_config" not in json.load(file), f"{what}: config.json names a quantization")
    for dtype in ("bf16", "f32") if every else ("bf16",):
        plain = tool.path(f"{what}-plain-{dtype}")
        tool.run("convert", source, plain, "--to", "safetensors", "--scheme", "hf", "--dtype", dtype, "--quiet")
        found = load(plain)
        # In f32, nothing is rounded. It must round to the same bf16, unless the package first rounds to f16.
        halves = any(str(tensor.dtype) == "torch.float16" for tensor in wanted.values())
        if dtype == "bf16" or not halves:
            compare(tool, f"{what} by names as {dtype}", {name: tensor.bfloat16() for name, tensor in found.items()}, wanted)


def check(tool, models, family, scheme, every=False, **changes):
    config, stored = models.get(family, **changes)
    tensors, wanted = quantize(stored, scheme)
    what = " ".join([family, scheme.name, *map(str, changes.values())]).replace(" ", "_")
    write(tool.path(what), {**config, "quantization_config": quantization_config(scheme)}, tensors)
    # A query that MaxText scales by a factor other than a power of two is rounded twice on its way back.
    ways(tool, what, tool.path(what), wanted, 1, every)


def check_presets(tool, models):
    for name in FORMATS:
        check(tool, models, "qwen3", preset(name), every=name in ("FP8_DYNAMIC", "W4A16_ASYM", "NVFP4"))


def check_families(tool, models):
    for family, names in {"llama": ("FP8_BLOCK", "W4A16"), "mistral": ("FP8",), "qwen3_moe": ("FP8_DYNAMIC", "W4A16_ASYM", "NVFP4"),
                          "mixtral": ("W8A8", "MXFP4"), "phi3": ("FP8_DYNAMIC", "W4A16"), "gemma2": ("FP8_DYNAMIC",), "gpt_oss": ("FP8_DYNAMIC",),
                          "gemma3": ("FP8_BLOCK", "NVFP4", "W8A16")}.items():
        for name in names:
            check(tool, models, family, preset(name), every=family == "qwen3_moe")


def check_forms(tool, models):
    """Checks scales, zero points and sizes that the presets don't have."""
    for scheme in (preset("W8A8", strategy="tensor"), preset("W8A8", symmetric=False), preset("W8A8", scale="f32"),
                   preset("W4A16_ASYM", group_size=32), preset("W4A16_ASYM", strategy="channel", group_size=None),
                   preset("W8A16", symmetric=False, group_size=64), preset("W4A16", strategy="channel", group_size=None),
                   preset("W4A16", scale="f32"), preset("FP8", scale="f32")):
        check(tool, models, "qwen3", scheme)
    # Halves round twice, to f16 and to bf16, like the package.
    check(tool, models, "qwen3", preset("W4A16", scale="f16"), every=True)
    check(tool, models, "qwen3", preset("FP8_DYNAMIC", scale="f16"))
    # Blocks of 128 that are cut off at the ends.
    check(tool, models, "qwen3", preset("FP8_BLOCK"), hidden_size=192, intermediate_size=320, head_dim=40)


def as_modelopt(tensors, scheme):
    """Returns the names of ModelOpt. Packed codes are the weight, and its second scale multiplies."""
    out = {}
    for name, tensor in tensors.items():
        stem = name.removesuffix("_packed").removesuffix("_global_scale")
        if name.endswith("_packed"):
            out[stem] = tensor
        elif name.endswith("_global_scale"):
            out[f"{stem}_scale_2"] = 1 / tensor.reshape(())
        else:
            out[name] = tensor
        if name.endswith("_scale") and scheme.layout == "float-quantized":
            out[name] = tensor.float().reshape(())
    return out


def modelopt_wanted(tensors, wanted):
    """Returns NVFP4 as ModelOpt dequantizes it: code * (scale * second scale), in f32. From its documented formula."""
    import torch

    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    out = dict(wanted)
    for name in wanted:
        if f"{name}_scale_2" not in tensors:
            continue
        codes = torch.stack([tensors[name] & 15, tensors[name] >> 4], -1).flatten(1).long()
        scales = tensors[f"{name}_scale"].float() * tensors[f"{name}_scale_2"]
        out[name] = (values[codes].reshape(len(codes), scales.shape[1], -1) * scales[..., None]).flatten(1).bfloat16()
    return out


def beside(tensors):
    """Returns scales of activations and of the cache, under each library's names."""
    import torch

    out = dict(tensors)
    for name in tensors:
        if name.endswith(("q_proj.weight_scale", "down_proj.weight_scale")):
            module = name.removesuffix(".weight_scale")
            out[f"{module}.input_scale"] = torch.tensor(0.25)
        if name.endswith("k_proj.weight_scale"):
            attention = name.removesuffix(".k_proj.weight_scale")
            out |= {f"{attention}.k_proj.k_scale": torch.tensor([1.5]), f"{attention}.v_proj.v_scale": torch.tensor([0.5]),
                    f"{attention}.k_scale": torch.tensor([1.5])}
    return out


def check_others(tool, models):
    """Checks ModelOpt's FP8 and NVFP4, fbgemm's and vLLM's FP8: the same codes under other names and configs."""
    config, stored = models.get("qwen3")
    for name, method, renamed in (("FP8", {"quant_method": "modelopt", "quant_algo": "FP8"}, True),
                                  ("FP8", {"quant_method": "fp8", "activation_scheme": "static"}, True),
                                  ("NVFP4", {"quant_method": "modelopt", "quant_algo": "NVFP4"}, True),
                                  ("NVFP4", None, True),  # only hf_quant_config.json states it
                                  ("FP8_DYNAMIC", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, False)):
        scheme = preset(name, scale="f32") if name != "NVFP4" else preset(name)
        tensors, wanted = quantize(stored, scheme)
        if renamed:
            tensors = as_modelopt(tensors, scheme)
            wanted = modelopt_wanted(tensors, wanted)
        what = f"{name}-{(method or {'quant_method': 'none'})['quant_method']}"
        source = tool.path(what)
        write(source, {**config, **({"quantization_config": method} if method else {})}, beside(tensors))
        with open(os.path.join(source, "hf_quant_config.json"), "w", encoding="utf-8") as file:
            json.dump({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": name}}, file)
        ways(tool, what, source, wanted, 1, name == "FP8_DYNAMIC")
        dropped = {tensor: item["why"] for item in tool.json("plan", source, "--to", "null")["drops"] for tensor in item["tensors"]}
        for tensor in set(beside(tensors)) - set(tensors):
            tool.expect("inference on codes" in dropped.get(tensor, ""), f"{what}: {tensor} is dropped without a name: {dropped.get(tensor)}")
        tool.expect(not os.path.exists(tool.path(f"{what}-0-back", "hf_quant_config.json")), f"{what}: hf_quant_config.json comes along")


def check_refused(tool, models):
    """Checks methods that hfshard can't decode. The message names the method and a way out."""
    import torch

    config, stored = models.get("qwen3")
    name = next(key for key in stored if is_quantized(key, stored[key]))
    stem = name.removesuffix(".weight")
    plain = {key: value for key, value in stored.items() if key != name}
    ints = torch.zeros(4, 4, dtype=torch.int32)
    cases = {
        "AWQ": ({"quant_method": "awq", "bits": 4}, {f"{stem}.qweight": ints, f"{stem}.qzeros": ints, f"{stem}.scales": torch.ones(4)}),
        "GPTQ": ({"quant_method": "gptq", "bits": 4}, {f"{stem}.qweight": ints, f"{stem}.g_idx": ints[0]}),
        "GPTQ or AWQ": (None, {f"{stem}.qweight": ints, f"{stem}.qzeros": ints, f"{stem}.scales": torch.ones(4)}),
        "bitsandbytes": (None, {name: ints.to(torch.uint8), f"{name}.absmax": torch.ones(4), f"{name}.quant_map": torch.ones(16)}),
        "MLX": (None, {name: ints.to(torch.uint32), f"{stem}.scales": torch.ones(4, 4), f"{stem}.biases": torch.ones(4, 4)}),
        "ModelOpt AWQ": ({"quant_method": "modelopt"}, {name: ints.to(torch.uint8), f"{name}_scale": torch.ones(4), f"{stem}.pre_quant_scale": torch.ones(4)}),
        "HQQ": ({"quant_method": "hqq"}, {f"{stem}.W_q": ints}),
        "mxfp6-pack-quantized": ({"quant_method": "compressed-tensors", "format": "mxfp6-pack-quantized"}, {f"{stem}.weight_packed": ints.to(torch.uint8)}),
        "g_idx": ({"quant_method": "compressed-tensors", "format": "pack-quantized"},
                  {f"{stem}.weight_packed": torch.zeros(stored[name].shape[0], stored[name].shape[1] // 8, dtype=torch.int32),
                   f"{stem}.weight_scale": torch.ones(stored[name].shape[0], 2), f"{stem}.weight_g_idx": ints[0]})}
    for bits in (2, 3, 5, 6, 7):
        group = {"targets": ["Linear"], "weights": {"num_bits": bits, "strategy": "channel", "symmetric": True, "type": "int"}}
        words = -(-stored[name].shape[1] * bits // 32)
        cases[f"pack-quantized weights of {bits} bits"] = (
            {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}},
            {f"{stem}.weight_packed": torch.zeros(stored[name].shape[0], words, dtype=torch.int32),
             f"{stem}.weight_scale": torch.ones(stored[name].shape[0], 1)})
    for number, (method, (quantization, tensors)) in enumerate(cases.items()):
        source = tool.path(f"refused-{number}")
        write(source, {**config, **({"quantization_config": quantization} if quantization else {})}, {**plain, **tensors})
        for words in (["--to", "null"], ["--to", "safetensors", "--scheme", "hf", "--dtype", "bf16"]):
            out = [] if "null" in words else [tool.path("refused")]
            done = tool.run_any("convert", source, *out, *words)
            named = method in done.stderr and "hint" in done.stderr and "match no rule" not in done.stderr
            # By names alone, a config doesn't describe tensors.
            tool.expect(done.returncode != 0 and named or "hf" in words and method == "mxfp6-pack-quantized",
                        f"{method} {words}: {done.returncode} {done.stderr}")


CHECKS = (check_presets, check_families, check_forms, check_others, check_refused)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--only", help="one of " + ", ".join(one.__name__ for one in CHECKS))
    arguments = parser.parse_args()
    interop.use_peer_python()
    folder = os.environ.get("HFSHARD_COMPRESSED_TENSORS", "")
    if folder:
        sys.path.append(folder)
    for name in ("torch", "safetensors.torch", "compressed_tensors"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(interop.SKIP_STATUS)
    with tempfile.TemporaryDirectory(prefix="hfshard-quantized-") as work:
        tool = interop.Program(arguments.hfshard, work)
        models = Models(tool)
        for one in CHECKS:
            if arguments.only in (None, one.__name__):
                one(tool, models)
        sys.exit(tool.verdict())


if __name__ == "__main__":
    main()
