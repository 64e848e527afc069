#!/usr/bin/env python3
"""Checks that anonymous and mapped memory stay within --max-memory, with full-size sparse models and `--to null`.

The models are DeepSeek-V3 671B (FP8 and its scales), gpt-oss-120b (MXFP4) and Llama-3.1-405B, at 512 MiB and at 2 GiB.
The test runs `plan`, and some of the shares of 2 GiB of output that `convert --worker I/N` makes. For Llama, it also
runs a share of compressed chunks, to the disk. They run under `ulimit -d` of their --max-memory, which refuses an
allocation too many. They also run in a cgroup with the same memory and no swap, which would kill them. At 512 MiB, each
share runs in both. At 2 GiB, one share runs in each. If the test can't make a cgroup, it prints that and does the rest.
With --whole, it converts each model from end to end instead, in both (an hour and a half).
With --short, as in the gate, it runs one share of each kind at 512 MiB only, and compares two depths of one model.

A model of the same widths (812 GB) is an Orbax source in two forms. In the linked form, a layer is exported to Hugging
Face files, and the embedding is resharded. In the form that real Orbax stores, stacks are in chunks of all layers, one
for each of 16 devices. One layer of a stack of 4 GB, and one of 219 GB, are exported through files. No plan needs more
than a few layers of these, and another mesh needs none.

Then the test uses one --max-memory for a model of two layers and the full one, and for two models whose embeddings
differ eightfold. The peaks, without the names and rules of each, differ by at most the one piece of work that a full
arena may lack.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile

import sparse_orbax
import watch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = (("deepseek", "deepseek3-671b"), ("gpt_oss", "gpt-oss-120b"), ("llama", "llama3.1-405b"))
BUDGETS = {"512MiB": 512 * watch.MIB, "2GiB": 2 * watch.GIB}
LEAST_MEMORY = "512MiB"
# An arena is full if the next piece of work doesn't fit. This much of it may never be touched.
MOST_SLOPE_MIB = 48
SHARE_BYTES = 2 * watch.GIB
MOST_SECONDS = 3600
TO_NULL = ("--to", "null")
SKIP_STATUS = 77
LEAST_MACHINE_BYTES = 7 * watch.GIB // 2  # what a machine of 4 GiB has
LEAST_DISK_BYTES = 5 * 10**9


def expect(condition, sentence):
    if not condition:
        print(f"FAIL: {sentence}")
        sys.exit(1)


def mib(count):
    return f"{count / watch.MIB:.1f}"


def published(family, size):
    """Returns the config.json that the rules of a family list for a size."""
    with open(os.path.join(ROOT, "mappings", f"{family}.json"), encoding="ascii") as file:
        sizes = json.load(file)["sizes"]
    if "models" not in sizes:
        return sizes[size]
    row = sizes["models"][size]
    while isinstance(row, str):  # another name for a size
        row = sizes["models"][row]
    keys, own = sizes["keys"], len(sizes["keys"])
    config = {}
    for path, value in (sizes["all"] | dict(zip(keys, row)) | (row[own] if len(row) > own else {})).items():
        at = config
        *parents, name = path.split(".")
        for parent in parents:
            at = at.setdefault(parent, {})
        at[name] = value
    return config


def check_sparse(folder):
    """Ends the test if holes take disk space, since the models have up to 750 GB. Skips it on a small machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = shutil.disk_usage(folder).free
    if memory < LEAST_MACHINE_BYTES or free < LEAST_DISK_BYTES:
        print(f"NOT DONE: this test needs 4 GiB of memory and 5 GB in {folder}; this machine has {mib(memory)} MiB and "
              f"{free / 1e9:.1f} GB")
        sys.exit(SKIP_STATUS)
    path = os.path.join(folder, "hole")
    with open(path, "wb") as file:
        file.truncate(watch.GIB)
        used = os.fstat(file.fileno()).st_blocks * 512
    os.remove(path)
    expect(used < watch.MIB, f"{folder} is on a file system without sparse files ({used} bytes for a hole of 1 GiB); "
           "choose another one with --work")


class Memory:
    """The program under test, and the place where its sources are made."""

    def __init__(self, arguments, folder):
        self.hfshard = os.path.abspath(arguments.hfshard)
        self.jobs = ["--jobs", str(arguments.jobs)]
        self.shares = arguments.shares
        self.whole = arguments.whole
        self.short = arguments.short
        self.folder = folder
        self.group_refusal = ""

    def make(self, family, name, config):
        """Makes a sparse checkpoint. Returns its path."""
        path = os.path.join(self.folder, name)
        with open(path + ".json", "w", encoding="ascii") as file:
            json.dump(config, file)
        made = watch.json_of(watch.run([self.hfshard, "mappings", "example", family, path, "--config", path + ".json",
                                        "--sparse", "--json", "--quiet"]))
        print(f"{name}: {made['tensors']} tensors, {made['data_bytes'] / 1e9:.1f} GB, sparse", flush=True)
        return path

    def make_linked(self, name):
        """Makes a sparse checkpoint with MaxText's names over the files of a Hugging Face one. Queries of Qwen3
        aren't scaled."""
        widths = {key: value for key, value in published(*MODELS[-1]).items() if key != "model_type"}
        source = self.make("qwen3", name, published("qwen3", "qwen3-0.6b") | widths)
        watch.json_of(watch.run([self.hfshard, "link", source, source + "-linked", "--json", "--quiet"]))
        return source + "-linked"

    def make_orbax(self, model):
        """Makes a sparse checkpoint in real Orbax's layout, for a model in tests/oracle/trees."""
        path = os.path.join(self.folder, model + "-orbax")
        print(f"{model}: {sparse_orbax.write(path, model) / 1e9:.1f} GB, sparse", flush=True)
        return path

    def plan(self, source, memory, words=TO_NULL, **limits):
        """Returns the output of `plan --json`, and how it ran."""
        done = watch.run([self.hfshard, "plan", source, *words, "--json", "--max-memory", memory, *self.jobs], **limits)
        return watch.json_of(done), done

    def share(self, source, memory, share, shares, words=TO_NULL, command="convert", **limits):
        """Converts one share."""
        done = watch.run([self.hfshard, command, source, *words, "--json", "--max-memory", memory,
                          "--worker", f"{share}/{shares}", *self.jobs], timeout=MOST_SECONDS, **limits)
        expect(watch.json_of(done)["written_bytes"] > 0, f"an empty share: {done}")
        return done

    def in_group(self, budget, work):
        """Runs `work(group)` in a cgroup that holds `budget`. Returns None if that isn't possible."""
        group = watch.make_group(budget)
        if isinstance(group, str):
            self.group_refusal = group
            return None
        with group:
            done = work(group)
        expect(done.oom_kills == 0, f"killed for memory within a cgroup of {mib(budget)} MiB: {done}")
        return done


def share_count(plan):
    return max(1, plan["output_bytes"] // SHARE_BYTES)


def chosen(shares, count):
    """Returns `count` of the shares, the first one and the middle one before others. Units follow the order of the
    source."""
    if count == 1:
        return [shares // 2]
    return sorted({(shares - 1) * k // (count - 1) for k in range(count)})


def check_model(memory, source, text, budget):
    """Runs `plan` and some shares, under each kind of limit. Returns a row of the table."""
    data = {"limits": {resource.RLIMIT_DATA: budget}}
    plan, planned = memory.plan(source, text, **data)
    shares = 1 if memory.whole else share_count(plan)
    memory.in_group(budget, lambda group: memory.plan(source, text, group=group)[1])
    limited, grouped = [planned], []
    wanted = chosen(shares, memory.shares)
    in_both = len(wanted) == 1 or text == LEAST_MEMORY  # the least memory is the tightest limit
    for number, share in enumerate(wanted):
        if in_both or number % 2 == 0:
            limited.append(memory.share(source, text, share, shares, **data))
        if in_both or number % 2 == 1:
            done = memory.in_group(budget, lambda group, share=share: memory.share(source, text, share, shares, group=group))
            grouped += [done] if done else []
    for done in limited + grouped:
        expect(done.peak_bytes <= budget,
               f"VmHWM is {mib(done.peak_bytes)} MiB with --max-memory {text}: {' '.join(done.command)}")
    most = [max(getattr(done, name) for done in limited + grouped)
            for name in ("peak_bytes", "anonymous_bytes", "mapped_bytes")]
    group = [max((getattr(done, name) for done in grouped), default=0)
             for name in ("group_anonymous_bytes", "group_bytes")]
    seconds = max(done.seconds for done in limited + grouped)
    return [os.path.basename(source), text, plan["files"], mib(plan["need_memory_bytes"]),
            mib(plan["peak_memory_bytes"]), mib(planned.peak_bytes), *map(mib, most), *map(mib, group),
            f"{seconds:.1f}"]


def check_compressed(memory, source, text, budget):
    """Writes a share of compressed chunks to the disk. They are zeros, of which little is left. The encoder's state
    counts too."""
    compress = ("--compress", "zstd:19")
    data = {"limits": {resource.RLIMIT_DATA: budget}}
    plan, _ = memory.plan(source, text, compress, **data)
    shares = share_count(plan)
    out = os.path.join(memory.folder, "compressed-" + text)
    share = lambda **limits: memory.share(source, text, shares // 2, shares, (out, *compress), **limits)
    limited = share(**data)
    expect(watch.json_of(limited)["written_bytes"] < SHARE_BYTES / 8, f"zeros were not compressed: {limited}")
    watch.run([memory.hfshard, "clean", out])
    grouped = memory.in_group(budget, lambda group: share(group=group))
    most = max(done.peak_bytes for done in (limited, grouped) if done)
    print(f"{os.path.basename(source)} zstd:19, {text}: {mib(plan['need_memory_bytes'])} MiB needed, "
          f"{mib(plan['peak_memory_bytes'])} claimed, VmHWM {mib(most)}", flush=True)
    expect(most <= budget, f"VmHWM is {mib(most)} MiB with --max-memory {text}: {' '.join(limited.command)}")


def check_way_back(memory):
    """Exports and reshards shares of Orbax trees."""
    model = MODELS[-1][1]
    linked, stored = memory.make_linked("405b"), memory.make_orbax(model)
    out = os.path.join(memory.folder, "back")
    back = (out, "--to", "safetensors", "--include")
    layer = ("convert", linked, (*back, "model.layers.63.*", "--shard-bytes", "512MiB"), 1, 8)
    embedding = ("reshard", linked, (*TO_NULL, "--mesh", "fsdp=16", "--include", "*.embedding"), 3, 8)
    config = ("--config", os.path.join(memory.folder, model))
    # A share of one is published, so each has a directory of its own.
    few = ("convert", stored, (out + "-few", *back[1:], "model.layers.63.self_attn.k_proj.weight", *config), 0, 1)
    single = ("convert", stored, (out + "-single", *back[1:], "model.layers.63.mlp.gate_proj.weight", *config), 0, 1)
    scratch = memory.plan(stored, LEAST_MEMORY, ("--to", "safetensors", *config))[0]["scratch_bytes"]
    print(f"{model}, back: {scratch / 1e9:.1f} GB of disk for a while", flush=True)
    expect(scratch <= 16e9, "stacks are unpacked whole")
    again = watch.json_of(watch.run([memory.hfshard, "reshard", stored, *TO_NULL, "--mesh", "fsdp=32", "--dry-run", *config,
                                     "--max-memory", LEAST_MEMORY, "--json"]))
    expect(again["scratch_bytes"] == 0, f"{again['scratch_bytes']} bytes of disk for another mesh")
    rows = [["source", "what", "--max-memory", "written, MB", "VmHWM", "anonymous", "mapped", "group all", "seconds"]]
    work = [(layer, "512MiB"), (few, "512MiB"), (embedding, "512MiB")]
    if not memory.short:
        work += [(layer, "2GiB"), (embedding, "2GiB"), (single, "512MiB")]
    for what, text in work:
        command, source, words, share, shares = what
        run = lambda what=what, text=text, **limits: memory.share(what[1], text, *what[3:], what[2], what[0], **limits)
        done = [run(limits={resource.RLIMIT_DATA: BUDGETS[text]})]
        if words[0].startswith(out):
            watch.run([memory.hfshard, "clean", out])
        elif text == LEAST_MEMORY:
            done += [one for one in [memory.in_group(BUDGETS[text], lambda group, run=run: run(group=group))] if one]
        peaks = [max(getattr(one, name) for one in done) for name in ("peak_bytes", "anonymous_bytes", "mapped_bytes", "group_bytes")]
        rows.append([os.path.basename(source), f"{command} {share}/{shares}", text,
                     f"{watch.json_of(done[0])['written_bytes'] / 1e6:.0f}", *map(mib, peaks), f"{done[0].seconds:.1f}"])
        expect(peaks[0] <= BUDGETS[text], f"VmHWM is {mib(peaks[0])} MiB with --max-memory {text}: {' '.join(done[0].command)}")
    print_table(rows)


def peak_without_plan(memory, source, wanted):
    """Returns the highest peak of the shares at LEAST_MEMORY, without the plan's own share: names, not bytes."""
    plan, _ = memory.plan(source, LEAST_MEMORY)
    shares = share_count(plan)
    done = [memory.share(source, LEAST_MEMORY, share, shares) for share in wanted(shares)]
    return max(one.peak_bytes for one in done) - plan["control_memory_bytes"]


def check_slope(memory):
    """Checks one family: a model of 2 layers, the full one, and one with an embedding eight times as large."""
    family, size = "gpt_oss", "gpt-oss-120b"
    config = published(family, size)
    few = memory.make(family, "few-layers", config | {"num_hidden_layers": 2})
    full = os.path.join(memory.folder, size)
    rows = [["grows", "peak of the smaller, MiB", "of the larger", "difference"]]
    pairs = [("number of layers", few, full, lambda shares: [shares // 2])]
    if not memory.short:
        large = memory.make(family, "large-embedding", config | {"vocab_size": 8 * config["vocab_size"]})
        pairs.append(("largest tensor", full, large, lambda shares: [0, shares - 1]))
    for what, smaller, larger, wanted in pairs:
        peaks = [peak_without_plan(memory, source, wanted) for source in (smaller, larger)]
        rows.append([what, *map(mib, peaks), mib(peaks[1] - peaks[0])])
    print_table(rows)
    for row in rows[1:]:
        expect(float(row[-1]) <= MOST_SLOPE_MIB, f"memory grows with the {row[0]}")


def print_table(rows):
    widths = [max(len(str(row[k])) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).rjust(width) for cell, width in zip(row, widths)))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("--work", help="where the sparse models are made (default: the directory for temporary files)")
    parser.add_argument("--jobs", type=int, default=48,
                        help="threads (default 48: so many may hold more than 2 GiB, so that --max-memory binds)")
    parser.add_argument("--shares", type=int, default=2, help="data files of each model that are converted (default 2)")
    parser.add_argument("--whole", action="store_true", help="convert the models from end to end")
    parser.add_argument("--short", action="store_true", help="two models, one share of each kind, 512 MiB, and no compression")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.shares = 1
    budgets = {LEAST_MEMORY: BUDGETS[LEAST_MEMORY]} if arguments.short else BUDGETS
    with tempfile.TemporaryDirectory(prefix="hfshard-memory-", dir=arguments.work) as folder:
        check_sparse(folder)
        memory = Memory(arguments, folder)
        rows = [["model", "--max-memory", "files", "need", "claim", "plan", "VmHWM", "anonymous", "mapped",
                 "group anon", "group all", "seconds"]]
        for family, size in MODELS[1:] if arguments.short else MODELS:
            source = memory.make(family, size, published(family, size))
            rows += [check_model(memory, source, text, budget) for text, budget in budgets.items()]
        print_table(rows)
        for text, budget in ({} if arguments.short else budgets).items():
            check_compressed(memory, source, text, budget)
        check_way_back(memory)
        check_slope(memory)
        if memory.group_refusal:
            print(f"NOT DONE: no cgroup with a memory limit can be made here: {memory.group_refusal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
