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

/// Scheme, host and port of a URL, all three: what a credential may be sent to.
struct HttpOrigin {
  std::string scheme;  ///< lower case
  std::string host;    ///< lower case
  std::string port;    ///< the scheme's, if the URL names none
  bool is_loopback() const;
  bool is_https() const { return scheme == "https"; }
  friend bool operator==(const HttpOrigin&, const HttpOrigin&) = default;
};

/// Nothing if it is no http or https URL, or has a user in it.
std::optional<HttpOrigin> origin_of(const std::string& url);
/// Where a `Location` leads from `url` (RFC 3986); nothing as above.
std::optional<std::string> resolve_location(const std::string& url, const std::string& location);
/// A URL as people are told it: without query and fragment, which may be a signature.
std::string shown_url(const std::string& url);

/// The header lines of an answer.
class HttpHeaders {
 public:
  void add(std::string_view name, std::string_view value);
  void clear() { lines_.clear(); }
  /// The last line of that name (in lower case), or nothing.
  std::optional<std::string> find(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::optional<ByteRange> range;
  bool any_encoding = false;  ///< the body may come compressed, and is unpacked
};

/// Why an exchange has ended.
enum class HttpFault : std::uint8_t {
  none,
  away,       ///< cut, or silent for too long: to be tried again
  unreached,  ///< nobody listens there, or no way leads there, now at least
  no_host,    ///< the name is not known, now at least
  refused,    ///< certificates, a proxy, the URL: the same the next time
  stopped,    ///< by its receiver, or because the loop ends
};

struct HttpEnd {
  HttpFault fault = HttpFault::none;
  std::string message;        ///< of a fault
  std::exception_ptr thrown;  ///< by the receiver, which stopped it
};

/// What becomes of an answer. All calls come from the loop's thread, one at a time.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  /// Once, before the body. False ends the exchange.
  virtual bool head(int status, const HttpHeaders& headers) = 0;
  /// False ends the exchange.
  virtual bool body(std::span<const std::byte> bytes) = 0;
  /// Once, last.
  virtual void ended(const HttpEnd& end) = 0;
};

struct HttpSettings {
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds idle_timeout{10};  ///< without one byte
  std::string user_agent;
  std::string ca_file;  ///< empty: the system's
};

/// HTTP exchanges on one thread, any number at a time. Redirects are not followed, statuses not
/// judged. Thread-safe.
class HttpLoop {
 public:
  using Id = std::uint64_t;
  /// Throws: limit (no thread), internal.
  explicit HttpLoop(HttpSettings settings);
  /// Ends what still runs; their receivers are told.
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  /// GETs. On the loop's thread only: see `post`.
  Id start(const HttpRequest& request, std::unique_ptr<HttpReceiver> receiver);
  /// Ends an exchange, whose receiver is told; one that has ended is fine. On the loop's thread.
  void stop(Id id);
  /// Does some work on the loop's thread, soon or later. What it throws is lost. Work whose time
  /// has not come when the loop ends is dropped.
  void post(std::function<void()> work, std::chrono::milliseconds wait = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hfshard
