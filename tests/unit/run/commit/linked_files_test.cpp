#include "run/commit/linked_files.h"

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::vector<LinkedFile> changed_links(const std::string& step) {
  std::vector<LinkedFile> out = linked_files(step);
  std::erase_if(out, [](const LinkedFile& link) { return link.fault.empty(); });
  return out;
}

TEST(CheckLinks, EachWayInWhichALinkedFileChangedIsTold) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.link = true;
  const RunResult made = convert(small_plan(source, options), to_output(dir / "out"));
  const std::string step = join_path(dir / "out", "0");
  EXPECT_TRUE(changed_links(step).empty()) << made.path;
  const auto only = [&] {
    const std::vector<LinkedFile> found = changed_links(step);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? LinkedFile{} : found.front();
  };
  const std::string file = join_path(source, "model-00002-of-00002.safetensors");
  const auto written = std::filesystem::last_write_time(file);
  for (const int seconds : {-1, 1}) {
    std::filesystem::last_write_time(file, written + std::chrono::seconds(seconds));
    EXPECT_EQ(only().fault, "the linked file was written to, or copied, since it was linked");
  }
  const std::uintmax_t size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  EXPECT_NE(only().fault.find("has " + std::to_string(size - 1) + " bytes; it had " +
                              std::to_string(size)),
            std::string::npos)
      << only().fault;
  remove_tree(only().file);
  EXPECT_EQ(only().fault, "the linked file is missing");
  const std::string record = join_path(step, kLinksName);
  Json outside = parse_json(read_file(record), record);
  outside["files"].array()[0]["path"] = "../hf/config.json";
  write_text(record, dump_json(outside));
  const Error error = catch_error([&] { linked_files(step); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "a linked file lies outside: \"../hf/config.json\"");
  EXPECT_EQ(error.file(), record);
}

// Files that are still on a network, though their place on this machine is known.
class AwaitedStore final : public Store {
 public:
  explicit AwaitedStore(std::string later) : later_(std::move(later)) {}
  // Where files are, next to their place on this machine.
  enum class At { network, unknown, here };
  AwaitedStore(std::string later, At at) : later_(std::move(later)), at_(at) {}
  std::string text(const std::string& name) const override { return local_->text(name); }
  std::vector<std::string> list(const std::string& name) const override {
    return local_->list(name);
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    return local_->find(name);
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    return local_->open(name);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode wanted,
                                        std::shared_ptr<DropBehind> behind) const override {
    return local_->open_data(name, wanted, std::move(behind));
  }
  bool is_far(const std::string& /*name*/) const override { return at_ == At::network; }
  std::optional<std::string> local_path(const std::string& name) const override {
    return at_ == At::here ? std::optional(name) : std::nullopt;
  }
  std::optional<std::string> fetched_path(const std::string& name) const override {
    if (later_.empty()) return std::nullopt;
    return join_path(later_, entry_name(name));
  }

 private:
  std::string later_;
  At at_ = At::network;
  std::shared_ptr<const Store> local_ = local_store();
};

std::map<std::string, std::string> tree_of_links(const std::string& top) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(top)) {
    if (entry.is_symlink())
      out[entry.path().string()] = std::filesystem::read_symlink(entry.path()).string();
  }
  return out;
}

// A planned link to files that are still on a network. Their later place is `cache`.
struct AwaitedModel {
  LinkedShards link() const {
    make_directories(step);
    return link_shards(plan, step, plan.item_directory(step), ShardLinks::automatic);
  }
  static Plan planned(const std::string& source, const std::string& cache) {
    PlanOptions options;
    options.link = true;
    return make_plan(StorePath{std::make_shared<AwaitedStore>(cache), source}, options,
                     format_of("orbax"), Limits());
  }

  TempDir dir;
  std::string source = copy_fixture("qwen3", dir / "source");
  std::string cache = dir / "cache";
  std::string step = dir / "step";
  Plan plan = planned(source, cache);
};

// A run that stopped while it published left its links in staging.
TEST(LinkShards, FilesThatAreAwaitedAreLinkedAgainByALaterRun) {
  const AwaitedModel model;
  const std::string& step = model.step;
  const auto link = [&] { return model.link().awaited; };
  const std::vector<AwaitedFile> first = link();
  ASSERT_EQ(first.size(), 2U);
  const auto links = tree_of_links(step);
  EXPECT_EQ(links.size(), 2U);
  for (const auto& [path, target] : links) EXPECT_EQ(parent_path(target), model.cache) << path;
  EXPECT_EQ(link().size(), 2U);
  EXPECT_EQ(tree_of_links(step), links);
  EXPECT_EQ(changed_links(step).size(), 2U);
  const SyscallFault fault("symlink", 1, EACCES);
  const Error error = catch_error([&] { link(); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.file(), links.begin()->first);
}

TEST(CheckLinkable, FilesAreLinkedIfTheyHaveAPlaceOnThisMachine) {
  using At = AwaitedStore::At;
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.link = true;
  options.digests = false;
  const auto plan_of = [&](const std::string& later, At at) {
    const StorePath from{std::make_shared<AwaitedStore>(later, at), source};
    return make_plan(from, options, format_of("orbax"), Limits());
  };
  const auto refused = [&](const std::string& later, At at) {
    const Plan plan = plan_of(later, at);
    return catch_error([&] { check_linkable(plan, ShardLinks::automatic); }).sentence();
  };
  EXPECT_NO_THROW(check_linkable(plan_of(dir / "cache", At::network), ShardLinks::automatic));
  EXPECT_EQ(refused("", At::network),
            "this file isn't on this machine, so hfshard can't link to it");
  EXPECT_EQ(refused("", At::unknown), "the file doesn't store the tensor as one run of bytes");
  // A file that was fetched meanwhile is linked, and not its place.
  const Plan here = plan_of(dir / "cache", At::here);
  const std::string step = dir / "step";
  make_directories(step);
  const LinkedShards made =
      link_shards(here, step, here.item_directory(step), ShardLinks::symbolic);
  EXPECT_TRUE(made.awaited.empty());
  EXPECT_EQ(made.files.size(), 2U);
  for (const auto& [path, target] : tree_of_links(step)) EXPECT_EQ(parent_path(target), source);
}

// Only names that lead to a later place can be made of files that aren't there.
TEST(CheckLinkable, FilesAreAwaitedOnlyByNamesAndWithoutReadingThem) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const StorePath from{std::make_shared<AwaitedStore>(dir / "cache"), source};
  PlanOptions options;
  options.link = true;
  options.digests = false;
  const auto refused = [&](ShardLinks how) {
    const Plan plan = make_plan(from, options, format_of("orbax"), Limits());
    try {
      check_linkable(plan, how);
    } catch (const Error& error) {  // what is tested
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_EQ(error.hint_text(),
                "pass --keep-files to fetch the model first, or leave out --digests and --shards");
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(ShardLinks::automatic));
  EXPECT_FALSE(refused(ShardLinks::symbolic));
  EXPECT_TRUE(refused(ShardLinks::hard));
  EXPECT_TRUE(refused(ShardLinks::reflink));
  options.digests = true;
  EXPECT_TRUE(refused(ShardLinks::automatic));
  EXPECT_TRUE(refused(ShardLinks::symbolic));
}

TEST(LinkShards, AwaitedFilesAreToldWithTheirSourceUntilTheyCome) {
  const AwaitedModel model;
  const std::string& step = model.step;
  const std::string& source = model.source;
  const LinkedShards made = model.link();
  EXPECT_TRUE(made.files.empty());
  ASSERT_EQ(made.awaited.size(), 2U);
  const std::string name = "model-00001-of-00002.safetensors";
  const std::uint64_t size = std::filesystem::file_size(join_path(source, name));
  EXPECT_EQ(made.awaited[0].path, join_path(model.cache, name));
  EXPECT_EQ(made.awaited[0].size_bytes, size);
  const LinkedFile first = linked_files(step).at(0);
  EXPECT_FALSE(first.is_there);
  EXPECT_EQ(first.fault, "the linked file isn't in the cache yet: " + join_path(source, name));
  const auto entry = (as_fetched(step) / first.file.substr(step.size() + 1)).find();
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->identity.size_bytes, size);
  const auto hint = [&] {
    return explained(Error(ErrorCode::corrupt, "unreadable"), step).hint_text();
  };
  const std::string wanted = "it isn't in the cache yet; run: hfshard fetch " + source;
  EXPECT_EQ(hint(), wanted);
  const auto come = [&](const std::string& file) {
    write_text(join_path(model.cache, file), read_file(join_path(source, file)));
  };
  come(name);
  EXPECT_TRUE(linked_files(step).at(0).is_there);
  EXPECT_EQ(linked_files(step).at(0).fault, "") << "its time isn't known";
  EXPECT_EQ(hint(), wanted) << "the other one is awaited";
  come("model-00002-of-00002.safetensors");
  EXPECT_EQ(hint(), "");
  write_text(join_path(model.cache, name), "x");
  EXPECT_EQ(linked_files(step).at(0).fault,
            "the linked file has 1 bytes; it had " + std::to_string(size) + " when it was linked");
}

TEST(GiveName, ALinkThatTheSystemRefusesSaysHowToGoOn) {
  const TempDir dir;
  write_text(dir / "from", "x");
  const std::string to = dir / "sub/to";
  {
    const SyscallFault fault("link", 1, EXDEV);
    const Error error = catch_error([&] { give_name(dir / "from", to, ShardLinks::hard); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.file(), to);
    EXPECT_EQ(error.sentence(),
              "the file system can't link \"" + (dir / "from") + "\" here in this way");
    EXPECT_EQ(error.hint_text(),
              "pass --shards auto, or put the output on the source's file system");
  }
  {
    const SyscallFault fault("link", 1, EXDEV);
    give_name(dir / "from", to, ShardLinks::automatic);
    EXPECT_TRUE(std::filesystem::is_symlink(to)) << "the second kind";
  }
  std::filesystem::remove(to);
  give_name(dir / "from", to, ShardLinks::automatic);
  EXPECT_EQ(std::filesystem::hard_link_count(to), 2U);
  EXPECT_EQ(linked_files(dir / "sub").size(), 0U) << "without a record";
}

TEST(LinkablePath, IsThePathOfAFileOfThisMachine) {
  EXPECT_EQ(linkable_path(StorePath("/some/where")), "/some/where");
  const Error error = catch_error([] {
    linkable_path(StorePath{std::make_shared<AwaitedStore>(""), "/some/where"});
  });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "hfshard can link only to local files");
  EXPECT_EQ(error.file(), "/some/where");
}

TEST(CheckLinkable, AFileWithoutAPathNamesTheOtherCommand) {
  const TempDir dir;
  PlanOptions options;
  options.link = true;
  const StorePath from{std::make_shared<AwaitedStore>("", AwaitedStore::At::unknown),
                       copy_fixture("qwen3", dir / "source")};
  const Plan plan = make_plan(from, options, format_of("orbax"), Limits());
  const Error error = catch_error([&] { check_linkable(plan, ShardLinks::automatic); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.file(), dir / "source/model-00001-of-00002.safetensors");
  EXPECT_EQ(error.hint_text(),
            "run hfshard convert instead, which copies tensors in several parts");
}

// The record of what was linked, in the order of the source's files.
TEST(LinkShards, TheRecordHasSizesTimesAndHeaders) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  PlanOptions options;
  options.link = true;
  const Plan plan = small_plan(source, options, Limits());
  const std::string step = dir / "step";
  make_directories(step);
  const LinkedShards made = link_shards(plan, step, join_path(step, "items"), ShardLinks::hard);
  ASSERT_EQ(made.files.size(), 2U);
  EXPECT_TRUE(made.awaited.empty());
  const std::vector<LinkedFile> found = linked_files(step);
  ASSERT_EQ(found.size(), 2U);
  const std::string record = join_path(step, kLinksName);
  const Json json = parse_json(read_file(record), record);
  for (std::size_t i = 0; i < 2; ++i) {
    const CatalogFile& file = plan.catalog().files[i];
    const std::string name = plan.file_path(plan.file_count() + static_cast<std::uint32_t>(i));
    EXPECT_EQ(found[i].file, join_path(step, "items/" + name));
    EXPECT_EQ(found[i].fault, "");
    EXPECT_TRUE(found[i].is_there);
    EXPECT_EQ(found[i].header_sha256, file.header_sha256);
    EXPECT_EQ(file.header_sha256.size(), 64U);
    EXPECT_EQ(made.files[i].name, file.name);
    EXPECT_NE(made.files[i].inodes.at(0).links, file.inodes.at(0).links) << "our own link";
    const Json& entry = json.at("files").as_array()[i];
    EXPECT_EQ(entry.at("path").as_string(), "items/" + name);
    EXPECT_EQ(entry.at("bytes").as_uint(), file.size_bytes);
    EXPECT_EQ(entry.at("mtime_ns").as_int(), file_info(file.path.name())->stamp.mtime_ns);
    EXPECT_EQ(entry.find("source"), nullptr) << "it is there";
    EXPECT_EQ(std::filesystem::hard_link_count(file.path.name()), 2U);
  }
  EXPECT_FALSE(as_fetched(step).at(join_path(step, "nothing")).exists());
}

// An index beside the files needs no second names, and can be on a disk without links.
TEST(LinkShards, AnIndexInPlaceLeadsToTheFilesByTheirPaths) {
  const TempDir dir;
  PlanOptions options;
  options.link = options.in_place = true;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"), options, Limits());
  const std::string step = dir / "step";
  make_directories(step);
  link_shards(plan, step, step, ShardLinks::hard);
  EXPECT_EQ(tree_of_links(step).size(), 2U);
}

// A link copies nothing that it can name, and never writes to its source.
TEST(LinkedModel, ItsFilesAreTheSourcesUnlessTheyChange) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  write_text(join_path(source, "tokenizer.json"), "{}");
  const std::string config = read_file(join_path(source, "config.json"));
  const auto names_of = [&](const std::string& file) {
    return std::filesystem::hard_link_count(file);
  };
  PlanOptions options;
  convert(small_plan(source, options), to_output(dir / "copied"));
  EXPECT_EQ(names_of(dir / "copied/hf/tokenizer.json"), 1U);
  options.link = true;
  RunOptions run = to_output(dir / "linked");
  run.shards = ShardLinks::hard;
  convert(small_plan(source, options), run);
  EXPECT_EQ(names_of(dir / "linked/hf/tokenizer.json"), 2U);
  EXPECT_EQ(names_of(dir / "linked/hf/config.json"), 2U);
  options.mapping.num_layers = 1;
  run.out = dir / "layer";
  convert(small_plan(source, options), run);
  EXPECT_EQ(read_file(join_path(source, "config.json")), config);
  EXPECT_EQ(names_of(dir / "layer/hf/config.json"), 1U) << "it has fewer layers";
  EXPECT_NE(read_file(dir / "layer/hf/config.json"), config);
  EXPECT_EQ(names_of(dir / "layer/hf/tokenizer.json"), 3U);
  run.out = dir / "symbolic";
  run.shards = ShardLinks::symbolic;
  convert(small_plan(source, options), run);
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "symbolic/hf/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::is_symlink(dir / "symbolic/hf/config.json"));
  EXPECT_EQ(read_file(join_path(source, "config.json")), config);
}

TEST(AsFetched, FilesThatAreThereAreTheirOwn) {
  const AwaitedModel model;
  model.link();
  const StorePath step = as_fetched(model.step);
  const std::string record = join_path(model.step, kLinksName);
  EXPECT_EQ((step / kLinksName).read(), read_file(record));
  EXPECT_EQ((step / kLinksName).text(), record);
  EXPECT_EQ((step / kLinksName).local_path(), record);
  EXPECT_EQ(step.list(), list_directory(model.step));
  EXPECT_EQ((step / kLinksName).find()->identity.size_bytes, read_file(record).size());
  EXPECT_EQ((step / kLinksName).open_data(IoMode::buffered, nullptr)->size_bytes(),
            read_file(record).size());
  EXPECT_FALSE((step / "nothing").exists());
}

}  // namespace
}  // namespace hfshard
