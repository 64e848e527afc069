#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
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
#include "bytes/hub/hub_client.h"
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

inline HubOptions waiting_options(const DeafPort& port, Said& said) {
  HubOptions out;
  out.endpoint = "http://" + port.host();
  out.retry_ms = 10;
  out.note_ms = 20;
  out.note = [&said](const std::string& line) { said.add(line); };
  return out;
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

// Returns a page with one file, or none for an empty name, and a link to the next page.
inline std::string page_of(const std::string& file, const std::string& next) {
  return json_answer(
      file.empty() ? std::string("[]")
                   : fmt::format(R"([{{"type":"file","path":"{}","size":1,"oid":"x"}}])", file),
      next.empty() ? std::string() : fmt::format("Link: <{}>; rel=\"next\"\r\n", next));
}

inline std::vector<std::string> listed_names(const OneAnswer& hub) {
  HubClient client(options_of(hub));
  std::vector<std::string> out;
  for (const TreeFile& file : list_files(client, {"o/m", std::string(40, 'a')}))
    out.push_back(file.path);
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
inline void say_range(const OneAnswer& hub, const std::string& of, const OneAnswer::Say& say) {
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

// A data host beside the hub: the same server under another name.
inline std::string data_host(const OneAnswer& hub) {
  return fmt::format("http://localhost:{}", hub.endpoint().substr(hub.endpoint().rfind(':') + 1));
}

inline std::string leading_to(const std::string& url) {
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
inline ReadFromHost read_from_host(const std::vector<std::string>& answers) {
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

}  // namespace hfshard
