#!/usr/bin/env python3
"""Two real JAX processes restore an Orbax item over one mesh, with MaxText's call; load.py starts them.

    load_two.py child ITEM SOURCE LEAVES.json PROCESS PORT DEVICES FACTS.json

Each process has DEVICES simulated CPU devices; the mesh is fsdp over those of both. LEAVES.json gives the shape of each
leaf and the axis that fsdp splits (null: replicated). Each process compares its shards of three leaves with the source.
strace counts the bytes that each process reads from the data files. Without strace, TensorStore counts them, including
the index. Each process writes its findings to FACTS.json, because JAX's libraries also write to standard output.
"""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "tests", "support"))

import testing  # noqa: E402  (a module of tests/support)

TIMEOUT_SECONDS = 600
READ = re.compile(r"^(\d+) +p?read(?:64|v2?)?\(\d+<([^>]*)>.*?(?:= (\d+)|<unfinished \.\.\.>)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. p?read(?:64|v2?)? resumed>.*= (\d+)$")


def reads_of(trace):
    """(path, bytes) of every read in an output of strace -f -y."""
    pending = {}
    with open(trace, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := READ.match(line.rstrip()):
                thread, path, count = match.groups()
                if count is None:
                    pending[thread] = path
                else:
                    yield path, int(count)
            elif match := RESUMED.match(line.rstrip()):
                thread, count = match.groups()
                if thread in pending:
                    yield pending.pop(thread), int(count)


def data_reads(trace, item):
    """(bytes, reads) of the data files of an item that hfshard wrote."""
    folder = os.path.join(os.path.realpath(item), "d")
    found = [count for path, count in reads_of(trace)
             if os.path.dirname(path) == folder and os.path.basename(path) != "btree"]
    return sum(found), len(found)


def traced(command, trace):
    """Returns the command under strace, or unchanged without strace."""
    if not shutil.which("strace"):
        return command
    calls = "trace=read,pread64,preadv,preadv2"
    return ["strace", "-f", "-y", "--seccomp-bpf", "-qq", "-s", "0", "-e", calls, "-o", trace, *command]


def restored(folder, item, source, leaves, devices, port):
    """Runs both processes to their end. Returns their facts and traces, or None if one failed."""
    task = os.path.join(folder, "two.json")
    with open(task, "w", encoding="utf-8") as file:
        json.dump(leaves, file)
    processes, traces, found = [], [], []
    for number in range(2):
        traces.append(os.path.join(folder, f"two.{number}.strace"))
        found.append(os.path.join(folder, f"two.{number}.json"))
        command = [sys.executable, os.path.abspath(__file__), "child", item, source, task, str(number), str(port),
                   str(devices), found[-1]]
        processes.append(subprocess.Popen(traced(command, traces[-1]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    try:
        ends = [process.communicate(timeout=TIMEOUT_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (out, err) in zip(processes, ends):
        if process.returncode != 0:
            print(f"one of two JAX processes ended with {process.returncode}\n{out}{err[-4000:]}", flush=True)
            return None
    return list(zip(found, traces))


def run(folder, item, source, leaves, devices):
    """Both processes to their end; (bytes, reads, by strace) of each. A second failure ends the bench."""
    done = testing.with_port(lambda port: restored(folder, item, source, leaves, devices, port), attempts=2)
    if done is None:
        sys.exit("the two JAX processes failed twice")
    facts = []
    for path, trace in done:
        by_strace = os.path.exists(trace)
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        facts.append((*(data_reads(trace, item) if by_strace else (said["bytes"], said["requests"])), by_strace))
    return facts


def restore(item, shapes, mesh):
    """MaxText's call: AI-Hypercomputer/maxtext src/maxtext/common/checkpointing.py load_params_from_path."""
    import jax
    import orbax.checkpoint as ocp
    import orbax_peer as peer
    from jax.sharding import NamedSharding, PartitionSpec

    abstract = {}
    for name, (shape, axis) in shapes.items():
        spec = [None] * len(shape)
        if axis is not None:
            spec[axis] = "fsdp"
        leaf = name.removeprefix("params.").replace(".", "/")
        abstract[leaf] = jax.ShapeDtypeStruct(tuple(shape), jax.numpy.bfloat16,
                                              sharding=NamedSharding(mesh, PartitionSpec(*spec)))
    params = peer.unflatten(abstract)
    checkpointer = ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(restore_concurrent_gb=96, save_concurrent_gb=96, use_ocdbt=True, use_zarr3=True))
    restore_args = ocp.checkpoint_utils.construct_restore_args(params)
    restored = checkpointer.restore(item, item={"params": params}, transforms={}, restore_args={"params": restore_args})
    return {"params." + leaf.replace("/", "."): array for leaf, array in peer.flatten(restored["params"]).items()}


def child(item, source, task, number, port, devices, facts):
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(here, os.pardir, os.pardir, "tests", "interop", "peers"))
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import jax
    import load_host
    import numpy as np

    with open(task, encoding="utf-8") as file:
        shapes = json.load(file)
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(number))
    if jax.process_count() != 2 or jax.device_count() != 2 * int(devices):
        sys.exit(f"{jax.process_count()} processes, {jax.device_count()} devices")
    mesh = jax.make_mesh((jax.device_count(),), ("fsdp",))
    arrays = restore(item, shapes, mesh)
    total, requests = load_host.file_metrics()
    wanted = load_host.Source(source)
    for name in load_host.CHECKED:
        for shard in arrays[name].addressable_shards:
            wanted.check(name, shard.index, np.asarray(shard.data))
    with open(facts, "w", encoding="utf-8") as file:
        json.dump({"bytes": total, "requests": requests}, file)


if __name__ == "__main__":
    if len(sys.argv) != 9 or sys.argv[1] != "child":
        sys.exit(__doc__)
    child(*sys.argv[2:])
