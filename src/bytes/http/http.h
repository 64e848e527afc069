#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hfshard/error.h"

namespace hfshard {

/// Scheme, host and port of a URL. A credential is for all three.
struct HttpOrigin {
  std::string scheme;  ///< lower case
  std::string host;    ///< lower case
  std::string port;    ///< given, or the scheme's
  bool is_loopback() const;
  bool is_https() const { return scheme == "https"; }
  friend bool operator==(const HttpOrigin&, const HttpOrigin&) = default;
};

/// Empty if it isn't an http or https URL, or has a user in it.
std::optional<HttpOrigin> origin_of(const std::string& url);
/// Returns the target of a `Location` from `url` (RFC 3986). Empty as above.
std::optional<std::string> resolve_location(const std::string& url, const std::string& location);
/// Returns a URL for messages: without query and fragment, which can have a signature.
std::string shown_url(const std::string& url);

/// The header lines of an answer.
class HttpHeaders {
 public:
  void add(std::string_view name, std::string_view value);
  void clear() { lines_.clear(); }
  /// Returns the last line with that name (in lower case), if any.
  std::optional<std::string> find(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::optional<ByteRange> range;
  bool any_encoding = false;  ///< the body is decompressed
};

/// Why an exchange ended.
enum class HttpFault : std::uint8_t {
  none,
  away,       ///< cut off or too slow: retry
  unreached,  ///< nothing listens, or no route exists
  no_host,    ///< the name isn't known
  refused,    ///< certificates, proxy or URL: don't retry
  stopped,    ///< by the receiver, or the loop's end
};

struct HttpEnd {
  HttpFault fault = HttpFault::none;
  std::string message;        ///< of a fault
  std::exception_ptr thrown;  ///< by the receiver
};

/// Receives an answer. All calls come from the loop's thread, one at a time.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  /// Called once, before the body. Returning false ends the exchange.
  virtual bool head(int status, const HttpHeaders& headers) = 0;
  /// Called for parts of the body. Returning false ends the exchange.
  virtual bool body(std::span<const std::byte> bytes) = 0;
  /// Called once, last.
  virtual void ended(const HttpEnd& end) = 0;
};

/// Bytes per second. A slower server counts as silent.
inline constexpr long kLeastSpeed = 1024;

struct HttpSettings {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds idle_timeout{10};  ///< with less than kLeastSpeed
  std::string user_agent;
  std::string ca_file;  ///< empty: the system's
};

/// Runs HTTP exchanges on one thread, any number at a time. Doesn't follow redirects or judge
/// statuses. Thread-safe.
class HttpLoop {
 public:
  using Id = std::uint64_t;
  /// Throws: io (no thread), limit (no memory).
  explicit HttpLoop(HttpSettings settings);
  /// Ends running exchanges and tells their receivers.
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  /// Sends a GET request. Only for the loop's thread: see `post`.
  Id start(const HttpRequest& request, std::unique_ptr<HttpReceiver> receiver);
  /// Ends an exchange and tells its receiver. Fine if it has ended. Only for the loop's thread.
  void stop(Id id);
  /// Does work on the loop's thread, after `wait`. Ignores its exceptions, so work that someone
  /// waits for must catch its own. Drops work that isn't due when the loop ends.
  void post(std::function<void()> work, std::chrono::milliseconds wait = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hfshard
