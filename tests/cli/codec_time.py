"""Checks that `plan` estimates processor time for compression.

    codec_time.py PROGRAM

It runs in an empty directory. The weights are like those of training: random mantissas, and few exponents. The actual
time depends on the machine and its load, so the test compares only two estimates: level 12 takes many times as long as
copying.
"""

import json
import os
import subprocess
import sys

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
          "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
          "vocab_size": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
JOBS = ["--jobs", "2"]
COMPRESS = ["--compress", "zstd:12", *JOBS]
# It is more than 50 where nothing else runs.
LEAST_TIMES = 3


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def fill(path):
    """Writes weights over the example's own."""
    with open(path, "r+b") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        size = os.path.getsize(path) - begin
        exponents = bytes([0x3c] * 90 + [0x3b] * 20 + [0x3d] * 18 + [0xbc] * 90 + [0xbb] * 20 + [0xbd] * 18)
        weights = bytearray(size)
        weights[0::2] = os.urandom(len(weights[0::2]))
        weights[1::2] = os.urandom(len(weights[1::2])).translate(exponents)
        file.seek(begin)
        file.write(weights)


def main():
    program = sys.argv[1]
    with open("config.json", "w", encoding="ascii") as file:
        json.dump(CONFIG, file)
    run(program, "mappings", "example", "qwen3", "source", "--config", "config.json", "--quiet")
    fill("source/model.safetensors")
    said, copying = (json.loads(run(program, "plan", "source", "out", "--json", "--quiet", *words))["estimate"]["processor_seconds"]
                     for words in (COMPRESS, JOBS))
    good = said > LEAST_TIMES * copying
    told = f"plan says {said:.2f} s of two processors, and {copying:.4f} s without compression"
    print(told, file=sys.stderr)
    print("plan knows what compressing takes" if good else told)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
