#pragma once

// Included before each source file of a build by tests/defects/switched.py. Tells whether a defect
// is on, and notes that a test reached it. operands.h is for operands.py.

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

#include <sys/mman.h>

namespace hfshard_defects {

constexpr int kMost = 65536;

// HFSHARD_DEFECTS is a directory. `on` there has the number of the defect that is on; each byte of
// `reached`, if that exists, is for one defect.
struct Switches {
  int on = -1;
  unsigned char* reached = nullptr;
  Switches() {
    std::ifstream(HFSHARD_DEFECTS "/on") >> on;
    const int file = ::open(HFSHARD_DEFECTS "/reached", O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void* const at = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (at != MAP_FAILED) reached = static_cast<unsigned char*>(at);
  }
};

inline const Switches& switches() {
  static const Switches out;
  return out;
}

inline bool is_on(int defect) {
  const Switches& at = switches();
  if (at.reached != nullptr) at.reached[defect] = 1;
  return at.on == defect;
}

}  // namespace hfshard_defects

#define HFSHARD_DEFECT(n) ::hfshard_defects::is_on(n)
