"""Compares the logits of checkpoints that MaxText loads through its own code with transformers' for the same source.

The task is JSON on standard input. `source` is a Hugging Face directory, and `model_type` is transformers' name for it, if it has
another one. `inputs` are the towers' inputs in addition to the tokens: "image", "sound" or nothing. `model_name` and `settings` are for
MaxText's configuration. `loads` is a list of `{"path", "scan", "modules", "reference"}`: the item directory, whether its layers are
stacked, "nnx" or "linen", and the changes to transformers' model. The answer is one JSON line on standard output. For each load, it has
`difference` and `largest`, of all logits, and `argmax`, the share of positions with the same likeliest token. Or it has `error`, the
first line of MaxText's message. All weights and sums are float32, so that only the checkpoint and the models' code differ.
"""

import functools
import json
import math
import os
import sys
from unittest import mock

import maxtext_inputs

LENGTH = maxtext_inputs.LENGTH
# Settings that every family needs on a CPU: the reference attention, and experts whose sums ragged_dot makes.
SETTINGS = {
    "run_name": "hfshard", "skip_jax_distributed_system": True, "log_config": False, "dataset_type": "synthetic",
    "dtype": "float32", "weight_dtype": "float32", "matmul_precision": "highest", "attention": "dot_product",
    "sparse_matmul": True, "megablox": False, "per_device_batch_size": 1, "override_model_config": True,
}


def merge(into, changes):
  """Merges nested dicts: the entries of `changes` replace those in the config or in a dict of it."""
  for name, value in changes.items():
    inner = into.get(name) if isinstance(into, dict) else getattr(into, name)
    if isinstance(value, dict) and isinstance(inner, dict):
      merge(inner, value)
    elif isinstance(into, dict):
      into[name] = value
    else:
      setattr(into, name, value)


def round_head(model):
  """Makes logits like MaxText for a tied embedding: rounds the table, with its scale folded in, to bfloat16."""
  # Source: AI-Hypercomputer/maxtext layers/embeddings.py attend_on_embedding.
  import torch

  head = model.get_output_embeddings()
  factor = model.config.get_text_config().hidden_size ** 0.5
  head.weight = torch.nn.Parameter((head.weight * factor).bfloat16().float() / factor)


def first_of_ties(model):
  """Makes indexers take the first of the tokens with equal scores, like MaxText's. torch.topk takes any of them."""
  # Source: AI-Hypercomputer/maxtext layers/attention_mla.py Indexer.generate_mask.
  import torch

  def topk(scores, count, dim=-1):
    values, indices = torch.sort(scores, dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values[..., :count], indices[..., :count]))

  def wrapped(forward):
    def call(*words, **named):
      with mock.patch.object(torch.Tensor, "topk", topk):
        return forward(*words, **named)
    return call

  for module in model.modules():
    if type(module).__name__.endswith("Indexer"):
      module.forward = wrapped(module.forward)


def weigh_with_bias(model):
  """Weighs the chosen experts by the scores that choose them, including the bias, like MaxText under names other
  than deepseek3*."""
  # Source: AI-Hypercomputer/maxtext layers/moe.py RoutedMoE.get_topk.
  import torch

  def wrapped(router, forward):
    def call(states):
      logits, _, chosen = forward(states)
      weights = (logits.sigmoid() + router.e_score_correction_bias).gather(1, chosen)
      return logits, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * router.routed_scaling_factor, chosen
    return call

  for module in model.modules():
    if type(module).__name__.endswith("TopkRouter"):
      module.forward = wrapped(module, module.forward)


def unlimit_shared(model):
  """Removes the limit from the activations of DeepSeek V4's shared experts, like MaxText."""
  # Source: AI-Hypercomputer/maxtext layers/linears.py MlpBlock, which has no mlp_activations_limit; layers/moe.py RoutedMoE has.
  for module in model.modules():
    if type(module).__name__ == "DeepseekV4MLP":
      module.limit = math.inf


# Changes to transformers' model, in addition to its config.
CHANGES = {"rounded_head": round_head, "first_of_ties": first_of_ties, "weighed_with_bias": weigh_with_bias,
           "unlimited_shared": unlimit_shared, **maxtext_inputs.CHANGES}


def reference_config(source, model_type):
  """Returns the config for a `model_type` that transformers has, for a model that equals it under another name."""
  import transformers

  if not model_type:
    return transformers.AutoConfig.from_pretrained(source)
  with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
    return transformers.AutoConfig.for_model(**{**json.load(file), "model_type": model_type})


def dequantized(config):
  """Returns a config of codes that transformers itself decodes, which it can do on a CPU."""
  if getattr(config, "quantization_config", None):
    config.quantization_config = {**dict(config.quantization_config), "dequantize": True}
  return config


def reference_logits(source, model_type, kind, changes):
  """Returns the logits that transformers computes, and the inputs. `changes`: of its config, and names of CHANGES."""
  import torch
  import transformers

  transformers.logging.set_verbosity_error()
  config = dequantized(reference_config(source, model_type))
  merge(config.get_text_config(), {name: value for name, value in changes.items() if name not in CHANGES})
  architecture = getattr(transformers, config.architectures[0])
  model, loading = architecture.from_pretrained(
      source, config=config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
      output_loading_info=True)
  # It has no layer for multi-token prediction, so its tensors are left over.
  wrong = {what: list(names)[:3] for what, names in loading.items() if names and what != "unexpected_keys"}
  if wrong:
    raise SystemExit(f"transformers does not load all of {source}: {wrong}")
  model = getattr(model, "thinker", model).eval()
  for name in changes.keys() & CHANGES.keys():
    CHANGES[name](model)
  inputs = maxtext_inputs.make(kind, config)
  with torch.no_grad():
    logits = model(**inputs.of_transformers(), use_cache=False).logits
  return logits[0].numpy(), inputs


def command_line(settings):
  """Returns the arguments that start a MaxText program."""
  words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
  base = os.path.join(os.environ["HFSHARD_MAXTEXT_SRC"], "maxtext", "configs", "base.yml")
  return [sys.argv[0], base, *words]


def configuration(task, load, length):
  from maxtext.configs import pyconfig

  nnx = load["modules"] == "nnx"
  towers = {name: bool(task["inputs"]) and task["settings"].get(name, False) for name in ("use_multimodal", "use_audio")}
  same = {name: value for name, value in SETTINGS.items() if name != "weight_dtype" or not task["keeps_codes"]}
  settings = {**task["settings"], **same, **towers, "max_target_length": length, "model_name": task["model_name"], "scan_layers": load["scan"],
              "load_parameters_path": load["path"], "base_output_directory": os.path.dirname(load["path"])}
  if "HFSHARD_MAXTEXT_RELEASE" not in os.environ:  # 0.2.5 has no other modules
    settings.update(enable_nnx=nnx, pure_nnx=nnx, pure_nnx_decoder=nnx)
  return pyconfig.initialize(command_line(settings))


def loaded_logits(config, inputs, modules):
  """Returns the logits that MaxText computes. It loads like MaxText's decoding."""
  # Source: AI-Hypercomputer/maxtext tests/utils/forward_pass_logit_checker.py main.
  import jax
  import numpy as np
  from maxtext.common.common_types import MODEL_MODE_TRAIN
  from maxtext.layers import quantizations
  from maxtext.models import models
  from maxtext.utils import maxtext_utils, model_creation_utils

  mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
  batch, positions, towers = inputs.of_maxtext(config)
  segments = np.ones_like(batch)
  if modules == "nnx":
    model = model_creation_utils.from_pretrained(config, mesh=mesh, model_mode=MODEL_MODE_TRAIN)
    call = functools.partial(model, decoder_input_tokens=batch, decoder_positions=positions,
                             decoder_segment_ids=segments, enable_dropout=False, **towers)
  else:
    model = models.transformer_as_linen(config, mesh=mesh, quant=quantizations.configure_quantization(config),
                                        model_mode=MODEL_MODE_TRAIN)
    key = jax.random.PRNGKey(0)
    init = functools.partial(maxtext_utils.init_initial_state, model, None, config, False, key)
    state, _ = maxtext_utils.setup_decode_state(config, mesh, None, init)
    call = functools.partial(model.apply, state.params, batch, positions, segments, enable_dropout=False,
                             rngs={"aqt": key}, **towers)
  with mesh:
    return np.asarray(call())[0]


def measure(task, load):
  import numpy as np

  reference, inputs = reference_logits(task["source"], task["model_type"], task["inputs"], load["reference"])
  try:
    found = loaded_logits(configuration(task, load, len(inputs.ids)), inputs, load["modules"])
  except Exception as error:  # pylint: disable=broad-except
    return {"error": f"{type(error).__name__}: {error}"[:1000]}
  found = found[:, :reference.shape[1]]
  return {"difference": float(np.abs(found - reference).max()), "largest": float(np.abs(reference).max()),
          "argmax": float((found.argmax(-1) == reference.argmax(-1)).mean())}


def start():
  """Makes MaxText ready for import. Returns the file for the answer, because MaxText prints."""
  answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS="", JAX_DISABLE_MOST_OPTIMIZATIONS="1", DECOUPLE_GCLOUD="TRUE",
                    HF_HUB_OFFLINE="1")
  sys.path.insert(0, os.environ["HFSHARD_MAXTEXT_SRC"])
  return answers


def main():
  answers = start()
  task = json.load(sys.stdin)
  print(json.dumps([measure(task, load) for load in task["loads"]]), file=answers, flush=True)


if __name__ == "__main__":
  main()
