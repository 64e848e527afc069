#include "base/arena.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include <sys/mman.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {
constexpr std::uint64_t kPage = 4096;
}  // namespace

Arena::Block::Block(Block&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Arena::Block& Arena::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    release();
    arena_ = std::exchange(other.arena_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Arena::Block::~Block() { release(); }

void Arena::Block::release() noexcept {
  if (arena_ == nullptr) return;
  arena_->give_back(static_cast<std::uint64_t>(data_ - arena_->base_), size_);
  arena_ = nullptr;
  data_ = nullptr;
  size_ = 0;
}

Arena::Arena(std::uint64_t size_bytes, bool huge_pages)
    : size_(round_up(std::max(size_bytes, kPage), kPage)) {
  void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::limit,
                fmt::format("the system refuses {} of memory for buffers", human_bytes(size_)))
        .hint("lower --max-memory, or raise the limit (ulimit -d, cgroup)");
  }
  base_ = static_cast<std::byte*>(mapped);
  // Pages of 2 MiB where the system has them: strided kernels miss fewer translations, and a device
  // moves a block in few pieces (bench/README.md).
  (void)::madvise(base_, size_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  free_.reserve(1024);  // give_back must not allocate
  free_.push_back({0, size_});
}

Arena::~Arena() { ::munmap(base_, size_); }

Arena::Block Arena::take(std::uint64_t need_bytes) {
  const std::uint64_t need = round_up(std::max<std::uint64_t>(need_bytes, 1), kPage);
  HFSHARD_CHECK(need <= size_);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closed_) throw Error(ErrorCode::cancelled, "the run was stopped");
    if (Block block = cut(need); block.size_ > 0) return block;
    freed_.wait(lock);
  }
}

Arena::Block Arena::try_take(std::uint64_t need_bytes) {
  const std::lock_guard lock(mutex_);
  return cut(round_up(std::max<std::uint64_t>(need_bytes, 1), kPage));
}

bool Arena::wait_for(const std::function<bool()>& ready) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closed_) throw Error(ErrorCode::cancelled, "the run was stopped");
    if (ready()) return true;
    if (taken_ == 0) return false;
    freed_.wait(lock);
  }
}

Arena::Block Arena::cut(std::uint64_t need) {
  const auto fit = std::ranges::find_if(free_, [&](const Extent& e) { return e.size >= need; });
  if (fit == free_.end()) return {};
  const std::uint64_t begin = fit->begin;
  fit->begin += need;
  fit->size -= need;
  if (fit->size == 0) free_.erase(fit);
  taken_ += need;
  peak_ = std::max(peak_, taken_);
  return {this, base_ + begin, need};
}

void Arena::give_back(std::uint64_t begin, std::uint64_t size) noexcept {
  {
    const std::lock_guard lock(mutex_);
    taken_ -= size;
    Extent merged{begin, size};
    std::erase_if(free_, [&](const Extent& e) {
      if (e.begin + e.size == merged.begin) {
        merged = {e.begin, e.size + merged.size};
        return true;
      }
      if (merged.begin + merged.size == e.begin) {
        merged.size += e.size;
        return true;
      }
      return false;
    });
    free_.insert(free_.begin(), merged);
  }
  freed_.notify_all();
}

void Arena::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  freed_.notify_all();
}

std::uint64_t Arena::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace hfshard
