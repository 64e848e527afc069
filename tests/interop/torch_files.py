#!/usr/bin/env python3
"""Reads the output of real torch.save bit for bit as torch.load(weights_only=True) loads it.

peers/torch_write.py writes views, dtypes, nested states, models, the DTensors of several ranks and the shards of
Meta's layers. `inspect --data` finds no damage in them. `dump-all` gives the values that torch loads, and `convert
--to safetensors` keeps them. A model as pytorch_model.bin becomes the same bytes as its safetensors, by the same
plan. Then the test removes or changes bytes. Each is an error that names the file.
"""

import argparse
import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import dcp_variants
import interop

import hub  # (found by interop)
import testing  # (the same)

LEAST = 18
# Facts about the source itself in a plan, and what follows from them.
SOURCE_FACTS = ("plan_id", "source", "control_memory_bytes", "peak_memory_bytes", "need_memory_bytes")
SMALL = ["--limits", "segment_bytes=65536,merge_bytes=16384"]


def write(python, folder):
    os.makedirs(folder)
    done = subprocess.run([python, os.path.join(interop.HERE, "peers", "torch_write.py"), folder, interop.ORACLE], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        print(f"FAIL torch_write.py\n{done.stdout}{done.stderr}")
        sys.exit(1)
    return json.loads(done.stdout)


def check_variants(tool, known):
    for name, wanted in known.items():
        source = tool.path("torch", name)
        dcp_variants.check_values(tool, name, source, wanted)
        if "of" in wanted:
            continue
        back = tool.path("back", name)
        tool.run("convert", source, back, "--to", "safetensors", "--scheme", "hf", *SMALL)
        dcp_variants.check_values(tool, f"{name} as safetensors", back, wanted)
        if not os.path.isfile(os.path.join(source, "pytorch_model.bin")):
            continue
        file = os.path.join(source, "pytorch_model.bin")
        dcp_variants.check_values(tool, f"{name}, named as a file", file, wanted)
        said = tool.json("diff", source, back)
        tool.expect(said["equal"], f"{name}: diff with its own safetensors")


def data_files(folder):
    """Returns relative names of the files with arrays."""
    out = []
    for place, _, names in os.walk(folder):
        out += [os.path.relpath(os.path.join(place, name), folder) for name in names if os.path.basename(place) == "d"]
    return sorted(out)


def without_files(report):
    """Returns a report without the files of an oracle that no model has."""
    if "notes" in report:
        report["notes"] = [note for note in report["notes"] if not note.startswith("neither read nor copied")]
    return report


def check_models(tool, known):
    """Checks that a model's .bin files become the same as its safetensors."""
    for name, wanted in known.items():
        if "of" not in wanted:
            continue
        oracle, source = os.path.join(interop.ORACLE, wanted["of"]), tool.path("torch", name)
        words = ["--dtype", "bf16"] if "fp8" in name else []
        outs = [tool.path("out", name), tool.path("out", name + ".safetensors")]
        for place, out in zip((source, oracle), outs):
            tool.run("convert", place, out, "--quiet", *words)
        files = data_files(outs[0])
        tool.expect(files and files == data_files(outs[1]), f"{name}: data files {files}")
        equal, differing, lost = filecmp.cmpfiles(*outs, files, shallow=False)
        tool.expect(not differing and not lost, f"{name}: {differing} {lost} differ from those of the safetensors")
        plans = [without_files(tool.json("plan", place, *words)) for place in (source, oracle)]
        for key in SOURCE_FACTS:
            for plan in plans:
                plan.pop(key, None)
                plan["identity"].pop(key, None)
            if name == "verl":
                plan.pop("source_files", None)
        unequal = [key for key in plans[1] if plans[0].get(key) != plans[1][key]]
        tool.expect(not unequal, f"{name}: plans differ in {unequal}")
        tool.run("verify", outs[0], source)
        tool.run("verify", outs[0])
        said = tool.json("diff", source, oracle)
        tool.expect(said["equal"], f"{name}: diff")
        checked = [without_files(tool.json("mappings", "check", place)) for place in (source, oracle)]
        for each in checked:
            each.pop("path", None)
        tool.expect(json.dumps(checked[0]).replace(source, "") == json.dumps(checked[1]).replace(oracle, ""), f"{name}: mappings check")


def check_both(tool):
    """Checks that if a directory has safetensors and .bin files, hfshard reads the safetensors and says so."""
    both = tool.copy(os.path.join("torch", "model.llama3.1"), "both")
    shutil.copy(os.path.join(interop.ORACLE, "llama3.1", "model.safetensors"), both)
    listed = tool.json("inspect", both)
    tool.expect({each["file"] for each in listed["tensors"]} == {"model.safetensors"}, "safetensors come first")
    done = tool.run("convert", both, tool.path("one"), "--to", "safetensors")
    tool.expect("hfshard read the safetensors files instead of" in done.stderr and "pytorch_model" in done.stderr, f"it is said: {done.stderr}")


def check_dicts(tool, python):
    """Checks several models in one file. They have dotted names. hfshard names everything except tensors, and reads
    a dict in each of its places."""
    script = """
import sys, torch
w = torch.arange(6.0)
twice = {"w": w + 2}
torch.save({"generator": {"w": w, "n": 3}, "discriminator": {"a": {"w": w + 1}}, "x": twice, "y": {"z": twice}, "epoch": 3}, sys.argv[1])
loop = {"w": w}
loop["again"] = loop
torch.save(loop, sys.argv[2])
many = {"w": w}
for i in range(4):
    many = {f"{n}": many for n in range(60)}
torch.save(many, sys.argv[3])
torch.save({"a": w, "b\\ud800c": w}, sys.argv[4])
"""
    path = tool.path("several.pt")
    loop, many, surrogate = (tool.path(f"{name}.pt") for name in ("loop", "many", "surrogate"))
    subprocess.run([python, "-c", script, path, loop, many, surrogate], check=True)
    listed = [each["name"] for each in tool.json("inspect", path)["tensors"]]
    tool.expect(listed == ["discriminator.a.w", "generator.w", "x.w", "y.z.w"], f"several models: {listed}")
    listed = [each["name"] for each in tool.json("inspect", loop)["tensors"]]
    tool.expect("again.again.w" in listed and len(listed) == 5, f"a dict in itself: {listed}")
    for file, word in ((many, "too many places"), (surrogate, "Unicode")):
        done = tool.run_any("inspect", file)
        tool.expect(done.returncode in (3, 4) and word in done.stderr, f"{file}: {done.returncode} {done.stderr}")
    done = tool.run("convert", path, tool.path("several"), "--scheme", "hf", "--to", "safetensors")
    tool.expect(all(name in done.stderr for name in ("epoch", "generator.n")), f"what is left out: {done.stderr}")
    found = interop.tensors_of(tool.path("several"))
    tool.expect(found["discriminator.a.w"][2] == struct.pack("<6f", *range(1, 7)), f"the values: {found}")


TRAINERS = """
import sys, torch
import torch.utils.serialization.config as config
w, b = torch.arange(48.0).reshape(8, 6), torch.arange(6.0)
state = {"a.weight": w, "b": b}
average = {name: value + 1 for name, value in state.items()}
module = torch.nn.Linear(6, 8)
module.load_state_dict({"weight": w, "bias": b.repeat(2)[:8]})
marked = w.clone()
marked.note = "x"
folder = sys.argv[1]
def save(name, value, **how):
    torch.save(value, f"{folder}/{name}", **how)
save("loss.pt", {"model": state, "optimizer": {}, "iter_num": 2, "best_val_loss": torch.tensor(1.5), "ema": average})
save("tutorial.pt", {"epoch": 3, "model_state_dict": state, "loss": torch.tensor(0.3)})
save("random.pt", {"state_dict": state, "rng_state": torch.get_rng_state()})
save("towers.pt", {"visual": state, "text": average, "logit_scale": torch.tensor(1.0)})
save("inside.pt", {"model": {"b": b, "sub": {"c": w}, "list": [w]}})
save("classes.pt", {"buffer": torch.nn.Buffer(w), "marked": marked, "parameter": torch.nn.Parameter(b)})
save("kept.pt", module.state_dict(keep_vars=True))
for protocol in (2, 3, 4, 5):
    save(f"old_{protocol}.pt", state, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
for name in ("checkpoint.pth.tar", "model.th", "state.pkl", "weights"):
    save(name, state)
config.save.compute_crc32 = False
save("no_crc.pt", state)
"""


def check_trainers(tool, python):
    """Checks files as trainers and users save them: tensors next to the model, other dicts, classes of tensors, names."""
    folder = tool.path("trainers")
    os.makedirs(folder)
    subprocess.run([python, "-c", TRAINERS, folder], check=True)
    rows = struct.pack("<48f", *range(48))
    row = struct.pack("<6f", *range(6))
    state = {"a.weight": rows, "b": row}
    average = {"a.weight": struct.pack("<48f", *range(1, 49)), "b": struct.pack("<6f", *range(1, 7))}
    one = struct.pack("<f", 1)
    towers = {"logit_scale": one, **{f"visual.{name}": value for name, value in state.items()}, **{f"text.{name}": value for name, value in average.items()}}
    wanted = {"loss.pt": state, "tutorial.pt": state, "random.pt": state, "towers.pt": towers, "inside.pt": {"b": row, "sub.c": rows},
              "classes.pt": {"buffer": rows, "marked": rows, "parameter": row}, "kept.pt": {"weight": rows, "bias": (row * 2)[:32]}, "no_crc.pt": state,
              **{f"old_{protocol}.pt": state for protocol in (2, 3, 4, 5)}, **dict.fromkeys(("checkpoint.pth.tar", "model.th", "state.pkl", "weights"), state)}
    for number, (name, values) in enumerate(wanted.items()):
        out = tool.path(f"trainer_{number}")
        tool.run("convert", os.path.join(folder, name), out, "--to", "safetensors")
        tool.expect({key: each[2] for key, each in interop.tensors_of(out).items()} == values, f"{name}: its tensors")
    loss = os.path.join(folder, "loss.pt")
    said = tool.run("convert", loss, tool.path("said"), "--to", "safetensors").stderr
    tool.expect(all(f'"{name}"' in said for name in ("model", "best_val_loss", "ema", "iter_num")) and "--root" in said, f"what is left out: {said}")
    tool.run("convert", loss, tool.path("ema"), "--to", "safetensors", "--root", "ema")
    tool.expect({key: each[2] for key, each in interop.tensors_of(tool.path("ema")).items()} == average, "--root ema")
    for root in ("best_val_loss", "model.b", "none"):
        done = tool.run_any("convert", loss, tool.path("never"), "--to", "safetensors", "--root", root)
        tool.expect(done.returncode == 3 and '"ema"' in done.stderr or root == "model.b", f"--root {root}: {done.stderr}")
        tool.expect(done.returncode == 3, f"--root {root} ends with {done.returncode}")
    tool.run("verify", tool.path("ema"))
    done = tool.run_any("convert", tool.path("torch", "meta_llama3", "consolidated.01.pth"), tool.path("never"), "--to", "safetensors")
    tool.expect(done.returncode == 3 and "one of 4" in done.stderr, f"one of Meta's files: {done.stderr}")


def check_link(tool):
    """Checks an index over the file itself. It can't cover tensors that aren't a run of bytes."""
    source = tool.path("torch", "model.qwen3")
    tool.run("link", source, tool.path("linked"))
    tool.run("convert", source, tool.path("copied"), "--quiet")
    said = tool.json("diff", tool.path("linked"), tool.path("copied"))
    tool.expect(said["equal"], "link and convert hold the same")
    for name in ("verl", "views"):
        done = tool.run_any("link", tool.path("torch", name), tool.path("linked_" + name), *(["--scheme", "hf"] if name == "views" else []))
        tool.expect(done.returncode == 3, f"link of {name} ends with {done.returncode}: {done.stdout}{done.stderr}")


def check_ranks(tool):
    """Checks that hfshard names a file that is missing, or from another run."""
    for name, lost in (("fsdp_4", "model_world_size_4_rank_2.pt"), ("meta_llama3", "consolidated.01.pth")):
        place = tool.copy(os.path.join("torch", name), "lost")
        os.remove(os.path.join(place, lost))
        done = tool.run_any("inspect", place)
        tool.expect(done.returncode == 3 and lost in done.stderr, f"{name} without {lost}: {done.stderr}")
    place = tool.copy(os.path.join("torch", "fsdp_4"), "mixed")
    shutil.copy(tool.path("torch", "columns_3", "model_world_size_3_rank_0.pt"), place)
    done = tool.run_any("inspect", place)
    tool.expect(done.returncode == 3 and "3 ranks" in done.stderr + done.stdout or "of 4" in done.stderr, f"two runs: {done.stderr}")
    shutil.copy(tool.path("torch", "columns_3", "model_world_size_3_rank_0.pt"), tool.path("mixed", "model_world_size_4_rank_0.pt"))
    os.remove(tool.path("mixed", "model_world_size_3_rank_0.pt"))
    done = tool.run_any("inspect", place)
    tool.expect(done.returncode == 3 and "tensor" in done.stderr, f"ranks of two runs: {done.stderr}")
    part = tool.path("torch", "fsdp_4", "model_world_size_4_rank_0.pt")
    done = tool.run_any("inspect", part)
    tool.expect(done.returncode == 3 and "all ranks" in done.stderr, f"one rank's file: {done.stderr}")


def check_hub(tool):
    """Checks that a Hub model becomes the same bytes, with few requests for many storages."""
    with hub.Hub() as server:
        server.add("org/model", {"main": tool.path("torch", "model.qwen3")})
        server.add("org/ranks", {"main": tool.path("torch", "verl")})
        server.add("org/views", {"main": tool.path("torch", "views")})
        told = testing.clean(HF_ENDPOINT=server.endpoint, HF_HUB_CACHE=tool.path("cache"))
        for name, local in (("model", "model.qwen3"), ("ranks", "verl"), ("views", "views")):
            server.reset()
            words = ["--to", "safetensors", "--scheme", "hf"] if name == "views" else []
            pairs = [tool.path("hub", name), tool.path("near", name)]
            for source, out in ((f"hf://org/{name}", pairs[0]), (tool.path("torch", local), pairs[1])):
                done = subprocess.run([tool.program, "convert", source, out, "--quiet", *words], env=told, capture_output=True, text=True,
                                      check=False)
                tool.expect(done.returncode == 0, f"{source}: {done.stdout}{done.stderr}")
            said = tool.run_any("diff", *pairs)
            tool.expect(said.returncode == 0, f"{name} from the Hub: {said.stdout}{said.stderr}")
            server.reset()
            listed = subprocess.run([tool.program, "inspect", f"hf://org/{name}", "--json"], env=told, capture_output=True, text=True, check=False)
            tool.expect(listed.returncode == 0 and json.loads(listed.stdout)["tensors"], f"inspect of {name} on the Hub: {listed.stderr}")
            asked = len(server.log())
            tool.expect(asked < 30, f"{asked} requests for what describes {name}")


def check_damage(tool):
    """Checks that each truncation and each flipped byte of the zip directory or the pickle is an error with the
    file's name, or changes nothing."""
    for name in ("module", "old_format"):
        damage(tool, tool.path("torch", name, "pytorch_model.bin"), has_crc=name == "module")


def damage(tool, source, has_crc):
    with open(source, "rb") as file:
        good = file.read()
    damaged = tool.path("damaged.bin")
    wanted = tool.json("inspect", source)["tensors"]
    cuts = [0, 3, 30, 64, len(good) // 2, *range(len(good) - 90, len(good), 7)]
    flips = [*range(0, 700, 11), *range(len(good) - 900, len(good), 13)]
    for what, at in [*(("cut", at) for at in cuts), *(("flip", at) for at in flips)]:
        with open(damaged, "wb") as file:
            file.write(good[:at] if what == "cut" else good[:at] + bytes([good[at] ^ 0x20]) + good[at + 1:])
        done = tool.run_any("inspect", damaged, "--json")
        if done.returncode == 0:
            same = [{**each, "file": "pytorch_model.bin"} for each in json.loads(done.stdout)["tensors"]] == wanted
            tool.expect(what == "flip" and (same or not has_crc), f"{what} at {at} is not seen")
        else:
            tool.expect(done.returncode == 3 and "damaged.bin" in done.stderr, f"{what} at {at}: {done.returncode} {done.stderr}")
    if has_crc:
        damage_elements(tool, good, damaged, wanted)


def damage_elements(tool, good, damaged, tensors):
    """Checks that `inspect --data` names each tensor whose first, middle or last byte is flipped."""
    for each in tensors:
        last = each["size_bytes"] - 1
        for at in sorted({0, last // 2, last} if last >= 0 else ()):
            begin = each["begin_bytes"] + at
            with open(damaged, "wb") as file:
                file.write(good[:begin] + bytes([good[begin] ^ 1]) + good[begin + 1:])
            found = tool.json("inspect", damaged, "--data", status=3)["damaged"]
            names = {item["tensor"] for item in found}
            tool.expect(each["name"] in names and all("CRC" in item["message"] for item in found), f"byte {at} of {each['name']}: {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hfshard", required=True)
    options = parser.parse_args()
    python = dcp_variants.torch_python()
    with tempfile.TemporaryDirectory() as folder:
        tool = interop.Program(options.hfshard, folder)
        known = write(python, tool.path("torch"))
        tool.expect(len(known) >= LEAST, f"{len(known)} variants")
        check_variants(tool, known)
        check_models(tool, known)
        check_both(tool)
        check_dicts(tool, python)
        check_trainers(tool, python)
        check_link(tool)
        check_hub(tool)
        check_ranks(tool)
        check_damage(tool)
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
