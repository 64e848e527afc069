"""Loads checkpoints in MaxText with the arguments that hfshard printed, runs a forward pass, and compares the logits
with transformers'.

The task is JSON on standard input: a list of {"source", "words", "model_type", "reference"}. These are the converted
Hugging Face directory, the arguments, and transformers' name of the model and changes to it, like in
maxtext_logits.py. If `reference` is null, transformers doesn't run. This adds the arguments that belong to the user:
run name, dtypes, batch, length, kernels for a CPU. The answer is one JSON line: for each task {"error"}, or
{"finite"} and, with a reference, {"difference", "largest"}.
"""

import json
import os
import sys

import maxtext_inputs
import maxtext_logits

# The user's own arguments. None of them describes the model.
OWN = {name: value for name, value in maxtext_logits.SETTINGS.items() if name != "override_model_config"}


def configuration(words, length):
  from maxtext.configs import pyconfig

  own = [f"{name}={str(value).lower() if isinstance(value, bool) else value}"
         for name, value in {**OWN, "max_target_length": length, "base_output_directory": os.devnull}.items()]
  base = os.path.join(os.environ["HFSHARD_MAXTEXT_SRC"], "maxtext", "configs", "base.yml")
  return pyconfig.initialize([sys.argv[0], base, *words, *own])


def run(task):
  import numpy as np

  reference = None
  try:
    if task["reference"] is not None:
      reference, inputs = maxtext_logits.reference_logits(task["source"], task["model_type"], "", task["reference"])
    else:
      inputs = maxtext_inputs.Inputs((np.arange(maxtext_inputs.LENGTH) * 7 % 19).astype(np.int32))
    found = maxtext_logits.loaded_logits(configuration(task["words"], len(inputs.ids)), inputs, "nnx")
  except (Exception, SystemExit) as error:  # pylint: disable=broad-except
    return {"error": f"{type(error).__name__}: {error}"[:600]}
  answer = {"finite": bool(np.isfinite(found).all())}
  if reference is not None:
    found = found[:, :reference.shape[1]]
    answer.update(difference=float(np.abs(found - reference).max()), largest=float(np.abs(reference).max()))
  return answer


def main():
  answers = maxtext_logits.start()
  print(json.dumps([run(task) for task in json.load(sys.stdin)]), file=answers, flush=True)


if __name__ == "__main__":
  main()
