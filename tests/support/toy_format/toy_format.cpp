#include "support/toy_format/toy_format.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/json_shape.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/store/open_files.h"
#include "support/toy_format/toy_piece.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kStore = "store";
constexpr std::string_view kStep = "run-";
constexpr std::string_view kDone = "DONE";
constexpr std::string_view kPlaces = "places";
constexpr std::string_view kArrays = "arrays.json";
constexpr std::string_view kAbout = "about.json";
constexpr std::size_t kPlaceBytes = 24;

// The contents of DONE.
struct Done {
  std::string plan_id;
  std::map<std::string, std::string> hashes;  // of files of the store
};

std::string text_of(const Done& done) {
  std::string out = "plan " + done.plan_id + "\n";
  for (const auto& [name, hash] : done.hashes) out += hash + " " + name + "\n";
  return out + sha256_hex(out) + "\n";
}

// Empty if it was changed.
std::optional<Done> read_done(const std::string& path) {
  if (!exists(path)) return {};
  const std::string text = read_file(path);
  Done out;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    if (line.starts_with("plan ")) {
      out.plan_id = line.substr(space + 1);
    } else {
      out.hashes[line.substr(space + 1)] = line.substr(0, space);
    }
  }
  return text_of(out) == text ? std::optional(out) : std::nullopt;
}

Shape shape_of(const Json& json) {
  Shape out;
  for (const Json& extent : json.as_array()) out.push_back(extent.as_uint());
  return out;
}

std::size_t row_major(const Shape& counts, const Shape& at) {
  std::size_t out = 0;
  for (std::size_t d = 0; d < counts.rank(); ++d) out = out * counts[d] + at[d];
  return out;
}

class ToyCheckpoint final : public Checkpoint {
 public:
  explicit ToyCheckpoint(const std::string& step) : store_(join_path(step, kStore)) {
    const std::string done_path = join_path(store_, kDone);
    const auto done = read_done(done_path);
    if (!done) fail("what commits the checkpoint is missing or damaged", done_path);
    for (const auto& [name, hash] : done->hashes) {
      const std::string path = join_path(store_, name);
      if (!exists(path) || sha256_hex(read_file(path)) != hash) fail("not as it was written", path);
    }
    catalog_.location = step;
    catalog_.wording = {"toy", "array", "arrays", "name", true, false};
    const std::string path = join_path(store_, kArrays);
    const Json json = parse_json(read_file(path), path);
    for (const Json& file : json.at("files").as_array()) files_.push_back(file.as_string());
    encoding_.checksum = json.at("checksum").as_bool();
    encoding_.zstd_level = json.at("zstd").as_bool() ? 1 : 0;
    for (const Json& array : json.at("arrays").as_array()) add(array);
    read_places(read_file(join_path(store_, kPlaces)));
  }

  const Catalog& catalog() const override { return catalog_; }

  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    const Shape counts = counts_of(array);
    if (piece.rank() != counts.rank()) return false;
    for (std::size_t d = 0; d < counts.rank(); ++d) {
      if (piece[d] >= counts[d]) return false;
    }
    return true;
  }

  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece,
                                          PieceSteps /*steps*/,
                                          std::span<std::byte> /*scratch*/) const override {
    HFSHARD_CHECK(has_piece(array, piece));
    const TensorInfo& info = catalog_.tensors[array];
    const Place& place = places_[array][row_major(counts_of(array), piece)];
    try {
      return toy::open_piece(open_.open(place.file, join_path(store_, files_.at(place.file))),
                             place, toy::form_of(info, catalog_.grid_of(array), encoding_),
                             info.name);
    } catch (Error& error) {  // only here is the array known
      throw error.in_tensor(info.name);
    }
  }

  std::uint64_t scratch_bytes(std::uint32_t /*array*/, PieceSteps /*steps*/) const override {
    return 0;
  }

 private:
  [[noreturn]] static void fail(std::string sentence, const std::string& path) {
    throw Error(ErrorCode::corrupt, std::move(sentence)).in_file(path);
  }

  Shape counts_of(std::uint32_t array) const {
    return chunk_counts(catalog_.tensors[array].shape, catalog_.grid_of(array).chunk);
  }

  void add(const Json& json) {
    TensorInfo info;
    info.name = json.at("name").as_string();
    info.dtype = dtype_from_string(json.at("dtype").as_string()).value();
    info.shape = shape_of(json.at("shape"));
    info.cut = static_cast<std::uint32_t>(catalog_.cuts.size());
    const Shape chunk = shape_of(json.at("chunk"));
    Cut cut{{chunk, chunk, shape_of(json.at("inner"))}, {}};
    if (encoding_.zstd_level != 0) cut.codecs.emplace_back("zstd");
    catalog_.cuts.push_back(std::move(cut));
    catalog_.tensors.push_back(std::move(info));
  }

  void read_places(const std::string& text) {
    const std::byte* at = as_bytes(text).data();
    for (std::uint32_t array = 0; array < catalog_.tensors.size(); ++array) {
      auto& places = places_.emplace_back(counts_of(array).numel());
      for (Place& place : places) {
        place = {static_cast<std::uint32_t>(load_le<std::uint64_t>(at)),
                 load_le<std::uint64_t>(at + 8), load_le<std::uint64_t>(at + 16)};
        at += kPlaceBytes;
      }
    }
  }

  std::string store_;
  Catalog catalog_;
  Encoding encoding_;
  std::vector<std::string> files_;
  std::vector<std::vector<Place>> places_;
  OpenFiles open_;
};

Json describe_arrays(const TreeSpec& tree, const Placements& placed) {
  Json out;
  out["files"] = Json::Array{};
  for (std::uint32_t file = 0; file < placed.file_count(); ++file)
    out["files"].array().emplace_back(placed.file_path(file));
  out["checksum"] = tree.encoding.checksum;
  out["zstd"] = tree.encoding.zstd_level != 0;
  out["arrays"] = Json::Array{};
  for (std::size_t i = 0; i < tree.leaves->size(); ++i) {
    const Leaf& leaf = (*tree.leaves)[i];
    Json array;
    array["name"] = leaf.name;
    array["dtype"] = to_string(leaf.dtype);
    array["shape"] = shape_json(leaf.shape);
    array["chunk"] = shape_json((*tree.grids)[i].chunk);
    array["inner"] = shape_json((*tree.grids)[i].inner);
    out["arrays"].array().push_back(std::move(array));
  }
  return out;
}

std::string places_text(const TreeSpec& tree, const Placements& placed) {
  std::string out;
  for (std::uint32_t i = 0; i < tree.leaves->size(); ++i) {
    const Shape counts = chunk_counts((*tree.leaves)[i].shape, (*tree.grids)[i].chunk);
    for_each_chunk(counts, [&](const Shape& piece) {
      const Place place = placed.place(i, piece);
      std::array<std::byte, kPlaceBytes> bytes{};
      store_le(bytes.data(), std::uint64_t{place.file});
      store_le(bytes.data() + 8, place.offset_bytes);
      store_le(bytes.data() + 16, place.length_bytes);
      out += as_text(bytes);
      return true;
    });
  }
  return out;
}

std::string about_text(const TreeSpec& tree) {
  Json out;
  out["step"] = tree.step;
  out["extras"] = Json::Array{Json(tree.extras.step), Json(tree.extras.empty)};
  out["metadata"] = tree.custom_metadata;
  return dump_json_pretty(out);
}

class ToyFormat final : public Format {
 public:
  std::string_view name() const override { return "toy"; }

  std::optional<Found> recognise(const StorePath& place) const override {
    const std::string& path = place.name();
    if (!is_directory(path)) return {};
    Found out;
    out.directory = path;
    if (!is_directory(join_path(path, kStore))) {
      out.steps = steps_below(path);
      if (out.steps.empty()) return {};
      out.directory = out.steps.back().directory;
    }
    if (const auto done = read_done(join_path(join_path(out.directory, kStore), kDone)))
      out.plan_id = done->plan_id;
    return out;
  }

  std::unique_ptr<Checkpoint> open(const StorePath& path) const override {
    const auto found = recognise(path);
    if (!found) throw Error(ErrorCode::not_found, "no toy checkpoint").in_file(path.text());
    return std::make_unique<ToyCheckpoint>(found->directory);
  }

  bool writes() const override { return true; }

  PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const override {
    return toy::form_of(leaf, grid, encoding);
  }

  std::uint64_t encode(const PieceForm& form, const ChunkOf& /*chunk*/, std::span<std::byte> stored,
                       std::span<std::byte> scratch) const override {
    return toy::seal(form, stored, scratch);
  }

  std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const override {
    HFSHARD_CHECK(!tree.direct);
    std::vector<SideFile> out;
    Done done{tree.plan_id, {}};
    const auto add = [&](std::string_view name, const std::string& text) {
      out.push_back({join_path(std::string(kStore), name),
                     [text](const ByteSink& sink) { sink(as_bytes(text)); }});
      if (name != kDone) done.hashes[std::string(name)] = sha256_hex(text);
    };
    add(kPlaces, places_text(tree, placed));
    add(kArrays, dump_json_pretty(describe_arrays(tree, placed)));
    add(kAbout, about_text(tree));
    add(kDone, text_of(done));
    return out;
  }

  FileLayout layout() const override {
    FileLayout out;
    out.step_prefix = kStep;
    out.item = kStore;
    out.data_prefix = "blob-";
    out.data_suffix = ".toy";
    out.alignment_bytes = 40;
    out.leading = toy::kLeading;
    out.commit_file = kDone;
    return out;
  }

 private:
  static std::vector<Found::Step> steps_below(const std::string& path) {
    std::vector<Found::Step> out;
    for (const std::string& name : list_directory(path)) {
      const std::string directory = join_path(path, name);
      std::uint64_t number = 0;
      const char* end = name.data() + name.size();
      if (!name.starts_with(kStep) || !is_directory(join_path(directory, kStore))) continue;
      if (std::from_chars(name.data() + kStep.size(), end, number).ptr != end) continue;
      out.push_back({number, directory, exists(join_path(join_path(directory, kStore), kDone))});
    }
    std::ranges::sort(out, {}, &Found::Step::number);
    return out;
  }
};

}  // namespace

const Format& toy_format() {
  static const ToyFormat kFormat;
  return kFormat;
}

}  // namespace hfshard
