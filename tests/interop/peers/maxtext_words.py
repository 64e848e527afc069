"""Parses words of a command line like MaxText: [{"words": [...]}] on standard input, one answer for each on the last
line.

An answer is empty if the configuration has the values of the words. Otherwise it describes the difference.
"""

import importlib.util
import json
import os
import sys

import yaml


def answer(words, base):
  from maxtext.configs import pyconfig

  try:
    given = {word.split("=", 1)[0] for word in words}
    more = {"load_parameters_path": "/nowhere/0/items", "run_name": "words", "base_output_directory": "nowhere",
            "skip_jax_distributed_system": "true"}
    config = pyconfig.initialize([sys.argv[0], base, *words, *(f"{k}={v}" for k, v in more.items() if k not in given)])
  except Exception as error:  # pylint: disable=broad-exception-caught: what it says is the answer
    return f"{type(error).__name__}: {error}"[:600]
  for word in words:
    name, text = word.split("=", 1)
    seen = getattr(config, name)
    seen = getattr(seen, "value", seen)  # of an enumeration
    wanted = yaml.safe_load(text)
    if seen != wanted and str(seen) != str(wanted):
      return f"{name} is {seen!r}, not {wanted!r}"
  return ""


def main():
  src = os.environ["PYTHONPATH"]
  answers = []
  for task in json.load(sys.stdin):
    base = os.path.join(src, os.pardir, task.get("base", "src/maxtext/configs/base.yml"))
    known = "module" not in task or importlib.util.find_spec(task["module"]) is not None
    answers.append(answer(task["words"], base) if known else f"there is no {task['module']}")
  print(json.dumps(answers))


if __name__ == "__main__":
  main()
