#include "bytes/hub/hub_client.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"
#include "base/version.h"
#include "bytes/hub/hub_answers.h"
#include "bytes/hub/hub_reads.h"

namespace hfshard {
namespace {

constexpr unsigned kMostTries = 6;
constexpr unsigned kFewTries = 3;  // if no one answers
constexpr unsigned kMostHops = 5;
constexpr std::uint64_t kMostErrorBytes = std::uint64_t{64} << 10;
constexpr std::chrono::milliseconds kLongestWait{300'000};
constexpr std::chrono::milliseconds kLookAtStop{100};
using Clock = std::chrono::steady_clock;

// Returns the number after `;name=` in a RateLimit line.
std::optional<std::uint64_t> parameter(const std::string& line, std::string_view name) {
  for (const std::string& part : split(line, ';')) {
    if (!part.starts_with(name) || part.size() <= name.size() || part[name.size()] != '=') continue;
    std::uint64_t value = 0;
    for (const char c : part.substr(name.size() + 1)) {
      if (!is_digit(c) || value > 1'000'000) return std::nullopt;
      value = value * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return value;
  }
  return std::nullopt;
}

// Returns the seconds of a Retry-After line: a number or a date.
std::optional<std::uint64_t> retry_after(const std::string& line) {
  if (!line.empty() && line.size() < 7 && std::ranges::all_of(line, is_digit)) {
    return std::stoull(line);
  }
  std::tm when{};
  const char* const end = strptime(line.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &when);
  if (end == nullptr || *end != 0) return std::nullopt;
  const std::time_t left = timegm(&when) - std::time(nullptr);
  return left > 0 ? static_cast<std::uint64_t>(left) : 0;
}

std::string request_id(const HttpHeaders& headers) {
  for (const char* name : {"x-request-id", "x-amzn-trace-id", "x-amz-cf-id"}) {
    if (const auto id = headers.find(name)) return fmt::format(" (request {})", printable(*id));
  }
  return {};
}

// Returns the message in an answer. Empty for a page for people.
std::string words_of(const HubAnswer& answer) {
  constexpr std::size_t kMostWords = 300;
  if (const auto message = answer.headers.find("x-error-message")) {
    return printable(message->substr(0, kMostWords));
  }
  const std::string type = answer.headers.find("content-type").value_or("");
  if (type.find("html") != std::string::npos) return {};
  try {
    const Json body = parse_json(answer.body, "answer");
    const Json* said = body.find("error");
    if (said == nullptr) said = body.find("error_description");
    if (said != nullptr && said->is_array() && !said->as_array().empty()) {
      said = said->as_array().data();
    }
    if (said != nullptr && said->is_string()) {
      return printable(said->as_string().substr(0, kMostWords));
    }
  } catch (const Error&) {  // not JSON: used as text
  }
  return printable(answer.body.substr(0, kMostWords));
}

std::string user_agent(const HubOptions& options) {
  std::string out = fmt::format("hfshard/{}", kVersion);
  if (!options.user_agent_suffix.empty()) out += "; " + options.user_agent_suffix;
  return out;
}

}  // namespace

bool is_transient(int status) noexcept {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

bool is_redirect(int status) noexcept { return status >= 301 && status <= 308 && status != 304; }

std::chrono::milliseconds retry_wait(unsigned attempt, const HttpHeaders* headers,
                                     std::uint32_t retry_ms) {
  if (headers != nullptr) {
    std::optional<std::uint64_t> seconds;
    if (const auto line = headers->find("ratelimit"); line && parameter(*line, "r") == 0) {
      seconds = parameter(*line, "t");
    }
    if (!seconds) {
      if (const auto line = headers->find("retry-after")) seconds = retry_after(*line);
    }
    if (seconds) {
      const auto wait =
          std::chrono::milliseconds((std::min<std::uint64_t>(*seconds, 300) + 1) * retry_ms);
      return std::min(wait, kLongestWait);
    }
  }
  static thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<double> jitter(0.75, 1.25);
  const double wait = retry_ms * static_cast<double>(1U << std::min(attempt, 3U)) * jitter(random);
  return std::chrono::milliseconds(static_cast<std::int64_t>(wait));
}

// One question, from its first request to its answer. Lives while any part of it is in progress.
class HubTalk : public std::enable_shared_from_this<HubTalk> {
 public:
  HubTalk(HubClient& client, HubClient::Question question, HubClient::Answered answered)
      : client_(client), question_(std::move(question)), answered_(std::move(answered)) {
    answer_.url = question_.url;
  }

  void begin() {
    guarded([this] {
      const std::chrono::milliseconds due(client_.options().note_ms);
      client_.loop().post(
          [weak = weak_from_this()] {
            if (const auto self = weak.lock()) self->look();
          },
          due);
      send();
    });
  }

 private:
  struct Receiver final : HttpReceiver {
    explicit Receiver(std::shared_ptr<HubTalk> of) : talk(std::move(of)) {}
    bool head(int status, const HttpHeaders& headers) override {
      talk->client_.answers_ = true;
      talk->answer_.status = status;
      talk->answer_.headers = headers;
      return true;
    }
    bool body(std::span<const std::byte> bytes) override { return talk->take(bytes); }
    void ended(const HttpEnd& end) override {
      talk->guarded([&] { talk->ended(end); });
    }
    std::shared_ptr<HubTalk> talk;
  };

  // Someone waits for the answer, so a failure of the work is the answer.
  template <typename Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (...) {  // the caller gets it
      finish(std::current_exception());
    }
  }

  void send() {
    answer_.status = 0;
    answer_.body.clear();
    too_long_ = false;
    ++client_.traffic().hub_requests;
    HttpRequest request{answer_.url, client_.headers_for(answer_.url), question_.range, false};
    request.any_encoding = !question_.range;
    client_.loop().start(request, std::make_unique<Receiver>(shared_from_this()));
  }

  // Tells the user about a first try without an answer.
  void look() {
    if (!ended_ && tries_ == 0 && answer_.status == 0) {
      client_.tell_silent(answer_.url, 1, kMostTries);
    }
  }

  // Retries more often if the hub has answered before. Otherwise more tries are useless.
  unsigned most_tries(HttpFault fault) const {
    const bool nobody = fault == HttpFault::unreached && !client_.answers_;
    return nobody || fault == HttpFault::no_host ? kFewTries : kMostTries;
  }

  bool take(std::span<const std::byte> bytes) {
    const bool wanted = answer_.status >= 200 && answer_.status < 300;
    const std::uint64_t most = wanted ? question_.max_body_bytes : kMostErrorBytes;
    if (answer_.body.size() + bytes.size() > most) {
      too_long_ = true;
      return !wanted;  // an error's front suffices; keeps the connection
    }
    answer_.body.append(as_text(bytes));
    return true;
  }

  void ended(const HttpEnd& end) {
    const bool answered = end.fault == HttpFault::none;
    if (end.thrown) return finish(end.thrown);
    if (end.fault == HttpFault::stopped && !too_long_) {
      return fail(ErrorCode::cancelled, "the request was canceled");
    }
    if (too_long_ && answer_.status < 300) return finish(nullptr);  // the caller checks the size
    if (!answered && end.fault != HttpFault::refused) {
      return again(end.message, most_tries(end.fault), nullptr);
    }
    if (!answered) return fail(ErrorCode::network, end.message);
    if (is_transient(answer_.status)) {
      return again(fmt::format("status {}{}", answer_.status, request_id(answer_.headers)),
                   kMostTries, &answer_.headers);
    }
    if (is_redirect(answer_.status)) return redirect();
    finish(nullptr);
  }

  void redirect() {
    const Redirect next = redirect_of(answer_.url, answer_.headers);
    if (next.url.empty()) return fail(ErrorCode::network, "it " + next.problem);
    if (!client_.is_hub(*origin_of(next.url))) {
      answer_.elsewhere = next.url;
      return finish(nullptr);
    }
    if (++hops_ > kMostHops) return fail(ErrorCode::network, "the server redirects in circles");
    answer_.url = next.url;
    send();
  }

  void again(const std::string& why, unsigned most, const HttpHeaders* headers) {
    if (tries_ + 1 >= most) {
      client_.away_ = true;
      return fail(ErrorCode::network, fmt::format("{}; hfshard tried {} times", why, most),
                  "check the network (HTTPS_PROXY, HF_ENDPOINT) and run again, or set "
                  "HF_HUB_OFFLINE=1 to read only the cache");
    }
    const auto wait = retry_wait(tries_++, headers, client_.options().retry_ms);
    client_.tell_failed(answer_.url, why, tries_ + 1, most, wait, begun_);
    client_.loop().post([self = shared_from_this()] { self->guarded([&self] { self->send(); }); },
                        wait);
  }

  void fail(ErrorCode code, const std::string& why, std::string_view hint = {}) {
    Error error(code, why);
    error.in_file(shown_url(answer_.url)).hint(hint);
    finish(std::make_exception_ptr(error));
  }

  void finish(const std::exception_ptr& failure) {
    if (std::exchange(ended_, true)) return;
    const HubClient::Answered answered = std::move(answered_);
    answered(std::move(answer_), failure);
  }

  HubClient& client_;
  HubClient::Question question_;
  HubClient::Answered answered_;
  HubAnswer answer_;
  unsigned tries_ = 0;
  unsigned hops_ = 0;
  bool too_long_ = false;
  bool ended_ = false;
  Clock::time_point begun_ = Clock::now();
};

namespace {

HubOptions checked(HubOptions options) {
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!origin_of(options.endpoint)) {
    throw Error(ErrorCode::usage, fmt::format("the Hub's address {} isn't an http or https URL",
                                              quote(shown_url(options.endpoint))))
        .hint("set HF_ENDPOINT to an address such as https://huggingface.co");
  }
  if (options.find_token) options.find_token(options);
  return options;
}

HttpSettings settings_of(const HubOptions& options) {
  return {std::chrono::seconds(options.metadata_timeout_seconds),
          std::chrono::seconds(options.download_timeout_seconds), user_agent(options),
          options.ca_file};
}

}  // namespace

HubClient::HubClient(HubOptions options)
    : options_(checked(std::move(options))),
      origin_(*origin_of(options_.endpoint)),
      reads_(std::make_unique<HubReads>(*this)),
      loop_(settings_of(options_)) {}

HubClient::~HubClient() = default;

bool HubClient::is_hub(const HttpOrigin& origin) const {
  return origin == origin_ || (origin.is_https() && origin.port == "443" &&
                               (origin.host == "huggingface.co" || origin.host == "hf.co"));
}

std::vector<std::string> HubClient::headers_for(const std::string& url) const {
  if (options_.token.empty()) return {};
  const auto origin = origin_of(url);
  if (!origin || !is_hub(*origin)) return {};
  if (!origin->is_https() && !origin->is_loopback()) return {};
  return {"Authorization: Bearer " + options_.token};
}

void HubClient::tell_failed(const std::string& url, const std::string& why, unsigned attempt,
                            unsigned most, std::chrono::milliseconds wait,
                            Clock::time_point since) {
  if (Clock::now() - since + wait < std::chrono::milliseconds(options_.note_ms)) return;
  const auto seconds = std::chrono::round<std::chrono::seconds>(wait).count();
  tell_wait(url, fmt::format("{}; attempt {} of {} in {} s", why, attempt, most, seconds));
}

void HubClient::tell_silent(const std::string& url, unsigned attempt, unsigned most) {
  tell_wait(url, fmt::format("no answer yet; attempt {} of {}", attempt, most));
}

void HubClient::tell_wait(const std::string& url, const std::string& what) {
  const auto now = Clock::now();
  const auto origin = origin_of(url);
  if (!options_.note || !origin) return;
  if (told_ && now - *told_ < std::chrono::milliseconds(options_.note_ms)) return;
  told_ = now;
  options_.note(fmt::format("waiting for {}:{}: {}", origin->host, origin->port, what));
}

void HubClient::ask(Question question, Answered answered) {
  auto talk = std::make_shared<HubTalk>(*this, std::move(question), std::move(answered));
  loop_.post([talk] { talk->begin(); });
}

void wait_unless_stopped(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         const std::atomic<bool>* stop, const std::function<bool()>& done) {
  while (!changed.wait_for(lock, kLookAtStop, done)) {
    if (stop != nullptr && stop->load()) throw Error(ErrorCode::cancelled, "interrupted");
  }
}

HubAnswer HubClient::ask_now(Question question) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable came;
    bool done = false;
    HubAnswer answer;
    std::exception_ptr failure;
  };
  const auto shared =
      std::make_shared<Answer>();  // shared, since an interrupted caller doesn't wait
  ask(std::move(question), [shared](HubAnswer answer, const std::exception_ptr& failure) {
    const std::lock_guard lock(shared->mutex);
    shared->answer = std::move(answer);
    shared->failure = failure;
    shared->done = true;
    shared->came.notify_one();
  });
  std::unique_lock lock(shared->mutex);
  wait_unless_stopped(shared->came, lock, options_.stop, [&] { return shared->done; });
  if (shared->failure) std::rethrow_exception(shared->failure);
  return std::move(shared->answer);
}

Error HubClient::refusal(const HubAnswer& answer, const std::string& repo,
                         const std::string& revision, const std::string& file) const {
  const std::string code = answer.headers.find("x-error-code").value_or("");
  const std::string said = words_of(answer);
  const std::string id = request_id(answer.headers);
  const auto tell = [&](ErrorCode kind, const std::string& sentence, const std::string& hint) {
    Error error(kind, sentence + id);
    error.in_file(shown_url(answer.url));
    if (!hint.empty()) error.hint(hint);
    return error;
  };
  const std::string page = fmt::format("{}/{}", endpoint(), repo);
  const bool anonymous = options_.token.empty();
  if (code == "RevisionNotFound") {
    return tell(ErrorCode::not_found, fmt::format("{} has no revision {}", repo, quote(revision)),
                "");
  }
  // A mirror can leave the code out. The file was in a listing.
  if (code == "EntryNotFound" || (answer.status == 404 && code.empty() && !file.empty())) {
    return tell(ErrorCode::not_found,
                fmt::format("{} has no file {} at this commit", repo, quote(file)), "");
  }
  if (code == "GatedRepo") {
    return tell(
        ErrorCode::access, fmt::format("{} is gated: you must accept its license", repo),
        anonymous
            ? fmt::format(
                  "open {}, accept the license, and set HF_TOKEN to a token of your account", page)
            : fmt::format("open {} with the account of the token from {}, and accept the license",
                          page, options_.token_from));
  }
  if (answer.status == 403 && said == "Access to this resource is disabled.") {
    return tell(ErrorCode::access, fmt::format("the Hub disabled {}", repo), "");
  }
  const bool bad_token = said.starts_with("Invalid credentials");
  if (code == "RepoNotFound" || (answer.status == 401 && !bad_token) ||
      (answer.status == 404 && code.empty())) {
    return tell(ErrorCode::not_found,
                fmt::format("{} isn't a model on {}, or it is private", repo, endpoint()),
                anonymous ? "check the name; if the model is private, set HF_TOKEN"
                          : fmt::format("check the name; the token from {} may lack access to it",
                                        options_.token_from));
  }
  if (answer.status == 401) {
    return tell(ErrorCode::access, "the Hub refused the token",
                fmt::format("it came from {}", options_.token_from));
  }
  if (answer.status == 403) {
    return tell(
        ErrorCode::access, fmt::format("the Hub forbids this{}{}", said.empty() ? "" : ": ", said),
        anonymous ? "set HF_TOKEN to a token with read access"
                  : fmt::format("the token from {} may lack read access", options_.token_from));
  }
  return tell(ErrorCode::network,
              fmt::format("status {}{}{}", answer.status, said.empty() ? "" : ": ", said), "");
}

}  // namespace hfshard
