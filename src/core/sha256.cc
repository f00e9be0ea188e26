#include "core/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/sha256_blocks.h"

namespace strata {
namespace {

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

void Sha256::update(const void* bytes, size_t size) {
  const auto* input = static_cast<const uint8_t*>(bytes);
  while (size > 0) {
    const size_t filled = size_ % block_.size();
    size_t taken = size / block_.size() * block_.size();
    if (filled == 0 && taken > 0) {
      compress(input, taken / block_.size());
    } else {
      taken = std::min(size, block_.size() - filled);
      std::memcpy(block_.data() + filled, input, taken);
      if (filled + taken == block_.size()) compress(block_.data(), 1);
    }
    size_ += taken;
    input += taken;
    size -= taken;
  }
}

void Sha256::compress(const uint8_t* blocks, size_t count) {
  static const auto function = detail::sha256_blocks_of_this_processor();
  function(state_.data(), blocks, count);
}

namespace detail {
namespace {

void compress_one(uint32_t* state, const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += change[i];
}

}  // namespace

void sha256_blocks(uint32_t* state, const uint8_t* blocks, size_t count) {
  for (size_t i = 0; i < count; ++i) compress_one(state, blocks + 64 * i);
}

}  // namespace detail

std::string Sha256::hex_digest() const {
  Sha256 last = *this;
  const uint64_t bits = size_ * 8;
  const uint8_t one = 0x80;
  const uint8_t zero = 0;
  last.update(&one, 1);
  while (last.size_ % 64 != 56) last.update(&zero, 1);
  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  last.update(length.data(), length.size());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint32_t word : last.state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  }
  return text;
}

}  // namespace strata
