// How a file comes into the cache, so that readers of any process see all of it or nothing:
//   1. the directories, and CACHEDIR.TAG
//   2. .locks/<repo>/<etag>.lock is locked by flock(2), as Python's filelock and the Rust client
//      do. Where there are no locks we go on: the rest holds without.
//   3. blobs/<etag> is looked for again, since another process may have brought it meanwhile
//   4. blobs/<etag>.<8 hex>.incomplete is written, under a name that nobody else has
//   5. its size and digest are compared, which the Python client does not do
//   6. it is made durable and renamed to blobs/<etag>
//   7. snapshots/<commit>/<path> links to it, by a relative path
//   8. the lock is given back; its file stays
// trees/<commit>.json and refs/<revision> are replaced by rename; a reference only beside a
// snapshot.
#include "bytes/hf_cache_writer.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "bytes/content_digest.h"
#include "bytes/files.h"
#include "bytes/hub_name.h"
#include "bytes/output.h"
#include "bytes/syscalls.h"
#include <sys/file.h>
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A cache may be shared by a group: what is made there is as the umask has it.
constexpr mode_t kFileMode = 0666;
constexpr mode_t kDirectoryMode = 0777;
constexpr mode_t kLockMode = 0664;  // as filelock is told by huggingface_hub, whatever the umask
constexpr std::chrono::milliseconds kPoll{50};
constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kWritebackBytes = std::uint64_t{8} << 20;
// Source: huggingface_hub, _local_folder.py, byte for byte.
constexpr std::string_view kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by huggingface_hub.\n"
    "# For information about cache directory tags, see:\n"
    "#\thttps://bford.info/cachedir/\n";

std::string random_hex() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

bool is_regular(const std::string& path, std::uint64_t size_bytes) {
  const auto info = file_info(path);
  return info && info->kind == FileKind::regular && info->stamp.size_bytes == size_bytes;
}

// A name that may be gone already.
void remove_name(const std::string& path) {
  if (sys::unlinkat(AT_FDCWD, path.c_str(), 0, path.c_str()) == 0 || errno == ENOENT) return;
  throw sys::failure("remove", path, errno);
}

// A new file under a name that nobody else has, gone again unless it gets its name.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    const sys::Descriptor fd(
        sys::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (fd.get() < 0) throw sys::failure("create", path_, errno);
  }
  ~PartFile() {
    if (!path_.empty()) (void)sys::unlinkat(AT_FDCWD, path_.c_str(), 0, path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  const std::string& path() const noexcept { return path_; }
  void rename_to(const std::string& path) {
    rename_path(path_, path);
    path_.clear();
  }

 private:
  std::string path_;
};

// Puts a text in the place of a file at once.
void replace_file(const std::string& path, std::string_view text) {
  make_directories(parent_path(path), kDirectoryMode);
  PartFile part(fmt::format("{}.{}.tmp", path, random_hex()));
  OutputFile(part.path()).write_at(0, as_bytes(text));
  part.rename_to(path);
}

// The lock of one blob, held for as long as the object lives.
class BlobLock {
 public:
  BlobLock(const std::string& path, const CacheWait& wait) {
    make_directories(parent_path(path), kDirectoryMode);
    const auto begin = std::chrono::steady_clock::now();
    while (!take(path)) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begin);
      if (wait.waiting) wait.waiting(path, waited);
      if (waited >= wait.longest) {
        throw Error(ErrorCode::limit, "another process keeps this file of the cache locked")
            .in_file(path)
            .hint("wait until its download has ended");
      }
      std::this_thread::sleep_for(std::min(kPoll, wait.longest - waited));
    }
  }

 private:
  bool take(const std::string& path) {
    // Nothing is ever written to it, and nothing of it is cut off.
    fd_ = sys::Descriptor(
        sys::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kLockMode));
    if (fd_.get() < 0) throw sys::failure("open the lock", path, errno);
    (void)::fchmod(fd_.get(), kLockMode);  // refused where it is another user's
    if (sys::flock(fd_.get(), LOCK_EX | LOCK_NB, path.c_str()) != 0) {
      // EINTR counts as taken by another: we look again soon.
      return errno != EWOULDBLOCK && errno != EACCES && errno != EINTR;
    }
    struct stat info {};
    return ::fstat(fd_.get(), &info) == 0 && info.st_nlink != 0;
  }

  sys::Descriptor fd_;
};

// Links `pointer` to a blob; what is there already and leads to it stays.
void link_pointer(const std::string& pointer, const std::string& target, std::uint64_t size_bytes) {
  make_directories(parent_path(pointer), kDirectoryMode);
  if (is_regular(pointer, size_bytes)) return;
  remove_name(pointer);
  if (sys::symlink(target.c_str(), pointer.c_str()) == 0) return;
  const int error_number = errno;
  // Another process was as fast.
  if (error_number == EEXIST && is_regular(pointer, size_bytes)) return;
  if (error_number == EPERM || error_number == ENOTSUP || error_number == ENOSYS) {
    throw Error(ErrorCode::unsupported, "the cache lies where there are no symbolic links")
        .in_file(pointer)
        .hint("let HF_HUB_CACHE name a directory on another file system");
  }
  throw sys::failure("link to the blob", pointer, error_number);
}

// `../../blobs/<etag>` from where the pointer lies.
std::string link_target(const TreeFile& file) {
  std::string target = "../../";
  for (auto i = std::ranges::count(file.path, '/'); i > 0; --i) target += "../";
  return target + "blobs/" + cache_etag(file);
}

void check_file(const TreeFile& file) {
  if (const auto why = repo_path_problem(file.path)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} cannot be a file of the cache: {}", quote(file.path), *why));
  }
  const std::string& etag = cache_etag(file);
  if (file.sha256.empty() ? !is_commit(etag) : !is_sha256(etag)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} is no digest of a file, as the cache needs for its name",
                            quote(etag.substr(0, 80))))
        .in_file(file.path);
  }
}

std::string quoted(const std::string& text) { return dump_json(Json(text)); }

}  // namespace

const std::string& cache_etag(const TreeFile& file) noexcept {
  return file.sha256.empty() ? file.blob_id : file.sha256;
}

struct CacheFileWriter::State {
  State(BlobLock held, const TreeFile& wanted, std::string blob_path, std::string pointer_path)
      : lock(std::move(held)),
        file(wanted),
        blob(std::move(blob_path)),
        pointer(std::move(pointer_path)),
        part(fmt::format("{}.{}.incomplete", blob, random_hex())),
        out(part.path()),
        digest(wanted) {}

  BlobLock lock;
  TreeFile file;
  std::string blob;
  std::string pointer;
  PartFile part;
  OutputFile out;
  std::mutex mutex;
  ContentDigest digest;
  std::uint64_t hashed_bytes = 0;                // from the front
  std::uint64_t flushed_bytes = 0;               // of those, on their way to the disk
  std::map<std::uint64_t, std::uint64_t> later;  // begin -> end, written but not hashed yet

  void hash_later_bytes();
};

// Reads again what came out of order.
void CacheFileWriter::State::hash_later_bytes() {
  std::optional<FileSource> written;
  std::vector<std::byte> buffer;
  for (auto next = later.begin(); next != later.end() && next->first == hashed_bytes; ++next) {
    if (!written) written.emplace(part.path());
    while (hashed_bytes < next->second) {
      buffer.resize(std::min(kReadBytes, next->second - hashed_bytes));
      written->read_at(hashed_bytes, buffer);
      digest.update(buffer);
      hashed_bytes += buffer.size();
    }
  }
}

CacheFileWriter::CacheFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
CacheFileWriter::~CacheFileWriter() = default;
CacheFileWriter::CacheFileWriter(CacheFileWriter&&) noexcept = default;
CacheFileWriter& CacheFileWriter::operator=(CacheFileWriter&&) noexcept = default;

void CacheFileWriter::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  State& state = *state_;
  if (!in_range(offset_bytes, bytes.size(), state.file.size_bytes)) {
    throw Error(ErrorCode::corrupt, "more bytes came than the Hub has listed")
        .in_file(state.file.path)
        .at({offset_bytes, offset_bytes + bytes.size()}, state.file.size_bytes);
  }
  state.out.write_at(offset_bytes, bytes);
  const std::lock_guard guard(state.mutex);
  if (offset_bytes != state.hashed_bytes) {
    state.later.emplace(offset_bytes, offset_bytes + bytes.size());
    return;
  }
  state.digest.update(bytes);
  state.hashed_bytes += bytes.size();
  if (state.hashed_bytes - state.flushed_bytes < kWritebackBytes) return;
  state.out.start_writeback(state.flushed_bytes, state.hashed_bytes - state.flushed_bytes);
  state.flushed_bytes = state.hashed_bytes;
}

void CacheFileWriter::finish() {
  State& state = *state_;
  state.hash_later_bytes();
  if (state.hashed_bytes != state.file.size_bytes) {
    throw Error(ErrorCode::corrupt, "a file ended before all its bytes had come")
        .in_file(state.file.path)
        .at({0, state.hashed_bytes}, state.file.size_bytes);
  }
  const std::string& wanted = cache_etag(state.file);
  const std::string found = state.digest.finish();
  if (found != wanted) {
    throw Error(ErrorCode::corrupt, fmt::format("the {} of what came is {}, not {} as the Hub has "
                                                "listed",
                                                state.digest.name(), found, wanted))
        .in_file(state.file.path)
        .hint(
            "run the same command again; if that does not help, the Hub or its mirror is damaged");
  }
  state.out.sync_data();
  state.part.rename_to(state.blob);
  link_pointer(state.pointer, link_target(state.file), state.file.size_bytes);
}

CacheWriter::CacheWriter(std::string root, std::string_view repo, std::string commit,
                         CacheWait wait)
    : root_(std::move(root)),
      repo_(root_, repo),
      locks_(join_path(root_, ".locks/" + cache_folder_name(repo))),
      commit_(std::move(commit)),
      wait_(std::move(wait)) {
  if (const auto why = repo_id_problem(repo)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is no model's id: {}", quote(repo), *why));
  }
  if (!is_commit(commit_)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is no commit", quote(commit_)));
  }
}

bool CacheWriter::has(const TreeFile& file) const {
  return is_regular(join_path(snapshot_path(), file.path), file.size_bytes) ||
         is_regular(repo_.blob_path(cache_etag(file)), file.size_bytes);
}

std::optional<CacheFileWriter> CacheWriter::begin(const TreeFile& file) const {
  check_file(file);
  const std::string pointer = join_path(snapshot_path(), file.path);
  if (is_regular(pointer, file.size_bytes)) return std::nullopt;
  const std::string blob = repo_.blob_path(cache_etag(file));
  make_directories(parent_path(blob), kDirectoryMode);
  if (const std::string tag = join_path(root_, "CACHEDIR.TAG"); !exists(tag)) {
    replace_file(tag, kTag);
  }
  BlobLock lock(fmt::format("{}/{}.lock", locks_, cache_etag(file)), wait_);
  if (is_regular(blob, file.size_bytes)) {
    link_pointer(pointer, link_target(file), file.size_bytes);
    return std::nullopt;
  }
  if (const std::uint64_t free = free_bytes(parent_path(blob)); free < file.size_bytes) {
    throw Error(ErrorCode::limit, fmt::format("the file needs {} in the cache, which has {} free",
                                              human_bytes(file.size_bytes), human_bytes(free)))
        .in_file(file.path)
        .hint("free some space, or let HF_HUB_CACHE name another directory");
  }
  return CacheFileWriter(
      std::make_unique<CacheFileWriter::State>(std::move(lock), file, blob, pointer));
}

void CacheWriter::write_tree(const std::vector<TreeFile>& tree) const {
  std::map<std::string_view, const TreeFile*> sorted;
  for (const TreeFile& file : tree) sorted.emplace(file.path, &file);
  // As json.dump(indent=1) has it: the client's own file, byte for byte.
  std::string text = "{\n \"format_version\": 1,\n \"files\": {";
  std::string_view comma;
  for (const auto& [path, file] : sorted) {
    text += fmt::format("{}\n  {}: {{\n   \"size\": {},\n   \"blob_id\": {}", comma,
                        quoted(file->path), file->size_bytes, quoted(file->blob_id));
    if (!file->sha256.empty()) {
      text += fmt::format(",\n   \"lfs_sha256\": {},\n   \"lfs_size\": {}", quoted(file->sha256),
                          file->size_bytes);
    }
    if (!file->xet_hash.empty()) {
      text += fmt::format(",\n   \"xet_hash\": {}", quoted(file->xet_hash));
    }
    text += "\n  }";
    comma = ",";
  }
  text += sorted.empty() ? "}\n}" : "\n }\n}";
  replace_file(repo_.tree_path(commit_), text);
}

void CacheWriter::write_ref(std::string_view revision) const {
  if (is_commit(revision)) return;
  if (const auto why = revision_problem(revision)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is no revision: {}", quote(revision), *why));
  }
  HFSHARD_CHECK(repo_.has_snapshot(commit_));
  const std::string path = repo_.ref_path(revision);
  // One that holds blanks too is none to the Python client.
  if (is_regular(path, commit_.size()) && read_file(path, commit_.size()) == commit_) return;
  replace_file(path, commit_);
}

}  // namespace hfshard
