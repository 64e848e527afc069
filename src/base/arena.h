#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace hfshard {

/// Every data-plane buffer of a run (design.md 7). One private anonymous mapping; a caller takes
/// its whole need at once or waits, so there is no hold-and-wait. Most recently freed memory is
/// used first, so that a fast disk touches few fresh pages. Thread-safe.
class Arena {
 public:
  /// Movable handle of one block; gives it back when destroyed. Blocks are 4096-byte aligned. Must
  /// not outlive the Arena.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();
    std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
    void release() noexcept;

   private:
    friend class Arena;
    Block(Arena* arena, std::byte* data, std::size_t size) noexcept
        : arena_(arena), data_(data), size_(size) {}
    Arena* arena_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
  };

  /// Maps `size_bytes`, rounded up to pages, without touching them. With `huge_pages`, uses 2 MiB
  /// pages if the system offers them. Memory that is used once is available sooner in small pages,
  /// which the system can recycle. Throws: limit when the mapping is refused.
  explicit Arena(std::uint64_t size_bytes, bool huge_pages = true);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::uint64_t size_bytes() const noexcept { return size_; }
  /// Takes `need_bytes`, waiting until they are free. Throws: cancelled once closed; internal if
  /// need > size.
  Block take(std::uint64_t need_bytes);
  /// Takes them without waiting. Returns an empty block if they are not free now.
  Block try_take(std::uint64_t need_bytes);
  /// Blocks until `ready` returns true. Calls it at once, and again whenever a block is released.
  /// Returns false if all blocks were released and `ready` still returns false. `ready` must not
  /// use this arena. Throws: cancelled once closed.
  bool wait_for(const std::function<bool()>& ready);
  /// Ends all present and future waits with `cancelled`. Called before a failure propagates, else
  /// oneTBB's pipeline would never return.
  void close() noexcept;
  /// Highest number of bytes taken at one time.
  std::uint64_t peak_bytes() const;

 private:
  struct Extent {
    std::uint64_t begin;
    std::uint64_t size;
  };
  // Empty if no extent is large enough. Under the mutex.
  Block cut(std::uint64_t need);
  void give_back(std::uint64_t begin, std::uint64_t size) noexcept;

  std::byte* base_ = nullptr;
  std::uint64_t size_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Extent> free_;  // most recently freed first
  std::uint64_t taken_ = 0;
  std::uint64_t peak_ = 0;
  bool closed_ = false;
};

}  // namespace hfshard
