#pragma once

// Included before each source file of a build by tests/defects/operands.py. Notes what each operand
// of a condition was, and can change one.

#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <sys/mman.h>

namespace hfshard_operands {

constexpr int kMost = 65536;
enum Seen : unsigned char { seen_true = 1, seen_false = 2, seen_equal = 4 };
enum Change { take_true, take_false, flip_if_equal, changes };

// HFSHARD_OPERANDS is a directory. `on` there has a number: kMost operands have `changes` each.
// Each byte of `seen`, if that exists, is for one operand.
struct Switches {
  int on = -1;
  unsigned char* seen = nullptr;
  Switches() {
    std::ifstream(HFSHARD_OPERANDS "/on") >> on;
    const int file = ::open(HFSHARD_OPERANDS "/seen", O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void* const at = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (at != MAP_FAILED) seen = static_cast<unsigned char*>(at);
  }
};

inline const Switches& switches() {
  static const Switches out;
  return out;
}

inline bool operand(int number, bool value) {
  const Switches& at = switches();
  if (at.seen != nullptr) at.seen[number] |= value ? seen_true : seen_false;
  if (at.on == changes * number + take_true) return true;
  if (at.on == changes * number + take_false) return false;
  return value;
}

// The same for a comparison. `equal`: whether both sides are equal.
inline bool comparison(int number, bool value, bool equal) {
  const Switches& at = switches();
  if (equal && at.seen != nullptr) at.seen[number] |= seen_equal;
  if (equal && at.on == changes * number + flip_if_equal) return !value;
  return operand(number, value);
}

}  // namespace hfshard_operands
