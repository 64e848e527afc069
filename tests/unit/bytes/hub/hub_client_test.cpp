#include "bytes/hub/hub_client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_file.h"
#include "bytes/hub/hub_listing.h"
#include "bytes/hub/hub_reads.h"
#include "bytes/hub/hub_store.h"
#include "bytes/local/arrivals.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hfshard {
namespace {

// libcurl would ask a proxy of the environment for the addresses of this machine.
[[maybe_unused]] const int kNoProxy = ::setenv("no_proxy", "*", 1);

// A local port without an answer: connections wait forever, or are refused.
class DeafPort {
 public:
  explicit DeafPort(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto* const address = static_cast<sockaddr*>(static_cast<void*>(&at));
    EXPECT_EQ(::bind(socket_.get(), address, size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), address, &size), 0);
    EXPECT_EQ(listens ? ::listen(socket_.get(), 8) : 0, 0);
    host_ = fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
  }
  const std::string& host() const { return host_; }
  int descriptor() const { return socket_.get(); }

 private:
  sys::Descriptor socket_;
  std::string host_;
};

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

// A hub that gives every client the same answer, until it is destroyed.
class OneAnswer {
 public:
  // Writes to a connection. Returns false if it is closed.
  using Say = std::function<bool(const std::string& text)>;
  explicit OneAnswer(std::function<void(int number, const Say& say)> answer)
      : answer_(std::move(answer)), thread_([this] { serve(); }) {}
  ~OneAnswer() {
    ending_ = true;
    ::shutdown(port_.descriptor(), SHUT_RDWR);
    thread_.join();
  }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;
  std::string endpoint() const { return "http://" + port_.host(); }
  int asked() const { return asked_; }
  // The request that is answered, for the answer.
  const std::string& request() const { return request_; }

 private:
  void serve() {
    while (!ending_) {
      const sys::Descriptor with(::accept(port_.descriptor(), nullptr, nullptr));
      if (with.get() < 0) return;
      while (hear(with.get())) {
        answer_(++asked_, [&](const std::string& text) {
          return !ending_ && ::send(with.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                                 static_cast<ssize_t>(text.size());
        });
      }
    }
  }
  // Reads one request without a body.
  bool hear(int with) {
    request_.clear();
    char next = 0;
    while (!request_.ends_with("\r\n\r\n")) {
      if (::recv(with, &next, 1, 0) != 1) return false;
      request_ += next;
    }
    return true;
  }

  DeafPort port_{true};
  std::function<void(int, const Say&)> answer_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> asked_ = 0;
  std::string request_;
  std::thread thread_;
};

std::string refusal(std::string_view status, std::string_view body,
                    std::string_view type = "text/plain") {
  return fmt::format(
      "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\nContent-Type: {}\r\n\r\n{}",
      status, body.size(), type, body);
}

std::string json_answer(const std::string& body, const std::string& header = {}) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), header,
                     body);
}

HubOptions options_of(const OneAnswer& hub) {
  HubOptions out;
  out.endpoint = hub.endpoint();
  out.retry_ms = 1;
  out.download_timeout_seconds = 1;
  return out;
}

// A busy machine isn't a failed try.
HubOptions patient_options(const OneAnswer& hub) {
  HubOptions out = options_of(hub);
  out.download_timeout_seconds = 60;
  return out;
}

TEST(HubClient, AListingOfPagesWithoutEndIsGivenUp) {
  for (const bool empty : {true, false}) {
    SCOPED_TRACE(empty);
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      say(json_answer(
          empty ? std::string("[]")
                : fmt::format(R"([{{"type":"file","path":"f{}","size":1,"oid":"x"}}])", number),
          fmt::format("Link: </page?cursor={}>; rel=\"next\"\r\n", number)));
    });
    HubClient client(options_of(hub));
    const Error error = catch_error([&] { list_files(client, {"o/m", std::string(40, 'a')}); });
    EXPECT_EQ(error.code(), ErrorCode::network) << error.format();
    EXPECT_NE(error.sentence().find("and doesn't end"), std::string::npos) << error.format();
    EXPECT_LE(hub.asked(), empty ? 3 : 2000);
  }
}

// Returns a page with one file, or none for an empty name, and a link to the next page.
std::string page_of(const std::string& file, const std::string& next) {
  return json_answer(
      file.empty() ? std::string("[]")
                   : fmt::format(R"([{{"type":"file","path":"{}","size":1,"oid":"x"}}])", file),
      next.empty() ? std::string() : fmt::format("Link: <{}>; rel=\"next\"\r\n", next));
}

std::vector<std::string> listed_names(const OneAnswer& hub) {
  HubClient client(options_of(hub));
  std::vector<std::string> out;
  for (const TreeFile& file : list_files(client, {"o/m", std::string(40, 'a')}))
    out.push_back(file.path);
  return out;
}

TEST(HubClient, EmptyPagesBetweenOthersEndNoListing) {
  constexpr int kPages = 10;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(number % 2 == 0 ? fmt::format("f{}", number) : std::string(),
                number < kPages ? fmt::format("/page?cursor={}", number) : std::string()));
  });
  EXPECT_EQ(listed_names(hub), (std::vector<std::string>{"f2", "f4", "f6", "f8", "f10"}));
}

// A mirror passes on the links of the original hub.
TEST(HubClient, TheNextPageComesFromTheEndpointWhicheverHubTheLinkNames) {
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number),
                number == 1 ? "https://huggingface.co/api/models/o/m/tree/x?cursor=1" : ""));
  });
  EXPECT_EQ(listed_names(hub), (std::vector<std::string>{"f1", "f2"}));
  const OneAnswer astray([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number), "https://example.org/api?cursor=1"));
  });
  const Error error = catch_error([&] { listed_names(astray); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("example.org"), std::string::npos) << error.sentence();
  EXPECT_EQ(astray.asked(), 1);
}

TEST(HubClient, AnAnswerHasNothingOfTheFailedTryBeforeIt) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    say(number == 1 ? std::string("HTTP/1.1 503 busy\r\nContent-Length: 4\r\n\r\nbusy")
                    : json_answer("{}"));
  });
  HubClient client(patient_options(hub));
  EXPECT_EQ(client.ask_now({client.endpoint() + "/x", {}}).body, "{}");
}

TEST(HubClient, PagesInACircleAreRefused) {
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(page_of(fmt::format("f{}", number), number % 2 == 1 ? "/page?cursor=1" : "/page?cursor=2"));
  });
  const Error error = catch_error([&] { listed_names(hub); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_EQ(error.sentence(), "the listing's pages go in circles");
  EXPECT_EQ(error.file(), hub.endpoint() + "/page");
  EXPECT_EQ(hub.asked(), 3);
}

// The listing names what can't be requested once, and goes on.
TEST(HubClient, FilesWhosePathsLeadElsewhereAreLeftOut) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer(R"([{"type":"file","path":"../a","size":1},{"type":"file","path":"b","size":1},
                        {"type":"file","path":"c/../d","size":1}])"));
  });
  for (const bool noted : {true, false}) {
    HubOptions options = patient_options(hub);
    std::vector<std::string> said;
    if (noted) options.note = [&](const std::string& line) { said.push_back(line); };
    HubClient client(options);
    const auto files = list_files(client, {"o/m", std::string(40, 'a')});
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0].path, "b");
    ASSERT_EQ(said.size(), noted ? 1U : 0U);
    if (noted) {
      EXPECT_TRUE(said[0].starts_with(R"(leaves out "../a" of o/m: )")) << said[0];
    }
  }
}

// Words that a refusal needs: the front of a long answer, and the names that were meant.
TEST(HubClient, AMistypedRevisionIsAnsweredWithThoseThatThereAre) {
  std::string names = R"({"name":"main"})";
  for (int i = 0; i < 30; ++i) names += fmt::format(R"(,{{"name":"x{}"}})", i);
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    say(number % 2 == 1
            ? "HTTP/1.1 404 Not Found\r\nX-Error-Code: RevisionNotFound\r\nContent-Length: "
              "0\r\n\r\n"
            : json_answer(
                  fmt::format(R"({{"branches":[{}],"tags":[{{"name":"release-1"}}]}})", names)));
  });
  HubClient client(patient_options(hub));
  const auto hint = [&](const std::string& revision) {
    return catch_error([&] { resolve_revision(client, "o/m", revision); }).hint_text();
  };
  const std::string unlike = hint("quite-different");
  EXPECT_NE(unlike.find("main, x0, "), std::string::npos) << unlike;
  EXPECT_EQ(unlike.find("x29"), std::string::npos) << unlike;
  names = R"({"name":"main"})";
  EXPECT_EQ(hint("quite-different"), "pass one of main, release-1");
  const std::string like = hint("release-2");
  EXPECT_NE(like.find("release-1"), std::string::npos) << like;
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

TEST(HubClient, NamesTheProgramThatUsesTheLibrary) {
  const OneAnswer* self = nullptr;
  std::string request;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    request = self->request();
    say(json_answer("{}"));
  });
  self = &hub;
  HubOptions options = patient_options(hub);
  options.user_agent_suffix = "trainer/1.0";
  HubClient client(options);
  (void)client.ask_now({client.endpoint() + "/x", {}});
  EXPECT_NE(request.find("; trainer/1.0\r\n"), std::string::npos) << request;
}

// A proxy may answer with its page of a login.
TEST(HubClient, ARevisionIsACommit) {
  const std::string commit(40, 'c');
  const auto resolved = [&](const std::string& answer, const std::string& revision) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(json_answer(answer)); });
    HubClient client(patient_options(hub));
    try {
      return resolve_revision(client, "o/m", revision).commit;
    } catch (const Error& error) {
      return error.sentence();
    }
  };
  EXPECT_EQ(resolved(fmt::format(R"({{"sha":"{}"}})", commit), "main"), commit);
  EXPECT_EQ(resolved("not asked", commit), commit);
  for (const char* answer : {R"({})", R"({"sha":1})", R"({"sha":"main"})"}) {
    EXPECT_EQ(resolved(answer, ""), "the answer doesn't come from a Hub: it lacks a commit")
        << answer;
  }
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

// Without memory, a failure comes at any line of the loop's thread. Here, it comes between two
// tries.
HubOptions without_memory(HubOptions options) {
  options.note_ms = 0;
  options.note = [](const std::string&) { throw std::bad_alloc(); };
  return options;
}

TEST(HubClient, AFailureBetweenTwoTriesEndsTheWait) {
  const DeafPort port(false);
  Said said;
  HubClient client(without_memory(waiting_options(port, said)));
  EXPECT_THROW(client.ask_now({client.endpoint() + "/x", {}}), std::bad_alloc);
}

// A hub that has a file but doesn't send its bytes.
const std::string kCommitOfBusyHub(40, 'a');
void say_busy(int number, const OneAnswer::Say& say) {
  say(number == 1 ? json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub))
                  : std::string("HTTP/1.1 503 busy\r\nContent-Length: 0\r\n\r\n"));
}

TEST(HubReads, ARangeIsGivenUpAfterSixTriesThatMoveNothing) {
  const OneAnswer hub(say_busy);
  HubClient client(patient_options(hub));
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", 100, {}, {}, {}});
  std::array<std::byte, 100> bytes{};
  const HubRead read = client.reads().start(file, 0, bytes);
  const Error error = catch_error([&] { read.wait(); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("hfshard tried 6 times"), std::string::npos) << error.format();
  EXPECT_EQ(hub.asked(), 7) << "once for the place of the bytes";
}

TEST(HubReads, TriesThatMoveBytesDoNotCountAgainstARange) {
  constexpr std::size_t kPart = 64 << 10;
  constexpr std::size_t kAll = 10 * kPart;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 1) return say_busy(number, say);
    // Each answer promises all that is missing, and ends after one part.
    say(
        fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n"
                    "Content-Range: bytes {}-{}/{}\r\n\r\n{}",
                    kPart, static_cast<std::size_t>(number - 2) * kPart, kAll - 1, kAll,
                    std::string(kPart, 'x')));
  });
  HubClient client(patient_options(hub));
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", kAll, {}, {}, {}});
  std::vector<std::byte> bytes(kAll);
  EXPECT_NO_THROW(client.reads().start(file, 0, bytes).wait());
  EXPECT_EQ(std::ranges::count(bytes, std::byte{'x'}), static_cast<std::ptrdiff_t>(kAll));
}

// A killed run goes on with everything that arrived.
TEST(HubReads, TheEndOfARangeIsKeptForALaterRunToo) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    say(json_answer(number == 1 ? "x" : std::string(100, 'x'),
                    fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  HubClient client(patient_options(hub));
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", 100, {}, {}, {}});
  const TempDir dir;
  const auto arrivals = [&] {
    return std::make_shared<Arrivals>(dir.path(), "arrived", 1 << 20, std::chrono::milliseconds(0));
  };
  std::array<std::byte, 100> bytes{};
  client.reads().start(file, 0, bytes, {arrivals(), 0}).wait();
  EXPECT_EQ(arrivals()->found_bytes(), 100U);
}

// Answers requests for ranges of these bytes, and closes each connection.
void say_range(const OneAnswer& hub, const std::string& of, const OneAnswer::Say& say) {
  const std::string& request = hub.request();
  const std::size_t at = request.find("bytes=");
  const std::size_t first = std::stoul(request.substr(at + 6));
  const std::size_t last = std::stoul(request.substr(request.find('-', at) + 1));
  say(
      fmt::format("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nX-Repo-Commit: {}\r\n"
                  "Content-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n{}",
                  kCommitOfBusyHub, last - first + 1, first, last, of.size(),
                  of.substr(first, last - first + 1)));
}

TEST(HubReads, NoMoreReadsAreUnderWayThanConnectionsAreInUse) {
  const OneAnswer* self = nullptr;
  HubClient* asking = nullptr;
  std::atomic<std::uint64_t> most = 0;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 2) {  // the first range; another read would now begin
      for (int i = 0; i < 20 && asking->traffic().data_requests <= 4; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      most = asking->traffic().data_requests.load();
    }
    say_range(*self, "abcdefgh", say);
  });
  self = &hub;
  HubClient client(patient_options(hub));
  asking = &client;
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", 8, {}, {}, {}});
  std::array<std::byte, 8> bytes{};
  std::vector<HubRead> reads;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 1)));
  for (const HubRead& read : reads) read.wait();
  EXPECT_EQ(as_text(bytes), "abcdefgh");
  EXPECT_EQ(most, 4U);
}

TEST(HubReads, AFailureBetweenTwoTriesEndsEveryRead) {
  const OneAnswer hub(say_busy);
  HubClient client(without_memory(options_of(hub)));
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", 100, {}, {}, {}});
  // More than begin at once: each one's end lets others begin.
  std::array<std::byte, 100> bytes{};
  std::vector<HubRead> reads;
  for (std::size_t at = 0; at < bytes.size(); at += 10)
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 10)));
  for (const HubRead& read : reads) EXPECT_THROW(read.wait(), std::bad_alloc);
}

TEST(HubFile, ETagsOfTheHubAndOfTheDataHostAreComparedApart) {
  HubFile file(nullptr, HubRepo{"o/m", kCommitOfBusyHub}, TreeFile{"f", 100, {}, {}, {}});
  const HubFile::Target hub{"hub", true, 1};
  const HubFile::Target host{"host", false, 2};
  file.check_etag(hub, "a");
  EXPECT_NO_THROW(file.check_etag(host, "b"));
  for (const HubFile::Target& target : {hub, host})
    EXPECT_EQ(catch_error([&] { file.check_etag(target, "c"); }).code(), ErrorCode::conflict);
}

// A mirror or a proxy that isn't the hub of the listing must not end in a mixture.
TEST(HubFile, WhatIsNotAsListedIsRefused) {
  const std::string sha(64, 'b');
  const auto located = [&](const std::string& headers) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(json_answer("x", headers)); });
    HubClient client(patient_options(hub));
    const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                                TreeFile{"f", 1, {}, sha, {}});
    std::array<std::byte, 1> byte{};
    std::string said;
    try {
      client.reads().start(file, 0, byte).wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.file(),
                error.code() == ErrorCode::conflict
                    ? fmt::format("hf://o/m@{}/f", kCommitOfBusyHub)
                    : fmt::format("{}/o/m/resolve/{}/f", hub.endpoint(), kCommitOfBusyHub));
      said = error.sentence();
    }
    return said;
  };
  const std::string of = fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub);
  const std::string other(64, 'c');
  EXPECT_EQ(located(of + "X-Linked-Size: 1\r\nX-Linked-ETag: W/\"" + sha + "\"\r\n"), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"" + sha + "\"\r\n"), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: " + sha + "\r\n"), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"anything\"\r\n"), "");
  EXPECT_EQ(located(""), "the answer doesn't come from a Hub: it lacks a commit");
  EXPECT_EQ(
      located("X-Repo-Commit: cc\r\n"),
      fmt::format("the Hub's commit of this file is now \"cc\", and was \"{}\"", kCommitOfBusyHub));
  EXPECT_EQ(located(of + "X-Linked-Size: 2\r\n"),
            "the Hub's size of this file is now \"2\", and was \"1\"");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"" + other + "\"\r\n"),
            fmt::format("the Hub's sha256 of this file is now \"{}\", and was \"{}\"", other, sha));
}

// A data host beside the hub: the same server under another name.
std::string data_host(const OneAnswer& hub) {
  return fmt::format("http://localhost:{}", hub.endpoint().substr(hub.endpoint().rfind(':') + 1));
}

std::string leading_to(const std::string& url) {
  return fmt::format(
      "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nX-Repo-Commit: "
      "{}\r\nLocation: {}\r\n\r\n",
      kCommitOfBusyHub, url);
}

struct ReadFromHost {
  std::string sentence;  // of the failure
  std::string hint;
  std::vector<std::string> asked;  // "hub" or "host"
};

// Reads a file of one byte from a data host, which gives these answers.
ReadFromHost read_from_host(const std::vector<std::string>& answers) {
  ReadFromHost out;
  std::size_t given = 0;
  std::mutex mutex;
  const OneAnswer* self = nullptr;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    const bool of_host = self->request().find("Host: localhost") != std::string::npos;
    const std::lock_guard lock(mutex);
    out.asked.push_back(of_host ? "host" : "hub");
    say(of_host ? answers.at(std::min(given++, answers.size() - 1))
                : leading_to(data_host(*self) + "/signed"));
  });
  self = &hub;
  HubClient client(patient_options(hub));
  const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                              TreeFile{"f", 1, {}, {}, {}});
  std::array<std::byte, 1> byte{};
  try {
    client.reads().start(file, 0, byte).wait();
    EXPECT_EQ(byte[0], std::byte{'x'});
  } catch (const Error& error) {
    out.sentence = error.sentence();
    out.hint = error.hint_text();
  }
  return out;
}

// A signature can expire sooner than its URL says.
TEST(HubReads, AUrlWhoseSignatureIsRefusedIsAskedForAgainOnce) {
  const std::string whole = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
  using Asked = std::vector<std::string>;
  for (const char* status : {"403 Forbidden", "401 Unauthorized", "400 Bad Request"}) {
    SCOPED_TRACE(status);
    const std::string expired = refusal(status, "Signature has expired");
    const ReadFromHost read = read_from_host({expired, whole});
    EXPECT_EQ(read.sentence, "");
    EXPECT_EQ(read.asked, (Asked{"hub", "host", "hub", "host"}));
    const ReadFromHost refused = read_from_host({expired});
    EXPECT_EQ(refused.sentence, fmt::format("localhost says: status {}: Signature has expired",
                                            std::string_view(status).substr(0, 3)));
    EXPECT_EQ(refused.asked, (Asked{"hub", "host", "hub", "host"}));
  }
  // 403 is enough without a word, the others aren't.
  EXPECT_EQ(read_from_host({refusal("403 Forbidden", ""), whole}).sentence, "");
  const ReadFromHost login = read_from_host({refusal("401 Unauthorized", "log in"), whole});
  EXPECT_EQ(login.sentence, "localhost says: status 401: log in");
  EXPECT_EQ(login.hint, "");
  EXPECT_EQ(login.asked, (Asked{"hub", "host"}));
}

TEST(HubReads, ARefusalOfADataHostHasItsWords) {
  const ReadFromHost large = read_from_host({refusal("400 Bad Request", "too large")});
  EXPECT_EQ(large.sentence, "localhost says: status 400: too large");
  EXPECT_EQ(large.hint, "the file may be too large for plain HTTP; fetch it with huggingface_hub");
  EXPECT_EQ(read_from_host({refusal("404 Not Found", "<p>gone</p>", "text/html")}).sentence,
            "localhost says: status 404");
  const std::string lengthy(600, 'y');
  EXPECT_EQ(read_from_host({refusal("404 Not Found", lengthy)}).sentence,
            "localhost says: status 404: " + lengthy.substr(0, 512));
}

TEST(HubReads, MoreBytesThanWereRequestedAreRefused) {
  const ReadFromHost read =
      read_from_host({"HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Length: 2\r\n"
                      "Content-Range: bytes 0-0/1\r\n\r\nxy"});
  EXPECT_EQ(read.sentence,
            "localhost says: the server sent more bytes than requested; hfshard tried 3 times");
}

TEST(HubReads, RedirectsInCirclesEnd) {
  const std::string next =
      "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /next\r\n\r\n";
  const ReadFromHost read = read_from_host({next});
  EXPECT_EQ(read.sentence, "localhost says: the server redirects in circles");
  EXPECT_EQ(std::ranges::count(read.asked, "host"), 6);
  const std::string whole = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
  EXPECT_EQ(read_from_host({next, next, next, next, next, whole}).sentence, "");
}

// A read that begins with a URL must end before the URL does.
TEST(HubFile, AUrlThatSoonExpiresIsAskedForAgain) {
  const auto asked = [](std::uint64_t life_seconds) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) {
      constexpr std::uint64_t kYear2026 = 1767225600;
      say(
          fmt::format("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nX-Repo-Commit: {}\r\n"
                      "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                      "Location: http://data.example/f?Expires={}\r\n\r\n",
                      kCommitOfBusyHub, kYear2026 + life_seconds));
    });
    HubClient client(patient_options(hub));
    const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                                TreeFile{"f", 100, {}, {}, {}});
    for (int i = 0; i < 2; ++i) {
      std::promise<bool> found;
      client.loop().post([&] {
        file->locate([&](const HubFile::Target& target, const std::exception_ptr&) {
          found.set_value(target.url.starts_with("http://data.example/"));
        });
      });
      EXPECT_TRUE(found.get_future().get());
    }
    return hub.asked();
  };
  EXPECT_EQ(asked(24 * 3600), 1);
  EXPECT_EQ(asked(30), 2);
}

// A header is read ahead only for a file that is still to be opened.
TEST(HubStore, OpeningAnEarlierFileReadsNoHeaderAgain) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(
        fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n"
                    "Content-Range: bytes 0-0/1\r\nConnection: close\r\n"
                    "X-Repo-Commit: {}\r\n\r\nx",
                    kCommitOfBusyHub));
  });
  HubOptions options = patient_options(hub);
  const StorePath model =
      hub_place(std::make_shared<HubClient>(options), {"o/m", kCommitOfBusyHub},
                {{"a.safetensors", 1, {}, {}, {}}, {"b.safetensors", 1, {}, {}, {}}}, {});
  for (const char* name : {"b.safetensors", "a.safetensors"}) EXPECT_EQ((model / name).read(), "x");
  EXPECT_EQ(model.network_use()->data_requests, 2U);
}

// Nor for one of another directory, or one that the cache has.
TEST(HubStore, OnlyTheHeadersOfShardsToBeDownloadedAreReadAhead) {
  const OneAnswer* self = nullptr;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) { say_range(*self, "x", say); });
  self = &hub;
  const TempDir dir;
  write_text(dir / "b.safetensors", "x");
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), {"o/m", kCommitOfBusyHub},
                {{"a.safetensors", 1, {}, {}, {}},
                 {"b.safetensors", 1, {}, {}, {}},
                 {"d.safetensors", 1, {}, {}, {}},
                 {"e.json", 1, {}, {}, {}},
                 {"sub/c.safetensors", 1, {}, {}, {}}},
                dir.path());
  EXPECT_EQ((model / "a.safetensors").read(), "x");
  EXPECT_EQ((model / "d.safetensors").read(), "x");
  EXPECT_EQ((model / "b.safetensors").read(), "x");
  EXPECT_EQ(model.network_use()->data_requests, 2U);
}

TEST(HubStore, FilesOfAModelHaveTheirPlaceInTheCache) {
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::vector<TreeFile> files{{"sub/f", 1, {}, {}, {}}};
  const StorePath cached = hub_place(nullptr, repo, files, "/cache/x");
  EXPECT_EQ((cached / "sub/f").fetched_path(), "/cache/x/sub/f");
  EXPECT_FALSE((cached / "sub/g").fetched_path());
  EXPECT_FALSE((hub_place(nullptr, repo, files, {}) / "sub/f").fetched_path());
}

TEST(HubStore, AFileOfTheCacheWithAnotherSizeIsNotTheSource) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  HubOptions options = patient_options(hub);
  const TempDir dir;
  write_text(dir / "whole", "c");
  write_text(dir / "longer", "cc");
  const StorePath model =
      hub_place(std::make_shared<HubClient>(options), {"o/m", kCommitOfBusyHub},
                {{"longer", 1, {}, {}, {}}, {"whole", 1, {}, {}, {}}}, dir.path());
  EXPECT_EQ((model / "whole").read(), "c");
  EXPECT_EQ((model / "longer").read(), "x");
}

TEST(HubStore, SaysWhatAModelDoesNotHave) {
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::string root = fmt::format("hf://o/m@{}", kCommitOfBusyHub);
  const StorePath model = hub_place(nullptr, repo, {{"sub/f", 1, {}, {}, {}}}, {});
  const Error open = catch_error([&] { (void)(model / "g").open(); });
  EXPECT_EQ(open.code(), ErrorCode::not_found);
  EXPECT_EQ(open.file(), root + "/g");
  EXPECT_EQ(catch_error([&] { (void)(model / "none").list(); }).file(), root + "/none");
  EXPECT_EQ((model / "sub").list(), (std::vector<std::string>{"f"}));
  const Error offline = catch_error([&] { (void)(model / "sub/f").open(); });
  EXPECT_EQ(offline.sentence(), "the cache lacks this file of the model");
  EXPECT_EQ(offline.file(), root + "/sub/f");
  const Error twice = catch_error([&] {
    (void)hub_place(nullptr, repo, {{"f", 1, {}, {}, {}}, {"f", 2, {}, {}, {}}}, {});
  });
  EXPECT_EQ(twice.code(), ErrorCode::network);
  EXPECT_EQ(twice.sentence(), "the listing has \"f\" twice");
  EXPECT_EQ(twice.file(), root);
}

// A header can be longer than what is read ahead of it.
TEST(HubStore, AReadAcrossTheEndOfWhatWasReadAheadIsWhole) {
  std::string all(300'000, ' ');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>('a' + i % 23);
  const OneAnswer* self = nullptr;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) { say_range(*self, all, say); });
  self = &hub;
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, {{"f", all.size(), {}, {}, {}}}, {});
  const auto file = (model / "f").open();
  for (const auto& [offset, size] : {std::pair<std::size_t, std::size_t>{0, 300'000},
                                     {100'000, 100'000},
                                     {131'072, 10},
                                     {131'071, 2},
                                     {131'062, 10}}) {
    std::vector<std::byte> bytes(size);
    file->read_at(offset, bytes);
    EXPECT_EQ(as_text(bytes), std::string_view(all).substr(offset, size)) << offset;
  }
}

TEST(HubStore, AReadBeyondTheEndIsRefused) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, {{"f", 1, {}, {}, {}}}, {});
  const auto file = (model / "f").open();
  std::array<std::byte, 2> bytes{};
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}}) {
    const Error error = catch_error([&] { file->read_at(offset, bytes); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), "the file ends before this range");
  }
  EXPECT_NO_THROW(file->read_at(0, std::span(bytes).first(1)));
  EXPECT_NO_THROW(file->read_at(1, {}));
}

}  // namespace
}  // namespace hfshard
