// Adds a file to the cache so that readers in any process see all of it or nothing:
//   1. Makes the directories, and CACHEDIR.TAG.
//   2. Locks .locks/<repo>/<etag>.lock with flock(2), as Python's filelock and the Rust client do.
//      Continues if the file system has no locks, since the other steps don't need them.
//   3. Checks blobs/<etag> again, since another process can have added it meanwhile.
//   4. Writes blobs/<etag>.<8 hex>.incomplete, whose name is unique. With the lock held, existing
//      ones have no owner: continues the newest, and removes the others.
//   5. Compares its size and digest, which the Python client doesn't do.
//   6. Makes it durable and renames it to blobs/<etag>.
//   7. Links snapshots/<commit>/<path> to it, with a relative path.
//   8. Releases the lock, whose file stays.
// Renames replace trees/<commit>.json, refs/<revision> and CACHEDIR.TAG, with a lock of
// the cache's directory. A reference needs an existing snapshot.
#include "bytes/hub/hf_cache_writer.h"

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
#include "bytes/hub/content_digest.h"
#include "bytes/hub/hub_name.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "bytes/local/syscalls.h"
#include <sys/file.h>
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A group can share a cache, so the umask sets the modes.
constexpr mode_t kFileMode = 0666;
constexpr mode_t kDirectoryMode = 0777;
constexpr mode_t kLockMode = 0664;  // as huggingface_hub does, ignoring the umask
constexpr std::chrono::milliseconds kPoll{50};
constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kWritebackBytes = std::uint64_t{8} << 20;
// Ends of the names of files and of texts that aren't complete.
constexpr std::string_view kIncomplete = ".incomplete";
constexpr std::string_view kTemporary = ".tmp";
// Source: huggingface_hub, _local_folder.py, byte for byte.
constexpr std::string_view kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by huggingface_hub.\n"
    "# For information about cache directory tags, see:\n"
    "#\thttps://bford.info/cachedir/\n";

// A unique name for a part of `file`.
std::string part_name(std::string_view file, std::string_view end) {
  std::random_device random;
  return fmt::format("{}.{:08x}{}", file, random(), end);
}

bool is_regular(const std::string& path, std::uint64_t size_bytes) {
  const auto info = file_info(path);
  return info && info->kind == FileKind::regular && info->stamp.size_bytes == size_bytes;
}

// Removes a name. It is fine if it doesn't exist.
void remove_name(const std::string& path) {
  if (sys::unlinkat(AT_FDCWD, path.c_str(), 0, path.c_str()) == 0 || errno == ENOENT) return;
  throw sys::failure("remove", path, errno);
}

// A file with a unique name. It is removed unless it gets its final name.
class PartFile {
 public:
  // `is_there`: a killed process left the file. Otherwise it is made.
  explicit PartFile(std::string path, bool is_there = false) : path_(std::move(path)) {
    if (is_there) return;
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

// The lock of one blob, which is a file, or of all texts, which is the cache's directory. It is
// held while the object lives.
class CacheLock {
 public:
  enum class Of : std::uint8_t { blob, texts };
  CacheLock(Of what, const std::string& path, const CacheWait& wait) : of_(what) {
    make_directories(parent_path(path), kDirectoryMode);
    const auto begin = std::chrono::steady_clock::now();
    while (!take(path)) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begin);
      if (wait.waiting) wait.waiting(path, waited);
      if (waited >= wait.longest) {
        throw Error(ErrorCode::limit, "another process has locked this file of the cache")
            .in_file(path)
            .hint("wait until its download is done");
      }
      std::this_thread::sleep_for(std::min(kPoll, wait.longest - waited));
    }
  }
  // Returns false if the file system has no locks.
  bool is_held() const noexcept { return is_held_; }

 private:
  bool take(const std::string& path) {
    // The file is never written or truncated.
    const int flags =
        of_ == Of::blob ? O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK : O_RDONLY | O_DIRECTORY;
    fd_ = sys::Descriptor(sys::open(path.c_str(), flags | O_CLOEXEC, kLockMode));
    if (fd_.get() < 0) throw sys::failure("open the lock", path, errno);
    if (of_ == Of::blob) (void)::fchmod(fd_.get(), kLockMode);  // refused if another user owns it
    if (sys::flock(fd_.get(), LOCK_EX | LOCK_NB, path.c_str()) != 0) {
      // EINTR counts as locked, since the caller tries again soon.
      return errno != EWOULDBLOCK && errno != EACCES && errno != EINTR;
    }
    is_held_ = true;
    struct stat info {};
    return ::fstat(fd_.get(), &info) == 0 && info.st_nlink != 0;
  }

  Of of_;
  sys::Descriptor fd_;
  bool is_held_ = false;
};

// Returns whether a name is hfshard's, or the Python client's, for a part of `file`. Names without
// digits are from the client's older versions, which continue them themselves.
bool is_part_name(std::string_view name, std::string_view file, std::string_view end) {
  constexpr std::size_t kDigits = 8;
  if (name.size() != file.size() + 1 + kDigits + end.size()) return false;
  const std::string_view digits = name.substr(file.size() + 1, kDigits);
  return name.starts_with(file) && name[file.size()] == '.' && name.ends_with(end) &&
         digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

// Replaces a file of the cache with a text at once. With the lock held, temporary files of it have
// no owner: removes those that killed processes left.
void replace_file(const std::string& root, const CacheWait& wait, const std::string& path,
                  std::string_view text) {
  make_directories(root, kDirectoryMode);
  const CacheLock lock(CacheLock::Of::texts, root, wait);
  const std::string directory = parent_path(path);
  make_directories(directory, kDirectoryMode);
  if (lock.is_held()) {
    for (const std::string& name : list_directory(directory)) {
      if (is_part_name(name, entry_name(path), kTemporary)) remove_name(join_path(directory, name));
    }
  }
  PartFile part(part_name(path, kTemporary));
  OutputFile(part.path()).write_at(0, as_bytes(text));
  part.rename_to(path);
}

// Finds incomplete files that killed processes left for a blob whose lock is held. Removes all but
// the newest, and also that one if it can't be the file's front. Empty if none stays.
std::string take_leftover(const std::string& blob, std::uint64_t size_bytes) {
  const std::string directory = parent_path(blob);
  std::string newest;
  std::int64_t newest_ns = 0;
  for (const std::string& name : list_directory(directory)) {
    if (!is_part_name(name, entry_name(blob), kIncomplete)) continue;
    const std::string path = join_path(directory, name);
    const auto info = file_info(path);
    const bool fits = info && info->kind == FileKind::regular && !is_symlink(path) &&
                      info->stamp.size_bytes > 0 && info->stamp.size_bytes <= size_bytes;
    if (!fits || (!newest.empty() && info->stamp.mtime_ns < newest_ns)) {
      remove_name(path);
      continue;
    }
    if (!newest.empty()) remove_name(newest);
    newest = path;
    newest_ns = info->stamp.mtime_ns;
  }
  return newest;
}

// Links `pointer` to a blob. Keeps an existing link to it.
void link_pointer(const std::string& pointer, const std::string& target, std::uint64_t size_bytes) {
  make_directories(parent_path(pointer), kDirectoryMode);
  if (is_regular(pointer, size_bytes)) return;
  remove_name(pointer);
  if (sys::symlink(target.c_str(), pointer.c_str()) == 0) return;
  const int error_number = errno;
  // Another process linked it first.
  if (error_number == EEXIST && is_regular(pointer, size_bytes)) return;
  if (error_number == EPERM || error_number == ENOTSUP || error_number == ENOSYS) {
    throw Error(ErrorCode::unsupported, "the cache's file system doesn't support symbolic links")
        .in_file(pointer)
        .hint("set HF_HUB_CACHE to a directory on another file system");
  }
  throw sys::failure("link to the blob", pointer, error_number);
}

// Returns `../../blobs/<etag>` relative to the pointer.
std::string link_target(const TreeFile& file) {
  std::string target = "../../";
  for (auto i = std::ranges::count(file.path, '/'); i > 0; --i) target += "../";
  return target + "blobs/" + cache_etag(file);
}

void check_file(const TreeFile& file) {
  if (const auto why = repo_path_problem(file.path)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the cache can't hold the file {}: {}", quote(file.path), *why));
  }
  const std::string& etag = cache_etag(file);
  if (file.sha256.empty() ? !is_commit(etag) : !is_sha256(etag)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} isn't a file digest, which the cache needs as a name",
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
  // Continues `leftover`, or begins a new file if it is empty.
  State(CacheLock held, const TreeFile& wanted, std::string blob_path, std::string pointer_path,
        const std::string& leftover)
      : lock(std::move(held)),
        file(wanted),
        blob(std::move(blob_path)),
        pointer(std::move(pointer_path)),
        part(leftover.empty() ? part_name(blob, kIncomplete) : leftover, !leftover.empty()),
        out(part.path()),
        digest(wanted),
        there_bytes(out.size_bytes()) {
    if (there_bytes == 0) return;
    later.emplace(0, there_bytes);
    hash_later_bytes();
    later.clear();
    flushed_bytes = hashed_bytes;
  }

  CacheLock lock;
  TreeFile file;
  std::string blob;
  std::string pointer;
  PartFile part;
  OutputFile out;
  std::mutex mutex;
  ContentDigest digest;
  const std::uint64_t there_bytes;
  std::uint64_t hashed_bytes = 0;                // from the front
  std::uint64_t flushed_bytes = 0;               // of these, sent to the disk
  std::map<std::uint64_t, std::uint64_t> later;  // begin -> end, written but not hashed yet

  void hash_later_bytes();
};

// Reads the bytes again that were written out of order.
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

std::uint64_t CacheFileWriter::there_bytes() const noexcept { return state_->there_bytes; }

void CacheFileWriter::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
  State& state = *state_;
  if (!in_range(offset_bytes, bytes.size(), state.file.size_bytes)) {
    throw Error(ErrorCode::corrupt, "the server sent more bytes than the Hub listed")
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
    throw Error(ErrorCode::corrupt, "a file ended before all its bytes arrived")
        .in_file(state.file.path)
        .at({0, state.hashed_bytes}, state.file.size_bytes);
  }
  const std::string& wanted = cache_etag(state.file);
  const std::string found = state.digest.finish();
  if (found != wanted) {
    throw Error(ErrorCode::corrupt,
                fmt::format("the {} of the received bytes is {}, and the Hub lists {}",
                            state.digest.name(), found, wanted))
        .in_file(state.file.path)
        .hint("run the same command again; if that doesn't help, the Hub or its mirror is damaged");
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
    throw Error(ErrorCode::bad_input, fmt::format("{} isn't a model's id: {}", quote(repo), *why));
  }
  if (!is_commit(commit_)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} isn't a commit", quote(commit_)));
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
    replace_file(root_, wait_, tag, kTag);
  }
  CacheLock lock(CacheLock::Of::blob, fmt::format("{}/{}.lock", locks_, cache_etag(file)), wait_);
  if (is_regular(blob, file.size_bytes)) {
    link_pointer(pointer, link_target(file), file.size_bytes);
    return std::nullopt;
  }
  const std::string leftover =
      lock.is_held() ? take_leftover(blob, file.size_bytes) : std::string();
  const std::uint64_t there = leftover.empty() ? 0 : file_info(leftover)->stamp.size_bytes;
  const std::uint64_t needed = file.size_bytes - there;
  if (const std::uint64_t free = free_bytes(parent_path(blob)); free < needed) {
    throw Error(ErrorCode::limit, fmt::format("the file needs {} in the cache, and {} are free",
                                              human_bytes(needed), human_bytes(free)))
        .in_file(file.path)
        .hint("free some space, or set HF_HUB_CACHE to another directory");
  }
  return CacheFileWriter(
      std::make_unique<CacheFileWriter::State>(std::move(lock), file, blob, pointer, leftover));
}

void CacheWriter::write_tree(const std::vector<TreeFile>& tree) const {
  std::map<std::string_view, const TreeFile*> sorted;
  for (const TreeFile& file : tree) sorted.emplace(file.path, &file);
  // Has the form of json.dump(indent=1), so the bytes equal those of the client's file.
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
  replace_file(root_, wait_, repo_.tree_path(commit_), text);
}

void CacheWriter::write_ref(std::string_view revision) const {
  if (is_commit(revision)) return;
  if (const auto why = revision_problem(revision)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} isn't a revision: {}", quote(revision), *why));
  }
  HFSHARD_CHECK(repo_.has_snapshot(commit_));
  const std::string path = repo_.ref_path(revision);
  // The Python client ignores a reference that has blanks.
  if (is_regular(path, commit_.size()) && read_file(path, commit_.size()) == commit_) return;
  replace_file(root_, wait_, path, commit_);
}

}  // namespace hfshard
