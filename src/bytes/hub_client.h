#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/json.h"
#include "bytes/http.h"

#include "hfshard/hub.h"

namespace hfshard {

/// What a hub answered in the end: redirects between hubs followed, what is worth another try tried
/// again.
struct HubAnswer {
  int status = 0;
  HttpHeaders headers;
  std::string body;
  std::string url;                       ///< of the hub, that answered
  std::optional<std::string> elsewhere;  ///< where it sent us, which is no hub
};

/// How long to wait before the `attempt`-th further try (from 0), by what the answer says of it or
/// doubling, with jitter. Source: hub-protocol 1.9.
std::chrono::milliseconds retry_wait(unsigned attempt, const HttpHeaders* headers,
                                     std::uint32_t retry_ms);
/// 408, 429, 500, 502, 503, 504.
bool is_transient(int status) noexcept;
/// 301 to 308, but for 304.
bool is_redirect(int status) noexcept;

/// What was asked of a hub and of where it sent us, and what came.
struct HubTraffic {
  std::atomic<std::uint64_t> hub_requests = 0;
  std::atomic<std::uint64_t> data_requests = 0;
  std::atomic<std::uint64_t> data_bytes = 0;  ///< bodies of files, of tries in vain too
};

class HubReads;

/// Waits until `done` says so, which who notifies `changed` makes true under the lock's mutex;
/// gives up when `stop` (may be null) is set. Throws: cancelled.
void wait_unless_stopped(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         const std::atomic<bool>* stop, const std::function<bool()>& done);

/// Speaks to a hub: who it is, whom the token may reach, what its refusals mean. Thread-safe, but
/// for its end, which belongs to none of its callbacks.
class HubClient {
 public:
  /// Throws: usage (an endpoint that is no http or https URL), limit.
  explicit HubClient(HubOptions options);
  ~HubClient();
  HubClient(const HubClient&) = delete;
  HubClient& operator=(const HubClient&) = delete;
  const HubOptions& options() const noexcept { return options_; }
  HttpLoop& loop() const noexcept { return loop_; }
  HubTraffic& traffic() const noexcept { return traffic_; }
  /// Whether a question was given up since nobody, or nobody but a hub in trouble, answered it.
  bool is_away() const noexcept { return away_; }
  /// A try that failed, and the next one, which is `attempt` of `most`: told where the wait since
  /// `since` becomes a long one, but not of every one of many. On the loop's thread.
  void tell_failed(const std::string& url, const std::string& why, unsigned attempt, unsigned most,
                   std::chrono::milliseconds wait, std::chrono::steady_clock::time_point since);
  /// The same of an answer that does not come.
  void tell_silent(const std::string& url, unsigned attempt, unsigned most);
  /// Without a slash at its end.
  const std::string& endpoint() const noexcept { return options_.endpoint; }

  struct Question {
    std::string url;
    std::optional<ByteRange> range;  ///< then the body comes as it is stored
    std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  };
  /// Called on the loop's thread, with an answer or a failure (network, cancelled).
  using Answered = std::function<void(HubAnswer answer, const std::exception_ptr& failure)>;
  void ask(Question question, Answered answered);
  /// The same, waiting. Throws: network, cancelled (HubOptions::stop).
  HubAnswer ask_now(Question question);

  /// Reads ranges of this hub's files.
  HubReads& reads() const noexcept { return *reads_; }

  /// Whether this is the endpoint or a hub that it may send us to: only those see the token.
  bool is_hub(const HttpOrigin& origin) const;
  /// The header lines of a request: the token where it may go.
  std::vector<std::string> headers_for(const std::string& url) const;
  /// Why a hub refused something of a model: not_found, network, ... `what` is the model, `file`
  /// may be empty.
  Error refusal(const HubAnswer& answer, const std::string& repo, const std::string& revision,
                const std::string& file) const;

 private:
  void tell_wait(const std::string& url, const std::string& what);

  HubOptions options_;
  HttpOrigin origin_;
  friend class HubTalk;
  mutable HubTraffic traffic_;
  std::atomic<bool> away_ = false;
  // Of the loop's thread.
  bool answers_ = false;                                       // anything came so far
  std::optional<std::chrono::steady_clock::time_point> told_;  // of a wait, last
  std::unique_ptr<HubReads> reads_;
  mutable HttpLoop loop_;  // ends first: what runs there uses the rest
};

}  // namespace hfshard
