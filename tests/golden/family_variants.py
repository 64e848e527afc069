"""Odd configs of single models, for plans.py: what their notes and warnings depend on.

Each note and each refusal has a config here, among VARIANTS of plans.py, or among the published ones, that it is said for. Each part of its
condition has one that differs only in that part, so that the note isn't said. tests/lint/notes_test.py checks the first.
"""

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
# Equal values cancel out for transformers, others don't.
MSCALE = {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}
LINEAR = {"rope_type": "linear", "factor": 2.0}
LONG = {"rope_type": "longrope", "factor": 2.0, "attention_factor": 0.5, "original_max_position_embeddings": 64}
DEFAULT = {"rope_type": "default"}
# The scaling of Llama 3.1, which MaxText's layers have built in.
LLAMA_3_1 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 8192}
OTHER_LLAMA_3_1 = [{"rope_scaling": {**LLAMA_3_1, **other}} for other in (
    {}, {"factor": 4.0}, {"factor": 16.0}, {"low_freq_factor": 0.5}, {"low_freq_factor": 2.0}, {"high_freq_factor": 3.0},
    {"high_freq_factor": 5.0}, {"original_max_position_embeddings": 4096}, {"original_max_position_embeddings": 16384})]
SLIDING, FULL, LINEAR_LAYER = "sliding_attention", "full_attention", "linear_attention"
# DeepSeek without an indexer, which torchtitan's lacks, and DeepSeek V2.
V3 = {"model_type": "deepseek_v3", "index_n_heads": None, "index_head_dim": None}
V2 = {**V3, "model_type": "deepseek_v2", "num_nextn_predict_layers": None, "topk_method": "greedy", "n_group": 7, "topk_group": 3}
V2_GROUPS = {**V2, "topk_method": "group_limited_greedy"}
FAR = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64}
WINDOWS = {"use_sliding_window": True, "sliding_window": 7}
LLAMA_70B = {"rope_scaling": LLAMA_3_1}
# One key of Llama 3.1's scaling left out.
PART_LLAMA_3_1 = [{"rope_scaling": {key: value for key, value in LLAMA_3_1.items() if key != left_out}}
                  for left_out in LLAMA_3_1 if left_out != "rope_type"]
NO_TOWER = {"config.vision_config": None, "--with": "vision", "only": "stacked"}
LLAMA_4_TOWER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "patch_size": 2, "image_size": 8,
                 "projector_input_dim": 12, "projector_output_dim": 12, "vision_output_dim": 12}
GEMMA_4_TOWER = {"model_type": "gemma4_vision", "hidden_size": 88, "intermediate_size": 38, "num_hidden_layers": 2, "num_attention_heads": 8,
                 "head_dim": 11, "patch_size": 4, "position_embedding_size": 23}
QWEN_TOWER = {"depth": 2, "hidden_size": 36, "intermediate_size": 53, "num_heads": 9, "num_position_embeddings": 47, "temporal_patch_size": 2,
              "patch_size": 5, "spatial_merge_size": 2, "out_hidden_size": 59}


def kept(rows=1, columns=1, **more):
    """Returns a config whose codes are kept, in blocks of these sizes."""
    return {"config.quantization_config": {"quant_method": "fp8", "weight_block_size": [rows, columns]}, "--dtype": "keep", "only": "stacked", **more}


def named(*names, **more):
    """Returns a config whose tensors have other names: pairs of a pattern and what replaces it."""
    return {"stored": {"names": [list(pair) for pair in names], **more}, "only": "stacked"}


def compressed(*ratios, **more):
    """Returns the layers of a DeepSeek V4."""
    return {"compress_ratios": list(ratios), "num_hidden_layers": len(ratios), **more}


def rotary(full, sliding):
    """Returns a config with rotary facts for each kind of layers."""
    return {"rope_parameters": {FULL: {"rope_theta": 1e6, **full}, SLIDING: {"rope_theta": 1e4, **sliding}}}


def olmo3(changed_layer):
    """Returns the layers of OLMo 3, twice, but for one in each period."""
    types = [SLIDING, SLIDING, SLIDING, FULL] * 2
    return {"layer_types": [FULL if kind == SLIDING and at % 4 == changed_layer else SLIDING if at % 4 == changed_layer else kind
                            for at, kind in enumerate(types)]}


FLAT = ("^model[.]language_model[.]", "model.")
EXPERTS = [named(FLAT), named(turned=True), named(FLAT, turned=True), named(split="out_in"), named(FLAT, split="out_in")]
EXPERTS_IN_OUT = [named(FLAT), named(turned=True), named(FLAT, turned=True), named(split="in_out"), named(FLAT, split="in_out")]


# The model, which is the example of a family or a published one, and the values that change: None removes a key. A key that
# begins with `--` is an option of `plan`, and one with `config.` is outside the text's config. `only` names the only scheme to plan.
FAMILY_VARIANTS = {
    "deepseek": [
        {"rope_scaling": MSCALE}, {"rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}, {"rope_scaling": LONG},
        {"norm_topk_prob": False},
        V3, {**V3, "rope_scaling": LONG}, {**V3, "rope_scaling": YARN}, {**V3, "rope_scaling": MSCALE},
        {**V3, "rope_scaling": {**YARN, "attention_factor": 1.0}},
        V2, {**V2, "norm_topk_prob": True}, {**V2, "norm_topk_prob": False}, V2_GROUPS, {**V2_GROUPS, "n_group": 1},
        {**V2_GROUPS, "first_k_dense_replace": 5}, {**V2, "topk_method": None},
        *(named(("^model[.]", prefix + "model."), ("^lm_head", prefix + "lm_head")) for prefix in ("language_model.", "other.")),
        named(("^model[.]", "language_model.")), {"tie_word_embeddings": True, "--with": "mtp"},
        *({"q_lora_rank": None, **V3, "only": "stacked", **stored} for stored in ({}, named(("^model[.]", "language_model.model.")))),
        {"use_mla": False}, {"use_mla": True}, {"use_mla": False, "only": "modules"}, {"moe_layer_freq": 2}, {"moe_layer_freq": None},
        {**V3, "n_shared_experts": 0}, {**V3, "n_shared_experts": 0, "first_k_dense_replace": 5}, {"q_lora_rank": 0}, {**V3, "q_lora_rank": 0},
        {"num_nextn_predict_layers": 2, "--with": "mtp"}, {**V3, "--with": "mtp"}, {**V3, "--with": "mtp", "--num-layers": "4"}, {"text_config": {"hidden_size": 43}, "only": "modules"},
        {**V3, "n_group": None, "topk_group": None}, {**V3, "scoring_func": None}, {**V3, "topk_method": None}],
    "deepseek_v4": [
        {"--maxtext": "0.2.4"}, {"--maxtext": "0.2.5"}, {"swiglu_limit": 0}, {"swiglu_limit": 0.5}, {"hc_eps": 1e-06}, {"hc_eps": 1e-07},
        {"hc_eps": 1e-05}, {"rope_parameters": {"main": LINEAR, "compress": DEFAULT}},
        {"rope_parameters": {"main": DEFAULT, "compress": LINEAR}}, {"num_key_value_heads": 2},
        {"num_hash_layers": 4}, compressed(0, 0, 4, 128, num_hash_layers=4), compressed(0, 4, 128), compressed(1, 0, 4), compressed(0, 1, 4),
        compressed(0, 0, 1), compressed(128, 128, 128, 128, 4), compressed(0, 0, 4, 4, 4), compressed(0, 0, 4, 128, 128), compressed(0, 0, 4, 0, 4),
        *(compressed(*[128, 4] * 2, num_hash_layers=0, **{"index_n_heads": heads}) for heads in (13, 14)),
        compressed(0, 128, 4, num_hash_layers=1), compressed(0, 4, 128, num_hash_layers=1), compressed(0, 0, 128, 4, num_hash_layers=2),
        compressed(0, 0, 4, 4, num_hash_layers=2), compressed(4, 128, num_hash_layers=0), compressed(128, 128, num_hash_layers=0)],
    "gemma": [{"use_bidirectional_attention": True}, {"vocab_size": 256000}, {"vocab_size": 256128}, {"vocab_size": 256000, "--vocab": "256000"}],
    "gemma2": [{"use_bidirectional_attention": True}, {"vocab_size": 256000}, {"vocab_size": 256128}, {"vocab_size": 256000, "--vocab": "256000"},
               {"query_pre_attn_scalar": 10}],
    "gemma3": [
        named(("^language_model[.]model", "model.language_model")), named(("^language_model[.]model", "model")),
        {**named(("^vision_tower", "model.vision_tower"), ("^multi_modal", "model.multi_modal")), "--with": "vision"},
        {**named(("^vision_tower[.]vision_model", "model.vision_tower")), "--with": "vision"},
        {**named(("^vision_tower[.]vision_model", "vision_tower")), "--with": "vision"},
        {"use_bidirectional_attention": True}, {"sliding_window_pattern": 5}, {"sliding_window_pattern": 6}, {"_sliding_window_pattern": 5}, NO_TOWER,
        {"layer_types": [SLIDING] * 6}, {"layer_types": ([SLIDING] * 5 + [FULL] + [SLIDING] * 6)}, *(
            {"layer_types": [FULL if place == at else kind for place, kind in enumerate(([SLIDING] * 5 + [FULL]) * 2)]} for at in range(5)),
        rotary(DEFAULT, DEFAULT), rotary(LINEAR, DEFAULT), rotary(DEFAULT, LINEAR), {"vocab_size": 262208},
        {"vocab_size": 262144}, {"vocab_size": 262208, "--vocab": "262208"},
        {"hidden_size": 24, "query_pre_attn_scalar": 4}, {"hidden_size": 24, "query_pre_attn_scalar": 5}],
    "gemma4": [
        {"config.tie_word_embeddings": False, "tie_word_embeddings": False},
        named(split="out_in"), named(FLAT), named(FLAT, split="out_in"), named(("^model[.]language_model", "language_model.model")),
        {**named(("^model[.](vision_tower|embed_vision)", r"\1")), "--with": "vision"},
        {"use_bidirectional_attention": "all"}, {"use_bidirectional_attention": "vision"}, NO_TOWER, {"--with": "vision"},
        {"config.vision_config": {**GEMMA_4_TOWER, "head_dim": 10}, "--with": "vision"}, {"config.vision_config": GEMMA_4_TOWER, "--with": "vision"},
        {"config.vision_config": {**GEMMA_4_TOWER, "use_clipped_linears": True}, "--with": "vision"},
        {"layer_types": ([SLIDING] * 4 + [FULL]) * 2, "num_hidden_layers": 10}, {"layer_types": [SLIDING] * 5 + [FULL] * 2 + [SLIDING] * 5},
        {"hidden_size_per_layer_input": 4}, {"hidden_size_per_layer_input": 4, "enable_moe_block": False},
        {"hidden_size_per_layer_input": 4, "enable_moe_block": False, "attention_k_eq_v": False},
        {"hidden_size_per_layer_input": 4, "enable_moe_block": False, "attention_k_eq_v": False, "--with": "vision"}, *(
            {"layer_types": [FULL if place % 6 == at else kind for place, kind in enumerate(([SLIDING] * 5 + [FULL]) * 2)]} for at in range(5)),
        rotary(DEFAULT, DEFAULT), rotary({"rope_type": "proportional"}, DEFAULT), rotary(LINEAR, DEFAULT), rotary(DEFAULT, LINEAR),
        rotary({"rope_type": "proportional"}, LINEAR), rotary({"rope_type": "proportional"}, {"rope_type": "proportional"})],
    "gpt_oss": [
        {"config.quantization_config": {"quant_method": "fp8"}}, {"config.quantization_config": {"quant_method": "mxfp4"}, "hidden_size": 32, "intermediate_size": 64},
        {"swiglu_limit": 7.0}, {"swiglu_limit": 6.5}, {"swiglu_limit": 7.5}, {"sliding_window": 128}, {"sliding_window": 129},
        {"layer_types": [SLIDING, FULL] * 3}, {"layer_types": [FULL, SLIDING] * 3}, {"layer_types": [FULL] * 6},
        {"layer_types": [SLIDING] * 6}, {"layer_types": [SLIDING, FULL, FULL] * 2}],
    "llama": [
        *OTHER_LLAMA_3_1, *PART_LLAMA_3_1, {"--option": "rope=other", "only": "stacked"}, {"--vocab": "25", "only": "torchtitan"},
        {"--vocab": "24", "only": "stacked"}, {"--vocab": "20", "only": "stacked"}, {"tie_word_embeddings": True, "--vocab": "20", "only": "stacked"},
        *({"--vocab": vocab, "only": "stacked", **tied} for vocab in ("21", "23") for tied in ({}, {"tie_word_embeddings": True})),
        {"rope_scaling": None}, {"rope_scaling": None, "--option": "rope=interleave", "only": "stacked"},
        {"--option": "rope=halves", "only": "stacked"},
        {"rope_scaling": OTHER_LLAMA_3_1[1]["rope_scaling"], "--option": "rope=halves", "only": "stacked"},
        {"rope_scaling": FAR}, {"hidden_size": 84}, {"hidden_act": "swish"}, {"hidden_act": "gelu_new"}, {"hidden_act": "gelu_fast"},
        {"hidden_act": "gelu_pytorch_tanh"}, {"hidden_act": "quick_gelu"}, {"hidden_activation": "quick_gelu"}],
    "llama3.1-70b": [
        {"--option": "rope=halves", "only": "stacked"}, {"num_hidden_layers": 79}, {"hidden_size": 8320},
        {"rope_scaling": None, "--option": "rope=interleave", "only": "stacked"}, {"--num-layers": "2"}],
    "llama4": [
        named(("^language_model[.]", "")),
        {"interleave_moe_layer_step": 0}, {"interleave_moe_layer_step": 3}, {"interleave_moe_layer_step": 1}, {"interleave_moe_layer_step": 4},
        {"moe_layers": [0, 2, 4, 6]}, {"moe_layers": [1, 3, 5, 7]}, NO_TOWER,
        {"config.vision_config": LLAMA_4_TOWER, "--with": "vision"},
        {"config.vision_config": {**LLAMA_4_TOWER, "projector_output_dim": 14}, "--with": "vision"},
        *OTHER_LLAMA_3_1, *PART_LLAMA_3_1, {"no_rope_layers": [1, 1, 1, 0] * 2}, {"no_rope_layers": [1, 1, 0, 0] * 2}, {"no_rope_layers": [1] * 8},
        {"attn_scale": 0.05}, {"attn_scale": 0.1}, {"attn_scale": 0.2}, {"floor_scale": 4096}, {"floor_scale": 8192},
        {"floor_scale": 16384}, {"attn_scale": 0.2, "attn_temperature_tuning": False},
        {"attn_scale": 0.2, "no_rope_layers": [1] * 8}, {"attn_scale": 0.2, "no_rope_layers": [1, 1, 0, 0] * 2}],
    "mistral": [{"rope_scaling": {**YARN, "attention_factor": 0.5}}, {"rope_scaling": {**YARN, "attention_factor": 1.0}}, {"rope_scaling": FAR},
                {"rope_scaling": LONG}],
    "hub mixtral-8x22b": [
        {"hidden_size": 6192}, {"num_hidden_layers": 55}, {"vocab_size": 32001}, {"vocab_size": 32768}, {"--vocab": "32768"},
        {"--num-layers": "2"}],
    "mixtral": [{"sliding_window": 7, "max_position_embeddings": 7}, {"sliding_window": 7, "max_position_embeddings": 8},
                {"sliding_window": 0, "max_position_embeddings": 8}],
    "muse_glimmer": [{**named(FLAT), "only": "torchtitan"}, {"--with": "vision", "only": "torchtitan"}],
    "olmo3": [olmo3(changed) for changed in (4, 0, 1, 2, 3)] + [{"layer_types": [SLIDING, SLIDING, SLIDING, FULL] + [SLIDING] * 4}],
    "qwen2": [
        WINDOWS, {**WINDOWS, "sliding_window": 0}, {**WINDOWS, "use_sliding_window": False, "max_window_layers": 1},
        {**WINDOWS, "sliding_window": 0, "max_window_layers": 1}, {**WINDOWS, "max_window_layers": 2},
        {**WINDOWS, "max_window_layers": 3}, {**WINDOWS, "layer_types": [SLIDING] * 3}, {**WINDOWS, "layer_types": [FULL] * 3},
        {**WINDOWS, "layer_types": [FULL, FULL, SLIDING]}, {**WINDOWS, "layer_types": [FULL] * 3, "max_window_layers": 1},
        {**WINDOWS, "num_hidden_layers": 28}, {**WINDOWS, "num_hidden_layers": 29}],
    "qwen2_vl": [
        {**WINDOWS, "num_hidden_layers": 80}, {**WINDOWS, "num_hidden_layers": 81},
        # As transformers 5 stores it.
        *({**named(("^model[.](?!visual)", "model.language_model."), ("^visual[.]", "model.visual.")), "only": form} for form in ("stacked", "modules"))],
    "qwen3_omni": [
        named(("^thinker[.]", "")), NO_TOWER, {"config.audio_config": None, "--with": "audio", "only": "stacked"}],
    "qwen3_vl": [*EXPERTS_IN_OUT, NO_TOWER, {"--option": "experts=other", "only": "stacked"}, {"--option": "experts=out_in", "only": "stacked"},
                 {"--option": "experts=in_out", "only": "stacked"}],
    "qwen3_5": [
        *EXPERTS, {**named(("^model[.]visual[.]", "visual.")), "--with": "vision"}, NO_TOWER, {"attn_output_gate": False},
        {"attn_output_gate": True}, {"config.vision_config": QWEN_TOWER, "--with": "vision"},
        {"config.vision_config": {**QWEN_TOWER, "deepstack_visual_indexes": [1]}, "--with": "vision"},
        kept(), {**kept(), "--maxtext": "0.2.4"}, {**kept(), "num_experts": 0, "intermediate_size": 34}, kept(20, 20), kept(20, 1),
        kept(20, 20, num_attention_heads=4, num_key_value_heads=2, hidden_size=40, head_dim=20, linear_key_head_dim=20, linear_value_head_dim=20,
             moe_intermediate_size=40, shared_expert_intermediate_size=40),
        kept(20, 20, num_attention_heads=20, num_key_value_heads=2, hidden_size=40, head_dim=20, linear_key_head_dim=20, linear_value_head_dim=20,
             moe_intermediate_size=40, shared_expert_intermediate_size=40),
        {"hidden_act": "swish"}, {"hidden_act": "quick_gelu"}, {"layer_types": ([LINEAR_LAYER] * 3 + [FULL]) * 2},
        {"layer_types": [LINEAR_LAYER] * 3 + [FULL] * 2 + [LINEAR_LAYER] * 2 + [FULL]}],
    "qwen3_next": [{"hidden_act": "swish"}, {"hidden_act": "quick_gelu"}, {"layer_types": ([LINEAR_LAYER] * 3 + [FULL]) * 2},
                   {"layer_types": [LINEAR_LAYER] * 3 + [FULL] * 2 + [LINEAR_LAYER] * 2 + [FULL]}],
}
