#!/usr/bin/env python3
"""Checks grids with a ragged last chunk. Real TensorStore and Orbax read them bit for bit, onto 8 devices too.

The vocabulary of a small model is a prime. In the last forms, it is twice a prime that the mesh halves. Sizes are
shrunken so that the grid is cut like that of a large model. Each form must have the same contents as the same model
with one chunk for each leaf. The test compares that model's embedding with the source's own bytes. verify, workers
and a resumed run must agree.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile

import compress
import fixtures
import interop
import oracle_dirs

CONFIG = {**oracle_dirs.read_json(interop.ORACLE, "qwen3", "config.json"), "hidden_size": 64, "intermediate_size": 134,
          "head_dim": 16, "num_hidden_layers": 3, "tie_word_embeddings": False}
PRIME, TWICE_A_PRIME = 1009, 1018
LIMITS = interop.SHRUNKEN[-1]
# Leaves are one chunk up to the floor. Shards are divided into chunks of at least a part of it.
FLOOR = LIMITS.replace("floor_bytes=64,", "floor_bytes=2048,")
EMBEDDING = "params.params.token_embedder.embedding"
FSDP = ["--mesh", "fsdp=4", "--chunk-bytes", "2048", "--limits", LIMITS]
# Name -> vocabulary, options, and the chunk of the embedding.
FORMS = {
    "stacked": (PRIME, [*FSDP, "--layers", "stacked"], [64, 16]),
    "separate": (PRIME, [*FSDP, "--layers", "separate"], [64, 16]),
    "zstd": (PRIME, [*FSDP, "--compress", "zstd"], [64, 16]),
    "unchecked": (PRIME, [*FSDP, "--checksum", "none", "--layers", "separate"], [64, 16]),
    "inner": (PRIME, ["--mesh", "fsdp=4", "--chunk-bytes", "2048", "--limits", LIMITS + ",outer_shards=2"], [32, 32]),
    "inner zstd": (PRIME, ["--mesh", "fsdp=4", "--chunk-bytes", "2048", "--compress", "zstd:3", "--limits",
                           LIMITS + ",outer_shards=2"], [32, 32]),
    "whole shards": (TWICE_A_PRIME, ["--mesh", "fsdp=4,tensor=2", "--chunk-bytes", "2048", "--limits", FLOOR], [509, 2]),
    "across shards": (TWICE_A_PRIME, ["--mesh", "fsdp=4,tensor=2", "--chunk-bytes", "2048", "--limits",
                                      FLOOR + ",slab_bytes=16384"], [15, 16]),
    "across shards zstd": (TWICE_A_PRIME, ["--mesh", "fsdp=4,tensor=2", "--chunk-bytes", "2048", "--compress", "zstd",
                                           "--limits", FLOOR + ",slab_bytes=16384"], [15, 16]),
}


def make_source(tool, vocab):
    source, config = tool.path(f"source-{vocab}"), tool.path("config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "vocab_size": vocab}, file)
    tool.run("mappings", "example", "qwen3", source, "--config", config)
    return source


def source_hash(source, tensor):
    """Returns the SHA-256 of a tensor's bytes in a directory of one file."""
    with open(os.path.join(source, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin, end = header[tensor]["data_offsets"]
        file.seek(begin, os.SEEK_CUR)
        return hashlib.sha256(file.read(end - begin)).hexdigest()


def whole(tool, source, layers):
    """Returns the contents of the leaves, from an output with one chunk for each leaf."""
    output = source + "-" + layers
    tool.run("convert", source, output, "--layers", layers, "--quiet")
    found = fixtures.describe_found(output)
    said = found["token_embedder/embedding"]["sha256"]
    tool.expect(said == source_hash(source, "model.embed_tokens.weight"), f"{output}: another embedding than the source's")
    return found


def check_padding(tool, plan, what):
    """Checks that edge chunks are stored in full, and add little."""
    for leaf in plan["leaves"]:
        elements = stored = 1
        for extent, chunk in zip(leaf["shape"], leaf["chunk"]):
            elements, stored = elements * extent, stored * -(-extent // chunk) * chunk
        tool.expect(stored <= elements * 17 / 16, f"{what}: {leaf['path']} {leaf['shape']} in chunks of {leaf['chunk']}")


def check_form(tool, name, source, words, chunk, expected):
    plan = tool.json("plan", source, *words)
    leaf = next(leaf for leaf in plan["leaves"] if leaf["path"] == EMBEDDING)
    tool.expect(leaf["chunk"] == chunk, f"{name}: chunks of {leaf['chunk']} for {leaf['shape']}")
    tool.expect(("inner" in leaf) == name.startswith("inner"), f"{name}: {leaf}")
    check_padding(tool, plan, name)
    output = tool.path(name.replace(" ", "-"))
    tool.run("convert", source, output, *words, "--quiet")
    fixtures.read_back(tool, output, expected, lambda readers: fixtures.ways_of(readers, True, fixtures.BOTH_LOADS), name)
    for more in ([], [source]):
        said = tool.json("verify", output, *more, "--quiet")
        tool.expect(said["differences"] == [], f"{name}: verify {more} says {said['differences']}")
    tool.run("inspect", output, "--data", "--quiet")
    shared, resumed = output + "-shared", output + "-resumed"
    for worker in range(3):
        tool.run("convert", source, shared, *words, "--worker", f"{worker}/3", "--quiet")
    tool.run("finalize", shared, "--quiet", "--limits", words[words.index("--limits") + 1])
    tool.run("convert", source, resumed, *words, "--worker", "1/3", "--quiet")
    tool.run("convert", source, resumed, *words, "--resume", "--quiet")
    for other in (shared, resumed):
        tool.expect(compress.same_tree(output, other), f"{name}: {other} has other bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits")
    arguments = parser.parse_args()
    interop.use_peer_python()
    interop.import_peers("ml_dtypes")
    with tempfile.TemporaryDirectory(prefix="hfshard-ragged-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        sources = {vocab: make_source(tool, vocab) for vocab in (PRIME, TWICE_A_PRIME)}
        expected = {(vocab, layers): whole(tool, source, layers) for vocab, source in sources.items()
                    for layers in ("stacked", "separate")}
        for name, (vocab, words, chunk) in FORMS.items():
            layers = "separate" if "separate" in words else "stacked"
            check_form(tool, name, sources[vocab], words, chunk, expected[vocab, layers])
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
