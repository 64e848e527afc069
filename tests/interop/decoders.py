#!/usr/bin/env python3
"""Checks every code of every quantized format with every kind of scale, and every cast, against ml_dtypes and numpy.

Each is a real conversion of a small checkpoint, read back with TensorStore. The formats are E4M3 and E5M2 in blocks
(scales in f32, bf16, f16 and E8M0) and with one scale for a tensor, MXFP4 of gpt-oss, FP4 of DeepSeek V4, and packed
4-bit integers of Kimi. The outputs are --dtype bf16, f16 and f32. All bf16 and f16 numbers and the rounding
boundaries of f32 go through --scheme hf. NaN must be NaN, everything else must be equal bit for bit, and `overflows`
must count values that became infinite.
"""

import argparse
import json
import os
import sys
import tempfile

import interop

DTYPES = ("bf16", "f16", "f32")


class Checks:
    """Converts a checkpoint and compares leaves, for each dtype."""

    def __init__(self, tool):
        self.tool = tool
        self.count = 0

    def convert(self, source, *words):
        self.count += 1
        output = self.tool.path(f"output-{self.count}")
        return output, self.tool.json("convert", source, output, "--quiet", *words)

    def equal(self, what, found, wanted):
        """Compares bit for bit, but NaN equals NaN."""
        import numpy as np

        found = np.asarray(found)
        if found.dtype != wanted.dtype or found.shape != wanted.shape:
            self.tool.expect(False, f"{what}: {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}")
            return
        raw = np.dtype(f"u{wanted.dtype.itemsize}")
        ours, theirs = (np.ascontiguousarray(array) for array in (found, wanted))
        differ = ours.view(raw) != theirs.view(raw)
        differ &= ~(np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32)))
        at = np.argwhere(differ)[:3].tolist()
        self.tool.expect(not at, f"{what}: {differ.sum()} of {differ.size} differ, first at {at}: "
                         f"{[str(ours[tuple(i)]) for i in at]}, expected {[str(theirs[tuple(i)]) for i in at]}")

    def all_dtypes(self, what, checkpoint, leaves):
        """Checks every output dtype. `leaves`: path -> exact f32 values."""
        import numpy as np
        import orbax_peer as peer

        source = self.tool.path(f"source-{self.count}")
        write_checkpoint(source, checkpoint)
        for name in DTYPES:
            output, _ = self.convert(source, "--dtype", name, "--layers", "stacked")
            for path, values in leaves.items():
                found = peer.open_array(peer.item_path(output), "params.params." + path).read().result()
                with np.errstate(over="ignore", invalid="ignore"):
                    self.equal(f"{what} --dtype {name}: {path}", found, values.astype(numpy_dtype(name)))


def numpy_dtype(name):
    import ml_dtypes
    import numpy as np

    return np.dtype({"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[name])


def write_checkpoint(folder, checkpoint):
    import numpy as np
    from safetensors.numpy import save_file

    os.makedirs(folder)
    save_file({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in checkpoint.stored.items()},
              os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(checkpoint.config, file)


def scales_f32():
    """Returns zero, subnormals, one, the largest, infinite, NaN, and ordinary ones."""
    import numpy as np

    return np.array([0, -0.0, 1e-45, 1e-40, 1.1754944e-38, 1, 3.4028235e38, np.inf, np.nan, 0.0123, -1.7, 1 / 3, 1e30,
                     2 ** -100], np.float32)


def scales_of(dtype, count):
    """Returns every code of E8M0, or the interesting numbers of a 16-bit format, repeatedly."""
    import ml_dtypes
    import numpy as np

    if dtype == ml_dtypes.float8_e8m0fnu:
        return np.arange(count, dtype=np.uint8).view(dtype)
    with np.errstate(over="ignore"):
        numbers = scales_f32().astype(dtype)
    if numbers.itemsize == 2:
        numbers = np.concatenate([numbers, np.array([1, 0x7F, 0x8001], np.uint16).view(dtype)])
    return np.resize(numbers, count)


def llama_blocks(code="float8_e4m3fn"):
    """Returns a checkpoint with FP8 rows of all 256 codes, one scale for each row, and the exact values of its
    leaves."""
    import ml_dtypes
    import numpy as np
    from numpy_oracles import common, dense

    dims = {"D": 256, "F": 28, "V": 6, "H": 4, "K": 2, "h": 128, "L": 2}
    config = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 28, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 6,
              "tie_word_embeddings": True,
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [1, 256]}}
    c = common.Checkpoint("decoders", config)
    dense.store(c, dims, True)
    leaves = {}
    codes = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, code))
    for name, leaf, dtype, rows in (("mlp.gate_proj", "mlp.wi_0", np.float32, 28),
                                    ("mlp.up_proj", "mlp.wi_1", ml_dtypes.bfloat16, 28),
                                    ("self_attn.q_proj", "self_attention.query", np.float32, 512),
                                    ("self_attn.k_proj", "self_attention.key", np.float16, 256),
                                    ("self_attn.v_proj", "self_attention.value", ml_dtypes.float8_e8m0fnu, 256)):
        layers = []
        for i in range(2):
            tensor = f"model.layers.{i}.{name}.weight"
            scales = scales_of(dtype, rows) if i == 0 else scales_of(dtype, rows)[::-1].copy()
            c.stored[tensor] = np.tile(codes, (rows, 1))
            c.stored[f"{tensor}_scale_inv"] = scales.reshape(rows, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                values = c.stored[tensor].astype(np.float32) * scales.astype(np.float32)[:, None]
                if "q_proj" in name:
                    values *= np.float32(1 / np.sqrt(128.0))
            values = values.T if "mlp" in name else values.T.reshape(256, -1, 128)
            layers.append(values)
        leaves[f"decoder.layers.{leaf}.kernel"] = np.stack(layers, 1)
    return c, leaves


def llama_blocks_e5m2():
    return llama_blocks("float8_e5m2")


def mistral_tensors():
    """Returns a layer for each scale, which is one number for the whole matrix."""
    import ml_dtypes
    import numpy as np
    from numpy_oracles import common, dense

    scales = scales_f32()
    dims = {"D": 16, "F": 16, "V": 6, "H": 2, "K": 1, "h": 4, "L": len(scales)}
    config = {"model_type": "mistral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": len(scales),
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 6,
              "tie_word_embeddings": True, "quantization_config": {"quant_method": "fp8"}}
    c = common.Checkpoint("decoders", config)
    dense.store(c, dims, True)
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(16, 16)
    layers = []
    for i, scale in enumerate(scales):
        tensor = f"model.layers.{i}.mlp.up_proj.weight"
        c.stored[tensor], c.stored[f"{tensor}_scale_inv"] = codes, scale.reshape(())
        with np.errstate(over="ignore", invalid="ignore"):
            layers.append((codes.astype(np.float32) * scale).T)
    return c, {"decoder.layers.mlp.wi_1.kernel": np.stack(layers, 1)}


def fp4_rows(rows, groups):
    """Returns packed bytes with every code in both nibbles of every group of 32, and their values."""
    import ml_dtypes
    import numpy as np

    row, group, byte = np.ogrid[:rows, :groups, :16]
    low, high = (byte + 0 * (row + group)).astype(np.uint8), ((byte + row + 3 * group) % 16).astype(np.uint8)
    codes = np.stack([low, high], -1).reshape(rows, groups, 32)
    return low | high << 4, codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def gpt_oss_blocks():
    """Returns MXFP4 with every code and every scale byte. A scale is 2^(byte - 127), so 255 is infinite."""
    import numpy as np
    from numpy_oracles import common, gpt_oss

    d = {"D": 32, "F": 64, "H": 2, "K": 1, "h": 4, "E": 2, "V": 6}
    config = {"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 2,
              "attention_bias": True, "vocab_size": 6, "tie_word_embeddings": False,
              "quantization_config": {"quant_method": "mxfp4"}}
    c = common.Checkpoint("decoders", config)
    gpt_oss.store(c, d, 2, True)
    leaves = {}
    packed, values = fp4_rows(2 * 128, 1)
    bytes_ = np.arange(256, dtype=np.uint8).reshape(2, 128, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.ldexp(np.float32(1), bytes_.astype(np.int32) - 127)
        exact = (values.reshape(2, 128, 1, 32) * powers[..., None]).reshape(2, 128, 32)
    for i in range(2):
        expert = f"model.layers.{i}.mlp.experts.gate_up_proj"
        c.stored[f"{expert}_blocks"], c.stored[f"{expert}_scales"] = packed.reshape(2, 128, 1, 16), bytes_
        both = exact.transpose(0, 2, 1)
        leaves[f"decoder.layers.layers_{i}.GptOssMlp.wi_0"] = both[:, None, :, 0::2]
        leaves[f"decoder.layers.layers_{i}.GptOssMlp.wi_1"] = both[:, None, :, 1::2]
    return c, leaves


def deepseek_v4_rows():
    """Returns FP4 experts with every code of E8M0, of which 255 is NaN."""
    import ml_dtypes
    import numpy as np
    from numpy_oracles import deepseek_v4

    c, _ = deepseek_v4.released()
    experts, rows, leaves = 3, deepseek_v4.DIMS["Fe"], {}
    packed, values = fp4_rows(rows, 1)
    for number, (leaf, name) in enumerate((("wi_0", "w1"), ("wi_1", "w3"))):
        exact = []
        for e in range(experts):
            stem = f"layers.3.ffn.experts.{e}.{name}"
            scales = ((np.arange(rows) + rows * (experts * number + e)) % 256).astype(np.uint8)
            scales = scales.view(ml_dtypes.float8_e8m0fnu)
            c.stored[f"{stem}.weight"] = packed.reshape(rows, 16).view(np.int8)
            c.stored[f"{stem}.scale"] = scales.reshape(rows, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                exact.append((values.reshape(rows, 32) * scales.astype(np.float32)[:, None]).T)
        leaves[f"decoder.scanned_blocks.layers_0.mlp.MoeBlock_0.{leaf}"] = np.stack(exact)[:, None]
    return c, leaves


def kimi_words():
    """Returns packed integers -8 to 7 in every place of a word, times every kind of bf16 scale."""
    import ml_dtypes
    import numpy as np
    from numpy_oracles import deepseek

    c, _ = deepseek.kimi()
    experts, rows, cols = 3, 64, 32
    exact = [[], []]
    for i in range(2):
        for e in range(experts):
            stem = f"language_model.model.layers.{i + 1}.mlp.experts.{e}.gate_proj"
            row, col = np.ogrid[:rows, :cols]
            codes = ((row + col * 5 + col // 16 + e) % 16).astype(np.uint32)
            words = sum(codes[:, k::8] << np.uint32(4 * k) for k in range(8)).astype(np.uint32)
            scales = np.roll(scales_of(ml_dtypes.bfloat16, rows), 7 * e + i)
            c.stored[f"{stem}.weight_packed"] = words.view(np.int32)
            c.stored[f"{stem}.weight_scale"] = scales.reshape(rows, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                exact[i].append(((codes.astype(np.float32) - 8) * scales.astype(np.float32)[:, None]).T)
    return c, {"decoder.moe_layers.DeepSeekMoeBlock_0.MoeBlock_0.wi_0": np.stack([np.stack(one) for one in exact], 1)}


def numbers_of_casts():
    """Returns all bf16 and all f16 numbers, and f32 numbers at and around every rounding boundary to both."""
    import ml_dtypes
    import numpy as np
    from numpy_oracles import common

    every = np.arange(1 << 16, dtype=np.uint16)
    wide = every.astype(np.uint32)
    beside = [(wide << 16) + np.uint32(low) for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    halves = every.view(np.float16).astype(np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        beside += [halves + np.uint32(low) for low in (1, 0xFFF, 0x1000, 0x1001, 0xFFFFFFFF)]
    random = (common.random_bits(11, 1 << 16) >> np.uint64(32)).astype(np.uint32)
    return {"from_bf16": every.view(ml_dtypes.bfloat16), "from_f16": every.view(np.float16),
            "from_f32": np.concatenate([*beside, random]).view(np.float32)}


def check_casts(checks):
    """Checks --scheme hf --dtype X, and --cast for a single tensor."""
    import numpy as np
    import orbax_peer as peer
    from safetensors.numpy import save_file

    numbers = numbers_of_casts()
    source = checks.tool.path("casts.safetensors")
    save_file(numbers, source)
    for name in DTYPES:
        output, report = checks.convert(source, "--scheme", "hf", "--dtype", name)
        wanted_overflows = 0
        for tensor, values in numbers.items():
            with np.errstate(over="ignore", invalid="ignore"):
                wanted = values.astype(np.float32).astype(numpy_dtype(name))
            if tensor == f"from_{name}":
                wanted = values
            found = peer.open_array(peer.item_path(output), tensor)
            checks.equal(f"cast --dtype {name}: {tensor}", found.read().result(), wanted)
            lost = np.isinf(wanted.astype(np.float32)) & np.isfinite(values.astype(np.float32))
            wanted_overflows += int(lost.sum())
        what = f"cast --dtype {name}: {report['overflows']} overflows"
        checks.tool.expect(report["overflows"] == wanted_overflows, f"{what}, {wanted_overflows} are expected")
        checks.tool.expect((wanted_overflows > 0) == (name != "f32"), what)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes", "safetensors")
    sys.path.insert(0, interop.ORACLE)
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        checks = Checks(interop.Program(arguments.hfshard, folder))
        for make in (llama_blocks, llama_blocks_e5m2, mistral_tensors, gpt_oss_blocks, deepseek_v4_rows, kimi_words):
            checks.all_dtypes(make.__name__, *make())
        check_casts(checks)
        return checks.tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
