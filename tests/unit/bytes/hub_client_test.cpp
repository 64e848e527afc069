#include "bytes/hub_client.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bytes/syscalls.h"
#include "support/catch_error.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hfshard {
namespace {

// A port of this machine that is taken, and where nobody answers: connections wait forever, or are
// refused.
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

 private:
  sys::Descriptor socket_;
  std::string host_;
};

// What a client says while it waits.
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

TEST(HubClient, GivesUpSoonWhereNobodyListensAndSaysWhatItWaitsFor) {
  const DeafPort port(false);
  Said said;
  HubClient client(waiting_options(port, said));
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::network);
  EXPECT_NE(error.sentence().find("; tried 3 times"), std::string::npos) << error.sentence();
  EXPECT_EQ(client.traffic().hub_requests, 3U);
  ASSERT_FALSE(said.lines.empty());
  EXPECT_TRUE(said.lines[0].starts_with("waiting for " + port.host() + ": ")) << said.lines[0];
  EXPECT_NE(said.lines[0].find("; attempt 3 of 3 in "), std::string::npos) << said.lines[0];
}

TEST(HubClient, SaysWhatItWaitsForWhereNobodyAnswers) {
  const DeafPort port(true);
  Said said;
  HubOptions options = waiting_options(port, said);
  options.stop = &said.any;  // interrupted as soon as it was told
  HubClient client(options);
  const Error error = catch_error([&] { client.ask_now({client.endpoint() + "/x", {}}); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  ASSERT_EQ(said.lines.size(), 1U);
  EXPECT_EQ(said.lines[0], "waiting for " + port.host() + ": no answer yet; attempt 1 of 6");
}

}  // namespace
}  // namespace hfshard
