#include "bytes/hub/hub_file.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/hub/hub_answers.h"
#include "bytes/hub/hub_name.h"

namespace hfshard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kExpiryMargin{60};

std::string url_of(const HubClient& client, const HubRepo& repo, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", client.endpoint(), repo.name, repo.commit,
                     escape_path(path));
}

// Removes the quotes of an ETag and the mark of a weak one.
std::string plain_etag(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

HubFile::HubFile(HubClient* client, HubRepo repo, TreeFile listing)
    : client_(client),
      repo_(std::move(repo)),
      listing_(std::move(listing)),
      name_(fmt::format("hf://{}@{}/{}", repo_.name, repo_.commit, listing_.path)) {}

void HubFile::locate(const Found& found) {
  if (target_ && (target_->of_hub || Clock::now() + kExpiryMargin < expires_)) {
    return found(*target_, nullptr);
  }
  target_.reset();
  waiting_.push_back(found);
  if (asking_) return;
  asking_ = true;
  try {
    // Requests one byte, in case the hub has the bytes itself.
    client_->ask({url_of(*client_, repo_, listing_.path), ByteRange{0, 1}, 1 << 10},
                 [self = shared_from_this()](const HubAnswer& answer, std::exception_ptr failure) {
                   if (!failure) {
                     try {
                       self->located(answer);
                     } catch (...) {  // told to all waiting callers
                       failure = std::current_exception();
                     }
                   }
                   self->tell(failure);
                 });
  } catch (...) {  // told to all waiting callers
    tell(std::current_exception());
  }
}

void HubFile::tell(const std::exception_ptr& failure) {
  asking_ = false;
  const Target none;
  const std::vector<Found> waiting = std::exchange(waiting_, {});
  for (const Found& next : waiting) next(target_ ? *target_ : none, failure);
}

void HubFile::located(const HubAnswer& answer) {
  const bool direct = answer.status >= 200 && answer.status < 300;
  if (!direct && !answer.elsewhere)
    throw client_->refusal(answer, repo_.name, repo_.commit, listing_.path);
  const auto changed = [&](std::string_view what, const std::string& is, const std::string& was) {
    return Error(ErrorCode::conflict, fmt::format("the Hub's {} of this file is now {}, and was {}",
                                                  what, quote(is), quote(was)))
        .in_file(name_);
  };
  const auto commit = answer.headers.find("x-repo-commit");
  if (!commit) {
    throw Error(ErrorCode::network, "the answer doesn't come from a Hub: it lacks a commit")
        .in_file(shown_url(answer.url))
        .hint("a proxy or a network's login page may have answered");
  }
  if (*commit != repo_.commit) throw changed("commit", *commit, repo_.commit);
  if (const auto size = answer.headers.find("x-linked-size");
      size && *size != std::to_string(listing_.size_bytes)) {
    throw changed("size", *size, std::to_string(listing_.size_bytes));
  }
  if (const auto etag = answer.headers.find("x-linked-etag"); etag && !listing_.sha256.empty()) {
    const std::string plain = plain_etag(*etag);
    if (is_sha256(plain) && plain != listing_.sha256)
      throw changed("sha256", plain, listing_.sha256);
  }
  target_ = Target{answer.elsewhere.value_or(answer.url), !answer.elsewhere, ++answers_};
  expires_ = Clock::now() + life_of_url(target_->url, answer.headers);
}

void HubFile::forget(std::uint64_t number) {
  if (target_ && target_->number == number) target_.reset();
}

void HubFile::check_etag(const Target& target, const std::string& etag) {
  if (etag.empty()) return;
  std::string& known = target.of_hub ? hub_etag_ : data_etag_;
  if (known.empty()) known = etag;
  if (etag == known) return;
  throw Error(ErrorCode::conflict,
              fmt::format("the file changed while hfshard read it: its ETag is {}, and was {}",
                          quote(etag), quote(known)))
      .in_file(name_);
}

}  // namespace hfshard
