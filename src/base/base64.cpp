#include "base/base64.h"

#include <cstdint>

namespace hfshard {
namespace {

constexpr unsigned kBits = 6;  // of a character

std::optional<std::uint32_t> value_of(char c) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (c == '-') c = '+';
  if (c == '_') c = '/';
  const std::size_t at = kAlphabet.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<std::uint32_t>(at);
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::size_t kGroup = 4;  // characters that are three bytes
  const std::size_t end = text.find_last_not_of('=') + 1;
  if (text.size() % kGroup != 0 || text.size() - end > 2) return std::nullopt;
  std::string out;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text.substr(0, end)) {
    const auto value = value_of(c);
    if (!value) return std::nullopt;
    bits = (bits << kBits) | *value;
    held += kBits;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(static_cast<unsigned char>(bits >> held)));
    bits &= (1U << held) - 1;
  }
  return out;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = (bits << 8) | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t value = (bits >> (kBits * (3 - i))) & ((1U << kBits) - 1);
      out += i <= part.size() ? kAlphabet[value] : '=';
    }
  }
  return out;
}

}  // namespace hfshard
