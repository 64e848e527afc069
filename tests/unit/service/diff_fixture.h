#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/json.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {

using Kind = TensorDiff::Kind;

class DiffTest : public testing::Test {
 protected:
  RunOptions run_to(const std::string& out) const {
    RunOptions run;
    run.out = out.empty() ? out : dir_ / out;
    run.jobs = 2;
    run.limits = &limits_;
    run.scratch_directory = dir_.path();
    return run;
  }
  std::string convert_to(const std::string& out, PlanOptions options = small_options()) {
    hfshard::convert(source_, options, run_to(out), quiet_);
    return dir_ / out;
  }
  DiffResult compare(const std::string& a, const std::string& b, const DiffOptions& options = {}) {
    return diff(a, b, options, run_to(""), quiet_);
  }
  // Flips one bit of a file.
  static void flip(const std::string& path, std::uint64_t at, char bit = 1) {
    std::string bytes = read_text(path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ bit);
    write_text(path, bytes);
  }

  TempDir dir_;
  Limits limits_ = small_limits();
  Reporter quiet_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
};

inline const TensorDiff* find(const DiffResult& result, std::string_view name) {
  const auto found = std::ranges::find(result.tensors, name, &TensorDiff::name);
  return found == result.tensors.end() ? nullptr : &*found;
}

inline std::string bf16_bytes(std::initializer_list<std::uint16_t> bits) {
  return {std::string(as_text(std::as_bytes(std::span(bits.begin(), bits.size()))))};
}
inline std::string f32_bytes(std::initializer_list<float> numbers) {
  return {std::string(as_text(std::as_bytes(std::span(numbers.begin(), numbers.size()))))};
}

// Changes the header of a file of safetensors, and adds zeros to its data.
inline void edit_header(const std::string& path, const std::function<void(Json&)>& edit,
                        std::size_t zeros = 0) {
  const std::string bytes = read_text(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string data = bytes.substr(sizeof(length) + length) + std::string(zeros, '\0');
  Json header = parse_json(bytes.substr(sizeof(length), length), path);
  edit(header);
  const std::string text = dump_json(header);
  length = text.size();
  write_text(path, std::string(as_text(std::as_bytes(std::span(&length, 1)))) + text + data);
}

// Adds a tensor of zeros to a file of safetensors.
inline void add_zeros(const std::string& path, const std::string& name) {
  constexpr std::uint64_t kBytes = 8;
  const auto add = [&](Json& header) {
    std::uint64_t end = 0;
    for (const auto& [other, info] : header.object()) {
      if (other != "__metadata__")
        end = std::max(end, info.at("data_offsets").as_array().at(1).as_uint());
    }
    header[name] = parse_json(
        fmt::format(R"({{"dtype":"BF16","shape":[4],"data_offsets":[{},{}]}})", end, end + kBytes),
        path);
  };
  edit_header(path, add, kBytes);
}
inline bool says(const DiffResult& result, const std::string& text) {
  return std::ranges::any_of(
      result.notes, [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace hfshard
