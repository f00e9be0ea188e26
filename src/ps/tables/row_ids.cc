#include "ps/tables/row_ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "strata/core/error.h"

namespace strata::ps {
namespace {

/// Digits that are counted in the first-level cache.
constexpr int kDigitBits = 11;

/// Ascending, by `bits` of a word from `low` on: counting sort, digit by digit.
void sort_words(std::vector<uint64_t>& words, int low, int bits) {
  std::vector<uint64_t> other(words.size());
  std::array<uint32_t, size_t{1} << kDigitBits> places;
  for (int at = low; at < low + bits; at += kDigitBits) {
    const auto digit = [&](uint64_t word) { return (word >> at) & (places.size() - 1); };
    places.fill(0);
    for (const uint64_t word : words) ++places[digit(word)];
    uint32_t begin = 0;
    for (uint32_t& place : places) begin += std::exchange(place, begin);
    for (const uint64_t word : words) other[places[digit(word)]++] = word;
    words.swap(other);
  }
}

}  // namespace

RowIds find_rows(std::span<const int64_t> ids, int64_t total, int servers,
                 std::span<int64_t> inverse) {
  // A server's rows are numbered from `server * each` on, so that one order is by server and row.
  const int64_t each = total / servers + (total % servers != 0 ? 1 : 0);
  const uint64_t numbers = static_cast<uint64_t>(each) * static_cast<uint64_t>(servers);
  const auto number_bits = static_cast<int>(std::bit_width(numbers));
  const auto place_bits = static_cast<int>(std::bit_width(ids.size()));
  STRATA_CHECK(number_bits + place_bits <= 64 && ids.size() < (uint64_t{1} << 32), kUnimplemented,
               "[ps] got ", ids.size(), " ids of ", total, " rows at a time; ask for fewer");
  std::vector<uint64_t> words(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i];
    STRATA_CHECK(id >= 0 && id < total, kOutOfRange, "got row ", id, "; it has rows 0 to ",
                 total - 1);
    const int64_t number = servers == 1 ? id : id % servers * each + id / servers;
    words[i] = static_cast<uint64_t>(number) << place_bits | i;
  }
  sort_words(words, place_bits, number_bits);

  RowIds found;
  found.rows.reserve(ids.size());
  int64_t last = -1;
  int64_t server = -1;
  for (const uint64_t word : words) {
    const auto number = static_cast<int64_t>(word >> place_bits);
    if (number != last) {
      last = number;
      for (; number >= (server + 1) * each; ++server) {
        found.begins.push_back(static_cast<int64_t>(found.rows.size()));
      }
      found.rows.push_back((number - server * each) * servers + server);
    }
    inverse[word & ((uint64_t{1} << place_bits) - 1)] = static_cast<int64_t>(found.rows.size()) - 1;
  }
  found.begins.resize(static_cast<size_t>(servers) + 1, static_cast<int64_t>(found.rows.size()));
  return found;
}

}  // namespace strata::ps
