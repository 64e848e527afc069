#!/usr/bin/env python3
"""Reads trees that several processes of JAX saved together through real Orbax, bit for bit.

Two runs, of two processes with two devices each and of three with one, save a tree in every form. The forms are
OCDBT databases of each process that are merged at the end, directories, zarr2 and zarr3, with and without
replica-parallel writing, small data files, and a CheckpointManager's steps. Each process holds only its own shards.
Their values follow from their place. The test doesn't compare restored arrays, so Orbax's reading doesn't count. It
reshards one tree and compares it with the original.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import interop
import orbax_variants
import testing  # (found by interop)

RUNS = {2: (2, 2), 3: (3, 1)}  # processes: the mesh of their devices
SHAPES = {"cut": ((36, 22), ("a", "b")), "rows": ((24, 5, 3), ("a",)), "columns": ((7, 60), (None, ("a", "b"))),
          "same": ((17,), ()), "large": ((132, 702), ("b", "a")), "scalar": ((), ())}
DTYPES = {"cut": "bfloat16", "rows": "int16", "columns": "float32", "same": "float32", "large": "float32", "scalar": "int32"}


def value_of(name):
    import ml_dtypes  # pylint: disable=unused-import
    import numpy as np

    shape = SHAPES[name][0]
    count = int(np.prod(shape))
    numbers = (np.arange(count, dtype=np.int64) * 2654435761 + len(name)) % 251
    return numbers.astype(np.dtype(DTYPES[name])).reshape(shape)


def variants():
    """Returns name -> how it is saved below a path."""
    import orbax.checkpoint as ocp

    def tree(**options):
        return lambda path, what: orbax_variants.save_tree(path, what, **options)

    def cut(path, what):
        orbax_variants.save_tree(path, what, orbax_variants.chunked(what, chunk_byte_size=4096), 10000, use_zarr3=True)

    def steps(path, what):
        with ocp.CheckpointManager(path) as manager:
            for step in (3, 12):
                manager.save(step, args=ocp.args.StandardSave(what))
            manager.wait_until_finished()

    return {"usual": tree(), "zarr3": tree(use_zarr3=True), "plain": tree(use_ocdbt=False),
            "plain_zarr3": tree(use_ocdbt=False, use_zarr3=True), "raw": tree(use_zarr3=True, use_compression=False),
            "small": cut, "steps": steps,
            "no_replica_parallel": orbax_variants.with_array_handler(use_replica_parallel=False)}


def save_all(rank, count, address, folder):
    """Saves one process's shards of every variant."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, count, rank)
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(RUNS[count]), ("a", "b"))

    def sharded(name):
        value = value_of(name)
        sharding = NamedSharding(mesh, PartitionSpec(*SHAPES[name][1]))
        return jax.make_array_from_callback(value.shape, sharding, lambda at: value[at])

    what = {"params": {name: sharded(name) for name in SHAPES}}
    for name, save in variants().items():
        save(os.path.join(folder, name), what)
    return 0


def saved(tool, count, port):
    """Runs the processes, whose first one listens on the port. Returns True if all saved."""
    folder = tool.path(f"of{count}")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={2 if count == 2 else 1}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--hfshard", "-", "--folder", folder, "--address", f"127.0.0.1:{port}", "--processes", str(count)]
    running = [subprocess.Popen([*command, "--rank", str(rank)], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for rank in range(count)]
    texts = [process.communicate(timeout=2 * testing.HANG_SECONDS)[0] for process in running]
    for process, text in zip(running, texts):
        if process.returncode:
            print(f"{count} processes: {text[-1500:]}", flush=True)
    return not any(process.returncode for process in running)


def check(tool, count):
    folder = tool.path(f"of{count}")
    is_saved = testing.with_port(lambda port: saved(tool, count, port), attempts=2)
    tool.expect(is_saved, f"{count} processes: one has failed")
    if not is_saved:
        return
    expected = {f"params.{name}": value_of(name) for name in SHAPES}
    for name in variants():
        what = f"{name} of {count} processes"
        path = os.path.join(folder, name)
        item = os.path.join(path, "12", "default") if name == "steps" else path
        if name in ("usual", "zarr3", "small"):
            parts = [entry for entry in os.listdir(item) if entry.startswith("ocdbt.process_")]
            tool.expect(len(parts) == count, f"{what}: databases {parts}")
        orbax_variants.check_values(tool, item, expected, what)
        again = tool.path(f"again{count}_{name}")
        tool.run("reshard", path, again, "--mesh", "fsdp=4", "--axes", "*.large=embed,", "--quiet")
        tool.run("diff", path, again, "--quiet")
        tool.run("verify", again, path, "--quiet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True, help="the test tool: the program with --limits and dump-all")
    parser.add_argument("--rank", type=int, help="of a process that saves")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--address")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return save_all(arguments.rank, arguments.processes, arguments.address, arguments.folder)
    interop.use_peer_python()
    interop.import_peers("ml_dtypes")
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for count in RUNS:
            check(tool, count)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
