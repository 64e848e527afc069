#include "base/zstd.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "support/zstd_frames.h"

namespace hfshard {
namespace {

std::string half_random(std::size_t size) {
  std::mt19937 random(5);
  std::string out(size, 'a');
  for (std::size_t i = 0; i < size; i += 2) out[i] = static_cast<char>(random() & 0x3fU);
  return out;
}

// Returns a frame of raw blocks with a window of 2 MiB. It states `size` bytes of content.
std::string raw_frame(const std::string& content, std::uint32_t size) {
  constexpr std::size_t kBlock = std::size_t{128} << 10;
  std::string out("\x28\xb5\x2f\xfd\x80\x58", 6);
  const auto put = [&](std::uint32_t value, int bytes) {
    for (; bytes > 0; --bytes, value >>= 8U) out += static_cast<char>(value & 0xffU);
  };
  put(size, 4);
  for (std::size_t at = 0; at < content.size(); at += kBlock) {
    const std::string block = content.substr(at, kBlock);
    const bool last = at + block.size() == content.size();
    put(static_cast<std::uint32_t>(block.size()) << 3U | (last ? 1U : 0U), 3);
    out += block;
  }
  return out;
}

// The steps of feeding and reading a frame.
struct Steps {
  std::uint64_t window_bytes = 0;  // 0: all at once
  std::size_t in = SIZE_MAX;
  std::size_t out = SIZE_MAX;
};

std::string decoded(const std::string& frame, std::optional<std::uint64_t> content,
                    std::size_t room, const Steps& steps) {
  std::string out(room, '?');
  // At an odd address, with exactly the required size.
  std::vector<std::byte> scratch(ZstdStream::scratch_bytes(steps.window_bytes) + 1);
  ZstdStream stream(content, steps.window_bytes, std::span(scratch).subspan(1));
  auto input = as_bytes(frame);
  auto left = std::as_writable_bytes(std::span(out));
  bool first = true;
  while (!stream.done()) {
    const std::size_t least = first ? ZstdStream::kHeaderBytes : 1;
    const auto fed = input.first(std::min(input.size(), std::max(steps.in, least)));
    const auto [used, made] = stream.step(fed, left.first(std::min(left.size(), steps.out)));
    first = false;
    input = input.subspan(used);
    left = left.subspan(made);
    if (used + made == 0 && !stream.done()) throw Error(ErrorCode::corrupt, "no way on");
  }
  if (!input.empty()) throw Error(ErrorCode::corrupt, "something behind the frame");
  out.resize(room - left.size());
  return out;
}

std::string decoded(const std::string& frame, std::size_t size, const Steps& steps = {}) {
  return decoded(frame, size, size, steps);
}

Error fails(const std::string& frame, std::size_t size) {
  return catch_error([&] { decoded(frame, size); });
}

TEST(Zstd, FramesOfEveryKindAreDecoded) {
  for (const std::size_t size : {1U, 2U, 1000U, 131072U, 131073U, 700000U}) {
    for (const std::string& content : {half_random(size), std::string(size, '\0')}) {
      for (const int level : {-7, 1, 3, 22}) {
        if (level > 3 && size > 1000) continue;  // slow
        for (const bool stated : {false, true}) {
          const std::string frame = zstd_frame(content, {level, 0, stated, stated});
          EXPECT_EQ(decoded(frame, size), content);
          EXPECT_EQ(decoded(frame, size, {0, 1000, 777}), content);
          EXPECT_EQ(decoded(frame, size, {8 << 20, 1000, 777}), content);
          const auto whole = decode_zstd(as_bytes(frame), 700000);
          EXPECT_EQ(as_text(whole), content);
          EXPECT_GE(frame.size(), zstd_least_bytes(size));
          EXPECT_LE(frame.size(), zstd_most_bytes(size));
        }
      }
    }
  }
}

// At an odd address, in dirty memory, with exactly the required size.
std::string encoded(const std::string& content, int level, int dirt) {
  std::string frame(zstd_most_bytes(content.size()), static_cast<char>(dirt));
  std::vector<std::byte> scratch(zstd_encoder_bytes(level, content.size()) + 1,
                                 static_cast<std::byte>(dirt));
  frame.resize(encode_zstd(as_bytes(content), level, std::as_writable_bytes(std::span(frame)),
                           std::span(scratch).subspan(1)));
  return frame;
}

TEST(Zstd, FramesAreTheLibrarysOwnWhateverMemoryHeld) {
  for (const std::size_t size : {0U, 1U, 2U, 1000U, 131072U, 131073U, 700000U}) {
    for (const std::string& content : {half_random(size), std::string(size, '\0')}) {
      for (const int level : {1, 2, 3, 6, 9, 13, 19, kMaxZstdLevel}) {
        if (level > 9 && size > 140000 && cases(3) < 3) continue;  // slow
        const std::string frame = encoded(content, level, 0);
        EXPECT_EQ(frame, zstd_frame(content, {.level = level})) << size << " at level " << level;
        EXPECT_EQ(encoded(content, level, 0xff), frame) << size << " at level " << level;
        EXPECT_EQ(decoded(frame, size), content);
      }
    }
  }
}

TEST(Zstd, WhatCannotBeCompressedFitsIntoItsRoom) {
  std::mt19937 random(7);
  for (const std::size_t size : {100U, 131072U, 400001U}) {
    std::string content(size, '\0');
    for (char& byte : content) byte = static_cast<char>(random());
    const std::string frame = encoded(content, 1, 0);
    EXPECT_GT(frame.size(), size);
    EXPECT_EQ(decoded(frame, size), content);
  }
}

TEST(Zstd, WindowsBeyondEveryDefaultNeedNoMoreMemory) {
  const std::string content = half_random(300000);
  for (const int log : {10, 27, 30}) {
    const std::string frame = zstd_frame(content, {1, log, false, false});
    EXPECT_EQ(decoded(frame, content.size()), content);
    EXPECT_EQ(as_text(decode_zstd(as_bytes(frame), content.size())), content);
  }
  // At 2^31, the level's own tables would have gigabytes, so the test sets the header field itself.
  std::string frame = zstd_frame(content, {1, 27, false, false});
  ASSERT_EQ(static_cast<unsigned char>(frame[5]), (27U - 10U) << 3U);
  frame[5] = static_cast<char>((31U - 10U) << 3U);
  EXPECT_EQ(decoded(frame, content.size()), content);
}

TEST(Zstd, AWindowBeyondTheOneGivenIsALimit) {
  const std::string content = half_random(3000000);
  const std::string frame = zstd_frame(content, {1, 21, false, false});
  EXPECT_EQ(decoded(frame, content.size(), {1 << 21, 5000, 5000}), content);
  const auto too_small = [&](const std::string& at, std::size_t size, std::uint64_t window) {
    return catch_error([&] { decoded(at, size, {window}); });
  };
  EXPECT_EQ(too_small(frame, content.size(), 1 << 20).code(), ErrorCode::limit);
  // A window is never larger than the content that the header states.
  const std::string small = content.substr(0, 4000);
  EXPECT_EQ(decoded(zstd_frame(small), 4000, {4000, 100, 100}), small);
  const std::string few = content.substr(0, 200000);
  EXPECT_EQ(decoded(raw_frame(few, 200000), few.size(), {1 << 18, 5000, 5000}), few);
}

TEST(Zstd, AFrameThatStatesFewerBytesThanItHoldsIsCorrupt) {
  const std::string content = half_random(4000);
  EXPECT_EQ(as_text(decode_zstd(as_bytes(raw_frame(content, 4000)), 5000)), content);
  const std::string frame = raw_frame(content, 3999);
  const Error error = catch_error([&] { decode_zstd(as_bytes(frame), 5000); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "a zstd frame whose content has another length than it states");
}

TEST(Zstd, AMagicNumberAloneIsATruncatedFrame) {
  const std::string magic = raw_frame("", 0).substr(0, 4);
  const Error error = catch_error([&] { decode_zstd(as_bytes(magic), 10); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "a zstd frame passes the end of its 4 bytes");
}

TEST(Zstd, ContentOfAnotherSizeIsCorrupt) {
  for (const bool stated : {false, true}) {
    const std::string frame = zstd_frame(half_random(1000), {3, 0, stated, false});
    for (const std::size_t size : {1U, 999U, 1001U, 5000U}) {
      EXPECT_EQ(fails(frame, size).code(), ErrorCode::corrupt) << size;
      const Steps steps{1 << 20, 100, 100};
      EXPECT_EQ(catch_error([&] { decoded(frame, size, steps); }).code(), ErrorCode::corrupt);
    }
  }
}

TEST(Zstd, FramesOfAnyContentAreDecodedThroughAWindow) {
  constexpr std::size_t kRoom = 700100;
  for (const std::size_t size : {0U, 1U, 1000U, 131072U, 131073U, 700000U}) {
    const std::string content = half_random(size);
    for (const bool stated : {false, true}) {
      const std::string frame = zstd_frame(content, {3, 0, stated, true});
      const auto any = [&](const Steps& steps) {
        return decoded(frame, std::nullopt, kRoom, steps);
      };
      EXPECT_EQ(any({8 << 20}), content);
      EXPECT_EQ(any({8 << 20, 1000, 777}), content);
      EXPECT_EQ(any({8 << 20, 1, 500}), content);
    }
  }
}

// The decoder checks the content and the window in the header, even if the caller doesn't know
// them.
TEST(Zstd, AFrameOfAnyContentIsWhatItSaysOfItself) {
  const std::string content = half_random(3000000);
  const auto error_of = [](const std::string& frame, std::uint64_t window) {
    return catch_error([&] { decoded(frame, std::nullopt, 4000000, {window}); }).code();
  };
  EXPECT_EQ(error_of(zstd_frame(content, {1, 21, false, false}), 1 << 20), ErrorCode::limit);
  EXPECT_EQ(decoded(zstd_frame(content.substr(0, 4000)), std::nullopt, 5000, {4000}),
            content.substr(0, 4000));
  std::string frame = zstd_frame(content.substr(0, 1000), {3, 0, true, false});
  ASSERT_EQ(static_cast<unsigned char>(frame[4]), 0x60U);  // one segment, a size of two bytes
  ++frame[5];
  EXPECT_EQ(error_of(frame, 1 << 20), ErrorCode::corrupt);
  frame = zstd_frame(content.substr(0, 1000), {3, 0, false, true});
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_EQ(error_of(frame.substr(0, size), 1 << 20), ErrorCode::corrupt) << size;
  frame.back() ^= 1;
  EXPECT_EQ(error_of(frame, 1 << 20), ErrorCode::corrupt);
}

TEST(Zstd, OneWholeFrameAndNothingElse) {
  const std::string frame = zstd_frame(half_random(1000));
  const std::string second = zstd_frame("b");
  const std::string skippable("\x50\x2a\x4d\x18\x02\0\0\0xx", 10);
  const std::vector<std::pair<const char*, std::string>> cases{
      {"nothing", ""},
      {"a byte behind", frame + '\0'},
      {"a frame behind", frame + second},
      {"an empty frame behind", frame + zstd_frame("")},
      {"a skippable frame behind", frame + skippable},
      {"a skippable frame in front", skippable + frame},
      {"a skippable frame alone", skippable},
      {"an old format", "\x27\xb5\x2f\xfd" + frame.substr(4)},
  };
  for (const auto& [what, bytes] : cases) {
    EXPECT_EQ(fails(bytes, 1000).code(), ErrorCode::corrupt) << what;
    EXPECT_EQ(catch_error([&, &at = bytes] { decode_zstd(as_bytes(at), 5000); }).code(),
              ErrorCode::corrupt)
        << what;
  }
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_EQ(fails(frame.substr(0, size), 1000).code(), ErrorCode::corrupt) << size;
  }
}

TEST(Zstd, AFlippedBitIsFoundByTheChecksumOrChangesNothingButBytes) {
  const std::string content = half_random(300);
  for (const bool checksum : {false, true}) {
    const std::string frame = zstd_frame(content, {3, 0, true, checksum});
    std::size_t silent = 0;
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      std::string bad = frame;
      bad[bit / 8] = static_cast<char>(static_cast<unsigned char>(bad[bit / 8]) ^ (1U << bit % 8));
      try {
        const std::string out = decoded(bad, content.size());
        silent += out != content ? 1U : 0U;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::corrupt);
      }
    }
    EXPECT_EQ(silent > 0, !checksum);
  }
}

TEST(Zstd, ContentBeyondTheLimitIsRefused) {
  const std::string content(3 << 20, 'x');
  for (const bool stated : {false, true}) {
    const std::string frame = zstd_frame(content, {3, 0, stated, false});
    EXPECT_EQ(as_text(decode_zstd(as_bytes(frame), content.size())), content);
    const Error e = catch_error([&] { decode_zstd(as_bytes(frame), content.size() - 1); });
    EXPECT_EQ(e.code(), ErrorCode::limit);
  }
}

TEST(Zstd, AStatedSizeThatCannotBeIsRefusedBeforeMemoryIsTaken) {
  std::string frame = zstd_frame(std::string(1 << 20, 'x'));
  ASSERT_EQ(static_cast<unsigned char>(frame[4]) >> 6U, 2U);  // the size has four bytes
  const std::size_t at = (static_cast<unsigned char>(frame[4]) & 0x20U) != 0 ? 5 : 6;
  frame[at + 3] = '\x70';
  const Error e = catch_error([&] { decode_zstd(as_bytes(frame), UINT64_MAX / 2); });
  EXPECT_EQ(e.code(), ErrorCode::corrupt);
}

TEST(Zstd, BoundsDoNotWrap) {
  EXPECT_EQ(zstd_most_bytes(UINT64_MAX - 5), UINT64_MAX);
  EXPECT_EQ(zstd_most_bytes(1000), ZSTD_compressBound(1000));
  EXPECT_EQ(zstd_most_bytes(1ULL << 40), ZSTD_compressBound(1ULL << 40));
  EXPECT_EQ(zstd_least_bytes(1000), 0U);
}

// A header of one segment and four bytes of content, and one compressed block of three bytes.
TEST(DecodeZstd, ADamagedBlockIsCorrupt) {
  const std::string frame("\x28\xb5\x2f\xfd\x20\x04\x1d\0\0\xff\xff\xff", 12);
  const Error error = catch_error([&] { (void)decode_zstd(as_bytes(frame), 100); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
}

TEST(ZstdErrors, SayWhatIsWrongWithAFrame) {
  const std::string content = half_random(1000);
  const std::string frame = zstd_frame(content, {3, 0, true, false});
  const std::string silent = zstd_frame(content, {3, 0, false, false});
  const auto stream = [](const std::string& bytes, std::size_t size) {
    return fails(bytes, size).sentence();
  };
  EXPECT_EQ(stream(frame, 999), "a zstd frame with 1000 bytes of content instead of 999");
  EXPECT_EQ(stream(silent, 1001), "a zstd frame with 1000 bytes of content instead of 1001");
  EXPECT_EQ(stream(silent, 999), "a zstd frame of more than 999 bytes of content");
  EXPECT_EQ(stream("abcdefgh", 8), "bytes that aren't a zstd frame");
  EXPECT_EQ(stream(frame.substr(0, 5), 1000), "a zstd frame that ends within its header");
  const auto whole = [](const std::string& bytes, std::uint64_t most = 5000) {
    return catch_error([&] { decode_zstd(as_bytes(bytes), most); }).sentence();
  };
  EXPECT_EQ(whole("abcdefgh"), "8 bytes that aren't a zstd frame");
  EXPECT_EQ(whole("abc"), "3 bytes that aren't a zstd frame");
  const std::string longer = frame + "xyz";
  EXPECT_EQ(whole(longer), "a zstd frame ends 3 bytes before the end of its " +
                               std::to_string(longer.size()) + " bytes");
  EXPECT_EQ(whole(frame, 999), "a zstd frame of 1000 bytes of content; hfshard reads at most 999");
  EXPECT_EQ(whole(silent, 999), "a zstd frame of more bytes of content; hfshard reads at most 999");
}

TEST(ZstdErrors, SayWhichWindowIsTooLarge) {
  const std::string frame = zstd_frame(half_random(3000000), {1, 21, false, false});
  const Error error = catch_error([&] { decoded(frame, 3000000, {1 << 20}); });
  EXPECT_EQ(error.sentence(),
            "a zstd frame with a window of 2097152 bytes; hfshard decodes at most 1048576");
}

// A block of at most 128 KiB takes at least four bytes.
TEST(Zstd, TheShortestFrameHasFourBytesForEachBlock) {
  EXPECT_EQ(zstd_least_bytes(131'071), 0U);
  EXPECT_EQ(zstd_least_bytes(131'072), 4U);
  EXPECT_EQ(zstd_least_bytes(3 * 131'072 + 1), 12U);
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{131'071}, std::uint64_t{131'072}})
    EXPECT_EQ(zstd_most_bytes(size), ZSTD_compressBound(size)) << size;
}

// The first guess is one mebibyte, and grows until the content fits.
TEST(DecodeZstd, ContentThatIsNotStatedCanBeOfAnySizeUpToTheLimit) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1} << 20, (std::size_t{5} << 20) + 1}) {
    const std::string content(size, 'x');
    const std::string frame = zstd_frame(content, {1, 0, false, false});
    EXPECT_EQ(as_text(decode_zstd(as_bytes(frame), size)), content) << size;
    EXPECT_EQ(as_text(decode_zstd(as_bytes(frame), std::uint64_t{1} << 30)), content) << size;
  }
}

}  // namespace
}  // namespace hfshard
