#pragma once

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <termios.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <sys/ioctl.h>

namespace hfshard {

/// A new terminal without a size, which changes no bytes.
class Terminal {
 public:
  Terminal() : other_end_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(::grantpt(other_end_), 0);
    EXPECT_EQ(::unlockpt(other_end_), 0);
    std::array<char, 64> name{};
    EXPECT_EQ(::ptsname_r(other_end_, name.data(), name.size()), 0);
    stream_ = ::open(name.data(), O_RDWR | O_NOCTTY);
    EXPECT_GE(stream_, 0);
    struct termios mode {};
    EXPECT_EQ(::tcgetattr(stream_, &mode), 0);
    ::cfmakeraw(&mode);
    EXPECT_EQ(::tcsetattr(stream_, TCSANOW, &mode), 0);
  }
  ~Terminal() {
    ::close(stream_);
    ::close(other_end_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int stream() const { return stream_; }
  void resize(unsigned short columns) const {
    const struct winsize size { 24, columns, 0, 0 };
    EXPECT_EQ(::ioctl(stream_, TIOCSWINSZ, &size), 0);
  }
  /// Returns up to `size` bytes that were written to it.
  std::string read(std::size_t size) const {
    std::string out(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t count = ::read(other_end_, out.data() + got, size - got);
      if (count <= 0) break;
      got += static_cast<std::size_t>(count);
    }
    out.resize(got);
    return out;
  }

 private:
  int other_end_;
  int stream_ = -1;
};

}  // namespace hfshard
