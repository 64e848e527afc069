// Requests as they are sent, and the ends of exchanges.

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/http/http.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

// Remembers what an exchange gave, and ends it early if asked to.
struct Exchanged {
  std::vector<int> statuses;
  HttpHeaders headers;
  std::string body;
  HttpEnd end;
  std::promise<void> ended;
};

enum class Early { no, at_head, at_body, throws };

class EndingReceiver final : public HttpReceiver {
 public:
  EndingReceiver(Exchanged& to, Early early) : to_(to), early_(early) {}
  bool head(int status, const HttpHeaders& headers) override {
    to_.statuses.push_back(status);
    to_.headers = headers;
    if (early_ == Early::throws) throw std::runtime_error("of the receiver");
    return early_ != Early::at_head;
  }
  bool body(std::span<const std::byte> bytes) override {
    to_.body += as_text(bytes);
    return early_ != Early::at_body;
  }
  void ended(const HttpEnd& end) override {
    to_.end = end;
    to_.ended.set_value();
  }

 private:
  Exchanged& to_;
  Early early_;
};

HttpSettings patient_settings() {
  HttpSettings out;
  out.idle_timeout = std::chrono::seconds(60);
  out.user_agent = "tester/1";
  return out;
}

// Sends a request to a server with one answer. Returns the text of the request.
std::string exchange(HttpRequest request, const std::string& answer, Exchanged& out,
                     Early early = Early::no) {
  std::string sent;
  const OneAnswer server([&](int, const OneAnswer::Say& say) {
    sent = say.request();
    say(answer);
  });
  request.url = server.endpoint() + "/x?y=1";
  HttpLoop loop(patient_settings());
  loop.post([&] { loop.start(request, std::make_unique<EndingReceiver>(out, early)); });
  out.ended.get_future().wait();
  EXPECT_EQ(server.asked(), 1);
  return sent;
}

bool has_line(const std::string& request, const std::string& line) {
  return request.find("\r\n" + line + "\r\n") != std::string::npos;
}

TEST(HttpRequests, HaveTheirRangeAndTheirHeaders) {
  Exchanged of;
  const std::string sent =
      exchange({{}, {"X-Mine: 1", "X-Other: 2"}, ByteRange{5, 10}, false}, json_answer("{}"), of);
  EXPECT_TRUE(sent.starts_with("GET /x?y=1 HTTP/1.1\r\n")) << sent;
  for (const char* line : {"Range: bytes=5-9", "X-Mine: 1", "X-Other: 2", "User-Agent: tester/1",
                           "Accept-Encoding: identity"})
    EXPECT_TRUE(has_line(sent, line)) << line << sent;
  EXPECT_EQ(of.statuses, std::vector<int>{200});
  EXPECT_EQ(of.body, "{}");
  EXPECT_EQ(of.end.fault, HttpFault::none);
  EXPECT_EQ(of.end.message, "");
}

TEST(HttpRequests, TakeEncodedBodiesOnlyIfAsked) {
  Exchanged of;
  const std::string sent = exchange({{}, {}, std::nullopt, true}, json_answer("{}"), of);
  EXPECT_EQ(sent.find("identity"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("Range:"), std::string::npos) << sent;
}

TEST(HttpLoop, FollowsNoRedirect) {
  Exchanged of;
  exchange({},
           "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n"
           "Location: \t /other \t\r\n\r\n",
           of);
  EXPECT_EQ(of.statuses, std::vector<int>{302});
  EXPECT_EQ(of.headers.find("location"), "/other") << "without the blanks around it";
}

TEST(HttpLoop, AReceiverCanEndItsExchange) {
  const std::string answer = refusal("200 OK", "text");
  Exchanged at_head;
  exchange({}, answer, at_head, Early::at_head);
  EXPECT_EQ(at_head.body, "");
  EXPECT_EQ(at_head.end.fault, HttpFault::stopped);
  EXPECT_FALSE(at_head.end.thrown);
  Exchanged at_body;
  exchange({}, answer, at_body, Early::at_body);
  EXPECT_EQ(at_body.body, "text");
  EXPECT_EQ(at_body.end.fault, HttpFault::stopped);
  Exchanged throwing;
  exchange({}, answer, throwing, Early::throws);
  ASSERT_TRUE(throwing.end.thrown);
  EXPECT_THROW(std::rethrow_exception(throwing.end.thrown), std::runtime_error);
}

TEST(HttpLoop, APortWhereNobodyListensIsNotReached) {
  const DeafPort port(false);
  Exchanged of;
  HttpLoop loop(patient_settings());
  loop.post([&] {
    loop.start({"http://" + port.host() + "/x", {}, {}, false},
               std::make_unique<EndingReceiver>(of, Early::no));
  });
  of.ended.get_future().wait();
  EXPECT_EQ(of.end.fault, HttpFault::unreached);
  EXPECT_NE(of.end.message, "");
  EXPECT_TRUE(of.statuses.empty());
}

TEST(HttpLoop, OtherSchemesAreRefused) {
  Exchanged of;
  HttpLoop loop(patient_settings());
  loop.post([&] {
    loop.start({"ftp://127.0.0.1/x", {}, {}, false},
               std::make_unique<EndingReceiver>(of, Early::no));
  });
  of.ended.get_future().wait();
  EXPECT_EQ(of.end.fault, HttpFault::refused);
}

// The second exchange ends with the loop.
TEST(HttpLoop, ExchangesThatAreStoppedAreTold) {
  const DeafPort port(true);
  Exchanged stopped;
  Exchanged running;
  {
    HttpLoop loop(patient_settings());
    const HttpRequest request{"http://" + port.host() + "/x", {}, {}, false};
    std::promise<void> started;
    loop.post([&] {
      const auto id = loop.start(request, std::make_unique<EndingReceiver>(stopped, Early::no));
      loop.start(request, std::make_unique<EndingReceiver>(running, Early::no));
      loop.stop(id);
      loop.stop(id);
      started.set_value();
    });
    started.get_future().wait();
    stopped.ended.get_future().wait();
    EXPECT_EQ(stopped.end.fault, HttpFault::stopped);
    EXPECT_EQ(stopped.end.message, "stopped");
    loop.post([&] { running.body += "dropped"; }, std::chrono::hours(1));
  }
  running.ended.get_future().wait();
  EXPECT_EQ(running.end.fault, HttpFault::stopped);
  EXPECT_EQ(running.end.message, "stopped");
  EXPECT_EQ(running.body, "") << "work that isn't due";
}

// Work that comes later can be due earlier.
TEST(HttpLoop, DoesWorkWhenItIsDueAndInTheOrderInWhichItCame) {
  HttpLoop loop(patient_settings());
  std::string done;
  std::promise<void> last;
  loop.post([&] {
    loop.post([&] { done += "x"; }, std::chrono::hours(1));
    loop.post([&] { done += "a"; });
    loop.post([] { throw std::runtime_error("of no consequence"); });
    loop.post([&] { done += "b"; });
    loop.post([&] { done += "c"; }, std::chrono::milliseconds(1));
    loop.post([&] { last.set_value(); }, std::chrono::milliseconds(1));
  });
  last.get_future().wait();
  EXPECT_EQ(done, "abc");
}

}  // namespace
}  // namespace hfshard
