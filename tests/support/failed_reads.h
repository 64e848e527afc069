#pragma once

#include <cerrno>
#include <functional>

#include <gtest/gtest.h>

#include "support/syscall_faults.h"

#include "hfshard/error.h"

namespace hfshard {

/// Fails each read of an action in turn, and expects an I/O error every time.
inline void expect_failed_reads_are_told(const std::function<void()>& action) {
  for (int nth = 1;; ++nth) {
    const SyscallFault fault("pread", nth, EIO);
    ErrorCode code = ErrorCode::internal;
    try {
      action();
    } catch (const Error& error) {
      code = error.code();
    }
    if (!fault.fired()) {
      EXPECT_GT(nth, 1) << "nothing was read";
      return;
    }
    EXPECT_EQ(code, ErrorCode::io) << "read " << nth;
  }
}

}  // namespace hfshard
