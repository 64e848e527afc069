"""Writes a model in the forms in which MaxText's trainers save it, through MaxText's own modules and checkpoint
managers.

The task is JSON on standard input: a list of {"model_name", "settings", "path", "scan", "out"}. These are MaxText's
name and settings for a model, the item directory of its weights, whether its layers are stacked, and the folder for
the runs. Each form becomes a run OUT/FORM. The answer is one JSON line. For each task, it has {"forms": {FORM:
{LEAF: SHA256}}}, which MaxText's own exporter (detect_and_extract_checkpoint) reads, or {"error"}, MaxText's message
when it makes the model.
"""

import hashlib
import json
import os
import sys

import maxtext_logits


def configuration(task):
  from maxtext.configs import pyconfig

  settings = {**task["settings"], **maxtext_logits.SETTINGS, "max_target_length": 16, "model_name": task["model_name"], "scan_layers": task["scan"],
              "load_parameters_path": task["path"], "base_output_directory": task["out"],
              "async_checkpointing": False, "checkpoint_period": 1}
  return pyconfig.initialize(maxtext_logits.command_line(settings))


def save(folder, item, tree):
  """Saves one item of a step, like Orbax's manager."""
  import orbax.checkpoint as ocp

  with ocp.CheckpointManager(folder, item_names=(item,), options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False)) as manager:
    manager.save(3, args=ocp.args.Composite(**{item: ocp.args.PyTreeSave(tree)}))


def as_lists(tree):
  """Returns separate layers, NAME_0, NAME_1, ..., as a list NAME, with a key `value` below each weight."""
  if not isinstance(tree, dict):
    return {"value": tree}
  out = {}
  for name, value in tree.items():
    stem, _, number = str(name).rpartition("_")
    if stem.endswith("layers") and number.isdigit() and f"{stem}_0" in tree:
      out.setdefault(stem, {})[int(number)] = as_lists(value)
    else:
      out[name] = as_lists(value)
  return {name: [value[i] for i in sorted(value)] if isinstance(value, dict) and 0 in value else value for name, value in out.items()}


def write_forms(config, out):
  """Writes the five forms: pretraining's, its parameters alone, SFT's, RL's, and layers in a list."""
  import jax
  import optax
  from flax import nnx
  from maxtext.common import train_state_nnx
  from maxtext.common.common_types import MODEL_MODE_TRAIN
  from maxtext.integration.tunix import tunix_adapter
  from maxtext.training_engine import checkpointing
  from maxtext.utils import maxtext_utils, model_creation_utils

  mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
  model = model_creation_utils.from_pretrained(config, mesh=mesh, model_mode=MODEL_MODE_TRAIN)
  optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
  state = nnx.state(train_state_nnx.TrainStateNNX(model, optimizer))
  tree = train_state_nnx.to_checkpoint_dict(state)
  save(os.path.join(out, "pretraining", "checkpoints"), "items", tree)
  save(os.path.join(out, "parameters", "checkpoints"), "items", {"params": tree["params"]["params"]})
  for name, trained in (("sft", model), ("rl", tunix_adapter.TunixMaxTextAdapter(model))):
    manager = checkpointing.CheckpointManager(os.path.join(out, name), config)
    manager.save_checkpoint(3, checkpointing.CheckpointState(trained, optimizer))
    manager.wait_until_finished()
    manager.close()
  save(os.path.join(out, "list"), "model_params", as_lists(nnx.state(model).to_pure_dict()))


def read_forms(out):
  """Returns the arrays that MaxText's exporter reads."""
  import numpy as np
  import orbax.checkpoint as ocp
  from maxtext.checkpoint_conversion.utils import utils

  found = {}
  for form in sorted(os.listdir(out)):
    step = os.path.join(out, form, "checkpoints", "3", "items")
    step = step if os.path.isdir(step) else os.path.join(out, form, "3", "model_params")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
      tree = checkpointer.restore(step)
    arrays = utils.detect_and_extract_checkpoint(tree)
    found[form] = {name: hashlib.sha256(np.asarray(array).tobytes()).hexdigest() for name, array in arrays.items()}
  return found


def run(task):
  try:
    write_forms(configuration(task), task["out"])
  except Exception as error:  # pylint: disable=broad-except
    return {"error": f"{type(error).__name__}: {error}"[:300]}
  return {"forms": read_forms(task["out"])}


def main():
  answers = maxtext_logits.start()
  print(json.dumps([run(task) for task in json.load(sys.stdin)]), file=answers, flush=True)


if __name__ == "__main__":
  main()
