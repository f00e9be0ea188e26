#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "strata/core/error.h"

/// What fuzz targets share. A target is one function that is given any bytes:
///
///     extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
///       strata::fuzz::takes([&] { parse(strata::fuzz::text_of(data, size)); });
///       return 0;
///     }
///
/// It may refuse them with a strata::Error, and in no other way: another exception ends the
/// process, as a crash does.
namespace strata::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs `parse`. @return whether it took the bytes; false: it refused them with an Error.
template <typename Parse>
bool takes(Parse&& parse) {
  try {
    parse();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Ends the process unless `holds`: a property that every input has.
void expect(bool holds, const char* what);

/// Reads numbers and texts off the front of an input; zeros and nothing behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(text_of(data, size)) {}

  bool empty() const { return rest_.empty(); }
  uint8_t byte();
  /// A byte says how many bytes the number has, so that small numbers are as frequent as large.
  uint64_t number();
  /// 0 to `end` - 1. One byte.
  size_t below(size_t end) { return byte() % end; }
  bool flag() { return byte() % 2 == 1; }
  /// Up to `most` bytes; a byte says how many.
  std::string_view text(size_t most = 255);
  std::string_view rest();

 private:
  std::string_view rest_;
};

// Large numbers of hosts and tasks are slow, and say nothing new: most inputs do without.

/// Without the digits behind the first few of each number.
std::string with_short_numbers(std::string_view text, int most_digits);
/// A list of SLURM's, with short numbers and two brackets at most.
std::string with_few_hosts(std::string_view list);
/// Which inputs keep them. Not by length, which mutations keep.
bool one_in_64(const uint8_t* data, size_t size);

/// A path whose file has these bytes, until the next call. For what reads files alone.
std::string file_of(std::string_view bytes);

}  // namespace strata::fuzz
