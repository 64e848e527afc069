#include "base/digest.h"

#include <bit>
#include <xxhash.h>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/coding.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

}  // namespace

Digest128& Digest128::operator+=(const Digest128& other) noexcept {
  const bool carry = __builtin_add_overflow(low, other.low, &low);
  high += other.high + (carry ? 1U : 0U);
  return *this;
}

std::string to_hex(const Digest128& digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

Digest128 digest_from_hex(std::string_view hex) {
  Digest128 out;
  bool good = hex.size() == 32;
  for (std::size_t i = 0; good && i < hex.size(); ++i) {
    const int digit = hex_value(hex[i]);
    good = digit >= 0;
    std::uint64_t& half = i < 16 ? out.high : out.low;
    half = (half << 4) | static_cast<std::uint64_t>(good ? digit : 0);
  }
  if (!good) {
    throw Error(ErrorCode::bad_input,
                fmt::format("a digest must be 32 lower-case hex digits, not {}", quote(hex)));
  }
  return out;
}

Digest128 hash_block(std::uint64_t block_index, std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), block_index);
  return {hash.low64, hash.high64};
}

template <std::size_t kBytes>
struct ShaDigest<kBytes>::State {
  std::unique_ptr<EVP_MD_CTX, FreeContext> context{EVP_MD_CTX_new()};
};

template <std::size_t kBytes>
ShaDigest<kBytes>::ShaDigest() : state_(std::make_unique<State>()) {
  HFSHARD_CHECK(state_->context != nullptr);
  const EVP_MD* kind = kBytes == 20 ? EVP_sha1() : EVP_sha256();
  HFSHARD_CHECK(EVP_DigestInit_ex(state_->context.get(), kind, nullptr) == 1);
}

template <std::size_t kBytes>
ShaDigest<kBytes>::~ShaDigest() = default;
template <std::size_t kBytes>
ShaDigest<kBytes>::ShaDigest(ShaDigest&&) noexcept = default;
template <std::size_t kBytes>
ShaDigest<kBytes>& ShaDigest<kBytes>::operator=(ShaDigest&&) noexcept = default;

template <std::size_t kBytes>
ShaDigest<kBytes>& ShaDigest<kBytes>::update(std::span<const std::byte> bytes) {
  HFSHARD_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

template <std::size_t kBytes>
ShaDigest<kBytes>& ShaDigest<kBytes>::update(std::string_view text) {
  return update(as_bytes(text));
}

template <std::size_t kBytes>
std::array<std::byte, kBytes> ShaDigest<kBytes>::finish() {
  std::array<unsigned char, kBytes> digest{};
  unsigned int size = 0;
  HFSHARD_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size) == 1);
  HFSHARD_CHECK(size == digest.size());
  return std::bit_cast<std::array<std::byte, kBytes>>(digest);
}

template class ShaDigest<20>;
template class ShaDigest<32>;

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    const auto value = std::to_integer<unsigned>(b);
    out.push_back(kDigits[value >> 4]);
    out.push_back(kDigits[value & 15U]);
  }
  return out;
}

std::string sha256_hex(std::string_view text) { return to_hex(Sha256().update(text).finish()); }

}  // namespace hfshard
