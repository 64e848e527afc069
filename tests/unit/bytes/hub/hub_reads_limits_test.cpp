// How many reads are under way at once, and when new ones wait.

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_file.h"
#include "bytes/hub/hub_reads.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

std::shared_ptr<HubFile> some_file(HubClient& client, std::uint64_t size_bytes) {
  return std::make_shared<HubFile>(&client, HubRepo{"o/m", kCommitOfBusyHub},
                                   TreeFile{"f", size_bytes, {}, {}, {}});
}

// Returns after the work that the client's thread has to do now.
void settle(HubClient& client) {
  std::promise<void> done;
  client.loop().post([&] { done.set_value(); });
  done.get_future().wait();
}

// Returns how many reads have asked when so many have failed, and one more was started.
std::uint64_t asked_after_failures(int failures) {
  const OneAnswer hub([](int number, const OneAnswer::Say& say) {
    // The whole file, where one byte was requested.
    number == 1 ? say_range("abcdefgh", say) : (void)say(refusal("200 OK", "abcdefgh"));
  });
  std::atomic<int> failed = 0;
  std::promise<void> all_failed;
  HubOptions options = patient_options(hub);
  options.retry_ms = 1'000'000;  // no read tries again here
  options.note_ms = 0;
  options.note = [&](const std::string& line) {
    if (line.find("the whole file instead of a range") == std::string::npos) return;
    if (++failed == failures) all_failed.set_value();
  };
  HubClient client(options);
  const auto file = some_file(client, 8);
  std::array<std::byte, 8> bytes{};
  std::vector<HubRead> reads;
  const auto start = [&] {
    const std::size_t at = reads.size();
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 1)));
  };
  for (int i = 0; i < failures; ++i) start();
  all_failed.get_future().wait();
  settle(client);
  EXPECT_EQ(client.traffic().data_requests, static_cast<std::uint64_t>(failures));
  start();
  settle(client);
  return client.traffic().data_requests;
}

// A failed range waits alone, and says nothing of others. Four of them do.
TEST(HubReadsAtOnce, NewReadsWaitAfterFourConsecutiveFailures) {
  EXPECT_EQ(asked_after_failures(3), 4U);
  EXPECT_EQ(asked_after_failures(4), 4U);
}

// Returns how many reads were under way while the first one was answered. More connections are
// tried while bytes come, after half a second.
std::uint64_t most_at_once(std::uint32_t allowed) {
  constexpr std::size_t kFront = 70;
  const std::string text(kFront + 5, 'x');
  HubClient* asking = nullptr;
  std::atomic<std::uint64_t> most = 0;
  const OneAnswer hub([&](int number, const OneAnswer::Say& say) {
    if (number != 2) return say_range(text, say);
    say(
        fmt::format("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Length: {}\r\n"
                    "Content-Range: bytes 0-{}/{}\r\n\r\n",
                    kFront, kFront - 1, text.size()));
    for (std::size_t i = 0; i < kFront; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      most = asking->traffic().data_requests.load();
      say("x");
    }
  });
  HubOptions options = patient_options(hub);
  options.most_connections = allowed;
  HubClient client(options);
  asking = &client;
  const auto file = some_file(client, text.size());
  std::vector<std::byte> bytes(text.size());
  std::vector<HubRead> reads;
  reads.push_back(client.reads().start(file, 0, std::span(bytes).first(kFront)));
  for (std::size_t at = kFront; at < bytes.size(); ++at)
    reads.push_back(client.reads().start(file, at, std::span(bytes).subspan(at, 1)));
  for (const HubRead& read : reads) read.wait();
  EXPECT_EQ(as_text(bytes), text);
  return most;
}

TEST(HubReadsAtOnce, NoMoreConnectionsAreTriedThanAreAllowed) {
  EXPECT_EQ(most_at_once(1), 1U);
  EXPECT_LE(most_at_once(4), 4U);
}

}  // namespace
}  // namespace hfshard
