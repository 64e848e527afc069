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

// A note comes only for waits that a person notices.
TEST(HubClient, SaysAFailedTryIfTheWaitBecomesLong) {
  using std::chrono::milliseconds;
  const auto noted = [](milliseconds waited, milliseconds wait) {
    const DeafPort port(false);
    Said said;
    HubOptions options = waiting_options(port, said);
    options.note_ms = 1'000'000;
    HubClient client(options);
    client.tell_failed("https://example.org/x", "status 503", 2, 6, wait,
                       std::chrono::steady_clock::now() - waited);
    return said.lines;
  };
  using Lines = std::vector<std::string>;
  const std::string who = "waiting for example.org:443: status 503; attempt 2 of 6 in ";
  EXPECT_EQ(noted(milliseconds(0), milliseconds(1000)), Lines());
  EXPECT_EQ(noted(milliseconds(0), milliseconds(1'000'600)), Lines{who + "1001 s"});
  EXPECT_EQ(noted(milliseconds(999'000), milliseconds(1400)), Lines{who + "1 s"});
  EXPECT_EQ(noted(milliseconds(1'000'000), milliseconds(0)), Lines{who + "0 s"});
}

TEST(HubClient, AHubThatStaysBusyIsGivenUpWithAHint) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say("HTTP/1.1 503 busy\r\nConnection: close\r\nX-Request-Id: abc\r\nContent-Length: 0\r\n\r\n");
  });
  HubClient client(patient_options(hub));
  EXPECT_FALSE(client.is_away());
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x?token=s", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_EQ(error.sentence(), "status 503 (request abc); hfshard tried 6 times");
  EXPECT_EQ(error.file(), client.endpoint() + "/x") << "without what could be a secret";
  EXPECT_EQ(error.hint_text(),
            "check the network (HTTPS_PROXY, HF_ENDPOINT) and run again, or set HF_HUB_OFFLINE=1 "
            "to read only the cache");
  EXPECT_EQ(hub.asked(), 6);
  EXPECT_EQ(client.traffic().hub_requests, 6U);
  EXPECT_TRUE(client.is_away());
}

std::string found_at(const std::string& location) {
  return "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n" +
         (location.empty() ? std::string() : "Location: " + location + "\r\n") + "\r\n";
}

TEST(HubClient, FollowsRedirectsWithinTheHubOnly) {
  std::vector<std::string> asked;
  const auto answer_to = [&](const std::string& location) {
    asked.clear();
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      asked.push_back(say.request().substr(0, say.request().find(" HTTP")));
      say(number == 1 ? found_at(location) : refusal("200 OK", "{}"));
    });
    HubClient client(patient_options(hub));
    HubAnswer answer = client.ask_now({client.endpoint() + "/x", {}});
    answer.url.erase(0, client.endpoint().size());
    return answer;
  };
  const HubAnswer within = answer_to("/y?z=1");
  EXPECT_EQ(within.status, 200);
  EXPECT_EQ(within.body, "{}");
  EXPECT_EQ(within.url, "/y?z=1");
  EXPECT_FALSE(within.elsewhere);
  EXPECT_EQ(asked, (std::vector<std::string>{"GET /x", "GET /y?z=1"}));
  const HubAnswer away = answer_to("http://data.example/f?sig=1");
  EXPECT_EQ(away.status, 302);
  EXPECT_EQ(away.url, "/x");
  EXPECT_EQ(away.elsewhere, "http://data.example/f?sig=1");
  EXPECT_EQ(asked, std::vector<std::string>{"GET /x"});
}

TEST(HubClient, RedirectsThatLeadNowhereAreErrors) {
  const auto refused = [](const std::string& location, int& asked) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(found_at(location)); });
    HubClient client(patient_options(hub));
    const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
    EXPECT_EQ(error.code(), ErrorCode::network);
    EXPECT_EQ(error.hint_text(), "");
    asked = hub.asked();
    return error.sentence();
  };
  int asked = 0;
  EXPECT_EQ(refused("/x", asked), "the server redirects in circles");
  EXPECT_EQ(asked, 6);
  EXPECT_EQ(refused("", asked), "it redirects to \"\", which isn't an HTTP address");
  EXPECT_EQ(asked, 1);
}

TEST(HubClient, AQuestionForARangeTakesNoEncoding) {
  std::string request;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    request = say.request();
    say(json_answer("{}"));
  });
  HubClient client(patient_options(hub));
  (void)client.ask_now({client.endpoint() + "/x", ByteRange{0, 1}});
  EXPECT_NE(request.find("\r\nRange: bytes=0-0\r\n"), std::string::npos) << request;
  EXPECT_NE(request.find("\r\nAccept-Encoding: identity\r\n"), std::string::npos) << request;
  EXPECT_EQ(request.find("Authorization"), std::string::npos) << request;
  (void)client.ask_now({client.endpoint() + "/x", {}});
  EXPECT_EQ(request.find("Range:"), std::string::npos) << request;
  EXPECT_EQ(request.find("identity"), std::string::npos) << request;
}

TEST(HubClient, TheTokenIsFoundBeforeTheFirstRequest) {
  std::string request;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    request = say.request();
    say(json_answer("{}"));
  });
  HubOptions options = patient_options(hub);
  options.find_token = [](HubOptions& into) {
    into.token = "hf_found";
    into.token_from = "a file";
  };
  HubClient client(options);
  EXPECT_EQ(client.options().token_from, "a file");
  (void)client.ask_now({client.endpoint() + "/x", {}});
  EXPECT_NE(request.find("\r\nAuthorization: Bearer hf_found\r\n"), std::string::npos) << request;
}

TEST(HubClient, EachTryIsToldWithItsNumber) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    say(number < 4 ? refusal("503 busy", "") : refusal("200 OK", "{}"));
  });
  Said said;
  HubOptions options = patient_options(hub);
  options.note_ms = 0;
  options.note = [&](const std::string& line) { said.add(line); };
  HubClient client(options);
  EXPECT_EQ(client.ask_now({client.endpoint() + "/x", {}}).body, "{}");
  const std::string who = "waiting for " + client.endpoint().substr(7) + ": ";
  const std::string busy = who + "status 503; attempt ";
  EXPECT_EQ(said.lines,
            (std::vector<std::string>{who + "no answer yet; attempt 1 of 6", busy + "2 of 6 in 0 s",
                                      busy + "3 of 6 in 0 s", busy + "4 of 6 in 0 s"}));
  EXPECT_FALSE(client.is_away()) << "it answered in the end";
}

}  // namespace
}  // namespace hfshard
