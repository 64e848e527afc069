#include "bytes/hub/hub_client.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

// The messages of a client while it waits.
struct Said {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<bool> any = false;
  void add(const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
    any = true;
  }
};

HubOptions waiting_options(const DeafPort& port, Said& said) {
  HubOptions out;
  out.endpoint = "http://" + port.host();
  out.retry_ms = 10;
  out.note_ms = 20;
  out.note = [&said](const std::string& line) { said.add(line); };
  return out;
}

TEST(IsTransient, AreTheStatusesThatAnotherTryCanChange) {
  for (const int status : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(is_transient(status));
  for (const int status : {200, 206, 400, 401, 403, 404, 416, 501, 505})
    EXPECT_FALSE(is_transient(status)) << status;
}

TEST(IsRedirect, IsEachOfThemWithALocation) {
  for (const int status : {301, 302, 303, 307, 308}) EXPECT_TRUE(is_redirect(status)) << status;
  for (const int status : {200, 300, 304, 309}) EXPECT_FALSE(is_redirect(status)) << status;
}

TEST(HubClient, GivesUpSoonWhereNobodyListensAndSaysWhatItWaitsFor) {
  const DeafPort port(false);
  Said said;
  HubClient client(waiting_options(port, said));
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("; hfshard tried 3 times"), std::string::npos)
      << error.sentence();
  EXPECT_EQ(client.traffic().hub_requests, 3U);
  ASSERT_FALSE(said.lines.empty());
  EXPECT_TRUE(said.lines[0].starts_with("waiting for " + port.host() + ": ")) << said.lines[0];
  // Attempt 3, or attempt 2 if this thread had to wait for a processor.
  EXPECT_NE(said.lines[0].find(" of 3 in "), std::string::npos) << said.lines[0];
}

TEST(HubClient, GivesUpLaterWhereTheHubAnsweredBefore) {
  auto hub = std::make_unique<OneAnswer>(
      [](int, const OneAnswer::Say& say) { say(refusal("200 OK", "x")); });
  HubClient client(patient_options(*hub));
  EXPECT_EQ(client.ask_now({client.endpoint() + "/x", {}}).body, "x");
  hub.reset();
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_TRUE(error.sentence().ends_with("; hfshard tried 6 times")) << error.sentence();
}

TEST(HubClient, SaysOneOfManyWaits) {
  const DeafPort port(false);
  Said said;
  HubOptions options = waiting_options(port, said);
  options.note_ms = 1'000'000'000;
  HubClient client(options);
  client.tell_silent("no address", 1, 6);
  EXPECT_TRUE(said.lines.empty());
  for (unsigned attempt = 1; attempt < 4; ++attempt)
    client.tell_silent("https://example.org/x", attempt, 6);
  EXPECT_EQ(
      said.lines,
      (std::vector<std::string>{"waiting for example.org:443: no answer yet; attempt 1 of 6"}));
}

TEST(HubClient, SaysWhatItWaitsForWhereNobodyAnswers) {
  const DeafPort port(true);
  Said said;
  HubOptions options = waiting_options(port, said);
  options.stop = &said.any;  // interrupts after the first message
  HubClient client(options);
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  ASSERT_EQ(said.lines.size(), 1U);
  EXPECT_EQ(said.lines[0], "waiting for " + port.host() + ": no answer yet; attempt 1 of 6");
}

TEST(HubClient, AnAnswerHasNothingOfTheFailedTryBeforeIt) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    say(number == 1 ? std::string("HTTP/1.1 503 busy\r\nContent-Length: 4\r\n\r\nbusy")
                    : json_answer("{}"));
  });
  HubClient client(patient_options(hub));
  EXPECT_EQ(client.ask_now({client.endpoint() + "/x", {}}).body, "{}");
}

TEST(HubClient, OfALongRefusalTheFrontIsEnough) {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{1} << 20}) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) {
      say(refusal("404 Not Found", std::string(size, 'x')));
    });
    HubClient client(patient_options(hub));
    const HubAnswer answer = client.ask_now({client.endpoint() + "/x", {}});
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(hub.asked(), 1);
    EXPECT_EQ(answer.body.size() < (std::size_t{1} << 18), true);
  }
}

// 300 has no address that hfshard could follow.
TEST(HubClient, AnAnswerOfManyChoicesIsLikeARefusal) {
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    say(refusal("300 Multiple Choices", std::string(std::size_t{1} << 20, 'x')));
  });
  HubClient client(patient_options(hub));
  const HubAnswer answer = client.ask_now({client.endpoint() + "/x", {}});
  EXPECT_EQ(answer.status, 300);
  EXPECT_LE(answer.body.size(), std::size_t{64} << 10);
}

TEST(HubClient, AnAnswerThatIsTooLongEndsWithoutAnotherTry) {
  const OneAnswer hub(
      [](int, const OneAnswer::Say& say) { say(refusal("200 OK", std::string(100, 'x'))); });
  HubClient client(patient_options(hub));
  const HubAnswer answer = client.ask_now({client.endpoint() + "/x", {}, 99});
  EXPECT_EQ(answer.status, 200);
  EXPECT_LE(answer.body.size(), 99U);
  EXPECT_EQ(client.ask_now({client.endpoint() + "/x", {}, 100}).body, std::string(100, 'x'));
  EXPECT_EQ(hub.asked(), 2);
}

TEST(HubClient, NamesTheProgramThatUsesTheLibrary) {
  std::string request;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    request = say.request();
    say(json_answer("{}"));
  });
  HubOptions options = patient_options(hub);
  options.user_agent_suffix = "trainer/1.0";
  HubClient client(options);
  (void)client.ask_now({client.endpoint() + "/x", {}});
  EXPECT_NE(request.find("; trainer/1.0\r\n"), std::string::npos) << request;
}

TEST(HubClient, HeaderLinesWithoutEndAreRefusedAtOnce) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "X-A: bbbbbbbbbbbbbbbb\r\n";
    if (!say("HTTP/1.1 200 OK\r\n")) return;
    while (say(lines)) continue;
  });
  HubClient client(options_of(hub));
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::network) << error.format();
  EXPECT_NE(error.sentence().find("header"), std::string::npos) << error.format();
  EXPECT_EQ(hub.asked(), 1);
}

TEST(HubClient, AProxysRefusalIsNotRetried) {
  const OneAnswer proxy([](int, const OneAnswer::Say& say) {
    say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  });
  HubOptions options = options_of(proxy);
  options.endpoint = "https://hub.example";
  for (const char* name : {"no_proxy", "NO_PROXY"}) ::unsetenv(name);
  ::setenv("https_proxy", proxy.endpoint().c_str(), 1);
  const Error error = catch_error([&] {
    HubClient client(options);
    client.ask_now({client.endpoint() + "/x", {}});
  });
  ::unsetenv("https_proxy");
  ::setenv("no_proxy", "*", 1);
  EXPECT_EQ(error.code(), ErrorCode::network) << error.format();
  EXPECT_NE(error.sentence().find("403"), std::string::npos) << error.format();
  EXPECT_EQ(proxy.asked(), 1);
}

// At three bytes per second, a model would take a month.
TEST(HubClient, AnAnswerThatDripsIsGivenUp) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    bool goes_on = say("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    while (goes_on) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      goes_on = say("x");
    }
  });
  HubClient client(options_of(hub));
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::network) << error.format();
  EXPECT_NE(error.sentence().find("tried 6 times"), std::string::npos) << error.format();
}

TEST(HubClient, AFailureBetweenTwoTriesEndsTheWait) {
  const DeafPort port(false);
  Said said;
  HubClient client(without_memory(waiting_options(port, said)));
  EXPECT_THROW(client.ask_now({client.endpoint() + "/x", {}}), std::bad_alloc);
}

}  // namespace
}  // namespace hfshard
