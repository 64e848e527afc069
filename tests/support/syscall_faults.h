#pragma once

#include <string>

namespace hfshard {

/// Makes one system call fail, while the object lives. One object at a time.
class SyscallFault {
 public:
  /// The N-th call (from 1) with this name fails with `error_number`. An empty name means any call.
  /// `times` consecutive calls fail. With a negative number, they move that few bytes instead.
  SyscallFault(std::string call, int nth, int error_number, int times = 1);
  ~SyscallFault();
  SyscallFault(const SyscallFault&) = delete;
  SyscallFault& operator=(const SyscallFault&) = delete;
  /// Returns whether the call happened. The loop over N ends when it doesn't.
  bool fired() const noexcept;
};

}  // namespace hfshard
