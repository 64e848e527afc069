#pragma once

#include <string_view>

#include "tool/habit_tables.h"

// The same for values, and for options whose purpose hfshard serves without an option.

namespace hfshard::habit {

struct Value {
  std::string_view option;
  std::string_view typed;
  std::string_view meant;  // all words, with the option
};
inline constexpr Value kValues[] = {{"--to", "maxtext", "--to orbax"},
                                    {"--to", "jax", "--to orbax"},
                                    {"--to", "flax", "--to orbax"},
                                    {"--to", "ocdbt", "--to orbax"},
                                    {"--to", "zarr", "--to orbax"},
                                    {"--to", "zarr3", "--to orbax"},
                                    {"--to", "tensorstore", "--to orbax"},
                                    {"--to", "torchtitan", "--to dcp --scheme torchtitan"},
                                    {"--to", "titan", "--to dcp --scheme torchtitan"},
                                    {"--to", "fsdp", "--to dcp"},
                                    {"--to", "pytorch", "--to dcp"},
                                    {"--to", "torch", "--to dcp"},
                                    {"--to", "pt", "--to dcp"},
                                    {"--to", "hf", "--to safetensors"},
                                    {"--to", "huggingface", "--to safetensors"},
                                    {"--to", "transformers", "--to safetensors"},
                                    {"--to", "vllm", "--to safetensors"},
                                    {"--to", "sglang", "--to safetensors"},
                                    {"--scheme", "huggingface", "--scheme hf"},
                                    {"--scheme", "transformers", "--scheme hf"},
                                    {"--scheme", "titan", "--scheme torchtitan"},
                                    {"--scheme", "orbax", "--scheme maxtext"},
                                    {"--layers", "scanned", "--layers stacked"},
                                    {"--layers", "scan", "--layers stacked"},
                                    {"--layers", "true", "--layers stacked"},
                                    {"--layers", "unscanned", "--layers separate"},
                                    {"--layers", "unstacked", "--layers separate"},
                                    {"--layers", "false", "--layers separate"}};

// Advice for options that hfshard doesn't need.
inline constexpr Other kOtherwise[] = {
    {"--token", "set HF_TOKEN in the environment, or log in once: hf auth login"},
    {"--hf-token", "set HF_TOKEN in the environment, or log in once: hf auth login"},
    {"--cache-dir", "set HF_HUB_CACHE in the environment"},
    {"--endpoint", "set HF_ENDPOINT in the environment"},
    {"--local-dir",
     "fetch fills the Hub's cache; to fill another directory, run: "
     "hf download ORG/NAME --local-dir DIR"},
    {"--device", "leave it out; hfshard uses only CPUs"},
    {"--gpu", "leave it out; hfshard uses only CPUs"},
    {"--quantize", "hfshard doesn't quantize; use the program that loads the weights"},
    {"--model-name", "leave it out; hfshard finds the family in config.json"},
    {"--load-in-8bit", "leave it out; hfshard doesn't quantize"},
    {"--load-in-4bit", "leave it out; hfshard doesn't quantize"}};

// The publishers of models, by the beginning of the model's name.
inline constexpr Other kOrganizations[] = {
    {"qwen", "Qwen"},           {"qwq", "Qwen"},
    {"llama", "meta-llama"},    {"meta-llama", "meta-llama"},
    {"codellama", "codellama"}, {"gemma", "google"},
    {"medgemma", "google"},     {"mistral", "mistralai"},
    {"mixtral", "mistralai"},   {"ministral", "mistralai"},
    {"devstral", "mistralai"},  {"deepseek", "deepseek-ai"},
    {"gpt-oss", "openai"},      {"phi-", "microsoft"},
    {"olmo", "allenai"},        {"smollm", "HuggingFaceTB"},
    {"tinyllama", "TinyLlama"}, {"flux", "black-forest-labs"}};

constexpr std::string_view kNoQuantized =
    "hfshard writes bf16, f16 and f32; quantize with the program that loads the output";

// Values that ask for formats that hfshard doesn't write, and programs that do.
inline constexpr Value kElsewhere[] = {
    {"--to", "gguf", "pass --to safetensors, then run: python llama.cpp/convert_hf_to_gguf.py OUT"},
    {"--to", "mlx", "pass --to safetensors, then run: mlx_lm.convert --hf-path OUT"},
    {"--to", "onnx", "pass --to safetensors, then run: optimum-cli export onnx --model OUT DIR"},
    {"--to", "megatron",
     "pass --to safetensors, then run: megatron.bridge.AutoBridge.import_ckpt(OUT, DIR)"},
    {"--to", "nemo",
     "pass --to safetensors, then run: megatron.bridge.AutoBridge.import_ckpt(OUT, DIR)"},
    {"--dtype", "fp8", kNoQuantized},
    {"--dtype", "int8", kNoQuantized},
    {"--dtype", "int4", kNoQuantized},
    {"--dtype", "nf4", kNoQuantized},
    {"--dtype", "fp4", kNoQuantized},
    {"--dtype", "nvfp4", kNoQuantized},
    {"--dtype", "mxfp4", kNoQuantized},
    {"--dtype", "auto", "leave it out; hfshard keeps the stored dtype"}};

}  // namespace hfshard::habit
