// Fuzzes untrusted JSON text, as in configs, headers, listings and records. Parsed text must be
// written again as the same value.

#include <string>

#include "base/json.h"
#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

namespace hfshard {

void fuzz_json(std::string_view bytes) {
  const Json value = parse_json(bytes, "fuzzed");
  check_json(bytes, "fuzzed");
  HFSHARD_CHECK(parse_json(dump_json(value), "written") == value);
  HFSHARD_CHECK(parse_json(dump_json_pretty(value), "written") == value);
  HFSHARD_CHECK(heap_bytes(value) < (std::uint64_t{1} << 10) * (bytes.size() + 1));
  shown_json(value);
}

}  // namespace hfshard
