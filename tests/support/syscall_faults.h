#pragma once

#include <string>

namespace hfshard {

/// Makes one system call fail, for as long as the object lives. One object at a time.
class SyscallFault {
 public:
  /// The N-th call (from 1) with this name fails with `error_number`; an empty name means any call.
  /// `times` consecutive ones fail. A negative number instead: they move that few bytes.
  SyscallFault(std::string call, int nth, int error_number, int times = 1);
  ~SyscallFault();
  SyscallFault(const SyscallFault&) = delete;
  SyscallFault& operator=(const SyscallFault&) = delete;
  /// True if the call came to pass: the loop over N ends when it is not.
  bool fired() const noexcept;
};

}  // namespace hfshard
