#include "keras_files/h5_budget.h"

#include <limits>

#include "core/checked_size.h"
#include "keras_files/h5_bytes.h"

namespace strata::keras_files::h5 {
namespace {

// The smallest part, a message without data, has 8 bytes; small files may be dense.
constexpr uint64_t kBytesOfPart = 8;
constexpr uint64_t kHarmlessParts = 4096;
// Names and texts are copied a few times, into strings that have a size of their own.
constexpr uint64_t kCopies = 16;
constexpr uint64_t kHarmlessCopies = uint64_t{1} << 20;

/// A sum that stays at the largest number rather than wrap.
uint64_t sum(uint64_t a, uint64_t b) {
  return strata::detail::checked_sum(a, b).value_or(std::numeric_limits<uint64_t>::max());
}

[[noreturn]] void exhausted(const char* what, uint64_t limit, const char* option) {
  throw Error(ErrorCode::kResourceExhausted, str_cat("got ", what, "; expected at most ", limit,
                                                     " (ReadLimits::", option, " raises it)"));
}

}  // namespace

void Budget::visit(uint64_t count) {
  visited_ = sum(visited_, count);
  if (visited_ > kHarmlessParts + file_bytes_ / kBytesOfPart) {
    damaged("parts of the file are used again and again, more than its bytes can hold");
  }
  if (visited_ > limits_.parts)
    exhausted("more links, attributes and chunks", limits_.parts, "parts");
}

void Budget::copy(uint64_t bytes) {
  copied_ = sum(copied_, bytes);
  if (copied_ > kHarmlessCopies && copied_ / kCopies > file_bytes_) {
    damaged("names and texts are used again and again, more than its bytes can hold");
  }
}

void Budget::read(uint64_t bytes) {
  read_ = sum(read_, bytes);
  if (read_ > sum(file_bytes_, kHarmlessBytes)) {
    damaged("data is used again and again, more than its bytes can hold");
  }
}

void Budget::unpack(uint64_t bytes) {
  unpacked_ = sum(unpacked_, bytes);
  if (!can_become(file_bytes_, unpacked_)) damaged("more data than so many bytes can become");
  if (unpacked_ > sum(file_bytes_, limits_.unpacked_bytes)) {
    exhausted("more data", limits_.unpacked_bytes, "unpacked_bytes");
  }
}

}  // namespace strata::keras_files::h5
