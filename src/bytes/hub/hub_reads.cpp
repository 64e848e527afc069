#include "bytes/hub/hub_reads.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"
#include "bytes/hub/hub_answers.h"

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMostReadTries = 6;  // of a range, without progress
constexpr unsigned kMostFailures = 20;  // consecutive, of all ranges
constexpr unsigned kPausingFailures = 4;
constexpr unsigned kFirstConnections = 4;  // or fewer, by the options
constexpr unsigned kMostReadHops = 5;
constexpr std::uint64_t kMostSaidBytes = 512;  // of a data host's message
constexpr std::chrono::milliseconds kRateWindow{500};
constexpr double kWorthMore = 1.1;  // of the rate with half the connections
constexpr unsigned kWindowsBetween = 20;
constexpr std::size_t kKeepBytes = std::size_t{64} << 10;  // at least, at once

}  // namespace

// State that the loop's thread shares with the waiting thread.
struct HubRead::State {
  State(HttpLoop& of, const std::atomic<bool>* stops) : loop(of), stop(stops) {}
  HttpLoop& loop;
  const std::atomic<bool>* stop;
  std::shared_ptr<RangeRead> read;  // until it is done; only for the loop's thread
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure;
};

HubRead& HubRead::operator=(HubRead&& other) noexcept {
  if (this != &other) {
    end();
    state_ = std::move(other.state_);
  }
  return *this;
}

void HubRead::wait() const {
  std::unique_lock lock(state_->mutex);
  wait_unless_stopped(state_->ended, lock, state_->stop, [&] { return state_->done; });
  if (state_->failure) std::rethrow_exception(state_->failure);
}

bool HubRead::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

// Reads one range, from its first request to its last byte. Only for the loop's thread.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  RangeRead(HubClient& client, HubReads& reads, std::shared_ptr<HubFile> file, std::uint64_t offset,
            std::span<std::byte> out, KeptIn kept_in, std::shared_ptr<HubRead::State> told)
      : client_(client),
        reads_(reads),
        file_(std::move(file)),
        begin_(offset),
        out_(out),
        kept_in_(std::move(kept_in)),
        told_(std::move(told)) {}

  void queue() {
    told_->read = shared_from_this();
    guarded([this] { reads_.waiting_.push_back(shared_from_this()); });
    reads_.pump();
  }

  // Becomes active.
  void begin() {
    if (ended_) return;
    active_ = true;
    ++reads_.active_;
    guarded([this] { locate(); });
  }

  void abandon() {
    if (ended_) return;
    if (exchange_ != 0) return client_.loop().stop(exchange_);  // tells `ended`
    given_up();
  }

 private:
  struct Receiver final : HttpReceiver {
    explicit Receiver(std::shared_ptr<RangeRead> of) : read(std::move(of)) {}
    bool head(int status, const HttpHeaders& headers) override {
      return read->head(status, headers);
    }
    bool body(std::span<const std::byte> bytes) override { return read->body(bytes); }
    void ended(const HttpEnd& end) override {
      read->guarded([&] { read->ended(end); });
    }
    std::shared_ptr<RangeRead> read;
  };

  // Someone waits for the bytes, so a failure of the work ends the read.
  template <typename Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (...) {  // the waiting thread gets it
      finish(std::current_exception());
    }
  }

  void locate() {
    // The file must not own reads, which own it: the client may end before the hub answers.
    file_->locate([read = weak_from_this()](const HubFile::Target& target,
                                            const std::exception_ptr& failure) {
      const auto self = read.lock();
      if (!self || self->ended_) return;
      if (failure) return self->finish(failure);
      self->guarded([&] {
        self->target_ = target;
        self->url_ = target.url;
        self->hops_ = 0;
        self->send();
      });
    });
  }

  ByteRange left() const { return {begin_ + filled_, begin_ + out_.size()}; }

  void send() {
    status_ = 0;
    body_.clear();
    wrong_.clear();
    moved_ = 0;
    sent_ = Clock::now();
    ++client_.traffic().data_requests;
    HttpRequest request{url_, {}, left(), false};
    if (target_.of_hub) request.headers = client_.headers_for(url_);
    exchange_ = client_.loop().start(request, std::make_unique<Receiver>(shared_from_this()));
  }

  // Checks everything before it uses a byte (hub-protocol 1.6).
  bool head(int status, const HttpHeaders& headers) {
    status_ = status;
    headers_ = headers;
    if (status != 200 && status != 206) return true;
    wrong_ = range_problem(status, headers, left(), file_->listing().size_bytes, target_.of_hub);
    if (!wrong_.empty()) return false;
    file_->check_etag(target_, headers.find("etag").value_or(""));
    return true;
  }

  bool body(std::span<const std::byte> bytes) {
    if (status_ != 200 && status_ != 206) {
      const auto more = std::min<std::size_t>(bytes.size(), kMostSaidBytes - body_.size());
      body_.append(as_text(bytes.first(more)));
      return true;
    }
    client_.traffic().data_bytes += bytes.size();
    if (bytes.size() > out_.size() - filled_) {
      wrong_ = "the server sent more bytes than requested";
      return false;
    }
    std::memcpy(out_.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    reads_.came(bytes.size());
    moved_ += bytes.size();
    if (kept_in_.arrivals && kept_in_.arrivals->is_wanted()) keep();
    return true;
  }

  // Keeps what came since the last time.
  void keep() {
    if (!kept_in_.arrivals) return;
    const std::size_t left = out_.size() - filled_;
    if (filled_ - kept_ < kKeepBytes && left > 0) return;
    kept_in_.arrivals->keep(kept_in_.file, begin_ + kept_,
                            std::span(out_).subspan(kept_, filled_ - kept_));
    kept_ = filled_;
  }

  void ended(const HttpEnd& end) {
    exchange_ = 0;
    if (end.thrown) return finish(end.thrown);
    if (!wrong_.empty()) return again(wrong_, kMostWrong);
    if (end.fault == HttpFault::refused) return fail(ErrorCode::network, end.message);
    if (end.fault == HttpFault::stopped) return given_up();
    if (end.fault != HttpFault::none) return again(end.message, kMostReadTries);
    if (status_ == 200 || status_ == 206) {
      if (filled_ == out_.size()) return finish(nullptr);
      return again(fmt::format("{} bytes are missing", out_.size() - filled_), kMostReadTries);
    }
    if (is_transient(status_)) {
      reads_.slow_down();
      return again(fmt::format("status {}", status_), kMostReadTries, &headers_);
    }
    if (is_redirect(status_)) return redirect();
    const bool stale = status_ == 403 || ((status_ == 400 || status_ == 401) &&
                                          body_.find("ignature") != std::string::npos);
    if (stale && !target_.of_hub && ++refusals_ < 2) {
      file_->forget(target_.number);
      return locate();
    }
    refused();
  }

  void redirect() {
    const Redirect next = redirect_of(url_, headers_);
    if (next.url.empty()) return fail(ErrorCode::network, "it " + next.problem);
    if (++hops_ > kMostReadHops) return fail(ErrorCode::network, "the server redirects in circles");
    url_ = next.url;
    // headers_for sends the token only to hubs, wherever they redirect.
    send();
  }

  void refused() {
    std::string said;
    if (headers_.find("content-type").value_or("").find("html") == std::string::npos) {
      said = printable(body_);
    }
    const std::string sentence =
        fmt::format("status {}{}{}", status_, said.empty() ? "" : ": ", said);
    if (status_ == 400 && !target_.of_hub) {
      return fail(ErrorCode::network, sentence,
                  "the file may be too large for plain HTTP; fetch it with huggingface_hub");
    }
    fail(ErrorCode::network, sentence);
  }

  void again(const std::string& why, unsigned most, const HttpHeaders* headers = nullptr) {
    if (is_useful()) tries_ = 0;
    ++tries_;
    if (tries_ >= most || reads_.is_hopeless()) {
      return fail(ErrorCode::network, fmt::format("{}; hfshard tried {} times", why, tries_));
    }
    const auto wait = retry_wait(tries_ - 1, headers, client_.options().retry_ms);
    client_.tell_failed(url_, why, tries_ + 1, most, wait, Clock::now());
    reads_.failed(wait);
    leave();
    client_.loop().post([self = shared_from_this()] { self->begin(); }, wait);
  }

  // A try with steady progress reads the whole range in the end.
  bool is_useful() const {
    constexpr std::uint64_t kLeastBytes = 64;
    const std::chrono::duration<double> time = Clock::now() - sent_;
    const auto least = static_cast<std::uint64_t>(time.count() * static_cast<double>(kLeastSpeed));
    return moved_ >= std::max(kLeastBytes, least);
  }

  // Lets others begin.
  void leave() {
    if (!active_) return;
    active_ = false;
    --reads_.active_;
    try {
      client_.loop().post([&reads = reads_] { reads.pump(); });
    } catch (const std::bad_alloc&) {  // the others must not wait for that
      reads_.pump();
    }
  }

  void given_up() {
    finish(std::make_exception_ptr(Error(ErrorCode::cancelled, "the read was canceled")));
  }

  void fail(ErrorCode code, const std::string& why, std::string_view hint = {}) {
    Error error(code, fmt::format("{} says: {}", host(), why));
    error.in_file(file_->name()).at(left(), file_->listing().size_bytes);
    if (!hint.empty()) error.hint(hint);
    finish(std::make_exception_ptr(error));
  }

  std::string host() const {
    const auto origin = origin_of(url_);
    return origin ? origin->host : "the hub";
  }

  void finish(const std::exception_ptr& failure) {
    if (std::exchange(ended_, true)) return;
    const auto self = std::move(told_->read);
    if (failure) {
      keep();
    } else {
      reads_.failures_ = 0;
    }
    {
      const std::lock_guard lock(told_->mutex);
      told_->failure = failure;
      told_->done = true;
      told_->ended.notify_all();
    }
    leave();
  }

  static constexpr unsigned kMostWrong = 3;

  HubClient& client_;
  HubReads& reads_;
  std::shared_ptr<HubFile> file_;
  std::uint64_t begin_;
  std::span<std::byte> out_;
  KeptIn kept_in_;
  std::shared_ptr<HubRead::State> told_;
  HubFile::Target target_;
  std::string url_;
  std::size_t filled_ = 0;
  std::size_t kept_ = 0;
  int status_ = 0;
  HttpHeaders headers_;
  std::string body_;         // of a refusal
  std::string wrong_;        // with an answer that looked valid
  std::uint64_t moved_ = 0;  // in this try
  Clock::time_point sent_;
  unsigned tries_ = 0;
  unsigned refusals_ = 0;
  unsigned hops_ = 0;
  HttpLoop::Id exchange_ = 0;  // in progress
  bool active_ = false;
  bool ended_ = false;
};

void HubRead::end() noexcept {
  if (!state_ || is_done()) return;
  try {
    state_->loop.post([state = state_] {
      if (const auto running = state->read) running->abandon();
    });
  } catch (const std::bad_alloc&) {  // the read then runs to its own end
  }
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->done; });
}

HubReads::HubReads(HubClient& client)
    : client_(client),
      limit_(std::clamp(client.options().most_connections, 1U, kFirstConnections)),
      proved_(limit_) {}

HubRead HubReads::start(std::shared_ptr<HubFile> file, std::uint64_t offset_bytes,
                        std::span<std::byte> out, const KeptIn& kept_in) {
  auto told = std::make_shared<HubRead::State>(client_.loop(), client_.options().stop);
  if (out.empty()) {
    told->done = true;
    return HubRead(std::move(told));
  }
  auto read = std::make_shared<RangeRead>(client_, *this, std::move(file), offset_bytes, out,
                                          kept_in, told);
  client_.loop().post([read] { read->queue(); });
  return HubRead(std::move(told));
}

// Pumps again when new reads may begin. Returns false without memory to remember that.
bool HubReads::pause() {
  if (paused_) return true;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(resumes_ - Clock::now());
  try {
    client_.loop().post(
        [this] {
          paused_ = false;
          pump();
        },
        left + std::chrono::milliseconds(1));
  } catch (const std::bad_alloc&) {  // a read that begins early is better than none
    return false;
  }
  paused_ = true;
  return true;
}

void HubReads::pump() {
  if (Clock::now() < resumes_ && pause()) return;
  while (!waiting_.empty() && active_ < limit_) {
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next->begin();
  }
}

// A failed range waits alone. After many consecutive failures, new ranges wait too.
void HubReads::failed(std::chrono::milliseconds wait) {
  ++failures_;
  if (failures_ >= kPausingFailures) resumes_ = std::max(resumes_, Clock::now() + wait);
  if (failures_ < kMostFailures || limit_ == 1) return;
  slow_down();
  failures_ = 0;
}

bool HubReads::is_hopeless() const { return failures_ >= kMostFailures && limit_ == 1; }

// Occasionally doubles the connections, and keeps them if that is faster.
void HubReads::came(std::uint64_t bytes) {
  const auto now = Clock::now();
  came_bytes_ += bytes;
  const auto passed = now - since_;
  if (passed < kRateWindow) return;
  const double rate =
      static_cast<double>(came_bytes_) / std::chrono::duration<double>(passed).count();
  since_ = now;
  came_bytes_ = 0;
  if (passed >= 2 * kRateWindow || waiting_.empty()) return;  // a pause, or no one waits
  if (limit_ > proved_ && rate < best_rate_ * kWorthMore) {
    limit_ = proved_;
    windows_to_next_ = kWindowsBetween;
    return;
  }
  best_rate_ = rate;
  proved_ = limit_;
  if (windows_to_next_ > 0) {
    --windows_to_next_;
    return;
  }
  limit_ = std::max(1U, std::min(limit_ * 2, client_.options().most_connections));
  client_.loop().post([this] { pump(); });
}

void HubReads::slow_down() {
  limit_ = std::max(1U, limit_ / 2);
  proved_ = limit_;
  windows_to_next_ = kWindowsBetween;
}

}  // namespace hfshard
