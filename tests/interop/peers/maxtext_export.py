"""Exports trees with MaxText's own to_huggingface.

The task is JSON on standard input: a list of `{"config", "model_name", "settings", "path", "scan", "dtype", "out"}`.
These are a folder with the config.json of a model of that kind, MaxText's name and settings for it, the item
directory, whether its layers are stacked, the dtype of all tensors, and the target. MaxText's table of configs has
only published sizes, so the folder's sizes replace them. It doesn't write a tokenizer. The answer is one JSON line
on standard output: for each task `null`, or the first line of MaxText's message.
"""

import json
import os
import sys
from unittest import mock

import maxtext_logits


# Settings that the program takes from its table, and that transformers leaves out of its config.json.
FROM_THE_TABLE = ("attention_bias", "full_attention_interval")


class NoCollector:
  """Replaces gc, since a collection for each tensor takes most of the time for a small checkpoint."""

  @staticmethod
  def collect():
    pass


class NoTokenizer:
  """Replaces transformers' classes that load a tokenizer."""

  @staticmethod
  def from_pretrained(*_, **__):
    return None


def config_of(program, task):
  """Returns the config of a folder, as the class in MaxText's table for the model."""
  known = program.HF_MODEL_CONFIGS[task["model_name"]]
  with open(os.path.join(task["config"], "config.json"), encoding="utf-8") as file:
    config = json.load(file)
  table = known.to_dict()
  for part, whole in ((config, table), (config.get("text_config", {}), table.get("text_config", {}))):
    part.update({name: whole[name] for name in FROM_THE_TABLE if name in whole and name not in part})
  return type(known).from_dict(config)


def export(program, task):
  settings = {**task["settings"], "run_name": "hfshard", "skip_jax_distributed_system": True, "hardware": "cpu", "log_config": False,
              "model_name": task["model_name"], "scan_layers": task["scan"], "weight_dtype": task["dtype"],
              "load_parameters_path": task["path"], "base_output_directory": task["out"]}
  try:
    with (mock.patch.dict(program.HF_MODEL_CONFIGS, {task["model_name"]: config_of(program, task)}),
          mock.patch.object(program, "gc", NoCollector), mock.patch.object(program, "AutoTokenizer", NoTokenizer),
          mock.patch.object(program, "AutoProcessor", NoTokenizer)):
      program.main(maxtext_logits.command_line(settings))
  except Exception as error:  # pylint: disable=broad-except
    return f"{type(error).__name__}: {error}".splitlines()[0][:1000]
  return None


def main():
  answers = maxtext_logits.start()
  from maxtext.checkpoint_conversion import to_huggingface

  # The fixtures are smaller than the published models. The program's message says to do this.
  to_huggingface.FLAGS([sys.argv[0], "--override_model_architecture"])
  print(json.dumps([export(to_huggingface, task) for task in json.load(sys.stdin)]), file=answers, flush=True)


if __name__ == "__main__":
  main()
