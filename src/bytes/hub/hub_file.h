#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes/hub/hf_cache.h"
#include "bytes/hub/hub_client.h"

namespace hfshard {

/// A model of a hub at one commit.
struct HubRepo {
  std::string name;    ///< org/name
  std::string commit;  ///< 40 hex digits
};

/// One file of a model and the place of its bytes. Asks for the place once, and again when it
/// expires. Only for the loop's thread.
class HubFile : public std::enable_shared_from_this<HubFile> {
 public:
  /// `client` can be null; then the file can't be read.
  HubFile(HubClient* client, HubRepo repo, TreeFile listing);
  const TreeFile& listing() const noexcept { return listing_; }
  /// Returns the name for errors: `hf://org/name@commit/path`.
  const std::string& name() const noexcept { return name_; }

  /// The place of the bytes.
  struct Target {
    std::string url;
    bool of_hub = false;       ///< a hub has them itself
    std::uint64_t number = 0;  ///< number of the answer
  };
  using Found = std::function<void(const Target&, const std::exception_ptr&)>;
  void locate(const Found& found);
  /// Drops a refused place. The next call of `locate` asks for another.
  void forget(std::uint64_t number);
  /// Throws: conflict, if the bytes had another ETag before. A hub and a data host have their own.
  void check_etag(const Target& target, const std::string& etag);

 private:
  void located(const HubAnswer& answer);
  void tell(const std::exception_ptr& failure);

  HubClient* client_;
  HubRepo repo_;
  TreeFile listing_;
  std::string name_;
  std::optional<Target> target_;
  std::string hub_etag_;
  std::string data_etag_;
  std::uint64_t answers_ = 0;
  std::chrono::steady_clock::time_point expires_;
  bool asking_ = false;
  std::vector<Found> waiting_;
};

}  // namespace hfshard
