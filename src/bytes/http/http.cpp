#include "bytes/http/http.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <pthread.h>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/threads.h"
#include "bytes/http/libcurl.h"

namespace hfshard {
namespace {

constexpr std::size_t kMaxHeaderBytes = std::size_t{256} << 10;
constexpr long kCallBytes = 256L << 10;  // the most that one body call gets
constexpr std::size_t kStackBytes = std::size_t{512} << 10;
constexpr long kMostConnections = 40;

// A wrapper of libcurl's URL parser.
class Url {
 public:
  Url() : url_(libcurl().url()) {}
  ~Url() { libcurl().url_cleanup(url_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;
  // A second call is relative to the first.
  bool set(const std::string& text) {
    return url_ != nullptr &&
           libcurl().url_set(url_, CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER) == CURLUE_OK;
  }
  std::string get(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (libcurl().url_get(url_, part, &text, flags) != CURLUE_OK) return {};
    std::string out(text);
    libcurl().free(text);
    return out;
  }
  bool is_http() const {
    const std::string scheme = get(CURLUPART_SCHEME);
    return (scheme == "http" || scheme == "https") && !get(CURLUPART_HOST).empty();
  }

 private:
  CURLU* url_;
};

// Classifies a CURLcode by whether a retry can help (hub-protocol: libcurl's error classes).
HttpFault fault_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpFault::none;
    case CURLE_COULDNT_RESOLVE_HOST:
      return HttpFault::no_host;
    case CURLE_COULDNT_CONNECT:
      return HttpFault::unreached;
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return HttpFault::away;
    case CURLE_WRITE_ERROR:
      return HttpFault::stopped;
    default:
      return HttpFault::refused;
  }
}

}  // namespace

bool HttpOrigin::is_loopback() const {
  return host == "localhost" || host == "[::1]" || host.ends_with(".localhost") ||
         (host.starts_with("127.") &&
          std::ranges::all_of(host, [](char c) { return is_digit(c) || c == '.'; }));
}

std::optional<HttpOrigin> origin_of(const std::string& text) {
  Url url;
  if (!url.set(text) || !url.is_http()) return std::nullopt;
  return HttpOrigin{lower_case(url.get(CURLUPART_SCHEME)), lower_case(url.get(CURLUPART_HOST)),
                    url.get(CURLUPART_PORT, CURLU_DEFAULT_PORT)};
}

std::optional<std::string> resolve_location(const std::string& text, const std::string& location) {
  Url url;
  if (location.empty() || !url.set(text) || !url.set(location) || !url.is_http()) {
    return std::nullopt;
  }
  return url.get(CURLUPART_URL);
}

std::string shown_url(const std::string& url) { return url.substr(0, url.find_first_of("?#")); }

void HttpHeaders::add(std::string_view name, std::string_view value) {
  lines_.emplace_back(lower_case(name), value);
}

std::optional<std::string> HttpHeaders::find(std::string_view name) const {
  const std::vector<std::string> found = all(name);
  if (found.empty()) return std::nullopt;
  return found.back();
}

std::vector<std::string> HttpHeaders::all(std::string_view name) const {
  std::vector<std::string> out;
  for (const auto& [key, value] : lines_) {
    if (key == name) out.push_back(value);
  }
  return out;
}

struct HttpLoop::State {
  using Clock = std::chrono::steady_clock;

  // One exchange: libcurl's handle and the receiver.
  struct Exchange {
    ~Exchange() {
      libcurl().easy_cleanup(easy);
      libcurl().slist_free_all(lines);
    }
    Id id = 0;
    CURL* easy = nullptr;
    curl_slist* lines = nullptr;
    std::unique_ptr<HttpReceiver> receiver;
    HttpHeaders headers;
    std::size_t header_bytes = 0;
    std::exception_ptr thrown;
    std::string refusal;  // why hfshard ends it
    std::array<char, CURL_ERROR_SIZE> message{};
  };
  struct Due {
    Clock::time_point at;
    std::uint64_t order = 0;
    std::function<void()> work;
    friend bool operator<(const Due& a, const Due& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;  // the earliest is on top
    }
  };

  HttpSettings settings;
  CURLM* multi = nullptr;
  std::mutex mutex;
  std::vector<Due> due;  // a heap; under mutex, with `orders` and `ending`
  std::uint64_t orders = 0;
  bool ending = false;
  // Only for the loop's thread.
  std::map<Id, std::unique_ptr<Exchange>> running;
  Id last_id = 0;
  pthread_t thread{};

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    const std::string_view line(data, size);
    return guarded(exchange, [&] { return take_header(exchange, line); }) ? size : 0;
  }

  // Returns false to end the exchange.
  static bool take_header(Exchange& exchange, std::string_view line) {
    exchange.header_bytes += line.size();
    if (exchange.header_bytes > kMaxHeaderBytes) {
      exchange.refusal = fmt::format("the response has more than {} of header lines",
                                     human_bytes(kMaxHeaderBytes));
      return false;
    }
    if (line.starts_with("HTTP/")) {  // drops a previous answer's headers
      exchange.headers.clear();
      return true;
    }
    if (line == "\r\n" || line == "\n") {
      long status = 0;
      libcurl().easy_getinfo(exchange.easy, CURLINFO_RESPONSE_CODE, &status);
      return status < 200 || exchange.receiver->head(static_cast<int>(status), exchange.headers);
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    std::string_view value = line.substr(colon + 1);
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
    while (!value.empty() && blank(value.front())) value.remove_prefix(1);
    while (!value.empty() && blank(value.back())) value.remove_suffix(1);
    exchange.headers.add(line.substr(0, colon), value);
    return true;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) {
    auto& exchange = *static_cast<Exchange*>(user);
    const auto bytes = std::as_bytes(std::span(data, size));
    return guarded(exchange, [&] { return exchange.receiver->body(bytes); }) ? size : 0;
  }

  // No exception may pass through libcurl.
  template <typename Work>
  static bool guarded(Exchange& exchange, const Work& work) {
    try {
      return work();
    } catch (...) {  // the receiver gets it at the end
      exchange.thrown = std::current_exception();
      return false;
    }
  }

  void end(Id id, HttpFault fault, std::string message) {
    const auto found = running.find(id);
    if (found == running.end()) return;
    const std::unique_ptr<Exchange> exchange = std::move(found->second);
    running.erase(found);
    libcurl().multi_remove_handle(multi, exchange->easy);
    try {
      exchange->receiver->ended({fault, std::move(message), exchange->thrown});
    } catch (...) {  // receivers report their own failures
    }
  }

  void take_ended() {
    int left = 0;
    while (const CURLMsg* message = libcurl().multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Exchange* exchange = nullptr;
      libcurl().easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
      HttpFault fault = HttpFault::stopped;
      std::string text;
      const CURLcode code = message->data.result;
      // Ends the exchange even without memory for the message.
      guarded(*exchange, [&] { return judge(*exchange, code, fault, text); });
      end(exchange->id, fault, std::move(text));
    }
  }

  // Returns whether the exchange succeeded. Otherwise sets the fault's message.
  static bool judge(const Exchange& exchange, CURLcode code, HttpFault& fault, std::string& text) {
    long proxy = 0;
    libcurl().easy_getinfo(exchange.easy, CURLINFO_HTTP_CONNECTCODE, &proxy);
    fault = fault_of(code);
    if (code != CURLE_OK && proxy >= 400) fault = HttpFault::refused;
    if (!exchange.refusal.empty()) fault = HttpFault::refused;
    if (code == CURLE_OK) return true;
    text = exchange.message[0] != 0 ? exchange.message.data() : libcurl().easy_strerror(code);
    if (!exchange.refusal.empty()) text = exchange.refusal;
    return false;
  }

  // Does the due work, and sets `wait` to the time without work. Returns false if the loop must
  // end.
  bool work_off(std::chrono::milliseconds& wait) {
    std::unique_lock lock(mutex);
    while (!ending && !due.empty() && due.front().at <= Clock::now()) {
      std::pop_heap(due.begin(), due.end());
      const std::function<void()> work = std::move(due.back().work);
      due.pop_back();
      lock.unlock();
      try {
        work();
      } catch (...) {  // see post
      }
      lock.lock();
    }
    wait = std::chrono::milliseconds(1000);
    if (!due.empty()) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(due.front().at - Clock::now());
      wait = std::clamp(left + std::chrono::milliseconds(1), std::chrono::milliseconds(0), wait);
    }
    return !ending;
  }

  void run() {
    std::chrono::milliseconds wait(0);
    while (work_off(wait)) {
      int active = 0;
      libcurl().multi_perform(multi, &active);
      take_ended();
      {
        const std::lock_guard lock(mutex);  // the end of an exchange can add work
        if (!due.empty() && due.front().at <= Clock::now()) continue;
      }
      libcurl().multi_poll(multi, nullptr, 0, static_cast<int>(wait.count()), nullptr);
    }
    while (!running.empty()) end(running.begin()->first, HttpFault::stopped, "stopped");
  }
};

HttpLoop::HttpLoop(HttpSettings settings) : state_(std::make_unique<State>()) {
  state_->settings = std::move(settings);
  state_->multi = libcurl().multi_init();
  if (state_->multi == nullptr) throw Error(ErrorCode::limit, "libcurl is out of memory");
  libcurl().multi_setopt(state_->multi, CURLMOPT_MAXCONNECTS, kMostConnections);
  libcurl().multi_setopt(state_->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int failed = pthread_create(
      &state_->thread, &attributes,
      [](void* state) -> void* {
        static_cast<State*>(state)->run();
        return nullptr;
      },
      state_.get());
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    libcurl().multi_cleanup(state_->multi);
    throw Error(refused_thread(2, 2, failed,
                               "raise the limit (ulimit -u, ulimit -v, cgroup pids.max); hfshard "
                               "reads the network on a thread of its own"));
  }
}

HttpLoop::~HttpLoop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  libcurl().multi_wakeup(state_->multi);
  pthread_join(state_->thread, nullptr);
  libcurl().multi_cleanup(state_->multi);
}

HttpLoop::Id HttpLoop::start(const HttpRequest& request, std::unique_ptr<HttpReceiver> receiver) {
  State& state = *state_;
  auto exchange = std::make_unique<State::Exchange>();
  exchange->id = ++state.last_id;
  exchange->easy = libcurl().easy_init();
  if (exchange->easy == nullptr) throw Error(ErrorCode::limit, "libcurl is out of memory");
  exchange->receiver = std::move(receiver);
  CURL* const easy = exchange->easy;
  for (const std::string& line : request.headers) {
    exchange->lines = libcurl().slist_append(exchange->lines, line.c_str());
  }
  if (request.any_encoding) {
    libcurl().easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  } else {
    exchange->lines = libcurl().slist_append(exchange->lines, "Accept-Encoding: identity");
  }
  libcurl().easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  libcurl().easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->lines);
  if (request.range) {
    libcurl().easy_setopt(
        easy, CURLOPT_RANGE,
        fmt::format("{}-{}", request.range->begin, request.range->end - 1).c_str());
  }
  libcurl().easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  libcurl().easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  // Each transfer has its own connection, since streams share a connection's window (hub-protocol
  // 1.10).
  libcurl().easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  libcurl().easy_setopt(easy, CURLOPT_CONNECTTIMEOUT,
                        static_cast<long>(state.settings.connect_timeout.count()));
  libcurl().easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kLeastSpeed);
  libcurl().easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                        static_cast<long>(state.settings.idle_timeout.count()));
  libcurl().easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  libcurl().easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  libcurl().easy_setopt(easy, CURLOPT_BUFFERSIZE, kCallBytes);
  libcurl().easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  libcurl().easy_setopt(easy, CURLOPT_USERAGENT, state.settings.user_agent.c_str());
  if (!state.settings.ca_file.empty()) {
    libcurl().easy_setopt(easy, CURLOPT_CAINFO, state.settings.ca_file.c_str());
  }
  libcurl().easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->message.data());
  libcurl().easy_setopt(easy, CURLOPT_PRIVATE, exchange.get());
  libcurl().easy_setopt(easy, CURLOPT_HEADERFUNCTION, &State::on_header);
  libcurl().easy_setopt(easy, CURLOPT_HEADERDATA, exchange.get());
  libcurl().easy_setopt(easy, CURLOPT_WRITEFUNCTION, &State::on_body);
  libcurl().easy_setopt(easy, CURLOPT_WRITEDATA, exchange.get());
  const CURLMcode added = libcurl().multi_add_handle(state.multi, easy);
  if (added != CURLM_OK) throw Error(ErrorCode::internal, libcurl().multi_strerror(added));
  const Id id = exchange->id;
  state.running.emplace(id, std::move(exchange));
  return id;
}

void HttpLoop::stop(Id id) { state_->end(id, HttpFault::stopped, "stopped"); }

void HttpLoop::post(std::function<void()> work, std::chrono::milliseconds wait) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->due.push_back({State::Clock::now() + wait, state_->orders++, std::move(work)});
    std::push_heap(state_->due.begin(), state_->due.end());
  }
  libcurl().multi_wakeup(state_->multi);
}

}  // namespace hfshard
