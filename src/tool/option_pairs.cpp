#include "tool/option_pairs.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// An option or positional argument, with the value that matters; empty: any value.
struct Word {
  std::string name;
  std::string value = {};
};

std::string to_string(const Word& word) {
  return word.value.empty() ? word.name : word.name + " " + word.value;
}

// `idle` has no effect together with `with`.
struct Pair {
  Word with;
  std::vector<std::string> idle;
  const char* why;
  const char* of = "";  // the only command affected; empty: any
};

// `idle` has no effect without one of `wanted`.
struct Need {
  std::vector<std::string> idle;
  std::vector<Word> wanted;
  const char* why;
  const char* of = "";  // the only command affected; empty: any
};

// Options that `mappings check` uses only with a SOURCE.
const std::vector<std::string>& of_model() {
  static const std::vector<std::string> kNames = {
      "--scheme", "--dialect", "--layers", "--num-layers", "--option",  "--with",
      "--prefix", "--vocab",   "--dtype",  "--cast",       "--include", "--exclude",
      "--drop",   "--untie",   "--step",   "--config"};
  return kNames;
}
constexpr const char* kCheck = "check";
constexpr const char* kWhyNotOfModel = "it checks families with their own options, in both layouts";

// Keeps the pairs whose options the command has.
const std::vector<Pair>& pairs() {
  static const std::vector<Pair> kPairs = {
      {{"--to", "null"}, {"OUT"}, "it discards the output"},
      {{"--to", "null"}, {"--compress", "--checksum"}, "discarded chunks are not encoded"},
      {{"--to", "null"}, {"--output-step"}, "a discarded output has no step"},
      {{"--to", "null"}, {"--resume", "--overwrite"}, "it discards the output"},
      {{"--to", "null"}, {"--link", "--load-mesh"}, "a discarded output can't be loaded"},
      {{"--to", "safetensors"}, {"--mesh", "--rules"}, "it stores whole tensors"},
      {{"--to", "safetensors"}, {"--chunk-bytes"}, "it stores whole tensors"},
      {{"--to", "safetensors"}, {"--compress", "--checksum"}, "the format has neither"},
      {{"--to", "safetensors"}, {"--output-step"}, "a Hugging Face directory has no steps"},
      {{"--to", "safetensors"}, {"--link"}, "only Orbax outputs can be linked"},
      {{"--to", "safetensors"}, {"--load-mesh"}, "it stores whole tensors"},
      {{"--to", "dcp"}, {"--compress"}, "torch reads only uncompressed items"},
      {{"--to", "dcp"}, {"--checksum"}, "every item has a CRC"},
      {{"--to", "dcp"}, {"--output-step"}, "OUT is the checkpoint itself"},
      {{"--to", "dcp"}, {"--link"}, "only Orbax outputs can be linked"},
      {{"--scheme", "hf"}, {"--layers"}, "it keeps names and shapes"},
      {{"--scheme", "hf"}, {"--maxtext"}, "it keeps names and shapes"},
      {{"--scheme", "torchtitan"}, {"--maxtext"}, "it doesn't use MaxText's names"},
      {{"--scheme", "torchtitan"}, {"--layers"}, "torchtitan's layers are always separate"},
      {{"--scheme", "torchtitan"}, {"--vocab"}, "torchtitan takes the vocabulary from config.json"},
      {{"--link"}, {"--compress"}, "linked data can't be compressed"},
      {{"--link"}, {"--worker"}, "one process writes the index"},
      {{"--in-place"}, {"--shards"}, "the source's files keep their names"},
      {{"--in-place"}, {"--output-step"}, "an index next to the source's files has no step"},
      {{"--steps"}, {"--step", "--output-step"}, "each step keeps its number"},
      {{"--steps"}, {"--worker"}, "one process publishes each step before the next one"},
      {{"--steps"}, {"--dry-run"}, "a plan covers one step; pass --step N"},
      {{"--to", "null"}, {"--steps"}, "it discards the output"},
      {{"--all"}, of_model(), kWhyNotOfModel, kCheck},
      {{"--sparse"}, {"--seed"}, "sparse files hold zeros"},
      {{"--summary"}, {"--chunks"}, "a summary doesn't list arrays"},
  };
  return kPairs;
}

const std::vector<Need>& needs() {
  static const std::vector<Need> kNeeds = {
      {{"--resume", "--overwrite"}, {{"OUT"}, {"--in-place"}}, "they need an output"},
      {{"--worker"}, {{"OUT"}}, "it changes only the time to write", "plan"},
      {of_model(), {{"SOURCE"}}, kWhyNotOfModel, kCheck},
      {{"--shard-bytes"}, {{"--to", "safetensors"}}, "hfshard chooses the size of other files"},
      {{"--dialect"},
       {{"--scheme", "hf"}, {"--to", "dcp"}, {"--to", "safetensors"}},
       "other schemes have the names of their loader"},
      {{"--devices-per-host"},
       {{"--load-mesh"}, {"--link"}},
       "it tells which devices load together"},
      {{"--axes", "--rules"},
       {{"--load-mesh"}},
       "they tell how a mesh splits the arrays",
       "inspect"},
  };
  return kNeeds;
}

// Returns whether the command has the option.
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
  if (*pair.of != 0 && parsed.command->name != pair.of) return;
  if (!is_given(parsed, pair.with)) return;
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
      check_pair(parsed, {{"--to", to}, pair.idle, pair.why});
  }
  for (const Need& need : needs()) check_need(parsed, need);
}

}  // namespace hfshard
