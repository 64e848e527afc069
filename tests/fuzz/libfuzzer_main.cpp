// Runs one target, HFSHARD_FUZZ_TARGET, in libFuzzer (scripts/fuzz).

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/coding.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hfshard::run_target(hfshard::HFSHARD_FUZZ_TARGET,
                      hfshard::as_text(std::as_bytes(std::span(data, size))));
  return 0;
}
