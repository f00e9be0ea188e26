#include "strata/data/random_numbers.h"

#include <cmath>
#include <numbers>

#include "data/random.h"
#include "strata/core/error.h"

namespace strata::data {
namespace {

// Shuffles of one seed and stage draw from the stream itself; elements have streams below it.
constexpr uint64_t kElements = 0x656C656D656E7473;  // "elements"

}  // namespace

RandomNumbers::RandomNumbers(const ElementKey& key)
    : key_(detail::RandomStream(key.seed ^ kElements, key.epoch, key.stage).bits(key.index)) {}

uint64_t RandomNumbers::bits() { return detail::RandomStream::at(key_, count_++); }

uint64_t RandomNumbers::below(uint64_t bound) {
  STRATA_CHECK(bound > 0, kInvalidArgument,
               "[data] RandomNumbers::below: got bound 0; expected at least 1");
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits()) * bound) >> 64);
}

double RandomNumbers::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
}

double RandomNumbers::normal(double mean, double deviation) {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));  // of 1 - u, which is never 0
  const double angle = 2 * std::numbers::pi * uniform();
  return mean + deviation * radius * std::cos(angle);
}

}  // namespace strata::data
