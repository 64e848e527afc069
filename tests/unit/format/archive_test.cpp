#include "format/archive.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/zip.h"
#include "support/memory_source.h"
#include "support/torch_checkpoint.h"

namespace hfshard::format {
namespace {

// The short end record has only ones where a number doesn't fit. A count of 65535 looks the same.
TEST(Archive, NumbersThatDoNotFitTheShortEndRecordAreInTheLongOne) {
  const std::string made = torch_records({{"data.pkl", "pickle"}, {"data/0", "12345678"}});
  const std::size_t end = made.rfind(zip::kEnd);
  const auto read = [&](bool count, bool size, bool begin) {
    std::string bytes = made;
    std::byte* at = std::as_writable_bytes(std::span(bytes)).data() + end;
    for (const std::size_t number : {8U, 10U})
      if (count) store_le(at + number, std::uint16_t{UINT16_MAX});
    if (size) store_le(at + 12, std::uint32_t{UINT32_MAX});
    if (begin) store_le(at + 16, std::uint32_t{UINT32_MAX});
    const MemorySource file(bytes);
    const Archive archive(file, {0, bytes.size()});
    EXPECT_EQ(archive.records().size(), 2U);
    return archive.read(*archive.find("data/0"));
  };
  EXPECT_EQ(read(true, false, false), "12345678");
  EXPECT_EQ(read(false, true, false), "12345678");
  EXPECT_EQ(read(false, false, true), "12345678");
  EXPECT_EQ(read(true, true, true), "12345678");
}

}  // namespace
}  // namespace hfshard::format
