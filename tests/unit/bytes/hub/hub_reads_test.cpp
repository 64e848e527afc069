#include "bytes/hub/hub_reads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_file.h"
#include "bytes/local/arrivals.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

// A data host beside the hub that got a request: the same server under another name.
std::string data_host(const std::string& request) {
  const std::size_t port = request.find("Host: 127.0.0.1:") + 16;
  return "http://localhost:" + request.substr(port, request.find("\r\n", port) - port);
}

// A file of the hub with this many bytes.
std::shared_ptr<HubFile> file_on(HubClient& client, std::uint64_t size_bytes) {
  return std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                   TreeFile{"f", size_bytes, {}, {}, {}});
}

// Waits a moment for a fifth request for data. Returns how many there were.
std::uint64_t awaited_requests(HubClient& client) {
  for (int i = 0; i < 20 && client.traffic().data_requests <= 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return client.traffic().data_requests.load();
}

// Reads each byte from `at` on alone, all at once.
void read_bytes(HubClient& client, const std::shared_ptr<HubFile>& file, std::span<std::byte> bytes,
                std::size_t at) {
  std::vector<HubRead> reads;
  for (; at < bytes.size(); ++at)
    reads.push_back(client.reads().start(file, at, bytes.subspan(at, 1)));
  for (const HubRead& read : reads) read.wait();
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
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    const bool of_host = say.request().find("Host: localhost") != std::string::npos;
    out.asked.push_back(of_host ? "host" : "hub");
    say(of_host ? answers.at(std::min(given++, answers.size() - 1))
                : leading_to(data_host(say.request()) + "/signed"));
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 1);
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

TEST(HubReads, ARangeIsGivenUpAfterSixTriesThatMoveNothing) {
  const OneAnswer hub(say_busy);
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 100);
  std::array<std::byte, 100> bytes{};
  const HubRead read = client.reads().start(file, 0, bytes);
  const Error error = catch_error([&] { read.wait(); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("hfshard tried 6 times"), std::string::npos) << error.format();
  EXPECT_EQ(hub.asked(), 7) << "once for the place of the bytes";
}

constexpr std::size_t kPart = 64 << 10;

// Reads a file whose hub sends one part per answer, and no more after `given` parts. Returns the
// failure, if any.
std::optional<Error> read_by_parts(std::size_t parts, std::size_t given, int& asked) {
  const std::size_t all = parts * kPart;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 1 || static_cast<std::size_t>(number) > given + 1) return say_busy(number, say);
    // Each answer promises all that is missing, and ends after one part.
    say(
        fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n"
                    "Content-Range: bytes {}-{}/{}\r\n\r\n{}",
                    kPart, static_cast<std::size_t>(number - 2) * kPart, all - 1, all,
                    std::string(kPart, 'x')));
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, all);
  std::vector<std::byte> bytes(all);
  std::optional<Error> failure;
  try {
    client.reads().start(file, 0, bytes).wait();
  } catch (const Error& error) {
    failure = error;
  }
  asked = hub.asked();
  const std::size_t read = failure ? failure->range()->begin : all;
  EXPECT_EQ(std::ranges::count(bytes, std::byte{'x'}), static_cast<std::ptrdiff_t>(read));
  return failure;
}

TEST(HubReads, TriesThatMoveBytesDoNotCountAgainstARange) {
  int asked = 0;
  EXPECT_FALSE(read_by_parts(10, 10, asked));
  EXPECT_EQ(asked, 11);
}

TEST(HubReads, TriesAfterTheLastProgressCountAgainstARange) {
  int asked = 0;
  const auto error = read_by_parts(2, 1, asked);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->sentence(), "127.0.0.1 says: status 503; hfshard tried 6 times");
  EXPECT_EQ(error->range(), (ByteRange{kPart, 2 * kPart}));
  EXPECT_EQ(asked, 7);
}

// After twenty failures with four connections, as many with two, and as many with one.
TEST(HubReads, AServerThatEndsNoAnswerIsGivenUpThoughBytesCome) {
  int asked = 0;
  EXPECT_FALSE(read_by_parts(61, 61, asked));
  const auto error = read_by_parts(100, 100, asked);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->sentence(),
            fmt::format("127.0.0.1 says: {} bytes are missing; hfshard tried 1 times", 39 * kPart));
  EXPECT_EQ(asked, 62);
}

const std::string kBusy = "HTTP/1.1 503 busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

// A long download can have more failures than twenty consecutive ones.
TEST(HubReads, FailuresBeforeASuccessDoNotCountAgainstLaterRanges) {
  const std::string text(30, 'x');
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    number % 2 == 0 ? (void)say(kBusy) : say_range(text, say);
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, text.size());
  std::vector<std::byte> bytes(text.size());
  for (std::size_t at = 0; at < bytes.size(); ++at)
    client.reads().start(file, at, std::span(bytes).subspan(at, 1)).wait();
  EXPECT_EQ(as_text(bytes), text);
  EXPECT_EQ(hub.asked(), 61) << "once for the place of the bytes";
}

// A killed run goes on with everything that arrived.
TEST(HubReads, TheEndOfARangeIsKeptForALaterRunToo) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    say(json_answer(number == 1 ? "x" : std::string(100, 'x'),
                    fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 100);
  const TempDir dir;
  const auto arrivals = [&] {
    return std::make_shared<Arrivals>(dir.path(), "arrived", 1 << 20, std::chrono::milliseconds(0));
  };
  std::array<std::byte, 100> bytes{};
  client.reads().start(file, 0, bytes, {arrivals(), 0}).wait();
  EXPECT_EQ(arrivals()->found_bytes(), 100U);
}

TEST(HubReads, NoMoreReadsAreUnderWayThanConnectionsAreInUse) {
  HubClient* asking = nullptr;
  std::atomic<std::uint64_t> most = 0;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    // The first range. Another read would now begin.
    if (number == 2) most = awaited_requests(*asking);
    say_range("abcdefgh", say);
  });
  HubClient client(patient_options(hub));
  asking = &client;
  const auto file = file_on(client, 8);
  std::array<std::byte, 8> bytes{};
  read_bytes(client, file, bytes, 0);
  EXPECT_EQ(as_text(bytes), "abcdefgh");
  EXPECT_EQ(most, 4U);
}

TEST(HubReads, ABusyServerGetsHalfAsManyReadsAtOnce) {
  HubClient* asking = nullptr;
  std::atomic<std::uint64_t> most = 0;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 2) return (void)say(kBusy);
    // The first range after it. Two can be under way.
    if (number == 4) most = awaited_requests(*asking);
    say_range("abcdefgh", say);
  });
  HubClient client(patient_options(hub));
  asking = &client;
  const auto file = file_on(client, 8);
  std::array<std::byte, 8> bytes{};
  client.reads().start(file, 0, std::span(bytes).first(1)).wait();
  read_bytes(client, file, bytes, 1);
  EXPECT_EQ(as_text(bytes), "abcdefgh");
  EXPECT_LE(most, 4U);
  EXPECT_EQ(client.traffic().data_requests, 9U);
}

// They never begin, and leave their turns to others.
TEST(HubReads, ReadsThatAreDroppedWhileTheyWaitAskNothing) {
  std::promise<void> go;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 2) go.get_future().wait();
    say_range("abcdefgh", say);
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 8);
  std::array<std::byte, 8> bytes{};
  const auto start = [&](std::size_t at) {
    return client.reads().start(file, at, std::span(bytes).subspan(at, 1));
  };
  std::vector<HubRead> reads;
  for (const std::size_t at : {0U, 1U, 2U, 3U}) reads.push_back(start(at));
  for (const std::size_t at : {4U, 5U, 6U, 7U}) start(at);
  go.set_value();
  for (const HubRead& read : reads) read.wait();
  start(4).wait();
  EXPECT_EQ(as_text(std::span(bytes).first(6)), std::string_view("abcde\0", 6));
  EXPECT_EQ(client.traffic().data_requests, 5U);
}

TEST(HubReads, AReadThatIsDroppedBeforeItsPlaceIsKnownAsksNothing) {
  std::promise<void> go;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number == 1) go.get_future().wait();
    say_range("ab", say);
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 2);
  std::array<std::byte, 2> bytes{};
  client.reads().start(file, 0, std::span(bytes).first(1));
  const HubRead read = client.reads().start(file, 1, std::span(bytes).last(1));
  go.set_value();
  read.wait();
  EXPECT_EQ(as_text(bytes), std::string_view("\0b", 2));
  EXPECT_EQ(client.traffic().data_requests, 1U);
}

TEST(HubReads, ARangeOfNothingAsksNothing) {
  const OneAnswer hub(say_busy);
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 100);
  const HubRead read = client.reads().start(file, 5, {});
  EXPECT_TRUE(read.is_done());
  read.wait();
  EXPECT_EQ(hub.asked(), 0);
}

TEST(HubReads, AFailureBetweenTwoTriesEndsEveryRead) {
  const OneAnswer hub(say_busy);
  HubClient client(without_memory(options_of(hub)));
  const auto file = file_on(client, 100);
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
  const auto located = [&](const std::string& headers, const std::string& listed) {
    const OneAnswer hub([&](int, const OneAnswer::Say& say) { say(json_answer("x", headers)); });
    HubClient client(patient_options(hub));
    const auto file = std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                                TreeFile{"f", 1, {}, listed, {}});
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
  EXPECT_EQ(located(of + "X-Linked-Size: 1\r\nX-Linked-ETag: W/\"" + sha + "\"\r\n", sha), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"" + sha + "\"\r\n", sha), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: " + sha + "\r\n", sha), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"anything\"\r\n", sha), "");
  EXPECT_EQ(located(of + "X-Linked-ETag: \"" + other + "x\r\n", sha), "") << "not a digest";
  EXPECT_EQ(located("", sha), "the answer doesn't come from a Hub: it lacks a commit");
  EXPECT_EQ(
      located("X-Repo-Commit: cc\r\n", sha),
      fmt::format("the Hub's commit of this file is now \"cc\", and was \"{}\"", kCommitOfBusyHub));
  EXPECT_EQ(located(of + "X-Linked-Size: 2\r\n", sha),
            "the Hub's size of this file is now \"2\", and was \"1\"");
  for (const char* weak : {"", "W/"}) {
    EXPECT_EQ(
        located(of + "X-Linked-ETag: " + weak + "\"" + other + "\"\r\n", sha),
        fmt::format("the Hub's sha256 of this file is now \"{}\", and was \"{}\"", other, sha));
  }
  EXPECT_EQ(located(of + "X-Linked-ETag: \"" + other + "\"\r\n", ""), "") << "not listed";
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

// The hub's own address has no signature that another one could replace.
TEST(HubReads, ARefusalOfTheHubIsFinal) {
  for (const char* status : {"403 Forbidden", "400 Bad Request"}) {
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      number == 1 ? say_busy(number, say) : (void)say(refusal(status, "Signature"));
    });
    HubClient client(patient_options(hub));
    const auto file = file_on(client, 1);
    std::array<std::byte, 1> byte{};
    const Error error = catch_error([&] { client.reads().start(file, 0, byte).wait(); });
    EXPECT_EQ(error.sentence(), fmt::format("127.0.0.1 says: status {}: Signature",
                                            std::string_view(status).substr(0, 3)));
    EXPECT_EQ(error.hint_text(), "");
    EXPECT_EQ(hub.asked(), 2);
  }
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
  const ReadFromHost whole = read_from_host({json_answer("xy")});
  EXPECT_EQ(whole.sentence,
            "localhost says: the server sent 2 bytes, and the listing says 1; "
            "hfshard tried 3 times");
}

TEST(HubReads, ARedirectLeadsToAnHttpAddress) {
  const ReadFromHost read =
      read_from_host({"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n"
                      "Location: ftp://data/f?Signature=s\r\n\r\n"});
  EXPECT_EQ(read.sentence,
            "localhost says: it redirects to \"ftp://data/f\", which isn't an HTTP address");
  EXPECT_EQ(read.asked, (std::vector<std::string>{"hub", "host"}));
}

TEST(HubReads, RedirectsInCirclesEnd) {
  const std::string next =
      "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /next\r\n\r\n";
  const ReadFromHost read = read_from_host({next});
  EXPECT_EQ(read.sentence, "localhost says: the server redirects in circles");
  EXPECT_EQ(std::ranges::count(read.asked, "host"), 6);
  const std::string whole = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
  EXPECT_EQ(read_from_host({next, next, next, next, next, whole}).sentence, "");
  // Each try follows its own.
  EXPECT_EQ(read_from_host({next, kBusy, next, next, next, next, next, whole}).sentence, "");
}

TEST(HubFile, AnAnswerOfManyChoicesIsARefusal) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(
        fmt::format("HTTP/1.1 300 Multiple Choices\r\nX-Repo-Commit: {}\r\n"
                    "Content-Length: 0\r\n\r\n",
                    kCommitOfBusyHub));
  });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 1);
  std::array<std::byte, 1> byte{};
  const Error error = catch_error([&] { client.reads().start(file, 0, byte).wait(); });
  EXPECT_EQ(error.sentence(), "status 300");
  EXPECT_EQ(hub.asked(), 1);
}

// Several reads can be refused at one address. The first of them asks for the next one.
TEST(HubFile, OnlyTheLatestAddressIsForgotten) {
  const OneAnswer hub(
      [](int, const OneAnswer::Say& say) { say(leading_to("http://data.example/f")); });
  HubClient client(patient_options(hub));
  const auto file = file_on(client, 100);
  const auto asked_after = [&](std::uint64_t forgotten) {
    std::promise<void> found;
    client.loop().post([&] {
      file->forget(forgotten);
      file->locate([&](const HubFile::Target&, const std::exception_ptr&) { found.set_value(); });
    });
    found.get_future().wait();
    return hub.asked();
  };
  EXPECT_EQ(asked_after(0), 1);
  EXPECT_EQ(asked_after(1), 2);
  EXPECT_EQ(asked_after(1), 2);
  EXPECT_EQ(asked_after(2), 3);
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
    const auto file = file_on(client, 100);
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

}  // namespace
}  // namespace hfshard
