#pragma once

#include <atomic>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bytes/hub/hub_client.h"
#include "bytes/local/syscalls.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hfshard {

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

// A hub that gives every client the same answer, until it is destroyed.
class OneAnswer {
 public:
  // Writes to a connection. Returns false if it is closed.
  class Say {
   public:
    Say(std::function<bool(const std::string& text)> write, std::string request)
        : write_(std::move(write)), request_(std::move(request)) {}
    bool operator()(const std::string& text) const { return write_(text); }
    // The request that is answered.
    const std::string& request() const { return request_; }

   private:
    std::function<bool(const std::string& text)> write_;
    std::string request_;
  };
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

 private:
  void serve() {
    while (!ending_) {
      const sys::Descriptor with(::accept(port_.descriptor(), nullptr, nullptr));
      if (with.get() < 0) return;
      for (std::string request; hear(with.get(), request);) {
        const auto write = [&](const std::string& text) {
          return !ending_ && ::send(with.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                                 static_cast<ssize_t>(text.size());
        };
        answer_(++asked_, Say(write, request));
      }
    }
  }
  // Reads one request without a body.
  static bool hear(int with, std::string& request) {
    request.clear();
    char next = 0;
    while (!request.ends_with("\r\n\r\n")) {
      if (::recv(with, &next, 1, 0) != 1) return false;
      request += next;
    }
    return true;
  }

  DeafPort port_{true};
  std::function<void(int, const Say&)> answer_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

inline std::string refusal(std::string_view status, std::string_view body,
                           std::string_view type = "text/plain") {
  return fmt::format(
      "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\nContent-Type: {}\r\n\r\n{}",
      status, body.size(), type, body);
}

inline std::string json_answer(const std::string& body, const std::string& header = {}) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), header,
                     body);
}

inline HubOptions options_of(const OneAnswer& hub) {
  HubOptions out;
  out.endpoint = hub.endpoint();
  out.retry_ms = 1;
  out.download_timeout_seconds = 1;
  return out;
}

// A busy machine isn't a failed try.
inline HubOptions patient_options(const OneAnswer& hub) {
  HubOptions out = options_of(hub);
  out.download_timeout_seconds = 60;
  return out;
}

// Without memory, a failure comes at any line of the loop's thread. Here, it comes between two
// tries.
inline HubOptions without_memory(HubOptions options) {
  options.note_ms = 0;
  options.note = [](const std::string&) { throw std::bad_alloc(); };
  return options;
}

// A hub that has a file but doesn't send its bytes.
const std::string kCommitOfBusyHub(40, 'a');
inline void say_busy(int number, const OneAnswer::Say& say) {
  say(number == 1 ? json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub))
                  : std::string("HTTP/1.1 503 busy\r\nContent-Length: 0\r\n\r\n"));
}

// Answers requests for ranges of these bytes, and closes each connection.
inline void say_range(const std::string& of, const OneAnswer::Say& say) {
  const std::string& request = say.request();
  const std::size_t at = request.find("bytes=");
  const std::size_t first = std::stoul(request.substr(at + 6));
  const std::size_t last = std::stoul(request.substr(request.find('-', at) + 1));
  say(
      fmt::format("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nX-Repo-Commit: {}\r\n"
                  "Content-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n{}",
                  kCommitOfBusyHub, last - first + 1, first, last, of.size(),
                  of.substr(first, last - first + 1)));
}

}  // namespace hfshard
