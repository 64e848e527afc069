"""Trains a small Llama with torchtitan's own Trainer on this machine's CPU, as gloo ranks, and prints the losses.

Standard input is a JSON list of runs {"folder", "steps", "fsdp", "tensor"}. Each resumes from the highest step in
FOLDER/checkpoint, if one exists, trains up to `steps`, and saves there. A run can be a command instead, a list of
words. Standard output is a JSON list: the losses of each run by step, as hexadecimal floats. The code below replaces
what a CPU lacks. Model, optimizer, schedule, data loader and CheckpointManager are torchtitan's.
"""

import json
import os
import random
import signal
import subprocess
import sys
import traceback
import types

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "support"))

import testing  # noqa: E402  (a module of tests/support)

torch._utils._get_available_device_type = lambda: "cpu"  # before torchtitan asks for an accelerator
sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=None)  # imported but not used


class Texts(list):
    """A dataset with the members that torchtitan needs, for the package `datasets`, which it imports."""

    def skip(self, count):
        return Texts(self[count:])


sys.modules["datasets"] = types.SimpleNamespace(Dataset=Texts, load_dataset=None)
sys.modules["datasets.distributed"] = types.SimpleNamespace(split_dataset_by_node=lambda texts, rank, ranks: Texts(texts[rank::ranks]))

try:
    import tokenizers
    import torchtitan.components.metrics as metrics
    import torchtitan.distributed.utils as dist_utils
    import torchtitan.hf_datasets.text_datasets as text_datasets
    from torchtitan.hf_datasets import DatasetConfig
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    from torchtitan.trainer import Trainer
except ImportError as error:
    print(f"PEER MISSING torchtitan: {error}")
    sys.exit(77)

WORDS = [f"w{i}" for i in range(500)]
INTERVAL = 3


def texts(_path):
    made = random.Random(3)
    return Texts({"text": " ".join(made.choices(WORDS, k=90))} for _ in range(200))


def write_tokenizer(folder):
    known = {word: i for i, word in enumerate(["<s>", "</s>", "<unk>", *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    os.makedirs(folder, exist_ok=True)
    made.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}, file)


class NoMonitor:
    """Answers torchtitan's monitor about memory, without a device."""

    device_name = "cpu"

    def get_peak_stats(self):
        return metrics.DeviceMemStats(*[0] * len(metrics.DeviceMemStats._fields))

    def reset_peak_stats(self):
        pass


def config_of(run):
    config = llama3_debugmodel()
    config.model_spec.model.layers = config.model_spec.model.layers[:2]
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()  # the one that trains on a CPU
    config.dump_folder = run["folder"]
    config.hf_assets_path = os.path.join(run["folder"], "tokenizer")
    config.training.steps = run["steps"]
    config.training.local_batch_size = 2
    config.training.seq_len = 64
    config.training.disable_cuda_graphs = True
    config.training.mixed_precision_param = "float32"
    config.parallelism.spmd_backend = "partial_dtensor"
    config.parallelism.data_parallel_shard_degree = run["fsdp"]
    config.parallelism.tensor_parallel_degree = run["tensor"]
    config.checkpoint.enable = True
    config.checkpoint.interval = INTERVAL
    config.validator.enable = False
    config.debug.seed = 5
    config.debug.deterministic = True
    return config


def train(rank, run, store, out):
    world = run["fsdp"] * run["tensor"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store),
                      GLOO_SOCKET_IFNAME="lo", TORCHELASTIC_USE_AGENT_STORE="False")
    torch.set_num_threads(1)
    text_datasets.DATASETS["c4_test"] = DatasetConfig(path="none", loader=texts, sample_processor=lambda sample: sample["text"])
    metrics.build_device_memory_monitor = NoMonitor
    dist_utils.set_pg_timeouts = lambda **_: None  # its barrier names a device by number
    losses = {}
    trainer = Trainer(config_of(run))
    trainer.metrics_processor.log = lambda step, loss, *_, **__: losses.update({step: float(loss).hex()})
    for module in trainer.model_parts[0].modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)  # gloo supports no other one
    trainer.train()
    trainer.close()
    if rank == 0:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(losses, file)
    torch.distributed.destroy_process_group()


def start(run, port):
    """Starts one process for each rank, forked from this one so that nothing is imported again. Returns the losses, or
    None if a rank failed."""
    write_tokenizer(os.path.join(run["folder"], "tokenizer"))
    out = os.path.join(run["folder"], "losses.json")
    children = []
    for rank in range(run["fsdp"] * run["tensor"]):
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            try:
                train(rank, run, port, out)
                os._exit(0)
            except BaseException:  # a failing rank reports why
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    while children:
        child, status = os.wait()
        children.remove(child)
        if status:  # the others wait for it
            for other in children:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            return None
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def main():
    found = []
    for run in json.load(sys.stdin):
        if isinstance(run, list):
            subprocess.run(run, check=True, stdout=sys.stderr)
        else:
            losses = testing.with_port(lambda port, what=run: start(what, port), attempts=2)
            if losses is None:
                sys.exit(f"a rank failed twice: {run}")
            found.append(losses)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
