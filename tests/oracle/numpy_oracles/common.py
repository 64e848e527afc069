"""Checkpoints with reproducible values, their decoded meaning, and the files of an oracle directory."""

import fnmatch
import hashlib
import itertools
import json
import os
import zlib

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
E4M3, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
F4 = np.dtype(ml_dtypes.float4_e2m1fn)
# Codes 0 to 15 of E2M1.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F32)


def random_bits(seed, count):
    """splitmix64: the same 64-bit words with every version of numpy."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def random_floats(seed, shape, dtype):
    """Random sign and mantissa, magnitudes from 2^-6 up to 2."""
    word = random_bits(seed, int(np.prod(shape, dtype=np.int64))).reshape(shape)
    sign, exponent = (word >> np.uint64(63)), np.uint64(121) + (word >> np.uint64(32)) % np.uint64(7)
    bits = (sign << np.uint64(31)) | (exponent << np.uint64(23)) | (word & np.uint64(0x7FFFFF))
    kept = {BF16: 16, F16: 13, F32: 0}[np.dtype(dtype)]
    bits = bits >> np.uint64(kept) << np.uint64(kept)
    return bits.astype(np.uint32).view(F32).astype(dtype)


def power_of_two(exponents):
    """2^(byte - 127), exactly (numpy's exp2 is not)."""
    return np.ldexp(F32.type(1), exponents.astype(np.int32) - 127)


def check_dims(dims, derived=()):
    """Dims must be pairwise different and none the product of two others, `derived` ones excepted."""
    free = {name: size for name, size in dims.items() if name not in derived}
    assert len(set(free.values())) == len(free), f"equal dims in {free}"
    for a, b in itertools.combinations(free, 2):
        for c in free:
            assert c in (a, b) or free[a] * free[b] != free[c], f"{a} * {b} = {c} in {free}"


class Checkpoint:
    """The tensors of a source: as stored, and what they mean.

    `meant` has the decoded float32 values of each logical tensor, `dtypes` the dtype in which a leaf keeps it.
    """

    def __init__(self, name, config, options=None, dtype=BF16):
        self.name = name
        self.config = config
        self.options = options or {}
        self.dtype = np.dtype(dtype)
        self.stored = {}
        self.meant = {}
        self.dtypes = {}
        self.dropped = []

    def _seed(self, tensor):
        return zlib.crc32(f"{self.name}/{tensor}".encode()) << 20

    def _store(self, tensor, array):
        assert tensor not in self.stored, tensor
        self.stored[tensor] = np.ascontiguousarray(array)

    def _mean(self, tensor, values, dtype):
        self.meant[tensor], self.dtypes[tensor] = values.astype(F32), np.dtype(dtype)

    def bits(self, tensor, shape, below=256):
        """Random integers for codes and exponents."""
        words = random_bits(self._seed(tensor), int(np.prod(shape, dtype=np.int64))) >> np.uint64(20)
        return (words % np.uint64(below)).astype(np.uint8).reshape(shape)

    def plain(self, tensor, *shape, dtype=None):
        """An ordinary tensor."""
        array = random_floats(self._seed(tensor), shape, dtype or self.dtype)
        self._store(tensor, array)
        self._mean(tensor, array, array.dtype)

    def table(self, tensor, shape, below):
        """Indices below a bound, as int64, which a leaf keeps as float32."""
        indices = self.bits(tensor, shape, below).astype(np.int64)
        self._store(tensor, indices)
        self._mean(tensor, indices, F32)

    def copy(self, tensor, of):
        """A second tensor with the bytes of another, which goes nowhere."""
        self._store(tensor, self.stored[of])
        self.dropped.append(tensor)

    def ignored(self, tensor, *shape, dtype=None, values=None):
        """A tensor that goes nowhere."""
        values = random_floats(self._seed(tensor), shape, dtype or self.dtype) if values is None else values
        self._store(tensor, values)
        self.dropped.append(tensor)

    def fp8(self, tensor, rows, cols, block=None, scale=None, scale_dtype=F32):
        """E4M3 codes (no NaN) with a scale for each block, ragged at the edges, or one for the whole tensor."""
        codes = self.bits(tensor, (rows, cols))
        codes[codes & 127 == 127] = 5
        rb, cb = block or (rows, cols)
        grid = (-(-rows // rb), -(-cols // cb)) if block else ()
        scale = scale or f"{tensor}_scale_inv"
        if scale_dtype == E8M0:
            exponents = 118 + self.bits(scale, grid, 16)
            scales, stored = power_of_two(exponents), exponents.view(E8M0)
        else:
            stored = random_floats(self._seed(scale), grid, scale_dtype)
            scales = stored.astype(F32)
        self._store(tensor, codes.view(E4M3))
        self._store(scale, stored)
        spread = np.repeat(np.repeat(scales, rb, 0), cb, 1)[:rows, :cols] if block else scales
        self._mean(tensor, codes.view(E4M3).astype(F32) * spread, BF16)

    def mx(self, tensor, codes_name, scales_name, shape, group=32, split=True, dtype=np.uint8, exponent_dtype=np.uint8):
        """E2M1 codes, two in a byte with the low half first, and a power of two for each group of the last axis.

        `split`: the last axis is stored as [groups, bytes]. With `dtype` F4 the tensor has the shape of its values.
        """
        *outer, last = shape
        packed = self.bits(codes_name, (*outer, last // group, group // 2))
        exponents = 120 + self.bits(scales_name, (*outer, last // group), 14)
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(*outer, last // group, group)
        values = E2M1[codes] * power_of_two(exponents)[..., None]
        if dtype == F4:
            self._store(codes_name, codes.reshape(shape).view(F4))
        else:
            self._store(codes_name, (packed if split else packed.reshape(*outer, last // 2)).view(dtype))
        self._store(scales_name, exponents.view(exponent_dtype))
        self._mean(tensor, values.reshape(shape), BF16)

    def int4(self, tensor, rows, cols, group=32):
        """Eight unsigned codes in an int32, lowest first, each meaning code - 8, and a bf16 scale for each group."""
        stem = tensor.removesuffix(".weight")
        nibbles = self.bits(f"{stem}.weight_packed", (rows, cols), 16)
        words = np.zeros((rows, cols // 8), np.uint32)
        for k in range(8):
            words |= nibbles[:, k::8].astype(np.uint32) << np.uint32(4 * k)
        scales = random_floats(self._seed(f"{stem}.weight_scale"), (rows, cols // group), BF16)
        self._store(f"{stem}.weight_packed", words.view(np.int32))
        self._store(f"{stem}.weight_scale", scales)
        self.ignored(f"{stem}.weight_shape", values=np.array([rows, cols], np.int32))
        values = (nibbles.astype(F32) - 8).reshape(rows, cols // group, group) * scales.astype(F32)[..., None]
        self._mean(tensor, values.reshape(rows, cols), BF16)

    def reader(self, dtype=None):
        """tensor name -> array in its kept dtype, or in `dtype`."""
        return lambda tensor: self.meant[tensor].astype(dtype or self.dtypes[tensor])


def scaled(x, factor, factor_dtype=F32):
    """x times a constant that was rounded to `factor_dtype`: formed in f32, rounded once to the dtype of x."""
    return (x.astype(F32) * np.asarray(factor).astype(factor_dtype).astype(F32)).astype(x.dtype)


def divided(x, divisor, divisor_dtype):
    return (x.astype(F32) / np.asarray(divisor).astype(divisor_dtype).astype(F32)).astype(x.dtype)


def plus_one(x):
    """A norm that HF stores as its offset from 1: float32 whatever x is."""
    return x.astype(F32) + F32.type(1)


def fit_rows(x, rows):
    """Zero rows behind, or the first rows only."""
    out = np.zeros((rows, *x.shape[1:]), x.dtype)
    out[: min(rows, len(x))] = x[:rows]
    return out


def rope_interleave(x):
    """out[2c] = in[c], out[2c + 1] = in[h/2 + c] on the last axis."""
    half = x.shape[-1] // 2
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = x[..., :half], x[..., half:]
    return out


def in_heads(weight, heads, width):
    """A projection into heads: [heads * width, in] -> [in, heads, width]."""
    return weight.T.reshape(weight.shape[1], heads, width)


def from_heads(weight, heads, width):
    """A projection out of heads: [out, heads * width] -> [heads, width, out]."""
    return weight.T.reshape(heads, width, weight.shape[0])


def put_biased_attention(c, p, d):
    """The four projections of a layer, each with a bias."""
    for name, heads in (("q", d["H"]), ("k", d["K"]), ("v", d["K"])):
        c.plain(f"{p}self_attn.{name}_proj.weight", heads * d["h"], d["D"])
        c.plain(f"{p}self_attn.{name}_proj.bias", heads * d["h"])
    c.plain(f"{p}self_attn.o_proj.weight", d["D"], d["H"] * d["h"])
    c.plain(f"{p}self_attn.o_proj.bias", d["D"])


def gated_mlp(w, prefix, names=("gate_proj", "up_proj", "down_proj")):
    """wi_0, wi_1 and wo of a gated MLP."""
    return {f"{leaf}/kernel": w(f"{prefix}{name}.weight").T for leaf, name in zip(("wi_0", "wi_1", "wo"), names)}


def split_experts(w, prefix, experts, names=("gate_proj", "up_proj", "down_proj")):
    """One HF tensor per expert and projection: experts on axis 0."""
    return {leaf: np.stack([w(f"{prefix}{e}.{name}.weight").T for e in range(experts)])
            for leaf, name in zip(("wi_0", "wi_1", "wo"), names)}


def under(prefix, leaves):
    return {f"{prefix}{name}": array for name, array in leaves.items()}


def stacked(layers, axis=1):
    """Layers with the same leaves, stacked."""
    assert all(layer.keys() == layers[0].keys() for layer in layers)
    return {name: np.stack([layer[name] for layer in layers], axis) for name in layers[0]}


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def leaf_facts(in_steps, wide, floor):
    """One entry of expected.json from the leaf made with a rounding in every step, and the one made in f32.

    The leaf itself is rounded once. The two differ where a scale is folded into a decoded tensor: MaxText's scripts
    write the decoded tensor first.
    """
    once = wide.astype(in_steps.dtype)
    facts = {"shape": list(once.shape), "dtype": once.dtype.name, "sha256": digest(once)}
    if once.dtype != BF16 and not floor:
        facts["eager_bf16"] = {"dtype": BF16.name, "sha256": digest(wide.astype(BF16))}
    if digest(wide) != digest(once.astype(F32)):
        facts["eager_f32"] = digest(wide)
    if digest(in_steps) != digest(once):
        facts["as_shipped"] = {"dtype": in_steps.dtype.name, "sha256": digest(in_steps)}
    return facts


def write_oracle(folder, checkpoint, trees, floors=(), notes=(), as_shipped=None):
    """Writes config.json, model.safetensors, expected.json and options.json.

    `trees(w)`: {"scanned": {...} or None, "unscanned": {...} or None} from a reader of tensors. `floors`: globs of
    leaves that are f32 whatever dtype is asked for. `as_shipped(w)`: the same trees with just the leaves that
    MaxText's own converter makes differently.
    """
    os.makedirs(folder, exist_ok=True)
    kept, wide = trees(checkpoint.reader()), trees(checkpoint.reader(F32))
    expected = {"maker": "make_numpy_oracles.py", "notes": list(notes), "dropped": sorted(checkpoint.dropped)}
    for layout in ("scanned", "unscanned"):
        expected[layout] = kept[layout] and {
            leaf: leaf_facts(array, wide[layout][leaf], any(fnmatch.fnmatchcase(leaf, glob) for glob in floors))
            for leaf, array in sorted(kept[layout].items())}
        for leaf, array in (as_shipped(checkpoint.reader())[layout] or {} if as_shipped else {}).items():
            expected[layout][leaf]["as_shipped"] = {"dtype": array.dtype.name, "sha256": digest(array)}
    write_tensors(os.path.join(folder, "model.safetensors"), checkpoint.stored)
    write_json(os.path.join(folder, "config.json"), checkpoint.config, indent=2)
    if checkpoint.options:
        write_json(os.path.join(folder, "options.json"), checkpoint.options)
    with open(os.path.join(folder, "expected.json"), "w", encoding="ascii") as file:
        file.write(expected_text(expected))


def write_tensors(path, stored):
    """One safetensors file. The numpy side of the library has no F4: such files get their header here."""
    if all(array.dtype != F4 for array in stored.values()):
        save_file(stored, path, {"format": "pt"})
        os.chmod(path, 0o644)
        return
    names = {BF16: "BF16", F32: "F32", np.dtype(np.int64): "I64", E4M3: "F8_E4M3", E8M0: "F8_E8M0", F4: "F4"}
    header, parts, end = {"__metadata__": {"format": "pt"}}, [], 0
    # Wide elements first, which keeps them aligned.
    for name, array in sorted(stored.items(), key=lambda item: (-item[1].dtype.itemsize, item[1].dtype == F4, item[0])):
        codes = array.view(np.uint8).reshape(-1, 2) if array.dtype == F4 else None
        parts.append(array.tobytes() if codes is None else (codes[:, 0] | codes[:, 1] << 4).astype(np.uint8).tobytes())
        begin, end = end, end + len(parts[-1])
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def write_json(path, value, indent=None):
    with open(path, "w", encoding="ascii") as file:
        file.write(json.dumps(value, indent=indent) + "\n")


def expected_text(expected):
    """One line per leaf."""
    lines = []
    for key, value in expected.items():
        if isinstance(value, dict):
            leaves = ",\n".join(f"{json.dumps(leaf)}: {json.dumps(facts)}" for leaf, facts in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{leaves}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
