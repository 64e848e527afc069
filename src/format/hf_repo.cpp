#include "format/hf_repo.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "format/below.h"
#include "format/formats.h"
#include "format/hf_index.h"

namespace hfshard::format {
namespace {

using Names = std::vector<std::string>;

constexpr std::uint64_t kMaxSideFileBytes = 256U << 20;
// Sources: vllm-project/vllm vllm/model_executor/layers/quantization (get_config_filenames of
// modelopt, gptq and awq); huggingface/optimum-quanto QuantizedTransformersModel._qmap_name.
constexpr std::array<std::string_view, 4> kMethodFiles{
    "hf_quant_config.json", "quantize_config.json", "quant_config.json", "quanto_qmap.json"};
constexpr std::array<std::string_view, 17> kSidePatterns{"config.json",
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
                                                         "*.py"};
// Directory with the tokenizer's additional templates. Source: huggingface/transformers
// src/transformers/utils/hub.py (CHAT_TEMPLATE_DIR).
constexpr std::string_view kTemplates = "additional_chat_templates";
// Files for people, for other hubs, for programs that store files, and hfshard's own.
constexpr std::array<std::string_view, 19> kOfNoModel{
    ".*",         "README*", "LICENSE*", "NOTICE*",   "*.md",   "*.pdf",
    "*.png",      "*.jpg",   "*.jpeg",   "*.gif",     "*.webp", "*.svg",
    "assets",     "figures", "images",   "hfshard.*", "docs",   "configuration.json",
    "config.json"};
constexpr std::array<std::string_view, 10> kOtherWeights{
    "*.bin",     "*.pth",  "*.pt",      "*.gguf",   "*.h5",
    "*.msgpack", "*.ckpt", "*.pth.tar", "*.pt.tar", "*.th"};
// Those that torch.save can have written. One that is named is read, whatever its name.
constexpr std::array<std::string_view, 7> kTorchWeights{"*.bin",     "*.pth",    "*.pt", "*.ckpt",
                                                        "*.pth.tar", "*.pt.tar", "*.th"};
constexpr std::array<std::string_view, 3> kAdapterFiles{
    "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"};

std::string adapter_of(const WeightFiles& kind) {
  return "adapter_model" + std::string(kind.ending);
}

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

// Quotes the first few names and counts the rest.
std::string sample(const Names& names) { return quoted_list(names, 4); }

std::optional<std::string> first_incomplete(const StorePath& directory) {
  if (!directory.is_directory()) return std::nullopt;
  const Names found = matching(directory.list(), "*.incomplete");
  if (found.empty()) return std::nullopt;
  return (directory / found.front()).text();
}

// Finds a download in progress. It leaves `*.incomplete` in the directory or in its cache folder.
// For a snapshot of the Hub's cache, the file is among the blobs.
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

// `what` begins the reason why the file is needed.
[[noreturn]] void throw_missing(const StorePath& directory, const std::string& name,
                                std::string_view what, const std::string& also = {}) {
  const StorePath path = directory / name;
  if (const auto incomplete = find_incomplete(directory)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the download isn't complete: {} is missing", quote(name)))
        .in_file(path.text())
        .hint(fmt::format("finish the download first; partial file: {}", printable(*incomplete)));
  }
  if (path.is_directory()) {
    throw Error(ErrorCode::bad_input, "a directory has the name of a file")
        .in_file(path.text())
        .hint("move it away and download the file again");
  }
  const auto found = path.find();
  if (found && found->why) throw Error(*found->why);
  if (found && found->kind == FileKind::other) {
    throw Error(ErrorCode::bad_input, "not a regular file")
        .in_file(path.text())
        .hint("hfshard can't read pipes, sockets and devices; put a file there");
  }
  throw Error(ErrorCode::not_found, fmt::format("a file that {} is missing", what))
      .in_file(path.text())
      .hint(found ? broken_link_hint(path.text()) : "the download may be partial" + also);
}

// A file of a series, parsed from its name: `model-00002-of-00004.safetensors`,
// `model-2-of-61.safetensors`.
struct Part {
  std::string prefix;  // before the number
  std::string number;
  std::string end;  // after the number
  std::uint32_t count = 0;
};

std::optional<Part> parse_part(std::string_view name, const WeightFiles& kind) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kMostDigits = 9;
  const std::size_t of = name.rfind(kOf);
  if (of == std::string_view::npos || !name.ends_with(kind.ending)) return std::nullopt;
  const std::size_t count_begin = of + kOf.size();
  const std::size_t count_end = name.size() - kind.ending.size();
  if (count_begin >= count_end || count_end - count_begin > kMostDigits) return std::nullopt;
  const auto count = parse_whole(name.substr(count_begin, count_end - count_begin));
  const std::size_t before = name.find_last_not_of("0123456789", of == 0 ? 0 : of - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  if (!count || begin >= of || of - begin > kMostDigits) return std::nullopt;
  return Part{std::string(name.substr(0, begin)), std::string(name.substr(begin, of - begin)),
              std::string(name.substr(of)), static_cast<std::uint32_t>(*count)};
}

// Checks that all numbered files exist. Without an index, only the names show that one is missing.
void check_parts(const StorePath& directory, const Names& names, const WeightFiles& kind) {
  std::map<std::pair<std::string, std::string>, std::pair<std::uint32_t, std::size_t>> series;
  for (const std::string& name : names) {
    const auto part = parse_part(name, kind);
    if (!part) continue;
    // Padded numbers are as wide as the widest. Others have no leading zeros.
    const std::size_t width = part->number.starts_with('0') ? part->number.size() : 1;
    auto& [count, widest] = series[{part->prefix, part->end}];
    count = part->count;
    widest = std::max(widest, width);
  }
  for (const auto& [ends, numbers] : series) {
    const auto nth = [&around = ends, width = numbers.second](std::uint32_t i) {
      return fmt::format("{}{:0{}}{}", around.first, i, width, around.second);
    };
    // Numbers start at 0 if that file exists, else at 1.
    const std::uint32_t first = contains(names, nth(0)) ? 0 : 1;
    for (std::uint32_t i = first; i < first + numbers.first; ++i) {
      if (!contains(names, nth(i))) throw_missing(directory, nth(i), "the numbered parts need");
    }
  }
}

// Returns the shards that save_pretrained wrote, if all of them exist.
Names complete_series(const Names& entries, const WeightFiles& kind) {
  const std::string prefix = std::string(kind.stem) + "-";
  std::map<std::string, Names> series;  // by "-of-00002.safetensors"
  for (const std::string& name : matching(entries, kind.beginning(prefix))) {
    const auto part = parse_part(name, kind);
    if (part && part->prefix == prefix) series[part->end].push_back(name);
  }
  if (series.size() != 1) return {};
  const Names& names = series.begin()->second;
  std::set<std::uint64_t> numbers;
  for (const std::string& name : names)
    numbers.insert(parse_whole(parse_part(name, kind)->number).value_or(0));
  const std::uint32_t count = parse_part(names.front(), kind)->count;
  const bool complete = names.size() == count && numbers.size() == count &&
                        *numbers.rbegin() - *numbers.begin() + 1 == count && *numbers.begin() <= 1;
  return complete ? names : Names{};
}

[[noreturn]] void throw_no_weights(const StorePath& directory, const Names& entries,
                                   const WeightFiles& kind) {
  refuse_adapter(directory, entries);
  if (find_incomplete(directory)) throw_missing(directory, kind.whole(), "is needed");
  Names others;
  for (const std::string& entry : entries) {
    if (matches_any(kOtherWeights, entry) && entry != "training_args.bin") others.push_back(entry);
  }
  const auto torch = std::ranges::find_if(
      others, [](const std::string& name) { return matches_any(kTorchWeights, name); });
  if (torch != others.end()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("no weights with the usual names; found {}", sample(others)))
        .in_file(directory.text())
        .hint(fmt::format("if {} has the model, pass the file: {}", quote(*torch),
                          (directory / *torch).text()));
  }
  if (!others.empty()) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("only safetensors and PyTorch weights can be read; found {}", sample(others)))
        .in_file(directory.text())
        .hint(std::ranges::all_of(others,
                                  [](const std::string& name) { return name.ends_with(".gguf"); })
                  ? "convert the model's own safetensors instead, since most GGUF files hold "
                    "rounded values: hfshard convert ORG/NAME OUT"
                  : "save the model as safetensors first, for example with "
                    "save_pretrained(safe_serialization=True)");
  }
  Error error(ErrorCode::not_found, fmt::format("no {} file in the directory", kind.kind));
  error.in_file(directory.text());
  if (contains(entries, "snapshots")) {
    error.hint("this is a folder of the Hub's cache; pass one of its snapshots/<revision> folders");
  } else if (!matching(entries, "*.index.json").empty()) {
    error.hint(fmt::format("the only index read is {}", kind.index()));
  } else if (const Names below = checkpoints_below(directory); !below.empty()) {
    error.hint(hint_of_below(below));
  } else {
    error.hint(
        "pass the directory of one model with config.json, the tokenizer's files and all "
        "*.safetensors; hf download ORG/NAME --local-dir DIR makes one");
  }
  throw error;
}

// Removes files from the chosen ones and from `all`, and notes why.
void leave_aside(const Names& files, std::string_view why, Names& all, HfFiles& out) {
  if (files.empty()) return;
  const auto is_left = [&](const std::string& name) { return contains(files, name); };
  std::erase_if(out.names, is_left);
  std::erase_if(all, is_left);
  out.notes.push_back(fmt::format("ignored ({}): {}", why, sample(files)));
}

}  // namespace

std::vector<std::string> leave_files(const StorePath& directory, const FileGlobs& globs,
                                     const WeightFiles& kind, Names& entries) {
  const Names all = matching(entries, kind.beginning({}));
  const auto matches = [](const Names& list, const std::string& name) {
    return std::ranges::any_of(list, [&](const auto& glob) { return glob_match(glob, name); });
  };
  const auto refuse = [&](std::string sentence) {
    Error error(ErrorCode::usage, std::move(sentence));
    error.in_file(directory.text());
    error.hint(all.empty() ? "the source lacks such files"
                           : fmt::format("there are {}", sample(all)));
    throw error;
  };
  for (const auto& [flag, list] :
       {std::pair("--include", &globs.take), std::pair("--exclude", &globs.leave)}) {
    for (const std::string& glob : *list) {
      if (matching(all, glob).empty())
        refuse(fmt::format("{} {} matches no {} file", flag, quote(glob), kind.kind));
    }
  }
  Names out = all;
  std::erase_if(out, [&](const std::string& name) {
    return (globs.take.empty() || matches(globs.take, name)) && !matches(globs.leave, name);
  });
  if (out.size() == all.size() && !out.empty())
    refuse(fmt::format("all {} files are left out", kind.kind));
  std::erase_if(entries, [&](const std::string& name) { return contains(out, name); });
  return out;
}

HfFiles choose_named(const StorePath& directory, const Names& entries, const Names& left,
                     const WeightFiles& kind) {
  HfFiles out;
  out.names = matching(entries, kind.beginning({}));
  if (contains(out.names, adapter_of(kind))) refuse_adapter(directory, entries);
  Names all = out.names;  // a part that was left out isn't missing
  std::ranges::copy(left, std::back_inserter(all));
  std::ranges::sort(all);
  check_parts(directory, all, kind);
  Names parts = left;
  std::erase_if(parts, [&](const std::string& name) {
    const auto part = parse_part(name, kind);
    return !part || std::ranges::none_of(out.names, [&](const std::string& taken) {
      const auto other = parse_part(taken, kind);
      return other && other->prefix == part->prefix && other->end == part->end;
    });
  });
  if (!parts.empty())
    out.notes.push_back(
        fmt::format("left out by your globs, with the same parts: {}", sample(parts)));
  return out;
}

void refuse_adapter(const StorePath& directory, const Names& entries) {
  for (const std::string_view name : kAdapterFiles) {
    if (!contains(entries, name)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("this is an adapter, not a model: found {}", quote(name)))
        .in_file(directory.text())
        .hint("merge the adapter into its base model first (peft: merge_and_unload)");
  }
}

HfFiles choose_without_index(const StorePath& directory, const Names& entries,
                             const WeightFiles& kind) {
  HfFiles out;
  const std::string whole = kind.whole();
  Names all = matching(entries, kind.beginning({}));
  out.names = matching(all, kind.beginning(kind.stem));
  // Source: huggingface/diffusers src/diffusers/utils/constants.py (SAFETENSORS_WEIGHTS_NAME).
  if (out.names.empty()) out.names = matching(all, kind.beginning("diffusion_pytorch_model"));
  if (out.names.empty()) {
    if (all.empty() || contains(all, adapter_of(kind))) {
      throw_no_weights(directory, entries, kind);
    }
    if (all.size() > 1) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("several {} files without an index, and none named {}*: {}",
                              kind.kind, kind.stem, sample(all)))
          .in_file(directory.text())
          .hint(fmt::format("pass --include 'NAME*{}' to select files", kind.ending));
    }
    out.names = all;
  }
  // Variants of the same weights (`model.fp16.safetensors`), named as transformers does.
  Names variants;
  if (contains(out.names, whole)) {
    variants = matching(out.names, kind.beginning(std::string(kind.stem) + "."));
    Names parts = matching(out.names, std::string(kind.stem) + "-*");
    std::erase_if(parts, [&](const std::string& name) { return !parse_part(name, kind); });
    leave_aside(parts, fmt::format("transformers reads {} first", quote(whole)), all, out);
  }
  leave_aside(variants, "variants; pass --include FILE to select one", all, out);
  check_parts(directory, out.names, kind);
  for (const std::string& name : out.names) {
    if (!(directory / name).is_file()) throw_missing(directory, name, "is needed");
  }
  std::erase_if(all, [&](const std::string& name) { return contains(out.names, name); });
  if (!all.empty()) {
    out.notes.push_back(
        fmt::format("ignored (not named {}): {}", kind.beginning(kind.stem), sample(all)));
  }
  return out;
}

// transformers loads the whole file if it exists, even if an index lists others. Source:
// huggingface/transformers src/transformers/modeling_utils.py _get_resolved_checkpoint_files.
HfFiles choose_with_index(const StorePath& directory, const Names& entries, const Names& listed,
                          const WeightFiles& kind) {
  const std::string whole = kind.whole();
  if (contains(entries, whole) && !contains(listed, whole)) {
    HfFiles alone = choose_without_index(directory, entries, kind);
    alone.notes.push_back(fmt::format("ignored (transformers reads {} first): {}", quote(whole),
                                      quote(kind.index())));
    return alone;
  }
  HfFiles out;
  Names missing = listed;
  std::erase_if(missing, [&](const std::string& name) { return (directory / name).is_file(); });
  if (missing.size() == listed.size()) out.names = complete_series(entries, kind);
  if (!out.names.empty()) {
    out.notes.push_back(fmt::format(
        "ignored (stale: it doesn't list the {} files, which are a complete series): {}",
        out.names.size(), quote(kind.index())));
    return out;
  }
  if (!missing.empty()) {
    throw_missing(directory, missing.front(), "the index lists",
                  "; if the index is stale, pass --ignore-index");
  }
  out.has_index = true;
  out.names = listed;
  Names ignored = matching(entries, kind.beginning({}));
  std::erase_if(ignored, [&](const std::string& name) { return contains(listed, name); });
  if (!ignored.empty()) {
    out.notes.push_back(fmt::format("ignored (not listed in the index): {}", sample(ignored)));
  }
  if (contains(entries, "original")) {
    out.notes.emplace_back("ignored (not listed in the index): \"original/\"");
  }
  return out;
}

std::string part_of_model(const StorePath& directory, const Names& entries,
                          const std::string& name) {
  for (const WeightFiles* kind : {&kSafetensorsFiles, &kTorchFiles}) {
    const auto part = parse_part(name, *kind);
    if (part && part->count > 1)
      return fmt::format("shard {} of {}", parse_whole(part->number).value_or(0), part->count);
    if (!contains(entries, kind->index())) continue;
    try {
      const Names listed = read_hf_index(directory / kind->index(), *kind).files;
      if (listed.size() > 1 && contains(listed, name))
        return fmt::format("one of {} files", listed.size());
    } catch (const Error& error) {  // the index can't be read
      if (error.code() == ErrorCode::internal || error.code() == ErrorCode::cancelled) throw;
    }
  }
  return {};
}

bool is_method_file(std::string_view name) {
  return std::ranges::find(kMethodFiles, name) != kMethodFiles.end();
}

namespace {

bool has_side_name(std::string_view entry) {
  const bool is_weights = entry.ends_with(".safetensors") || entry.ends_with(".index.json") ||
                          matches_any(kOtherWeights, entry);
  return !is_weights && (matches_any(kSidePatterns, entry) || is_method_file(entry));
}

// Returns whether git-lfs hasn't replaced a file by its content yet. The Hub does so itself.
bool is_lfs_pointer(const StorePath& file, std::uint64_t size_bytes) {
  constexpr std::uint64_t kMaxPointerBytes = 1024;
  return size_bytes < kMaxPointerBytes && !file.is_far() && file.read().starts_with(kLfsPointer);
}

// Returns why hfshard doesn't copy a file with the name of a side file. Empty if it does.
std::string fault_of_side_file(const StorePath& file) {
  const auto found = file.find();
  if (!found) return "gone";
  if (found->kind == FileKind::dangling) return "a broken link";
  if (found->kind != FileKind::regular) return "no file";
  const std::uint64_t size_bytes = found->identity.size_bytes;
  if (size_bytes > kMaxSideFileBytes)
    return fmt::format("larger than {}", human_bytes(kMaxSideFileBytes));
  return is_lfs_pointer(file, size_bytes) ? "a git-lfs pointer; run: git lfs pull" : "";
}

}  // namespace

std::vector<std::string> find_side_files(const StorePath& directory, const Names& entries) {
  Names out;
  for (const std::string& entry : entries) {
    if (has_side_name(entry) && fault_of_side_file(directory / entry).empty()) out.push_back(entry);
  }
  const StorePath templates = directory / kTemplates;
  if (!contains(entries, std::string(kTemplates)) || !templates.is_directory()) return out;
  for (const std::string& name : templates.list()) {
    if (name.ends_with(".jinja")) out.push_back(fmt::format("{}/{}", kTemplates, name));
  }
  std::ranges::sort(out);
  return out;
}

std::string note_left_behind(const StorePath& directory, const Names& entries, const Names& known,
                             const std::vector<std::string>& notes) {
  Names left;
  for (const std::string& entry : entries) {
    if (contains(known, entry) || entry == kTemplates || matches_any(kOfNoModel, entry)) continue;
    const auto found = (directory / entry).find();
    const bool is_directory = found && found->kind == FileKind::directory;
    const bool is_read = is_directory && std::ranges::any_of(known, [&](const std::string& name) {
                           return name.starts_with(entry + "/");
                         });
    if (is_read) continue;
    const std::string shown = quote(is_directory ? entry + "/" : entry);
    const auto names_it = [&](const std::string& note) {
      return note.find(shown) != std::string::npos;
    };
    if (!found || std::ranges::any_of(notes, names_it)) continue;
    const std::string fault =
        !is_directory && has_side_name(entry) ? fault_of_side_file(directory / entry) : "";
    left.push_back(fault.empty() ? shown : fmt::format("{} ({})", shown, fault));
  }
  if (left.empty()) return {};
  constexpr std::size_t kShown = 200;
  const std::size_t more = left.size() - std::min(left.size(), kShown);
  left.resize(left.size() - more);
  return fmt::format("{}{}{}", kLeftBehind, join(left, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace hfshard::format
