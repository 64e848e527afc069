#include "base/inflate.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/catch_error.h"
#include "support/deflate_streams.h"

namespace hfshard {
namespace {

struct InflateSteps {
  std::size_t in = 1 << 20;
  std::size_t out = 1 << 20;
};

// Decodes a stream in steps. Returns a message if the stream is invalid.
std::string inflated(DeflateWrap wrap, const std::string& stream, std::size_t content,
                     const InflateSteps& steps = {}) {
  std::vector<std::byte> scratch(
      InflateStream::scratch_bytes());  // the sanitizers detect an overrun
  InflateStream decoder(wrap, content, scratch);
  std::string out(content, '?');
  auto to = std::as_writable_bytes(std::span(out));
  auto from = as_bytes(stream);
  while (!decoder.done()) {
    const auto part = from.first(std::min(steps.in, from.size()));
    const auto [used, made] = decoder.step(part, to.first(std::min(steps.out, to.size())));
    from = from.subspan(used);
    to = to.subspan(made);
    if (used + made == 0) return "no way on";
  }
  return from.empty() ? out : "bytes behind it";
}

std::string some_content(std::size_t size) {
  std::mt19937 random(5);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random() % 50);
  return out;
}

TEST(Inflate, StreamsOfAnyLengthComeBackInAnySteps) {
  for (const std::size_t size : {0U, 1U, 100U, 70000U, 300000U}) {
    const std::string content = some_content(size);
    for (const bool gzip : {true, false}) {
      const DeflateWrap wrap = gzip ? DeflateWrap::gzip : DeflateWrap::zlib;
      for (const int level : {0, 1, 9}) {
        const std::string stream = deflate_stream(content, gzip, level);
        EXPECT_LE(stream.size(), deflate_most_bytes(size));
        EXPECT_GE(stream.size(), deflate_least_bytes(size));
        EXPECT_TRUE(inflated(wrap, stream, size) == content);
        if (size > 1000) continue;
        EXPECT_TRUE(inflated(wrap, stream, size, {1, 1}) == content);
        EXPECT_TRUE(inflated(wrap, stream, size, {7, 3}) == content);
      }
      const std::string stream = deflate_stream(content, gzip);
      EXPECT_TRUE(inflated(wrap, stream, size, {4096, 1000}) == content);
    }
  }
  const std::string zeros(1 << 20, '\0');
  EXPECT_GE(deflate_stream(zeros, true, 9).size(), deflate_least_bytes(zeros.size()));
}

TEST(Inflate, WhatIsNoStreamOfTheContentIsCorrupt) {
  const std::string content = some_content(3000);
  const std::string gzip = deflate_stream(content);
  const auto code = [&](DeflateWrap wrap, const std::string& stream, std::size_t size = 3000) {
    return catch_error([&] { inflated(wrap, stream, size); }).code();
  };
  EXPECT_EQ(code(DeflateWrap::zlib, gzip), ErrorCode::corrupt);
  EXPECT_EQ(code(DeflateWrap::gzip, deflate_stream(content, false)), ErrorCode::corrupt);
  EXPECT_EQ(code(DeflateWrap::gzip, content), ErrorCode::corrupt);
  EXPECT_EQ(code(DeflateWrap::gzip, gzip, 3001), ErrorCode::corrupt);
  EXPECT_EQ(inflated(DeflateWrap::gzip, gzip, 2999), "no way on");  // the caller reports this
  EXPECT_EQ(inflated(DeflateWrap::gzip, gzip.substr(0, gzip.size() - 1), 3000), "no way on");
  EXPECT_EQ(inflated(DeflateWrap::gzip, gzip + "x", 3000), "bytes behind it");
}

TEST(Inflate, AStreamThatNeedsADictionaryIsCorrupt) {
  const std::string stream("\x78\xbb\0\0\0\1abc", 9);
  const Error error = catch_error([&] { inflated(DeflateWrap::zlib, stream, 3); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_NE(error.sentence().find("dictionary"), std::string::npos) << error.sentence();
}

// Gzip and zlib have checksums, so they detect every flip except in the header's unused bytes.
TEST(Inflate, NoFlippedByteGivesOtherContent) {
  const std::string content = some_content(200);
  for (const bool gzip : {true, false}) {
    const std::string good = deflate_stream(content, gzip);
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int mask : {1, 0x20, 0xff}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ mask);
        std::string out;
        try {
          out = inflated(gzip ? DeflateWrap::gzip : DeflateWrap::zlib, bad, 200);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::corrupt);
          continue;
        }
        EXPECT_TRUE(out == content || out.size() < 20) << i;
      }
    }
  }
}

TEST(Inflate, SaysHowAStreamDiffersFromItsContent) {
  const std::string content = some_content(3000);
  const auto said = [&](DeflateWrap wrap, const std::string& stream, std::size_t size) {
    return catch_error([&] { inflated(wrap, stream, size); }).sentence();
  };
  EXPECT_EQ(said(DeflateWrap::gzip, deflate_stream(content), 3001),
            "a deflate stream with 3000 bytes of content instead of 3001");
  EXPECT_EQ(said(DeflateWrap::zlib, deflate_stream(content), 3000),
            "a damaged deflate stream: incorrect header check");
  std::string damaged = deflate_stream(content);
  damaged[damaged.size() - 5] = static_cast<char>(damaged[damaged.size() - 5] ^ 1);
  EXPECT_EQ(said(DeflateWrap::gzip, damaged, 3000),
            "a damaged deflate stream: incorrect data check");
}

// The header comes alone, and then the stream without room for its content.
TEST(Inflate, AStepWithoutInputOrRoomMakesNothing) {
  const std::string content = some_content(100);
  const std::string stream = deflate_stream(content);
  std::vector<std::byte> scratch(InflateStream::scratch_bytes());
  InflateStream decoder(DeflateWrap::gzip, content.size(), scratch);
  std::vector<std::byte> out(content.size());
  const auto empty = decoder.step({}, out);
  EXPECT_EQ(empty.used + empty.made, 0U);
  const auto head = decoder.step(as_bytes(stream).first(10), out);
  EXPECT_EQ(head.used, 10U);
  EXPECT_EQ(head.made, 0U);
  EXPECT_EQ(decoder.step(as_bytes(stream).subspan(10), {}).made, 0U);
  EXPECT_FALSE(decoder.done());
}

TEST(Inflate, BoundsAreThoseOfDeflateAndDoNotWrap) {
  EXPECT_EQ(deflate_least_bytes(1031), 0U);
  EXPECT_EQ(deflate_least_bytes(1032), 1U);
  EXPECT_EQ(deflate_most_bytes(0), 4096U);
  EXPECT_EQ(deflate_most_bytes(6400), 6400U + 800 + 100 + 4096);
  EXPECT_EQ(deflate_most_bytes(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(deflate_most_bytes(UINT64_MAX - 4000), UINT64_MAX);
}

}  // namespace
}  // namespace hfshard
