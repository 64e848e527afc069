#!/usr/bin/env python3
"""Reads a Hugging Face directory that `--to safetensors` makes from another one, with the real safetensors library.

Every tensor has the bytes, shape and dtype of the source, or of a cast. The files are cut at --shard-bytes. Each
tensor begins aligned to its elements, headers are padded to 8 bytes, and the index names every tensor's file. If the
order is the library's own, the bytes are those that the library writes. Sizes are ragged primes, zero, odd and
scalars. Limits are shrunken so that a tensor is written in many slices. The smallest memory that the plan names,
other numbers of threads, workers, and killed and resumed runs give the same files. verify finds no difference, and
finds a flipped bit.
"""

import argparse
import json
import os
import random
import sys
import tempfile

import compress
import interop

DTYPES = {"bool": "bool", "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
          "u64": "uint64", "i64": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
          "c64": "complex64", "f8_e4m3": "float8_e4m3fn", "f8_e5m2": "float8_e5m2", "f8_e8m0": "float8_e8m0fnu"}
LIMITS = ["--limits", "merge_bytes=2048,segment_bytes=512,run_bytes=64,commit_bytes=4096"]
SIDE_FILES = {"config.json": '{"model_type": "odd"}\n', "tokenizer.json": '{"x": 1}', "generation_config.json": "{}",
              "tokenizer.model": "\0\1\2"}
WHOLE = 1 << 40
BLOCK = (16, 8)  # of tests/oracle/qwen3-moe-fp8


def tensors_of(rng):
    """Returns name to dtype and numpy array of bytes."""
    import numpy as np

    def values(dtype, shape):
        size = np.dtype(dtype).itemsize
        raw = rng.integers(0, 2 if dtype == "bool" else 256, size=int(np.prod(shape)) * size, dtype=np.uint8)
        return raw.view(dtype).reshape(shape)

    out = {f"types.{name}": values(dtype, (13, 7)) for name, dtype in DTYPES.items()}
    out["ragged"] = values("bfloat16", (1511, 9))
    out["three"] = values("float32", (3, 7, 101))
    out["single_row"] = values("int8", (1, 5003))
    out["long"] = values("float16", (701,))
    out["zero"] = values("float32", (0, 4))
    out["scalar"] = values("float64", ())
    out["odd"] = values("uint8", (3,))
    out["\u00e9 \"quoted\" \\"] = values("int16", (5, 3))
    out["odd.absmax"] = values("uint8", (2, 2))  # elsewhere, it's a branch
    out["a/b..c"] = values("uint8", (2,))
    return out


def library_bytes(tensors):
    """Returns the bytes that the library's save_file writes."""
    from safetensors import TensorSpec, serialize

    specs = {name: TensorSpec(dtype=str(value.dtype), shape=value.shape, data_ptr=value.ctypes.data,
                              data_len=value.nbytes) for name, value in tensors.items()}
    return bytes(serialize(specs, metadata={"format": "pt"}))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def make_source(tool, name, *shards):
    """Makes a directory of one file, or of several and an index."""
    directory = tool.path(name)
    index = {}
    for number, tensors in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        write(os.path.join(directory, file), library_bytes(tensors))
        index.update(dict.fromkeys(tensors, file))
    if len(shards) > 1:
        write(os.path.join(directory, "model.safetensors.index.json"), json.dumps({"weight_map": index}).encode())
    for file, text in SIDE_FILES.items():
        write(os.path.join(directory, file), text.encode())
    return directory


def read(path):
    with open(path, "rb") as file:
        return file.read()


def safetensors_name(value):
    """Returns the dtype's name in headers."""
    import numpy as np

    ours = {np.dtype(dtype): name for name, dtype in DTYPES.items()}[value.dtype]
    return ours.upper()


def check_file(tool, what, path, found):
    """Checks one file. The library's tensors go to `found`. Returns the names in it."""
    from safetensors import deserialize, safe_open

    data = read(path)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    tool.expect(length % 8 == 0, f"{what}: a header of {length} bytes")
    tool.expect(header.pop("__metadata__", None) == {"format": "pt"}, f"{what}: metadata")
    for name, entry in header.items():
        bits = {"BOOL": 8, "BF16": 16}.get(entry["dtype"]) or int("".join(filter(str.isdigit, entry["dtype"].split("_")[0])))
        tool.expect(entry["data_offsets"][0] % (bits // 8) == 0, f"{what}: {name} is not aligned")
    with safe_open(path, framework="np") as opened:
        tool.expect(sorted(opened.keys()) == sorted(header), f"{what}: other names by safe_open")
    for name, entry in deserialize(data):
        tool.expect(name not in found, f"{what}: {name} is in two files")
        found[name] = (entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
    return list(header)


def check_output(tool, what, out, tensors, shard_bytes):
    """Checks all files of an output against its expected tensors."""
    names = sorted(os.listdir(out))
    data = [name for name in names if name.endswith(".safetensors")]
    found, places, largest = {}, {}, 0
    for name in data:
        held = check_file(tool, f"{what}: {name}", os.path.join(out, name), found)
        places.update(dict.fromkeys(held, name))
        size = sum(len(found[each][2]) for each in held)
        largest = max(largest, size)
        tool.expect(size <= shard_bytes or sum(len(found[each][2]) > 0 for each in held) == 1,
                    f"{what}: {name} has {size} bytes of tensors")
    tool.expect(sorted(found) == sorted(tensors), f"{what}: names {sorted(found)}")
    for name, value in tensors.items():
        wanted = (safetensors_name(value), value.shape, value.tobytes())
        tool.expect(found.get(name) == wanted, f"{what}: {name} differs")
    if len(data) == 1:
        tool.expect(data == ["model.safetensors"], f"{what}: {data}")
        tool.expect("model.safetensors.index.json" not in names, f"{what}: an index of one file")
    else:
        count = len(data)
        tool.expect(data == [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)], f"{what}: {data}")
        index = json.loads(read(os.path.join(out, "model.safetensors.index.json")))
        total = sum(value.nbytes for value in tensors.values())
        tool.expect(index == {"metadata": {"total_size": total}, "weight_map": places}, f"{what}: index")
    for name, text in SIDE_FILES.items():
        tool.expect(read(os.path.join(out, name)) == text.encode(), f"{what}: {name} is not carried")
    others = set(names) - set(data) - set(SIDE_FILES) - {"model.safetensors.index.json", "hfshard.json"}
    tool.expect(not others, f"{what}: {others}")
    return data


def convert(tool, source, out, *words):
    return tool.run("convert", source, tool.path(out), "--to", "safetensors", "--quiet", *LIMITS, *words)


def check_verified(tool, out, source):
    for words in ([], [source]):
        said = tool.json("verify", out, *words, "--quiet", *LIMITS)
        tool.expect(said["differences"] == [], f"verify {words}: {said['differences']}")


def check_runs(tool, source, reference, shard_bytes):
    """Checks that the bytes are the same with any memory, threads and workers, and after a kill anywhere."""
    words = ["--shard-bytes", str(shard_bytes)]
    plan = tool.json("plan", source, "--to", "safetensors", *words, *LIMITS, "--jobs", "1", "--io-threads", "1")
    tool.expect(plan["units"] > 2 * len(plan["leaves"]), f"only {plan['units']} units")
    least = ["--max-memory", str(plan["need_memory_bytes"]), "--jobs", "1", "--io-threads", "1"]
    for name, more in {"least": least, "many": ["--jobs", "7"], "direct": ["--io", "direct"],
                       "mapped": ["--io", "mmap"]}.items():
        convert(tool, source, name, *words, *more)
        tool.expect(compress.same_tree(reference, tool.path(name)), f"{name}: other bytes")
    for worker in (2, 0, 1):
        convert(tool, source, "shared", *words, "--worker", f"{worker}/3")
    tool.run("finalize", tool.path("shared"), "--quiet", *LIMITS)
    tool.expect(compress.same_tree(reference, tool.path("shared")), "workers: other bytes")
    killed = 0
    for at in range(1, 400, 13):
        out = tool.path(f"killed{at}")
        command = ["convert", source, out, "--to", "safetensors", "--quiet", *LIMITS, *words]
        status = tool.run_any(*command, "--die-at", str(at)).returncode
        killed += status == -9
        if status == -9 and not os.path.exists(out):
            tool.run(*command, "--resume")
        tool.expect(compress.same_tree(reference, out), f"killed before call {at}: other bytes")
        tool.run(*command, "--resume")
    tool.expect(killed >= 8, f"only {killed} runs were killed")


def check_flips(tool, out, source):
    """Flips one bit of a tensor in each data file. verify finds it without the source, and with it."""
    rng = random.Random(5)
    for name in sorted(os.listdir(out)):
        if not name.endswith(".safetensors"):
            continue
        path = os.path.join(out, name)
        good = read(path)
        begin = 8 + int.from_bytes(good[:8], "little")
        bad = bytearray(good)
        bad[rng.randrange(begin, len(bad))] ^= 1 << rng.randrange(8)
        write(path, bytes(bad))
        for words in ([], [source]):
            said = tool.json("verify", out, *words, "--quiet", *LIMITS, status=5)
            tool.expect(len(said["differences"]) == 1, f"a flip in {name}: {said['differences']}")
        write(path, good)


def check_casts(tool, source, tensors):
    """Checks that --dtype and --cast round like numpy."""
    import ml_dtypes
    import numpy as np

    convert(tool, source, "narrow", "--dtype", "bf16", "--cast", "b*=f32", "--include", "[abc]")
    with np.errstate(over="ignore"):
        wanted = {"a": tensors["a"].astype(ml_dtypes.bfloat16), "b": tensors["b"], "c": tensors["c"]}
    check_output(tool, "narrow", tool.path("narrow"), wanted, WHOLE)


def decoded(tensors, name):
    """Returns the values of codes with a scale for each block, or with one scale."""
    import ml_dtypes
    import numpy as np

    dtype, shape, data = tensors[name]
    codes = np.frombuffer(data, {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}[dtype])
    values = codes.reshape(shape).astype(np.float32)
    dtype, scale_shape, data = tensors[name + "_scale_inv"]
    scales = np.frombuffer(data, {"F32": np.float32, "BF16": ml_dtypes.bfloat16}[dtype]).astype(np.float32).reshape(scale_shape)
    if scales.size > 1:
        block = BLOCK
        scales = np.repeat(np.repeat(scales, block[0], axis=0), block[1], axis=1)[:shape[0], :shape[1]]
    return ("BF16", tuple(shape), (values * scales).astype(ml_dtypes.bfloat16).tobytes())


def check_decoded(tool):
    """Checks that FP8 becomes bf16 with a requested dtype, without scales of activations, and that config.json says
    so. Without one, it stays."""
    from safetensors import deserialize

    for name in ("qwen3-moe-fp8", "mistral-fp8"):
        source = os.path.join(interop.ORACLE, name)
        tensors = {}
        for file in sorted(os.listdir(source)):
            if file.endswith(".safetensors"):
                tensors.update({key: (each["dtype"], tuple(each["shape"]), bytes(each["data"]))
                                for key, each in deserialize(read(os.path.join(source, file)))})
        for words, wanted in (([], tensors),
                              (["--dtype", "bf16"],
                               {key: decoded(tensors, key) if key + "_scale_inv" in tensors else value
                                for key, value in tensors.items() if not key.endswith(("_scale_inv", ".activation_scale"))})):
            out = tool.path(name + "".join(words))
            convert(tool, source, os.path.basename(out), *words)
            found = {key: (each["dtype"], tuple(each["shape"]), bytes(each["data"]))
                     for key, each in deserialize(read(os.path.join(out, "model.safetensors")))}
            tool.expect(sorted(found) == sorted(wanted), f"{name} {words}: {sorted(set(found) ^ set(wanted))}")
            for key, value in wanted.items():
                if words and value[0] == "F32":
                    continue  # cast, which is tested above
                tool.expect(found.get(key) == value, f"{name} {words}: {key} differs")
            config = json.loads(read(os.path.join(out, "config.json")))
            tool.expect(("quantization_config" in config) == (not words), f"{name} {words}: {config}")
            check_verified(tool, out, source)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits and --die-at")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes", "safetensors")
    import numpy as np

    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory(prefix="hfshard-write-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        tensors = tensors_of(rng)
        names = sorted(tensors)
        source = make_source(tool, "source", {name: tensors[name] for name in names[:9]},
                             {name: tensors[name] for name in names[9:]})
        for shard_bytes in (5000, 30000, WHOLE):
            out = tool.path(f"out{shard_bytes}")
            convert(tool, source, os.path.basename(out), "--shard-bytes", str(shard_bytes))
            files = check_output(tool, str(shard_bytes), out, tensors, shard_bytes)
            tool.expect((len(files) == 1) == (shard_bytes == WHOLE), f"{shard_bytes}: {files}")
            check_verified(tool, out, source)
            listed = tool.json("inspect", out, "--data", "--quiet")
            tool.expect(len(listed["tensors"]) == len(tensors), "inspect")
        # The output is a source like any other.
        convert(tool, tool.path("out5000"), "again", "--shard-bytes", str(WHOLE))
        check_output(tool, "again", tool.path("again"), tensors, WHOLE)
        check_runs(tool, source, tool.path("out5000"), 5000)
        check_flips(tool, tool.path("out5000"), source)
        # In the library's order, the bytes are the library's.
        plain = {name: rng.standard_normal((17, 5)).astype(np.float32) for name in "abc"}
        plain["c"] = np.arange(6, dtype=np.int8)
        source = make_source(tool, "plain", plain)
        convert(tool, source, "same")
        tool.expect(read(tool.path("same", "model.safetensors")) == library_bytes(plain), "other bytes than the library's")
        check_casts(tool, source, plain)
        check_decoded(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
