#include "tool/option_pairs.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// An option or a positional argument, with the value that it is about; empty: any.
struct Word {
  std::string name;
  std::string value = {};
};

std::string to_string(const Word& word) {
  return word.value.empty() ? word.name : word.name + " " + word.value;
}

// With `with`, `idle` changes nothing.
struct Pair {
  Word with;
  std::vector<std::string> idle;
  const char* why;
  const char* not_of = "";  // a command where the option means something else
};

// Without any of `wanted`, `idle` changes nothing.
struct Need {
  std::vector<std::string> idle;
  std::vector<Word> wanted;
  const char* why;
  const char* of = "";  // the only command where it is so; empty: any
};

// Which `mappings check` has for a SOURCE only; everywhere else a SOURCE is required.
const std::vector<std::string>& of_model() {
  static const std::vector<std::string> kNames = {
      "--scheme", "--dialect", "--layers", "--num-layers", "--option",  "--with",
      "--prefix", "--vocab",   "--dtype",  "--cast",       "--include", "--exclude"};
  return kNames;
}
// Whose --step is one of SOURCE.
constexpr const char* kReads = "reshard";
constexpr const char* kWhyNotOfModel = "families are checked as they are, in each layout";

// A command has only some of these options, and is asked about those that it has.
const std::vector<Pair>& pairs() {
  static const std::vector<Pair> kPairs = {
      {{"--to", "null"}, {"OUT"}, "nothing is kept"},
      {{"--to", "null"}, {"--compress", "--checksum"}, "what is discarded is not encoded"},
      {{"--to", "null"}, {"--step"}, "what is discarded has no step", kReads},
      {{"--to", "null"}, {"--resume", "--overwrite"}, "nothing is kept, so nothing stands there"},
      {{"--to", "null"}, {"--link", "--load-mesh"}, "what is discarded cannot be loaded"},
      {{"--to", "safetensors"}, {"--mesh", "--rules"}, "tensors are not cut"},
      {{"--to", "safetensors"}, {"--chunk-bytes"}, "tensors are not cut"},
      {{"--to", "safetensors"}, {"--compress", "--checksum"}, "tensors are stored as they are"},
      {{"--to", "safetensors"}, {"--step"}, "a HuggingFace directory has no steps", kReads},
      {{"--to", "safetensors"}, {"--link"}, "tensors are written"},
      {{"--to", "safetensors"}, {"--load-mesh"}, "tensors are not cut"},
      {{"--to", "dcp"}, {"--compress"}, "torch reads items as they are"},
      {{"--to", "dcp"}, {"--checksum"}, "every item has its CRC"},
      {{"--to", "dcp"}, {"--step"}, "OUT is the checkpoint itself", kReads},
      {{"--to", "dcp"}, {"--link"}, "items are written"},
      {{"--scheme", "hf"}, {"--layers"}, "names and shapes stay as they are"},
      {{"--scheme", "torchtitan"}, {"--layers"}, "its layers are separate"},
      {{"--scheme", "torchtitan"}, {"--vocab"}, "its models have the vocabulary of config.json"},
      {{"--link"}, {"--compress"}, "what is linked stays as it is"},
      {{"--link"}, {"--worker"}, "an index is made by one process"},
      {{"--in-place"}, {"--shards"}, "the source's files keep their own names"},
      {{"--in-place"}, {"--step"}, "an index beside the source's files has no step"},
      {{"--all"}, of_model(), kWhyNotOfModel},
      {{"--sparse"}, {"--seed"}, "sparse files hold zeros"},
      {{"--summary"}, {"--chunks"}, "a summary lists nothing"},
  };
  return kPairs;
}

const std::vector<Need>& needs() {
  static const std::vector<Need> kNeeds = {
      {{"--resume", "--overwrite"}, {{"OUT"}, {"--in-place"}}, "they are about an output"},
      {{"--worker"}, {{"OUT"}}, "it changes the time to write", "plan"},
      {of_model(), {{"SOURCE"}}, kWhyNotOfModel},
      {{"--shard-bytes"}, {{"--to", "safetensors"}}, "other files are as large as suits them"},
      {{"--prefix", "--dialect"},
       {{"--scheme", "hf"}, {"--to", "dcp"}, {"--to", "safetensors"}},
       "names of other schemes are their loaders' own"},
      {{"--devices-per-host"},
       {{"--load-mesh"}, {"--link"}},
       "it says which devices load together"},
      {{"--axes", "--rules"}, {{"--load-mesh"}}, "they say how a mesh cuts the arrays", "inspect"},
  };
  return kNeeds;
}

// Whether the command has it.
bool has(const Command& command, const std::string& name) {
  return std::ranges::find(command.options, name, &Option::name) != command.options.end() ||
         std::ranges::find(command.positionals, name, &Positional::name) !=
             command.positionals.end();
}

bool is_given(const Parsed& parsed, const Word& word) {
  const auto found = parsed.given.find(word.name);
  if (found == parsed.given.end()) return false;
  const std::vector<std::string>& values = found->second;
  return word.value.empty() || std::ranges::find(values, word.value) != values.end();
}

void check_pair(const Parsed& parsed, const Pair& pair) {
  if (!is_given(parsed, pair.with) || parsed.command->name == pair.not_of) return;
  for (const std::string& idle : pair.idle) {
    if (!is_given(parsed, {idle})) continue;
    throw Error(ErrorCode::usage,
                fmt::format("{} has no effect with {}: {}", idle, to_string(pair.with), pair.why))
        .hint(fmt::format("leave out {} or {}", idle, to_string(pair.with)));
  }
}

void check_need(const Parsed& parsed, const Need& need) {
  if (*need.of != 0 && parsed.command->name != need.of) return;
  std::vector<std::string> wanted;
  for (const Word& word : need.wanted) {
    if (is_given(parsed, word)) return;
    if (has(*parsed.command, word.name)) wanted.push_back(to_string(word));
  }
  const auto idle = std::ranges::find_if(
      need.idle, [&](const std::string& name) { return is_given(parsed, {name}); });
  if (wanted.empty() || idle == need.idle.end()) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} has no effect without {}: {}", *idle, join(wanted, " or "), need.why))
      .hint(fmt::format("leave out {}, or add {}", *idle, join(wanted, " or ")));
}

}  // namespace

void check_pairs(const Parsed& parsed) {
  for (const Pair& pair : pairs()) {
    check_pair(parsed, pair);
    if (pair.with.name != "--scheme" || pair.with.value != "hf" || is_given(parsed, {"--scheme"}))
      continue;
    for (const char* to : {"safetensors", "dcp"})  // which imply it
      check_pair(parsed, {{"--to", to}, pair.idle, pair.why, pair.not_of});
  }
  for (const Need& need : needs()) check_need(parsed, need);
}

}  // namespace hfshard
