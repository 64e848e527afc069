#!/usr/bin/env python3
"""Saves the arrays of an Orbax item once more, the way MaxText's converter saves them.

    load_save.py ITEM OUT DEVICES

This makes the calls of MaxText and does not run MaxText: what they are given has the same tree, shapes and bits. With
one device (simulated_cpu_devices_count=1) leaves stay numpy arrays, and each becomes one chunk. With more they become
jax.Arrays over that many simulated devices: split on axis 0 if that divides, else on axis 1, else replicated.

Sources: AI-Hypercomputer/maxtext src/maxtext/checkpoint_conversion/utils/utils.py shard_jax_weights and
save_weights_to_checkpoint, src/maxtext/common/checkpointing.py create_orbax_checkpoint_manager and save_checkpoint.
"""

import logging
import os
import sys

ITEM, OUT, DEVICES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "tests", "interop",
                                "peers"))

import jax  # noqa: E402, needs the environment set above
import numpy as np  # noqa: E402
import orbax.checkpoint as ocp  # noqa: E402
from flax.training import train_state  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from orbax.checkpoint.checkpoint_managers import FixedIntervalPolicy, LatestN  # noqa: E402

import orbax_peer as peer  # noqa: E402

AXIS = "checkpoint_sharding_axis"
FILE_BYTES = 2**31


def weights():
    """The tree below params/params, as numpy arrays."""
    prefix = "params.params."
    arrays = {name.removeprefix(prefix).replace(".", "/"): peer.open_array(ITEM, name).read()
              for name in peer.array_names(ITEM) if name.startswith(prefix)}
    return peer.unflatten({leaf: np.asarray(future.result()) for leaf, future in arrays.items()})


def split(array):
    mesh = jax.sharding.Mesh(jax.devices(), AXIS)
    spec = PartitionSpec()
    if array.shape[0] % DEVICES == 0:
        spec = PartitionSpec(AXIS)
    elif array.ndim > 1 and array.shape[1] % DEVICES == 0:
        spec = PartitionSpec(None, AXIS)
    return jax.device_put(array, NamedSharding(mesh, spec))


def main():
    logging.getLogger("absl").setLevel(logging.ERROR)
    tree = weights()
    if DEVICES > 1:
        tree = jax.tree.map(split, tree)
    state = train_state.TrainState(step=0, apply_fn=None, params={"params": tree}, tx=None, opt_state={})
    handler = ocp.PyTreeCheckpointHandler(restore_concurrent_gb=96, save_concurrent_gb=96, use_ocdbt=True,
                                          use_zarr3=True)
    options = ocp.CheckpointManagerOptions(create=True, enable_async_checkpointing=False,
                                           save_decision_policy=FixedIntervalPolicy(interval=1),
                                           preservation_policy=LatestN(10))
    handlers = {"items": handler}
    with ocp.CheckpointManager(OUT, item_names=("items",), item_handlers=handlers, options=options) as manager:
        save_args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=FILE_BYTES), state)
        items = ocp.args.PyTreeSave(item=state, save_args=save_args, ocdbt_target_data_file_size=FILE_BYTES)
        if not manager.save(0, args=ocp.args.Composite(items=items)):
            sys.exit("Orbax saved nothing")


if __name__ == "__main__":
    main()
