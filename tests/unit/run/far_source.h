#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes/local/arrivals.h"
#include "bytes/store/store.h"

#include "hfshard/error.h"

namespace hfshard {

/// Files of this machine that are read as if they came over a network. Keeps what is read of them.
class FarStore final : public Store {
 public:
  struct Ask {
    std::string name;
    ByteRange range;
    friend bool operator==(const Ask&, const Ask&) = default;
  };
  struct Keeper {
    std::string name;
    std::uint32_t file = 0;
    friend bool operator==(const Keeper&, const Keeper&) = default;
  };

  /// `is_far` tells by their names which files are on the network; empty: all of them.
  explicit FarStore(std::function<bool(const std::string&)> is_far = {})
      : is_far_(std::move(is_far)) {}

  std::string text(const std::string& name) const override { return "far:" + name; }
  std::vector<std::string> list(const std::string& name) const override {
    return local_->list(name);
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    auto out = local_->find(name);
    if (out) out->identity.inodes.clear();
    return out;
  }
  std::unique_ptr<SourceFile> open(const std::string& name) const override {
    return std::make_unique<FarFile>(*this, name, local_->open(name));
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> /*behind*/) const override {
    return open(name);
  }
  bool is_far(const std::string& name) const override { return !is_far_ || is_far_(name); }
  std::string revision() const override { return commit; }
  std::optional<NetworkUse> network_use() const override {
    const std::lock_guard lock(mutex_);
    return NetworkUse{7, asks_.size(), bytes_, 0, 0};
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override { return {}; }

  /// Returns the reads since the last call, in their order.
  std::vector<Ask> take_asks() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(asks_, {});
  }
  /// Returns the files that keep what arrives, with their numbers.
  std::vector<Keeper> keepers() const {
    const std::lock_guard lock(mutex_);
    return keepers_;
  }

  std::string commit;

 private:
  // A read that ends when it is waited for.
  class Later final : public PendingRead {
   public:
    Later(const SourceFile& file, std::uint64_t offset_bytes, std::span<std::byte> out)
        : file_(file), offset_bytes_(offset_bytes), out_(out) {}
    void wait() override { file_.read_at(offset_bytes_, out_); }

   private:
    const SourceFile& file_;
    std::uint64_t offset_bytes_;
    std::span<std::byte> out_;
  };

  class FarFile final : public SourceFile {
   public:
    FarFile(const FarStore& store, const std::string& name, std::unique_ptr<SourceFile> file)
        : store_(store), place_(name), name_(store.text(name)), file_(std::move(file)) {}
    std::uint64_t size_bytes() const override { return file_->size_bytes(); }
    const std::string& name() const override { return name_; }
    void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
      file_->read_at(offset_bytes, out);
      store_.asked({place_, {offset_bytes, offset_bytes + out.size()}});
    }
    FileIdentity identity() const override {
      FileIdentity out = file_->identity();
      out.inodes.clear();
      return out;
    }
    void check_unchanged() const override {
      const auto now = store_.find(place_);
      if (!now || now->identity != identity()) throw changed_source(name_);
    }
    bool is_far() const noexcept override { return store_.is_far(place_); }
    std::unique_ptr<PendingRead> start_read(std::uint64_t offset_bytes,
                                            std::span<std::byte> out) const override {
      return std::make_unique<Later>(*this, offset_bytes, out);
    }
    void keep_in(const std::shared_ptr<Arrivals>& /*arrivals*/, std::uint32_t file) override {
      store_.keeps({place_, file});
    }
    bool takes_hints() const noexcept override { return false; }

   private:
    const FarStore& store_;
    const std::string place_;
    const std::string name_;
    const std::unique_ptr<SourceFile> file_;
  };

  void asked(Ask ask) const {
    const std::lock_guard lock(mutex_);
    bytes_ += ask.range.end - ask.range.begin;
    asks_.push_back(std::move(ask));
  }
  void keeps(Keeper keeper) const {
    const std::lock_guard lock(mutex_);
    keepers_.push_back(std::move(keeper));
  }

  std::function<bool(const std::string&)> is_far_;
  std::shared_ptr<const Store> local_ = local_store();
  mutable std::mutex mutex_;
  mutable std::vector<Ask> asks_;
  mutable std::vector<Keeper> keepers_;
  mutable std::uint64_t bytes_ = 0;
};

}  // namespace hfshard
