#include "format/safetensors/hf_repo.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"

namespace hfshard::format::safetensors {
namespace {

using Names = std::vector<std::string>;

constexpr std::uint64_t kMaxSideFileBytes = 256U << 20;
constexpr std::array<std::string_view, 20> kSidePatterns{"config.json",
                                                         "generation_config.json",
                                                         "tokenizer*",
                                                         "vocab.*",
                                                         "merges.txt",
                                                         "special_tokens_map.json",
                                                         "*.model",
                                                         "added_tokens.json",
                                                         "*.tiktoken",
                                                         "tekken.json",
                                                         "chat_template*",
                                                         "*.jinja",
                                                         "processor_config.json",
                                                         "preprocessor_config.json",
                                                         "video_preprocessor_config.json",
                                                         "image_processor_config.json",
                                                         "configuration_*.py",
                                                         "tokenization_*.py",
                                                         "modeling_*.py",
                                                         "processing_*.py"};
constexpr std::array<std::string_view, 7> kOtherWeights{"*.bin", "*.pth",     "*.pt",  "*.gguf",
                                                        "*.h5",  "*.msgpack", "*.ckpt"};
constexpr std::array<std::string_view, 2> kAdapterFiles{"adapter_config.json",
                                                        "adapter_model.safetensors"};

template <std::size_t n>
bool matches_any(const std::array<std::string_view, n>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](std::string_view p) { return glob_match(p, name); });
}

Names matching(const Names& entries, std::string_view pattern) {
  Names out;
  for (const std::string& entry : entries) {
    if (glob_match(pattern, entry)) out.push_back(entry);
  }
  return out;
}

bool contains(const Names& entries, std::string_view name) {
  return std::ranges::binary_search(entries, name);
}

// The first few names, quoted, and how many more there are.
std::string sample(const Names& names) {
  constexpr std::size_t kShown = 4;
  Names quoted;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    quoted.push_back(quote(names[i]));
  }
  std::string out = join(quoted, ", ");
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

std::optional<std::string> first_incomplete(const StorePath& directory) {
  if (!directory.is_directory()) return std::nullopt;
  const Names found = matching(directory.list(), "*.incomplete");
  if (found.empty()) return std::nullopt;
  return (directory / found.front()).text();
}

// A download in progress leaves `*.incomplete` in the directory, in its own cache folder, or, for a
// snapshot of the hub's cache, among the blobs.
// Source: huggingface/huggingface_hub src/huggingface_hub/file_download.py and _local_folder.py.
std::optional<std::string> find_incomplete(const StorePath& directory) {
  const std::vector<StorePath> places{directory, directory / ".cache/huggingface/download",
                                      directory / "../../blobs"};
  const bool snapshot = directory.parent().name().ends_with("snapshots");
  for (std::size_t i = 0; i < (snapshot ? places.size() : places.size() - 1); ++i) {
    if (auto found = first_incomplete(places[i])) return found;
  }
  return std::nullopt;
}

// `what` says who needs the file.
[[noreturn]] void throw_missing(const StorePath& directory, const std::string& name,
                                std::string_view what) {
  const StorePath path = directory / name;
  if (const auto incomplete = find_incomplete(directory)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the download is not complete: {} is missing", quote(name)))
        .in_file(path.text())
        .hint(fmt::format("finish the download first; partial file: {}", printable(*incomplete)));
  }
  if (path.is_directory()) {
    throw Error(ErrorCode::bad_input, "a directory is where a file is wanted")
        .in_file(path.text())
        .hint("move it away and download the file again");
  }
  if (const auto found = path.find(); found && found->kind == FileKind::other) {
    throw Error(ErrorCode::bad_input, "not a regular file")
        .in_file(path.text())
        .hint("pipes, sockets and devices cannot be read at any place: put a file there");
  }
  throw Error(ErrorCode::not_found, fmt::format("a file that {} is missing", what))
      .in_file(path.text())
      .hint(path.exists() ? "the name is a link to a file that is missing; download it again"
                          : "the download may be partial");
}

// A file of a series, by its name: `model-00002-of-00004.safetensors`, `model-2-of-61.safetensors`.
struct Part {
  std::string prefix;  // all before the number
  std::string number;
  std::string end;  // all behind it
  std::uint32_t count = 0;
};

std::optional<Part> parse_part(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kTail = ".safetensors";
  constexpr std::size_t kMostDigits = 9;
  const std::size_t of = name.rfind(kOf);
  if (of == std::string_view::npos || !name.ends_with(kTail)) return std::nullopt;
  const std::size_t count_begin = of + kOf.size();
  const std::size_t count_end = name.size() - kTail.size();
  if (count_begin >= count_end || count_end - count_begin > kMostDigits) return std::nullopt;
  const auto count = parse_whole(name.substr(count_begin, count_end - count_begin));
  const std::size_t before = name.find_last_not_of("0123456789", of == 0 ? 0 : of - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  if (!count || begin >= of || of - begin > kMostDigits) return std::nullopt;
  return Part{std::string(name.substr(0, begin)), std::string(name.substr(begin, of - begin)),
              std::string(name.substr(of)), static_cast<std::uint32_t>(*count)};
}

// Numbered files must all be there: without an index nothing else tells that one is missing.
void check_parts(const StorePath& directory, const Names& names) {
  std::map<std::pair<std::string, std::string>, std::pair<std::uint32_t, std::size_t>> series;
  for (const std::string& name : names) {
    const auto part = parse_part(name);
    if (!part) continue;
    // Numbers are as wide as the widest with zeros in front; others take what they need.
    const std::size_t width = part->number.starts_with('0') ? part->number.size() : 1;
    auto& [count, widest] = series[{part->prefix, part->end}];
    count = part->count;
    widest = std::max(widest, width);
  }
  for (const auto& [ends, numbers] : series) {
    const auto nth = [&ends = ends, width = numbers.second](std::uint32_t i) {
      return fmt::format("{}{:0{}}{}", ends.first, i, width, ends.second);
    };
    // From 0 or from 1: whichever the first file of the series says.
    const std::uint32_t first = contains(names, nth(0)) ? 0 : 1;
    for (std::uint32_t i = first; i < first + numbers.first; ++i) {
      if (!contains(names, nth(i))) throw_missing(directory, nth(i), "the numbered parts need");
    }
  }
}

// A directory below that holds weights, which may be what was meant.
std::optional<std::string> weights_below(const StorePath& directory, const Names& entries) {
  constexpr std::size_t kMostLookedAt = 200;
  for (std::size_t i = 0; i < std::min(kMostLookedAt, entries.size()); ++i) {
    const StorePath below = directory / entries[i];
    if (entries[i].starts_with(".") || !below.is_directory()) continue;
    try {
      if (!matching(below.list(), "*.safetensors").empty()) return entries[i];
    } catch (const Error&) {  // one that cannot be listed is not what is looked for
    }
  }
  return std::nullopt;
}

[[noreturn]] void throw_no_weights(const StorePath& directory, const Names& entries) {
  refuse_adapter(directory, entries);
  if (find_incomplete(directory)) throw_missing(directory, "model.safetensors", "is needed");
  Names others;
  for (const std::string& entry : entries) {
    if (matches_any(kOtherWeights, entry) && entry != "training_args.bin") others.push_back(entry);
  }
  if (!others.empty()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("only safetensors weights can be read; found {}", sample(others)))
        .in_file(directory.text())
        .hint(
            "save the model as safetensors first, for example with "
            "save_pretrained(safe_serialization=True)");
  }
  Error error(ErrorCode::not_found, "no safetensors file in the directory");
  error.in_file(directory.text());
  if (contains(entries, "snapshots")) {
    error.hint("this is a folder of the hub's cache; name one of its snapshots/<revision> folders");
  } else if (!matching(entries, "*.index.json").empty()) {
    error.hint(fmt::format("the only index read is {}", "model.safetensors.index.json"));
  } else if (const auto below = weights_below(directory, entries)) {
    error.hint(fmt::format("there are some in {} below it: name that directory", quote(*below)));
  } else {
    error.hint(
        "a source is the directory of one model: config.json, the tokenizer's files and all its "
        "*.safetensors; hf download ORG/NAME --local-dir DIR makes one");
  }
  throw error;
}

}  // namespace

std::vector<std::string> leave_files(const StorePath& directory, const FileGlobs& globs,
                                     Names& entries) {
  const Names all = matching(entries, "*.safetensors");
  const auto matches = [](const Names& list, const std::string& name) {
    return std::ranges::any_of(list, [&](const auto& glob) { return glob_match(glob, name); });
  };
  const auto refuse = [&](std::string sentence) {
    Error error(ErrorCode::usage, std::move(sentence));
    error.in_file(directory.text());
    error.hint(all.empty() ? "there are none" : fmt::format("there are {}", sample(all)));
    throw error;
  };
  for (const auto& [flag, list] :
       {std::pair("--include", &globs.take), std::pair("--exclude", &globs.leave)}) {
    for (const std::string& glob : *list) {
      if (matching(all, glob).empty())
        refuse(fmt::format("{} {} matches no safetensors file", flag, quote(glob)));
    }
  }
  Names out = all;
  std::erase_if(out, [&](const std::string& name) {
    return (globs.take.empty() || matches(globs.take, name)) && !matches(globs.leave, name);
  });
  if (out.size() == all.size() && !out.empty()) refuse("no safetensors file is left to read");
  std::erase_if(entries, [&](const std::string& name) { return contains(out, name); });
  return out;
}

HfFiles choose_named(const StorePath& directory, const Names& entries) {
  HfFiles out;
  out.names = matching(entries, "*.safetensors");
  if (contains(out.names, "adapter_model.safetensors")) refuse_adapter(directory, entries);
  check_parts(directory, out.names);
  return out;
}

void refuse_adapter(const StorePath& directory, const Names& entries) {
  for (const std::string_view name : kAdapterFiles) {
    if (!contains(entries, name)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("this is an adapter, not a whole model: found {}", quote(name)))
        .in_file(directory.text())
        .hint("merge the adapter into its base model first (peft: merge_and_unload)");
  }
}

HfFiles choose_without_index(const StorePath& directory, const Names& entries) {
  HfFiles out;
  Names all = matching(entries, "*.safetensors");
  out.names = matching(all, "model*.safetensors");
  // Source: huggingface/diffusers src/diffusers/utils/constants.py (SAFETENSORS_WEIGHTS_NAME).
  if (out.names.empty()) out.names = matching(all, "diffusion_pytorch_model*.safetensors");
  if (out.names.empty()) {
    if (all.empty() || contains(all, "adapter_model.safetensors")) {
      throw_no_weights(directory, entries);
    }
    if (all.size() > 1) {
      throw Error(
          ErrorCode::bad_input,
          fmt::format("several safetensors files, no index and none named model*: {}", sample(all)))
          .in_file(directory.text())
          .hint("--include 'NAME*.safetensors' takes some of them");
    }
    out.names = all;
  }
  // Other sets of the same weights (`model.fp16.safetensors`), as transformers names them.
  Names variants;
  if (contains(out.names, "model.safetensors"))
    variants = matching(out.names, "model.*.safetensors");
  if (!variants.empty()) {
    std::erase_if(out.names, [&](const std::string& name) { return contains(variants, name); });
    std::erase_if(all, [&](const std::string& name) { return contains(variants, name); });
    out.notes.push_back(
        fmt::format("ignored (variants; --include FILE takes one): {}", sample(variants)));
  }
  check_parts(directory, out.names);
  for (const std::string& name : out.names) {
    if (!(directory / name).is_file()) throw_missing(directory, name, "is needed");
  }
  std::erase_if(all, [&](const std::string& name) { return contains(out.names, name); });
  if (!all.empty()) {
    out.notes.push_back(fmt::format("ignored (not named model*.safetensors): {}", sample(all)));
  }
  return out;
}

HfFiles choose_with_index(const StorePath& directory, const Names& entries, const Names& listed) {
  HfFiles out;
  out.has_index = true;
  out.names = listed;
  for (const std::string& name : listed) {
    if (!(directory / name).is_file()) throw_missing(directory, name, "the index lists");
  }
  Names ignored = matching(entries, "*.safetensors");
  std::erase_if(ignored, [&](const std::string& name) { return contains(listed, name); });
  if (!ignored.empty()) {
    out.notes.push_back(fmt::format("ignored (not listed in the index): {}", sample(ignored)));
  }
  if (contains(entries, "original")) {
    out.notes.emplace_back("ignored (not listed in the index): \"original/\"");
  }
  return out;
}

std::vector<std::string> find_side_files(const StorePath& directory, const Names& entries) {
  Names out;
  for (const std::string& entry : entries) {
    if (!matches_any(kSidePatterns, entry)) continue;
    if (entry.ends_with(".safetensors") || entry.ends_with(".index.json")) continue;
    if (matches_any(kOtherWeights, entry)) continue;
    const auto found = (directory / entry).find();
    if (!found || found->kind != FileKind::regular) continue;
    if (found->identity.size_bytes <= kMaxSideFileBytes) out.push_back(entry);
  }
  return out;
}

}  // namespace hfshard::format::safetensors
