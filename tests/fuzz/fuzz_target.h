#pragma once

#include <string_view>

namespace hfshard {

/// A parser of hostile bytes. Refusing them isn't a finding. Findings are a crash, an exception
/// that isn't an Error, and an Error that reports a bug in hfshard.
using FuzzTarget = void (*)(std::string_view bytes);

/// Runs a target and catches its refusals.
void run_target(FuzzTarget target, std::string_view bytes);

// The targets. Each is in NAME_fuzz.cpp, and its corpus in corpus/NAME.
void fuzz_dcp_metadata(std::string_view bytes);
void fuzz_dcp_packed(std::string_view bytes);
void fuzz_dcp_tensor(std::string_view bytes);
void fuzz_hf_index(std::string_view bytes);
void fuzz_hub_answer(std::string_view bytes);
void fuzz_json(std::string_view bytes);
void fuzz_ocdbt_manifest(std::string_view bytes);
void fuzz_ocdbt_node(std::string_view bytes);
void fuzz_safetensors(std::string_view bytes);
void fuzz_torch_file(std::string_view bytes);

struct NamedTarget {
  std::string_view name;
  FuzzTarget run;
};
inline constexpr NamedTarget kTargets[] = {
    {"dcp_metadata", fuzz_dcp_metadata},     {"dcp_packed", fuzz_dcp_packed},
    {"dcp_tensor", fuzz_dcp_tensor},         {"hf_index", fuzz_hf_index},
    {"hub_answer", fuzz_hub_answer},         {"json", fuzz_json},
    {"ocdbt_manifest", fuzz_ocdbt_manifest}, {"ocdbt_node", fuzz_ocdbt_node},
    {"safetensors", fuzz_safetensors},       {"torch_file", fuzz_torch_file},
};

}  // namespace hfshard
