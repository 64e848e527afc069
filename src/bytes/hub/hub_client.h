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
#include "bytes/http/http.h"

#include "hfshard/hub.h"

namespace hfshard {

/// A hub's final answer, after redirects between hubs and retries.
struct HubAnswer {
  int status = 0;
  HttpHeaders headers;
  std::string body;
  std::string url;                       ///< of the hub that answered
  std::optional<std::string> elsewhere;  ///< its redirect to a data host
};

/// Returns the wait before the `attempt`-th retry (from 0): the time in the answer, or a doubling
/// time, with jitter. Source: hub-protocol 1.9.
std::chrono::milliseconds retry_wait(unsigned attempt, const HttpHeaders* headers,
                                     std::uint32_t retry_ms);
/// Returns whether a retry can help: 408, 429, 500, 502, 503, 504.
bool is_transient(int status) noexcept;
/// Returns whether a status is 301 to 308, except 304.
bool is_redirect(int status) noexcept;

/// Counts of requests to a hub and its data hosts, and of received bytes.
struct HubTraffic {
  std::atomic<std::uint64_t> hub_requests = 0;
  std::atomic<std::uint64_t> data_requests = 0;
  std::atomic<std::uint64_t> data_bytes = 0;  ///< bodies of files, failed tries included
};

class HubReads;

/// Blocks until `done()` returns true. Notifiers must hold the mutex when they change it. Gives up
/// when `stop` (can be null) is set. Throws: cancelled.
void wait_unless_stopped(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         const std::atomic<bool>* stop, const std::function<bool()>& done);

/// A client of one hub. It knows the hub's hosts, which of them get the token, and the meaning of
/// refusals. Thread-safe; but callbacks must not destroy it.
class HubClient {
 public:
  /// Throws: usage (an endpoint that isn't an http or https URL), limit.
  explicit HubClient(HubOptions options);
  ~HubClient();
  HubClient(const HubClient&) = delete;
  HubClient& operator=(const HubClient&) = delete;
  const HubOptions& options() const noexcept { return options_; }
  HttpLoop& loop() const noexcept { return loop_; }
  HubTraffic& traffic() const noexcept { return traffic_; }
  /// Returns whether a question was given up because the hub didn't answer or had trouble.
  bool is_away() const noexcept { return away_; }
  /// Reports a failed try and the next one, which is `attempt` of `most`. Reports only if the wait
  /// since `since` becomes long, and not each of many. Only for the loop's thread.
  void tell_failed(const std::string& url, const std::string& why, unsigned attempt, unsigned most,
                   std::chrono::milliseconds wait, std::chrono::steady_clock::time_point since);
  /// Reports an answer that doesn't come.
  void tell_silent(const std::string& url, unsigned attempt, unsigned most);
  /// Returns the endpoint, without a trailing slash.
  const std::string& endpoint() const noexcept { return options_.endpoint; }

  struct Question {
    std::string url;
    std::optional<ByteRange> range;  ///< the body comes without encoding
    std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  };
  /// Called on the loop's thread, with an answer or a failure (network, cancelled).
  using Answered = std::function<void(HubAnswer answer, const std::exception_ptr& failure)>;
  void ask(Question question, Answered answered);
  /// Asks and blocks until the answer. Throws: network, cancelled (HubOptions::stop).
  HubAnswer ask_now(Question question);

  /// Returns the reader for ranges of this hub's files.
  HubReads& reads() const noexcept { return *reads_; }

  /// Returns whether this is the endpoint or a hub that it can redirect to. Only those get the
  /// token.
  bool is_hub(const HttpOrigin& origin) const;
  /// Returns the header lines of a request, with the token if it may go there.
  std::vector<std::string> headers_for(const std::string& url) const;
  /// Returns the error for a refusal: not_found, network, ... `repo` is the model; `file` can be
  /// empty.
  Error refusal(const HubAnswer& answer, const std::string& repo, const std::string& revision,
                const std::string& file) const;

 private:
  void tell_wait(const std::string& url, const std::string& what);

  HubOptions options_;
  HttpOrigin origin_;
  friend class HubTalk;
  mutable HubTraffic traffic_;
  std::atomic<bool> away_ = false;
  // Only for the loop's thread.
  bool answers_ = false;                                       // the hub has answered
  std::optional<std::chrono::steady_clock::time_point> told_;  // last report of a wait
  std::unique_ptr<HubReads> reads_;
  mutable HttpLoop loop_;  // ends first: its work uses the rest
};

}  // namespace hfshard
