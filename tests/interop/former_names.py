#!/usr/bin/env python3
"""Reads DCP checkpoints with the names of torchtitan 0.2.2, which 0.3.0 changed, and with buffers next to the weights.

torch saves the tensors under the names of 0.2.2's own adapters (FORMER; pytorch/torchtitan 0.2.2
torchtitan/models/*/model/state_dict_adapter.py). With --config, an export gives the model's files bit for bit. A buffer
that the model computes is left out and named. Half of a model is refused, with the first missing name in the names of
the checkpoint. So is an array that the model doesn't have.
"""

import argparse
import os
import sys
import tempfile

import interop

sys.path.insert(0, os.path.join(interop.HERE, os.pardir, "torchtitan"))
import check as torchtitan  # noqa: E402

# Present part -> part in 0.2.2. The first three apply to every model.
FORMER = (("attention.qkv_linear.", "attention."), ("lm_head.", "output."), ("moe.expert_bias_E", "moe.expert_bias"),
          ("moe.routed_experts.inner_experts.w1_EFD", "moe.experts.w1"), ("moe.routed_experts.inner_experts.w2_EDF", "moe.experts.w2"),
          ("moe.routed_experts.inner_experts.w3_EFD", "moe.experts.w3"),
          ("moe.routed_experts.inner_experts.mlp1_weight_EGD", "moe.experts.mlp1_weight"),
          ("moe.routed_experts.inner_experts.mlp1_bias_EG", "moe.experts.mlp1_bias"),
          ("moe.routed_experts.inner_experts.mlp2_weight_EDF", "moe.experts.mlp2_weight"),
          ("moe.routed_experts.inner_experts.mlp2_bias_ED", "moe.experts.mlp2_bias"))
CASES = ("llama3", "llama3_tied", "qwen3", "qwen3_moe", "gpt_oss_bf16", "deepseek_v3_no_qlora")


def former(name):
    for present, old in FORMER:
        name = name.replace(present, old)
    return name


def flat(state, prefix=""):
    out = {}
    for key, value in state.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return out


class Case:
    """One model, its DCP with the former names, and the files that an export must give."""

    def __init__(self, tool, name, save):
        self.tool, self.name, self.save = tool, name, save
        self.source = os.path.join(torchtitan.HERE, name)
        present = tool.path(f"{name}-present")
        tool.run("convert", self.source, present, "--to", "dcp", "--scheme", "torchtitan", "-q", *torchtitan.words_of(name))
        self.state = {former(key): value for key, value in flat(interop.load_dcp(present)).items()}
        tool.expect(any(key not in flat(interop.load_dcp(present)) for key in self.state), f"{name}: no name differs")
        direct = tool.path(f"{name}-direct")
        tool.run("convert", present, direct, "--to", "safetensors", "-q")
        self.files = interop.tensors_of(direct)

    def export(self, form, state, *words):
        """Saves a state and exports it. Returns the finished command and the output's tensors."""
        source, out = self.save(f"{self.name}-{form}", state), self.tool.path(f"{self.name}-{form}-out")
        done = self.tool.run_any("convert", source, out, "--to", "safetensors", "--config", self.source, *torchtitan.options_of(self.name), *words)
        return done, interop.tensors_of(out) if done.returncode == 0 else {}

    def check_exports(self):
        import torch

        buffers = {"freqs_cis": torch.polar(torch.ones(8, 4), torch.arange(32.0).reshape(8, 4)), "rope_cache": torch.ones(8, 4)}
        below = {"layers.0.moe.tokens_per_expert": torch.ones(4), "layers.0.rotary_emb.inv_freq": torch.ones(4)}
        forms = {"plain": self.state, "buffers": {**self.state, **buffers, **below},
                 "nested": {"model": {**self.state, **buffers}, "optimizer": {"state": {"x": {"exp_avg": torch.ones(3)}}}, "step": torch.tensor(3)}}
        for form, state in forms.items():
            done, found = self.export(form, state)
            what = f"{self.name} {form}"
            self.tool.expect(done.returncode == 0, f"{what}: {done.stderr}")
            self.tool.expect(found == self.files, f"{what}: other files, {sorted(found.keys() ^ self.files.keys())[:4]}")
            self.tool.expect("torchtitan's from an earlier release" in done.stdout + done.stderr, f"{what}: {done.stdout}{done.stderr}")
            left_out = [name for name in (*buffers, *below) if any(name in key for key in flat(state))]
            said = done.stdout + done.stderr
            self.tool.expect(not left_out or f"left out: {len(left_out)} arrays that the model computes" in said, f"{what}: {said}")

    def check_refused(self):
        import torch

        layers = sorted({key.split(".")[1] for key in self.state if key.startswith("layers.")})
        gone = sorted(key for key in self.state if key.startswith(f"layers.{layers[-1]}."))
        done, _ = self.export("half", {key: value for key, value in self.state.items() if key not in gone})
        self.tool.expect(done.returncode == 3 and f'"{gone[0]}"' in done.stderr and f"lacks {len(gone)} tensors" in done.stderr,
                         f"{self.name} without a layer: {done.returncode} {done.stderr}")
        few = {key: value for key, value in self.state.items() if not key.startswith("layers.")}
        done, _ = self.export("few", few)
        self.tool.expect(done.returncode == 3 and "torchtitan's from an earlier release" in done.stderr, f"{self.name} without layers: {done.stderr}")
        done, _ = self.export("foreign", {**self.state, "value_head.weight": torch.ones(3)})
        self.tool.expect(done.returncode == 3 and "value_head.weight" in done.stderr and "--drop" in done.stderr, f"{self.name} with a head: {done.stderr}")
        done, found = self.export("foreign", {**self.state, "value_head.weight": torch.ones(3)}, "--drop", "value_head.weight")
        self.tool.expect(done.returncode == 0 and found == self.files, f"{self.name} without the head: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hfshard", required=True)
    parser.add_argument("cases", nargs="*", default=CASES)
    arguments = parser.parse_args()
    dcp = interop.import_dcp()
    with tempfile.TemporaryDirectory(prefix="hfshard-former-") as work:
        tool = interop.Program(arguments.hfshard, work)

        def save(name, state):
            dcp.save(state, checkpoint_id=tool.path(name), no_dist=True)
            return tool.path(name)

        for name in arguments.cases:
            case = Case(tool, name, save)
            case.check_exports()
            case.check_refused()
        return tool.verdict()


if __name__ == "__main__":
    sys.exit(main())
