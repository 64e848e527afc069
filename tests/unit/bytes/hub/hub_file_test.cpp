// The place of a file's bytes, and the requests for it.

#include "bytes/hub/hub_file.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_reads.h"
#include "bytes/local/arrivals.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

std::shared_ptr<HubFile> listed_at(HubClient& client, const std::string& path,
                                   std::uint64_t size_bytes) {
  return std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                   TreeFile{path, size_bytes, {}, {}, {}});
}

// Reads one byte. Returns the failure, if any.
std::optional<Error> read_byte(HubClient& client, const std::shared_ptr<HubFile>& file,
                               std::uint64_t at) {
  std::array<std::byte, 1> byte{};
  try {
    client.reads().start(file, at, byte).wait();
    EXPECT_EQ(byte[0], std::byte{'x'});
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// One byte of a file, with an ETag.
std::string one_byte(std::size_t at, std::size_t size, std::string_view etag) {
  return fmt::format(
      "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nX-Repo-Commit: {}\r\nETag: {}\r\n"
      "Content-Length: 1\r\nContent-Range: bytes {}-{}/{}\r\n\r\nx",
      kCommitOfBusyHub, etag, at, at, size);
}

std::string first_line(const std::string& request) {
  return request.substr(0, request.find("\r\n"));
}

TEST(HubFile, IsRequestedByItsEscapedPath) {
  std::vector<std::string> asked;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    asked.push_back(first_line(say.request()));
    say_range("x", say);
  });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "sub dir/a#1.bin", 1);
  EXPECT_EQ(file->name(), fmt::format("hf://o/m@{}/sub dir/a#1.bin", kCommitOfBusyHub));
  EXPECT_FALSE(read_byte(client, file, 0));
  const std::string line =
      fmt::format("GET /o/m/resolve/{}/sub%20dir/a%231.bin HTTP/1.1", kCommitOfBusyHub);
  EXPECT_EQ(asked, (std::vector<std::string>{line, line})) << "its place, then its byte";
}

TEST(HubFile, AFileThatChangesWhileItIsReadIsAConflict) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    // The answers: its place, the first byte, and the second one.
    say(one_byte(number == 3 ? 1 : 0, 3, number == 3 ? "b" : "a"));
  });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "f", 3);
  EXPECT_FALSE(read_byte(client, file, 0));
  const auto changed = read_byte(client, file, 1);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->code(), ErrorCode::conflict);
  EXPECT_EQ(changed->sentence(),
            "the file changed while hfshard read it: its ETag is \"b\", and was \"a\"");
  EXPECT_EQ(changed->file(), file->name());
  EXPECT_EQ(hub.asked(), 3);
}

TEST(HubFile, AnAnswerWithoutAnETagChangesNothing) {
  HubFile file(nullptr, HubRepo{"o/m", kCommitOfBusyHub}, TreeFile{"f", 100, {}, {}, {}});
  const HubFile::Target hub{"hub", true, 1};
  file.check_etag(hub, "");
  file.check_etag(hub, "a");
  EXPECT_NO_THROW(file.check_etag(hub, ""));
  EXPECT_NO_THROW(file.check_etag(hub, "a"));
  const HubFile::Target later{"elsewhere", true, 2};
  EXPECT_EQ(catch_error([&] { file.check_etag(later, "b"); }).code(), ErrorCode::conflict);
}

TEST(HubFile, AnAbsentFileIsAskedForAgainByTheNextRead) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    number == 1 ? (void)say(refusal("404 Not Found", "")) : say_range("x", say);
  });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "f", 1);
  const auto absent = read_byte(client, file, 0);
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent->code(), ErrorCode::not_found);
  EXPECT_EQ(absent->sentence(), "o/m has no file \"f\" at this commit");
  EXPECT_EQ(hub.asked(), 1);
  EXPECT_FALSE(read_byte(client, file, 0));
  EXPECT_EQ(hub.asked(), 3);
}

// The second read waits for the answer to the first.
TEST(HubFile, ReadsAtTheSameTimeAskForItsPlaceOnce) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("xxxx", say); });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "f", 4);
  std::array<std::byte, 4> bytes{};
  std::vector<HubRead> reads;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 1)));
  for (const HubRead& read : reads) read.wait();
  EXPECT_EQ(as_text(bytes), "xxxx");
  EXPECT_EQ(client.traffic().hub_requests, 1U);
  EXPECT_EQ(client.traffic().data_requests, 4U);
  EXPECT_EQ(client.traffic().data_bytes, 4U);
}

TEST(HubFile, ReadsThatWaitForAPlaceShareItsFailure) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say(refusal("404 Not Found", "")); });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "f", 2);
  std::array<std::byte, 2> bytes{};
  std::vector<HubRead> reads;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 1)));
  for (const HubRead& read : reads)
    EXPECT_EQ(catch_error([&] { read.wait(); }).code(), ErrorCode::not_found);
}

// The data host has another name, so it is another origin.
TEST(HubReads, SendTheTokenToTheHubAndNotToADataHost) {
  const auto with_token = [](bool redirects) {
    std::vector<bool> out;
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      const std::string& request = say.request();
      out.push_back(request.find("\r\nAuthorization: Bearer hf_x\r\n") != std::string::npos);
      if (number > 1 || !redirects) return say_range("x", say);
      const std::size_t port = request.find("Host: 127.0.0.1:") + 16;
      say(
          fmt::format("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n"
                      "X-Repo-Commit: {}\r\nLocation: http://localhost:{}/f\r\n\r\n",
                      kCommitOfBusyHub, request.substr(port, request.find("\r\n", port) - port)));
    });
    HubOptions options = patient_options(hub);
    options.token = "hf_x";
    HubClient client(options);
    EXPECT_FALSE(read_byte(client, listed_at(client, "f", 1), 0));
    EXPECT_EQ(client.traffic().hub_requests, 1U);
    EXPECT_EQ(client.traffic().data_requests, 1U);
    return out;
  };
  EXPECT_EQ(with_token(false), (std::vector<bool>{true, true}));
  EXPECT_EQ(with_token(true), (std::vector<bool>{true, false}));
}

TEST(HubReads, AFailedReadNamesTheBytesThatAreMissing) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    number == 1 ? say_busy(number, say) : (void)say(refusal("404 Not Found", "gone"));
  });
  HubClient client(patient_options(hub));
  const auto file = listed_at(client, "f", 10);
  std::array<std::byte, 3> bytes{};
  const Error error = catch_error([&] { client.reads().start(file, 5, bytes).wait(); });
  EXPECT_EQ(error.sentence(), "127.0.0.1 says: status 404: gone");
  EXPECT_EQ(error.file(), file->name());
  EXPECT_EQ(error.range(), (ByteRange{5, 8}));
  EXPECT_EQ(error.total_bytes(), 10U);
}

// The read that is replaced ends first, since its memory may go.
TEST(HubRead, ReplacingOneEndsIt) {
  const DeafPort port(true);
  HubOptions options;
  options.endpoint = "http://" + port.host();
  HubClient client(options);
  const auto file = listed_at(client, "f", 10);
  std::array<std::byte, 10> bytes{};
  HubRead read = client.reads().start(file, 0, bytes);
  EXPECT_FALSE(read.is_done());
  read = client.reads().start(file, 0, std::span(bytes).first(0));
  EXPECT_TRUE(read.is_done());
  EXPECT_NO_THROW(read.wait());
}

// The hub is busy, so the file's place will be asked for again. Meanwhile the read ends, and then
// the client.
TEST(HubFile, IsntKeptByReadsThatAwaitItsPlace) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_busy(2, say); });
  std::promise<void> waits;
  HubOptions options = patient_options(hub);
  options.retry_ms = 600'000;
  options.note_ms = 0;
  options.note = [&](const std::string& text) {
    if (text.find("status 503") != std::string::npos) waits.set_value();
  };
  std::weak_ptr<HubFile> left;
  {
    HubClient client(options);
    auto file = listed_at(client, "f", 1);
    left = file;
    std::array<std::byte, 1> byte{};
    const HubRead read = client.reads().start(std::move(file), 0, byte);
    waits.get_future().wait();
  }
  EXPECT_TRUE(left.expired());
}

// Bytes of a read that ends well are soon in the output. Those of a failed one would be lost.
TEST(HubReads, AFailedReadKeepsWhatCameAndAnotherOneNothing) {
  constexpr std::size_t kFront = 64 << 10;
  const auto kept = [&](bool fails) {
    const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
      if (number == 1 || (fails && number > 2)) return say_busy(number, say);
      if (!fails) return say_range(std::string(2 * kFront, 'x'), say);
      // It promises both parts, and ends after the first one.
      say(
          fmt::format("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Length: {}\r\n"
                      "Content-Range: bytes 0-{}/{}\r\n\r\n{}",
                      kFront, 2 * kFront - 1, 2 * kFront, std::string(kFront, 'x')));
    });
    HubClient client(patient_options(hub));
    const TempDir dir;
    const auto arrivals = [&] {
      return std::make_shared<Arrivals>(dir.path(), "arrived", std::uint64_t{64} << 20,
                                        std::chrono::hours(1000));
    };
    std::vector<std::byte> bytes(2 * kFront);
    try {
      const auto file = listed_at(client, "f", bytes.size());
      client.reads().start(file, 0, bytes, {arrivals(), 0}).wait();
      EXPECT_FALSE(fails);
    } catch (const Error& error) {
      EXPECT_EQ(error.range(), (ByteRange{kFront, 2 * kFront}));
      EXPECT_TRUE(fails);
    }
    return arrivals()->found_bytes();
  };
  EXPECT_EQ(kept(true), kFront);
  EXPECT_EQ(kept(false), 0U);
}

}  // namespace
}  // namespace hfshard
