"""Reads an Orbax item in every way of its users and compares each leaf with expected.json. Exits with 1 on a mismatch.

The ways are TensorStore alone, PyTreeCheckpointHandler without a target, MaxText's load call, StandardCheckpointer,
CheckpointManager, and Orbax's v1 `load`. With --sharded, MaxText's call and StandardCheckpointer also load onto a
mesh of 8 simulated devices.
"""

import argparse
import json
import os
import sys

import orbax_peer as peer

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def parse_mesh(text):
  """Returns {'fsdp': 4, 'tensor': 2} for 'fsdp=4,tensor=2'."""
  return {name: int(size) for name, size in (part.split("=") for part in text.split(","))}


def partition(shape, axes):
  """Gives each mesh axis to the longest dim that it still divides. Axes that fit nowhere replicate."""
  from jax.sharding import PartitionSpec

  spec = [None] * len(shape)
  for name, size in axes.items():
    free = [d for d in range(len(shape)) if spec[d] is None and shape[d] and shape[d] % size == 0]
    if free:
      spec[max(free, key=lambda d: shape[d])] = name
  return PartitionSpec(*spec)


class Readers:
  """One method for each way of loading. Each returns {leaf: array} below params/params."""

  def __init__(self, item, expected, with_state):
    self.item = item
    self.step_dir = os.path.dirname(item)
    self.expected = expected
    self.with_state = with_state

  def _weights(self, tree):
    if self.with_state:
      assert tree["opt_state"] == {}, f"opt_state is {tree['opt_state']!r}"
      assert int(tree["step"]) >= 0
    return self._leaves(tree)

  @staticmethod
  def _leaves(tree):
    return {path.removeprefix("params/"): array for path, array in peer.flatten(tree["params"]).items()}

  def _abstract(self, mesh_axes=None):
    import jax
    import jax.numpy as jnp

    shardings = {}
    if mesh_axes:
      mesh = jax.make_mesh(tuple(mesh_axes.values()), tuple(mesh_axes))
      for leaf, facts in self.expected.items():
        shardings[leaf] = jax.sharding.NamedSharding(mesh, partition(facts["shape"], mesh_axes))
    leaves = {
        peer.path_of(leaf): jax.ShapeDtypeStruct(tuple(facts["shape"]), jnp.dtype(facts["dtype"]), sharding=shardings.get(leaf))
        for leaf, facts in self.expected.items()
    }
    return peer.unflatten(leaves)

  def tensorstore(self):
    names = peer.array_names(self.item)
    extra = [name for name in names if peer.leaf_of(name) is None and name != "step"]
    assert not extra, f"unexpected arrays {extra}"
    by_name = {"params." + peer.path_of(leaf).replace("/", "."): leaf for leaf in self.expected}
    arrays = {by_name.get(n, peer.leaf_of(n)): peer.open_array(self.item, n).read() for n in names if n != "step"}
    return {leaf: future.result() for leaf, future in arrays.items()}

  def pytree_handler(self):
    import orbax.checkpoint as ocp
    from etils import epath

    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    return self._weights(handler.restore(epath.Path(self.item)))

  def maxtext_call(self, mesh_axes=None):
    # Source: AI-Hypercomputer/maxtext src/maxtext/common/checkpointing.py load_params_from_path.
    import orbax.checkpoint as ocp

    params = self._abstract(mesh_axes)
    checkpointer = ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(restore_concurrent_gb=96, save_concurrent_gb=96, use_ocdbt=True, use_zarr3=True)
    )
    restore_args = ocp.checkpoint_utils.construct_restore_args(params)
    restored = checkpointer.restore(
        self.item, item={"params": params}, transforms={}, restore_args={"params": restore_args}
    )
    return self._leaves(restored)

  def standard_checkpointer(self):
    import orbax.checkpoint as ocp

    return self._weights(ocp.StandardCheckpointer().restore(self.item))

  def standard_sharded(self, mesh_axes):
    import orbax.checkpoint as ocp

    target = {"params": self._abstract(mesh_axes)}
    if self.with_state:
      target.update(step=0, opt_state={})
    return self._weights(ocp.StandardCheckpointer().restore(self.item, target))

  def checkpoint_manager(self):
    import orbax.checkpoint as ocp

    root, step = os.path.split(self.step_dir)
    with ocp.CheckpointManager(root) as manager:
      assert int(step) in manager.all_steps(), f"step {step} is not among {manager.all_steps()}"
      return self._weights(manager.restore(int(step))["items"])

  def v1_load(self):
    from orbax.checkpoint import v1 as ocp

    return self._weights(ocp.load(self.step_dir))


def on_mesh(arrays, leaves_on_mesh):
  """Checks that large enough arrays really are spread out."""
  spread = sum(1 for a in arrays.values() if len(a.sharding.device_set) == 8 and not a.is_fully_replicated)
  print(f"  {spread} of {leaves_on_mesh} leaves are sharded")
  return arrays


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("item", help="root, step or item directory")
  parser.add_argument("--expected", required=True, help="expected.json of a fixture")
  parser.add_argument("--layout", choices=["scanned", "unscanned"], required=True)
  parser.add_argument("--sharded", type=parse_mesh, metavar="fsdp=4,tensor=2", help="also load onto this mesh")
  parser.add_argument("--only", help="comma-separated names of ways, to run just these")
  args = parser.parse_args()

  import jax

  jax.config.update("jax_enable_x64", True)  # 64-bit leaves keep their type
  item = peer.item_path(args.item)
  expected = peer.load_expected(args.expected, args.layout)
  with open(os.path.join(item, "_METADATA"), encoding="utf-8") as file:
    with_state = "('step',)" in json.load(file)["tree_metadata"]
  readers = Readers(item, expected, with_state)
  ways = {
      "tensorstore": readers.tensorstore,
      "pytree_handler": readers.pytree_handler,
      "maxtext_call": readers.maxtext_call,
      "standard_checkpointer": readers.standard_checkpointer,
      "checkpoint_manager": readers.checkpoint_manager,
      "v1_load": readers.v1_load,
  }
  if args.sharded:
    mesh = args.sharded
    ways["maxtext_call sharded"] = lambda: on_mesh(readers.maxtext_call(mesh), len(expected))
    ways["standard_checkpointer sharded"] = lambda: on_mesh(readers.standard_sharded(mesh), len(expected))
  if args.only:
    ways = {name: ways[name] for name in args.only.split(",")}
  bad = 0
  for name, read in ways.items():
    try:
      found = {leaf: peer.describe(value) for leaf, value in read().items()}
    except Exception as error:  # pylint: disable=broad-except
      print(f"FAIL {name}: {type(error).__name__}: {str(error)[:2000]}")
      bad += 1
      continue
    bad += peer.compare(name, expected, found)
  sys.exit(1 if bad else 0)


if __name__ == "__main__":
  main()
