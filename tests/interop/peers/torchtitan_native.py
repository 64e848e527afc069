"""Loads checkpoints into torchtitan's own models, and prints their tensors afterwards.

    torchtitan_native.py < {"CHECKPOINT": "DIRECTORY"} > {"CHECKPOINT": {"name": {"dtype", "shape", "sha256"}}}

DIRECTORY has the config.json of the Hugging Face model. The functions by which torchtitan 0.3.0 makes its flavors
get its sizes (torchtitan/models/{qwen3,gpt_oss,qwen3_5}/__init__.py). dcp.load loads the state dict of the model,
and load_state_dict takes it, strictly. The output describes the model's tensors in the dtype of the checkpoint
(parameters are float32, which holds all of bfloat16). If a checkpoint can't be loaded, the answer is its error.
"""

import functools
import json
import os
import sys
import warnings

import dcp_hashes
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader


def ends_of(package, text, width, norm):
    """Returns the parts of every model before and after its layers."""
    return {"vocab_size": text["vocab_size"], "dim": width, "norm": norm,
            "tok_embeddings": package.Embedding.Config(num_embeddings=text["vocab_size"], embedding_dim=width),
            "lm_head": package.Linear.Config(in_features=width, out_features=text["vocab_size"])}


def experts_of(text, hidden):
    return {"n_layers": text["num_hidden_layers"], "dim": text["hidden_size"], "num_experts": hidden[1], "top_k": text["num_experts_per_tok"],
            hidden[0]: text[hidden[2]], "moe_comm_backend": "standard"}


def heads_of(text):
    return {"n_heads": text["num_attention_heads"], "n_kv_heads": text["num_key_value_heads"], "head_dim": text["head_dim"]}


def qwen3_moe(config):
    import torchtitan.models.qwen3 as package

    width = config["hidden_size"]
    experts = experts_of(config, ("moe_hidden_dim", config.get("num_experts", config.get("num_local_experts")), "moe_intermediate_size"))
    layers = package._build_qwen3_moe_layers(**experts, **heads_of(config), attn_backend="flex",
                                             rope=package.CosSinRoPE.Config(dim=config["head_dim"], max_seq_len=64, theta=1e4))
    return package.Qwen3Model.Config(**ends_of(package, config, width, package._qwen3_norm(width)), layers=layers)


def gpt_oss(config):
    import torchtitan.models.gpt_oss as package

    width = config["hidden_size"]
    norm = package.RMSNorm.Config(normalized_shape=width)
    # By default, its attention has the published models' heads.
    attention = package._make_gptoss_attn_config
    package._make_gptoss_attn_config = functools.partial(attention, **heads_of(config))
    experts = experts_of(config, ("hidden_dim", config["num_local_experts"], "intermediate_size"))
    layers = package._build_gptoss_layers(**experts, load_balance_coeff=1e-3,
                                          rope=package.CosSinRoPE.Config(dim=config["head_dim"], max_seq_len=64, theta=1e4))
    package._make_gptoss_attn_config = attention
    return package.GptOssModel.Config(**ends_of(package, config, width, norm), layers=layers)


def qwen3_5_moe(config):
    import torchtitan.models.qwen3_5 as package

    text, vision = config["text_config"], config["vision_config"]
    width = text["hidden_size"]
    rotary = int(text["head_dim"] * text["rope_parameters"]["partial_rotary_factor"])
    experts = experts_of(text, ("moe_hidden_dim", text["num_experts"], "moe_intermediate_size"))
    layers = package._build_qwen35_moe_layers(
        **experts, **heads_of(text), rotary_dim=rotary, shared_expert_hidden_dim=text["shared_expert_intermediate_size"],
        rope=package.MRoPE.Config(dim=rotary, max_seq_len=64, theta=1e4, mrope_section=[rotary // 2, 0, 0]),
        n_key_heads=text["linear_num_key_heads"], n_value_heads=text["linear_num_value_heads"], key_head_dim=text["linear_key_head_dim"],
        value_head_dim=text["linear_value_head_dim"], attn_backend="flex")
    tower = package._qwen35_vision_encoder_config(
        dim=vision["hidden_size"], ffn_dim=vision["intermediate_size"], num_layers=vision["depth"], num_heads=vision["num_heads"],
        patch_size=vision["patch_size"], temporal_patch_size=vision["temporal_patch_size"],
        spatial_merge_size=vision["spatial_merge_size"], out_hidden_size=vision["out_hidden_size"],
        num_position_embeddings=vision["num_position_embeddings"])
    return package.Qwen35Model.Config(**ends_of(package, text, width, package._offset_norm(width)), layers=layers, vision_encoder=tower)


MODELS = {"qwen3_moe": qwen3_moe, "gpt_oss": gpt_oss, "qwen3_5_moe": qwen3_5_moe}


def load(path, directory):
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = MODELS[config["model_type"]](config).build()
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(1)
    state = model.state_dict()
    dcp.load(state, checkpoint_id=path, no_dist=True)
    model.load_state_dict(state, strict=True)
    stored = FileSystemReader(path).read_metadata().state_dict_metadata
    return {name: dcp_hashes.describe(tensor.to(stored[name].properties.dtype)) for name, tensor in model.state_dict().items()}


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    print(json.dumps({path: dcp_hashes.or_error(lambda path=path, of=of: load(path, of)) for path, of in asked.items()}))


if __name__ == "__main__":
    main()
