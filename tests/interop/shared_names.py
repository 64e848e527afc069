#!/usr/bin/env python3
"""Checks models whose tied parameters are stored once. safetensors' save_model writes them.

It keeps the first name in alphabetical order, lm_head.weight, and says in the header that the embedding is the same.
Other tools say nothing; then config.json ties the two. hfshard reads the tensor under both names: its outputs are those
of the same model with both names, and safetensors' load_model loads a copy.
"""

import json
import os
import shutil
import tempfile

import interop

FAMILIES = ("llama", "qwen3", "gemma2")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def as_module(tensors):
    """Returns a module with these parameters. The head and the embedding are one parameter."""
    import torch

    root = torch.nn.Module()
    for name, tensor in tensors.items():
        at, parts = root, name.split(".")
        for part in parts[:-1]:
            if not hasattr(at, part):
                at.add_module(part, torch.nn.Module())
            at = getattr(at, part)
        at.register_parameter(parts[-1], torch.nn.Parameter(tensor, requires_grad=False))
    root.add_module("lm_head", torch.nn.Module())
    root.lm_head.register_parameter("weight", root.get_submodule("model.embed_tokens").weight)
    return root


def write_forms(tool, family):
    """Returns a model with both names, what save_model makes of it, and the same without a header that says it."""
    from safetensors.torch import load_file, save_file, save_model

    folder = tool.path(f"{family}-one")
    tool.run("mappings", "example", family, folder, "--quiet")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["tie_word_embeddings"] = True
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    tensors.pop(HEAD, None)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    forms = {}
    for form in ("both", "header", "config"):
        forms[form] = tool.path(f"{family}-{form}")
        shutil.copytree(folder, forms[form])
        path = os.path.join(forms[form], "model.safetensors")
        if form == "both":
            save_file({**tensors, HEAD: tensors[EMBEDDING].clone()}, path)
        elif form == "header":
            save_model(as_module(tensors), path)
        else:
            save_file({HEAD if name == EMBEDDING else name: tensor for name, tensor in tensors.items()}, path)
    return forms, tensors


def check_family(tool, family):
    import torch
    from safetensors.torch import load_model

    forms, tensors = write_forms(tool, family)
    for form in ("header", "config"):
        tool.expect(EMBEDDING not in interop.tensors_of(forms[form]), f"{family}: save_model stores the embedding")
        for words in ([], ["--layers", "separate", "--dtype", "f32"], ["--to", "dcp"], ["--to", "safetensors"]):
            outs = []
            for source in ("both", form):
                outs.append(tool.path("-".join([family, form, source, *words]).replace("---", "-")))
                done = tool.run("convert", forms[source], outs[-1], *words)
                note = f'"{EMBEDDING}" shares its values with "{HEAD}"' in " ".join(done.stderr.split())
                tool.expect(note == (source != "both"), f"{family} {form} {words}: {done.stderr}")
                tool.run("verify", outs[-1], forms[source], "--quiet")
            tool.run("diff", *outs, "--quiet")
        copy = as_module({name: torch.zeros_like(tensor) for name, tensor in tensors.items()})
        load_model(copy, os.path.join(outs[1], "model.safetensors"), strict=False)
        tool.expect(all(torch.equal(copy.get_parameter(name), tensor) for name, tensor in tensors.items()),
                    f"{family} {form}: load_model reads other values")
    # Only a pair of names is one tensor. Everything else in the header is a note.
    from safetensors.torch import save_file

    tensors[HEAD] = tensors.pop(EMBEDDING)
    path = os.path.join(forms["header"], "model.safetensors")
    save_file(tensors, path, {"format": "pt", "author": "x", HEAD: "lm_head", EMBEDDING: "lm_head"})
    with open(os.path.join(forms["header"], "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["tie_word_embeddings"] = False
    with open(os.path.join(forms["header"], "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    if family != "gemma2":  # whose models are always tied
        done = tool.run("convert", forms["header"], tool.path("never"), status=3)
        tool.expect(EMBEDDING in done.stderr, f"{family}: {done.stderr}")


def main():
    arguments = interop.start(__doc__)
    with tempfile.TemporaryDirectory(prefix="hfshard-interop-") as folder:
        tool = interop.Program(arguments.hfshard, folder)
        for family in FAMILIES:
            check_family(tool, family)
        raise SystemExit(tool.verdict())


if __name__ == "__main__":
    main()
