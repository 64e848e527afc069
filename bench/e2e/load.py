#!/usr/bin/env python3
"""Measures how much each host reads and how long it takes, by the layout of a checkpoint. Needs the peers: run it with their Python, or name
that in HFSHARD_PEER_PYTHON.

A process that holds all shards reads all bytes whatever the layout; only hosts show the difference. So one host of 8
and one of 16 are emulated (load_host.py): a fresh process reads its slice of every leaf through TensorStore, with the
specs and the context that Orbax's own functions make. The source has Qwen3-0.6B's shape (random weights, 1.19 GB),
layers stacked:

a    what MaxText's converter saves with simulated_cpu_devices_count=1 (load_save.py makes MaxText's calls; the tree and
     the values are ours, MaxText itself does not run)
a16  the same with its default, 16 simulated devices
b    hfshard convert, no --mesh
c    hfshard convert --mesh fsdp=16
d    hfshard link --mesh fsdp=16, if the program has it

Times are from before the first open until all is read, with the page cache warm, and for a and c also cold. They leave out
Orbax's other work (_METADATA, devices), which is the same for all. For b, c and d the bytes and requests of *every* host
are also counted, and must be those that the chunk grid in `plan` implies, and those that `plan --load-mesh` predicts
where the program has that. Then two real JAX processes restore c.

Exit status 1 when a value is wrong, a count differs from a prediction, a host of 16 reads more than 1.02 times its
share of c, or c is not 10 times faster than a for a host of 16 (the last for the full model only).
"""

import importlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("numpy", "ml_dtypes", "jax", "flax", "tensorstore", "orbax.checkpoint")
SKIP_STATUS = 77
MOST_OVER_READ = 1.02
LEAST_SPEEDUP = 10
ITEM_BYTES = 2  # bf16, all of this model
CRC_BYTES = 4


def use_peers():
    """Goes on under HFSHARD_PEER_PYTHON if that is set; ends the bench when a peer is missing."""
    wanted = os.environ.pop("HFSHARD_PEER_PYTHON", "")
    if wanted and wanted != sys.executable:
        os.execv(wanted, [wanted, *sys.argv])
    for name in PEERS:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"PEER MISSING {name}: {error}")
            sys.exit(SKIP_STATUS)


def parse():
    parser = measure.arguments(__doc__, runs=5)
    parser.add_argument("--layers", type=int, default=measure.QWEN3_06B["num_hidden_layers"],
                        help="layers of the model (default 28)")
    parser.add_argument("--vocab", type=int, default=measure.QWEN3_06B["vocab_size"],
                        help="rows of the embedding (default 151936)")
    parser.add_argument("--hosts", type=int, nargs="+", default=[8, 16], help="hosts to emulate one of (default 8 16)")
    parser.add_argument("--predict", action="store_true", help="only compare what is read with the predictions; measure no time")
    return parser.parse_args()


class Leaf:
    """A leaf of `plan`: its shape, its chunks, and its shards on the mesh of the plan."""

    def __init__(self, facts):
        self.name, self.shape, self.chunk = facts["path"], facts["shape"], facts["chunk"]
        self.shard = facts["shard"]
        self.suffix = 0 if facts.get("linked") else CRC_BYTES
        split = [axis for axis, (size, part) in enumerate(zip(self.shape, self.shard)) if part < size]
        if len(split) > 1 or facts["dtype"] != "bf16":
            sys.exit(f"{self.name} is not what this bench expects: {facts}")
        self.axis = split[0] if split else None

    def block(self, host):
        """[begin, end) per axis of what a host needs."""
        out = [[0, size] for size in self.shape]
        if self.axis is not None:
            out[self.axis] = [host * self.shard[self.axis], (host + 1) * self.shard[self.axis]]
        return out

    def share(self):
        return math.prod(self.shard) * ITEM_BYTES

    def chunks_of(self, block):
        """Positions of the chunks that a block touches."""
        return set(itertools.product(*[range(begin // size, (end - 1) // size + 1)
                                       for (begin, end), size in zip(block, self.chunk)]))

    def stored(self):
        """Bytes of one chunk in the file."""
        return math.prod(self.chunk) * ITEM_BYTES + self.suffix


class Layout:
    """One checkpoint: where it is, and the words of `plan` that tell its chunks (None: `plan` does not know them)."""

    def __init__(self, label, text, root, words):
        self.label, self.text, self.root, self.words = label, text, root, words
        self.item = os.path.join(root, "0", "items")

    def folders(self):
        """Where its bytes are; those of a linked one are the source's, by other names."""
        return [folder for folder, _, files in os.walk(self.root) if files]


class Bench:
    """The files and the commands of one session."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.source = os.path.join(folder, "source")
        self.failures = []
        config = measure.QWEN3_06B | {"num_hidden_layers": options.layers, "vocab_size": options.vocab}
        self.bytes = measure.make_example(options.hfshard, self.source, config)
        self.is_full = options.layers >= 28 and options.vocab >= 151936
        self.plans = {}

    def fail(self, sentence):
        self.failures.append(sentence)
        print(f"FAILED: {sentence}", flush=True)

    def plan(self, *words):
        """`plan --json` with these words, made once."""
        if words not in self.plans:
            done = measure.run([self.options.hfshard, "plan", self.source, "--json", "--quiet", *words])
            self.plans[words] = json.loads(done.output)
        return self.plans[words]

    def leaves(self, *words):
        return [Leaf(facts) for facts in self.plan(*words)["leaves"]]

    def has(self, words, text=""):
        """Whether the program knows this command, and its help this option."""
        done = subprocess.run([self.options.hfshard, *words, "--help"], capture_output=True, text=True, check=False)
        return done.returncode == 0 and text in done.stdout

    def out(self, name):
        return os.path.join(self.folder, name)

    def make(self):
        """All layouts, on the disk."""
        mesh = ("--mesh", "fsdp=16")
        ours = [Layout("b", "hfshard, no --mesh", self.out("b"), ()),
                Layout("c", "hfshard, fsdp=16", self.out("c"), mesh)]
        for layout in ours:
            measure.run([self.options.hfshard, "convert", self.source, layout.root, "--layers", "stacked", "--quiet",
                         *layout.words])
            measure.run([self.options.hfshard, "verify", layout.root, self.source, "--quiet"])
        theirs = [Layout("a", "MaxText's, 1 device", self.out("a"), None),
                  Layout("a16", "MaxText's, 16 devices", self.out("a16"), None)]
        for layout, devices in zip(theirs, ("1", "16")):
            measure.run([sys.executable, os.path.join(HERE, "load_save.py"), ours[1].item, layout.root, devices])
        layouts = theirs + ours
        if self.has(["link"]):
            layouts.append(Layout("d", "hfshard link, fsdp=16", self.out("d"), ("--link", *mesh)))
            measure.run([self.options.hfshard, "link", self.source, layouts[-1].root, "--quiet", *mesh])
        return layouts

    def task(self, layout, hosts, chosen):
        """Writes the task file for load_host.py."""
        from orbax.checkpoint._src.serialization import tensorstore_utils

        leaves = self.leaves("--mesh", f"fsdp={hosts}")
        specs = {leaf.name: tensorstore_utils.ArrayReadSpec(layout.item, leaf.name, True, use_ocdbt=True).json
                 for leaf in leaves}
        context = tensorstore_utils.get_ts_context(use_ocdbt=True).spec.to_json()
        path = os.path.join(self.folder, "task.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"context": context, "specs": specs,
                       "hosts": [{leaf.name: leaf.block(host) for leaf in leaves} for host in chosen]}, file)
        return path

    def read(self, layout, hosts, chosen):
        done = measure.run([sys.executable, os.path.join(HERE, "load_host.py"), self.task(layout, hosts, chosen),
                            "--source", self.source])
        return json.loads(done.output)

    def case(self, layout, hosts, cache):
        """The timed runs of the middle host."""
        out = []
        for _ in range(self.options.runs):
            for folder in layout.folders():
                (measure.drop_cache if cache == "cold" else measure.fill_cache)(folder)
            out += self.read(layout, hosts, [hosts // 2])
        if len({(run["data_bytes"], run["requests"]) for run in out}) != 1:
            self.fail(f"{layout.label}: the runs of one host read different amounts")
        return out

    def share(self, hosts):
        return sum(leaf.share() for leaf in self.leaves("--mesh", f"fsdp={hosts}"))

    def implied(self, layout, hosts, members):
        """(bytes, requests) of a process that needs the blocks of these hosts, by the chunk grid."""
        written = {leaf.name: leaf for leaf in self.leaves(*layout.words)}
        size = count = 0
        for leaf in self.leaves("--mesh", f"fsdp={hosts}"):
            grid = written[leaf.name]
            touched = set().union(*[grid.chunks_of(leaf.block(host)) for host in members])
            size += len(touched) * grid.stored()
            count += len(touched)
        return size, count

    def predicted(self, layout, devices, devices_per_host=1):
        """Per host (bytes needed, bytes read, requests), as the program says; None if it does not say."""
        more = ["--devices-per-host", str(devices_per_host)] if devices_per_host > 1 else []
        if not self.has(["plan"], "--load-mesh") or (more and not self.has(["plan"], more[0])):
            return None
        mesh = f"fsdp={devices}"
        loads = self.plan(*layout.words, "--load-mesh", mesh, *more)["loads"]
        load = next(load for load in loads if load["mesh"] == mesh)
        return [(host["needed_bytes"], host["read_bytes"], host["requests"]) for host in load["per_host"]]

    def count_all(self, layout, hosts):
        """Every host's bytes and requests, beside what they should be. Returns the row."""
        found = self.read(layout, hosts, range(hosts))
        read = [(run["data_bytes"], run["requests"]) for run in found]
        implied = [self.implied(layout, hosts, [host]) for host in range(hosts)]
        if read != implied:
            self.fail(f"{layout.label}, {hosts} hosts: read {read[0]}, the grid implies {implied[0]} (first host)")
        predicted = self.predicted(layout, hosts)
        said = "no prediction in this build"
        if predicted is not None:
            wanted = [(self.share(hosts), *one) for one in read]
            said = "exact" if predicted == wanted else "WRONG"
            if predicted != wanted:
                host = next(k for k in range(hosts) if predicted[k] != wanted[k])
                self.fail(f"{layout.label}, host {host} of {hosts}: needs, reads and requests {wanted[host]}, "
                          f"predicted {predicted[host]}")
        most = max(size for size, _ in read)
        ratio = most / self.share(hosts)
        if layout.label == "c" and hosts == 16 and ratio > MOST_OVER_READ:
            self.fail(f"a host of 16 reads {ratio:.3f} of its share of c")
        return [layout.label, hosts, f"{self.share(hosts) / measure.MIB:.2f}", f"{most / measure.MIB:.2f}",
                f"{ratio:.4f}", max(count for _, count in read), said]

    def two_processes(self, layout, devices):
        """Two JAX processes with so many devices each. Returns the row."""
        import load_two

        meshes = 2 * devices
        leaves = {leaf.name: (leaf.shape, leaf.axis) for leaf in self.leaves("--mesh", f"fsdp={meshes}")}
        found = load_two.run(self.folder, layout.item, self.source, leaves, devices)
        wanted = [self.implied(layout, meshes, range(devices * k, devices * (k + 1))) for k in range(2)]
        read = [(size, count) for size, count, _ in found]
        grid, said = "not checked: no strace", "no prediction in this build"
        if all(traced for _, _, traced in found):
            grid = "exact" if read == wanted else "WRONG"
            if read != wanted:
                self.fail(f"two processes of {devices} devices read {read}, the grid implies {wanted}")
            predicted = self.predicted(layout, meshes, devices)
            if predicted is not None:
                said = "exact" if [one[1:] for one in predicted] == read else "WRONG"
                if said == "WRONG":
                    self.fail(f"two processes read {read}, predicted {predicted}")
        return [f"fsdp={meshes}", devices, *[f"{size / measure.MIB:.2f}" for size, _ in read],
                *[count for _, count in read], grid, said]


def time_all(bench, layouts, times):
    """The timed table; returns its rows and the median of each (label, hosts) with a warm cache."""
    rows = [["layout", "hosts", "cache", "s: min", "median", "max", "read, MiB", "of share", "requests", "index, KiB",
             "peak, MiB"]]
    medians = {}
    for layout in layouts:
        for hosts in bench.options.hosts:
            for cache in ("warm", "cold") if layout.label in ("a", "c") else ("warm",):
                runs = bench.case(layout, hosts, cache)
                seconds = [run["seconds"] for run in runs]
                times[f"load/{layout.label}/{hosts}/{cache}"] = seconds
                if cache == "warm":
                    medians[layout.label, hosts] = statistics.median(seconds)
                rows.append([f"{layout.label}: {layout.text}", hosts, cache,
                             *[f"{value:.3f}" for value in (min(seconds), statistics.median(seconds), max(seconds))],
                             f"{runs[0]['data_bytes'] / measure.MIB:.1f}",
                             f"{runs[0]['data_bytes'] / bench.share(hosts):.3f}", runs[0]["requests"],
                             f"{runs[0]['index_bytes'] / 1024:.0f}",
                             f"{max(run['peak_bytes'] for run in runs) / measure.MIB:.0f}"])
                print(f"   {layout.label}, host of {hosts}, {cache}: {statistics.median(seconds):.3f} s", flush=True)
    return rows, medians


def print_times(bench, layouts, times):
    """Measures the loads of one host, and compares the slowest layout with the fastest one."""
    cold = measure.drop_cache(bench.source)
    print(f"{bench.options.runs} runs a case; warm: read before; cold by {cold}", flush=True)
    rows, medians = time_all(bench, layouts, times)
    if layouts[-1].label != "d":
        rows.append(["d: no link in this build", *[""] * (len(rows[0]) - 1)])
    print("\nOne host, the middle one:\n")
    measure.print_table(rows)
    if ("a", 16) in medians and ("c", 16) in medians:
        speedup = medians["a", 16] / medians["c", 16]
        print(f"\na / c for a host of 16: {speedup:.1f} times")
        if bench.is_full and speedup < LEAST_SPEEDUP:
            bench.fail(f"c loads only {speedup:.1f} times faster than a on a host of 16")


def main():
    use_peers()
    options = parse()
    times = {}
    with measure.work_folder(options) as folder:
        measure.describe_machine(folder)
        bench = Bench(options, folder)
        print(f"source: {bench.bytes} bytes", flush=True)
        layouts = bench.make()
        if not options.predict:
            print_times(bench, layouts, times)
        print("\nEvery host, against the grid and `plan --load-mesh`:\n")
        measure.print_table([["layout", "hosts", "share, MiB", "most read, MiB", "of share", "requests", "predicted"],
                             *[bench.count_all(layout, hosts) for layout in layouts if layout.words is not None
                               for hosts in options.hosts]])
        print("\nTwo JAX processes restore c:\n")
        chosen = next(layout for layout in layouts if layout.label == "c")
        measure.print_table([["mesh", "devices each", "read by first, MiB", "by second", "requests of first",
                              "of second", "by the grid", "by plan"],
                             *[bench.two_processes(chosen, devices) for devices in (1, 8)]])
    measure.write_json(options.json, times)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
