"""Trains a tiny model with MaxText's own train.py on four devices of this machine's CPU, and prints the losses.

Standard input is a JSON list. A run {"folder", "mesh", "scan", "modules", "steps"} resumes from the highest step in
FOLDER/run/checkpoints, if one exists, trains up to `steps`, and saves there. A list of words is a command.
{"forget": DIRECTORY} sets the optimizer's state of a step to zeros, with Orbax. Standard output is a JSON list: for
each run the `losses` by step, and `log`, MaxText's messages about restoring. The argument is a folder for the data.
Model, optimizer, schedule, input pipeline (Grain, packed, from parquet files) and CheckpointManager are MaxText's.
"""

import json
import os
import random
import subprocess
import sys
from unittest import mock

DEVICES = 4
INTERVAL = 3
VOCABULARY = 512
SETTINGS = {
    "run_name": "run", "skip_jax_distributed_system": True, "log_config": False, "hardware": "cpu", "attention": "dot_product",
    "enable_tensorboard": False, "enable_goodput_recording": False, "enable_checkpoint_cloud_logger": False,
    "base_emb_dim": 64, "base_mlp_dim": 128, "base_num_query_heads": 4, "base_num_kv_heads": 2, "head_dim": 16,
    "base_num_decoder_layers": 2, "vocab_size": VOCABULARY, "max_target_length": 32, "per_device_batch_size": 2,
    "learning_rate": 1e-2, "learning_rate_schedule_steps": 20, "warmup_steps_fraction": 0.1,
    "dataset_type": "grain", "grain_file_type": "parquet", "grain_worker_count": 0, "grain_shuffle_buffer_size": 8,
    "tokenize_train_data": False, "tokenizer_type": "huggingface", "train_data_columns": "['tokens']",
    "checkpoint_period": INTERVAL, "save_checkpoint_on_start": False, "async_checkpointing": False,
    "opt_type": "adamw", "enable_dropout": False,
}


def write_data(folder):
    """Writes texts of known tokens, and the tokenizer from which MaxText takes the padding."""
    import pyarrow
    import pyarrow.parquet
    import tokenizers

    made = random.Random(3)
    os.makedirs(os.path.join(folder, "tokenizer"), exist_ok=True)
    for number in range(2):
        texts = [[made.randrange(3, VOCABULARY) for _ in range(made.randrange(8, 30))] for _ in range(200)]
        pyarrow.parquet.write_table(pyarrow.table({"tokens": texts}), os.path.join(folder, f"train-{number}.parquet"))
    known = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>"])}
    tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<pad>")).save(os.path.join(folder, "tokenizer", "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer", "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}, file)


def train(program, run, data):
    nnx = run["modules"] == "nnx"
    metrics = os.path.join(run["folder"], "metrics.json")
    os.makedirs(run["folder"], exist_ok=True)
    settings = {**SETTINGS, **{f"ici_{axis}_parallelism": size for axis, size in run["mesh"].items()},
                "base_output_directory": run["folder"], "metrics_file": metrics, "steps": run["steps"], "scan_layers": run["scan"],
                "enable_nnx": nnx, "pure_nnx": nnx, "pure_nnx_decoder": nnx,
                "grain_train_files": os.path.join(data, "train-*.parquet"), "tokenizer_path": os.path.join(data, "tokenizer")}
    words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
    base = os.path.join(os.environ["HFSHARD_MAXTEXT_SRC"], "maxtext", "configs", "base.yml")
    seen = []
    with mock.patch.object(program.max_logging, "log", seen.append):
        program.main([sys.argv[0], base, *words])
    with open(metrics, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {"losses": {str(int(line["step"])): line["learning/loss"] for line in lines}, "log": [line for line in map(str, seen) if "restoring" in line]}


def forget(step):
    """Sets the optimizer's state to zeros. The rest of the tree stays."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    path = os.path.join(step, "items")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        tree = checkpointer.restore(path)
    tree["opt_state"] = jax.tree.map(lambda leaf: np.zeros_like(leaf), tree["opt_state"])
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)) as checkpointer:
        checkpointer.save(path, tree, force=True)


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={DEVICES}", DECOUPLE_GCLOUD="TRUE",
                      HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", JAX_DISABLE_MOST_OPTIMIZATIONS="1")
    sys.path.insert(0, os.environ["HFSHARD_MAXTEXT_SRC"])
    from maxtext.trainers.pre_train import train as program

    data = sys.argv[1]
    write_data(data)
    found = []
    for run in json.load(sys.stdin):
        if isinstance(run, list):
            subprocess.run(run, check=True, stdout=sys.stderr)
        elif "forget" in run:
            forget(run["forget"])
        else:
            found.append(train(program, run, data))
    print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
