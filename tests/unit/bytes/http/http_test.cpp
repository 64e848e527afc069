#include "bytes/http/http.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_client.h"
#include "support/catch_error.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

TEST(HttpOrigin, IsSchemeHostAndPort) {
  const auto plain = origin_of("https://Huggingface.CO/org/name?x#y");
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, (HttpOrigin{"https", "huggingface.co", "443"}));
  EXPECT_EQ(*origin_of("http://h:80/"), *origin_of("http://h/a"));
  EXPECT_NE(*origin_of("http://h:81/"), *origin_of("http://h/a"));
  EXPECT_NE(*origin_of("https://h/"), *origin_of("http://h:443/"));
  for (const char* none : {"file:///etc/passwd", "ftp://h/", "h", "", "https://user:pass@h/",
                           "https://user@h/", "gopher://h", "https://", "//h/a"}) {
    EXPECT_FALSE(origin_of(none)) << none;
  }
}

TEST(HttpOrigin, KnowsLoopback) {
  for (const char* url : {"http://127.0.0.1:8/", "http://localhost/", "http://127.1.2.3/",
                          "http://[::1]:8/", "http://x.localhost/"}) {
    EXPECT_TRUE(origin_of(url)->is_loopback()) << url;
  }
  for (const char* url : {"http://127.evil.com/", "http://localhost.evil.com/", "http://10.0.0.1/",
                          "http://128.0.0.1/", "http://[::2]/", "http://mylocalhost/"}) {
    EXPECT_FALSE(origin_of(url)->is_loopback()) << url;
  }
}

TEST(ResolveLocation, FollowsRfc3986) {
  const std::string at = "https://h/a/b/c?q=1";
  EXPECT_EQ(resolve_location(at, "/x?y=2"), "https://h/x?y=2");
  EXPECT_EQ(resolve_location(at, "d"), "https://h/a/b/d");
  EXPECT_EQ(resolve_location(at, "../d"), "https://h/a/d");
  EXPECT_EQ(resolve_location(at, "//other/x"), "https://other/x");
  EXPECT_EQ(resolve_location(at, "http://other/x"), "http://other/x");
  for (const char* none : {"", "file:///x", "javascript:alert(1)", "https://u:p@h/x"}) {
    EXPECT_FALSE(resolve_location(at, none)) << none;
  }
}

TEST(ShownUrl, HidesSignatures) {
  EXPECT_EQ(shown_url("https://h/p?Signature=x#y"), "https://h/p");
  EXPECT_EQ(shown_url("https://h/p#y"), "https://h/p");
}

TEST(HttpHeaders, AreFoundInAnyCase) {
  HttpHeaders headers;
  headers.add("X-Repo-Commit", "a");
  headers.add("Link", "1");
  headers.add("LINK", "2");
  EXPECT_EQ(headers.find("x-repo-commit"), "a");
  EXPECT_EQ(headers.find("link"), "2");
  EXPECT_EQ(headers.all("link"), (std::vector<std::string>{"1", "2"}));
  EXPECT_FALSE(headers.find("etag"));
}

TEST(RetryWait, FollowsTheServer) {
  using std::chrono::milliseconds;
  HttpHeaders limited;
  limited.add("RateLimit", "\"resolvers\";r=0;t=7");
  limited.add("Retry-After", "100");
  EXPECT_EQ(retry_wait(0, &limited, 1000), milliseconds(8000));
  HttpHeaders open;
  open.add("RateLimit", "\"resolvers\";r=10;t=7");
  open.add("Retry-After", "2");
  EXPECT_EQ(retry_wait(0, &open, 1000), milliseconds(3000));
  HttpHeaders past;
  past.add("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT");
  EXPECT_EQ(retry_wait(0, &past, 1000), milliseconds(1000));
  HttpHeaders forever;
  forever.add("Retry-After", "99999");
  EXPECT_EQ(retry_wait(0, &forever, 1000), milliseconds(300'000));
  HttpHeaders beyond;
  beyond.add("RateLimit", "\"resolvers\";r=0;t=99999999999");
  EXPECT_LE(retry_wait(0, &beyond, 1000), milliseconds(1250));
  for (const char* none : {"soon", "", "-1", "1e9", "99999999999"}) {
    HttpHeaders headers;
    headers.add("Retry-After", none);
    EXPECT_LE(retry_wait(0, &headers, 1000), milliseconds(1250)) << none;
  }
  for (unsigned attempt = 0; attempt < 8; ++attempt) {
    const auto doubled = milliseconds(1000) * (1 << std::min(attempt, 3U));
    for (int i = 0; i < 50; ++i) {
      EXPECT_GE(retry_wait(attempt, nullptr, 1000), doubled * 3 / 4);
      EXPECT_LE(retry_wait(attempt, nullptr, 1000), doubled * 5 / 4);
    }
  }
}

HubOptions options_for(const std::string& endpoint) {
  HubOptions out;
  out.endpoint = endpoint;
  out.token = "hf_secret";
  return out;
}

TEST(HubClient, SendsItsTokenToHubsOverTlsOnly) {
  const HubClient hub(options_for("https://hub.example:8443/prefix/"));
  EXPECT_EQ(hub.endpoint(), "https://hub.example:8443/prefix");
  for (const char* url : {"https://hub.example:8443/x", "https://huggingface.co/x",
                          "https://hf.co/x", "https://HF.co:443/x"}) {
    EXPECT_EQ(hub.headers_for(url).size(), 1U) << url;
  }
  for (const char* url :
       {"https://hub.example/x", "http://hub.example:8443/x", "https://cdn.hf.co/x",
        "https://huggingface.co.evil.com/x", "http://huggingface.co/x", "http://127.0.0.1/x",
        "https://huggingface.co:444/x", "https://10.0.0.1/x", "https://hf.co@evil.com/x"}) {
    EXPECT_TRUE(hub.headers_for(url).empty()) << url;
  }
}

TEST(HubClient, SendsItsTokenToLoopbackWithoutTls) {
  const HubClient near(options_for("http://127.0.0.1:8080"));
  EXPECT_EQ(near.headers_for("http://127.0.0.1:8080/x").size(), 1U);
  EXPECT_TRUE(near.headers_for("http://127.0.0.1:8081/x").empty());
  const HubClient open(options_for("http://hub.example"));
  EXPECT_TRUE(open.headers_for("http://hub.example/x").empty());
}

TEST(HubClient, RefusesAnEndpointThatIsNone) {
  for (const char* endpoint : {"huggingface.co", "ftp://h", "", "https://u:p@h"}) {
    EXPECT_EQ(catch_error([&] { const HubClient hub(options_for(endpoint)); }).code(),
              ErrorCode::usage)
        << endpoint;
  }
}

// The calls that a receiver gets.
struct Received {
  std::vector<int> statuses;
  HttpHeaders headers;
  std::string body;
  HttpEnd end;
};

class Recorder final : public HttpReceiver {
 public:
  Recorder(Received& to, std::promise<void>& done) : to_(to), done_(done) {}
  bool head(int status, const HttpHeaders& headers) override {
    to_.statuses.push_back(status);
    to_.headers = headers;
    return true;
  }
  bool body(std::span<const std::byte> bytes) override {
    to_.body += as_text(bytes);
    return true;
  }
  void ended(const HttpEnd& end) override {
    to_.end = end;
    done_.set_value();
  }

 private:
  Received& to_;
  std::promise<void>& done_;
};

Received received(const std::string& answer) {
  const OneAnswer server([&](int, const OneAnswer::Say& say) { say(answer); });
  Received out;
  std::promise<void> done;
  HttpSettings settings;
  settings.idle_timeout = std::chrono::seconds(60);
  HttpLoop loop(settings);
  loop.post([&] {
    const auto id = loop.start({server.endpoint() + "/x", {}, {}, false},
                               std::make_unique<Recorder>(out, done));
    loop.stop(id + 1);  // of no exchange
  });
  done.get_future().wait();
  return out;
}

TEST(HttpLoop, AnEarlyHintIsNotTheAnswer) {
  const Received of = received(
      "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(of.statuses, std::vector<int>{200});
  EXPECT_FALSE(of.headers.find("link"));
  EXPECT_EQ(of.body, "x");
}

TEST(HttpLoop, HeaderLinesCanEndInALineFeedAlone) {
  const Received of = received("HTTP/1.1 404 no\nConnection: close\nContent-Length: 1\n\nx");
  EXPECT_EQ(of.statuses, std::vector<int>{404});
  EXPECT_EQ(of.headers.find("content-length"), "1");
  EXPECT_EQ(of.body, "x");
}

TEST(HttpLoop, HeaderLinesUpToALimitAreTaken) {
  constexpr std::size_t kMost = std::size_t{256} << 10;
  for (const std::size_t size : {kMost, kMost + 1}) {
    std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n";
    const auto add_line = [&](std::size_t bytes) {
      head += "X-A: " + std::string(bytes - 7, 'b') + "\r\n";
    };
    while (size - head.size() > 20'000) add_line(10'000);
    add_line(size - head.size() - 2);
    const Received of = received(head + "\r\nx");
    EXPECT_EQ(of.body, size == kMost ? "x" : "");
    EXPECT_EQ(of.end.fault, size == kMost ? HttpFault::none : HttpFault::refused);
    EXPECT_EQ(of.end.message,
              size == kMost ? "" : "the response has more than 256 KiB of header lines");
  }
}

TEST(RetryWait, IsAtMostThreeHundredOfTheShortestWaits) {
  using std::chrono::milliseconds;
  const auto waits = [](const char* seconds, std::uint32_t retry_ms) {
    HttpHeaders headers;
    headers.add("Retry-After", seconds);
    return retry_wait(0, &headers, retry_ms);
  };
  EXPECT_EQ(waits("0", 10), milliseconds(10));
  EXPECT_EQ(waits("299", 10), milliseconds(3000));
  EXPECT_EQ(waits("301", 10), milliseconds(3010));
  EXPECT_EQ(waits("999999", 10), milliseconds(3010));
  EXPECT_EQ(waits("299", 1000), milliseconds(300'000));
  EXPECT_EQ(waits("300", 1000), milliseconds(300'000));
  EXPECT_EQ(waits("Wed, 31 Dec 2199 23:59:59 GMT", 10), milliseconds(3010));
  EXPECT_EQ(waits("Thu, 01 Jan 1970 00:00:00 GMT", 10), milliseconds(10)) << "it is over";
  for (const char* none : {"Wed, 31 Dec 2199 23:59:59 GMT+1", "31 Dec 2199 23:59:59 GMT"})
    EXPECT_LE(waits(none, 10), milliseconds(13)) << none;
  HttpHeaders nothing;
  nothing.add("RateLimit", "\"resolvers\";r=0");
  nothing.add("Retry-After", "4");
  EXPECT_EQ(retry_wait(0, &nothing, 10), milliseconds(50)) << "no time is stated";
}

TEST(ShownUrl, IsCutAtTheFirstOfBothMarks) {
  EXPECT_EQ(shown_url("https://h/p#a?b"), "https://h/p");
  EXPECT_EQ(shown_url("https://h/p"), "https://h/p");
}

}  // namespace
}  // namespace hfshard
