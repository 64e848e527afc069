#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes/hf_cache.h"
#include "bytes/hub_client.h"

namespace hfshard {

/// A model of a hub at one commit.
struct HubRepo {
  std::string name;    ///< org/name
  std::string commit;  ///< 40 hex digits
};

/// One file of a model: where its bytes are, asked once and again when that place expires. All of
/// it on the loop's thread.
class HubFile : public std::enable_shared_from_this<HubFile> {
 public:
  /// `client` may be null: then it cannot be read.
  HubFile(HubClient* client, HubRepo repo, TreeFile listing);
  const TreeFile& listing() const noexcept { return listing_; }
  /// As errors name it: `hf://org/name@commit/path`.
  const std::string& name() const noexcept { return name_; }

  /// Where the bytes are.
  struct Target {
    std::string url;
    bool of_hub = false;       ///< a hub itself has them
    std::uint64_t number = 0;  ///< counts the answers
    std::string etag;          ///< of the first answer of that place
  };
  using Found = std::function<void(const Target&, const std::exception_ptr&)>;
  void locate(const Found& found);
  /// A place was refused; the next call of locate asks for another.
  void forget(std::uint64_t number);
  /// Throws: conflict, if bytes with another ETag came from there before.
  void check_etag(const std::string& etag);

 private:
  void located(const HubAnswer& answer);

  HubClient* client_;
  HubRepo repo_;
  TreeFile listing_;
  std::string name_;
  std::optional<Target> target_;
  std::string etag_;
  std::uint64_t answers_ = 0;
  std::chrono::steady_clock::time_point expires_;
  bool asking_ = false;
  std::vector<Found> waiting_;
};

}  // namespace hfshard
