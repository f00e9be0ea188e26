#include "ps/tables/row_ids.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "support/expect_error.h"

namespace strata::ps {
namespace {

TEST(RowIdsTest, EachRowComesOnceServerByServer) {
  const std::vector<int64_t> ids = {7, 2, 7, 3, 0, 2};
  std::vector<int64_t> inverse(ids.size());
  const RowIds found = find_rows(ids, 10, 2, inverse);
  EXPECT_EQ(found.rows, (std::vector<int64_t>{0, 2, 3, 7}));
  EXPECT_EQ(found.begins, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(inverse, (std::vector<int64_t>{3, 1, 3, 2, 0, 1}));
}

TEST(RowIdsTest, ItIsWhatSetsSay) {
  std::mt19937_64 random(1);
  for (const int64_t total : {1L, 5L, 2048L, 2049L, 1'000'003L, (1L << 45) + 1}) {
    for (const int servers : {1, 2, 3, 7}) {
      for (const size_t count : {0UL, 1UL, 100UL, 5000UL}) {
        std::vector<int64_t> ids;
        std::vector<std::set<int64_t>> expected(static_cast<size_t>(servers));
        for (size_t i = 0; i < count; ++i) {
          ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(total)));
          expected[static_cast<size_t>(ids[i] % servers)].insert(ids[i]);
        }
        std::vector<int64_t> inverse(count);
        const RowIds found = find_rows(ids, total, servers, inverse);
        ASSERT_EQ(found.begins.size(), static_cast<size_t>(servers) + 1);
        std::vector<int64_t> rows;
        for (size_t s = 0; s < expected.size(); ++s) {
          EXPECT_EQ(found.begins[s], static_cast<int64_t>(rows.size()));
          rows.insert(rows.end(), expected[s].begin(), expected[s].end());
        }
        EXPECT_EQ(found.begins.back(), static_cast<int64_t>(rows.size()));
        EXPECT_EQ(found.rows, rows) << total << " rows, " << servers << " servers";
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(found.rows[static_cast<size_t>(inverse[i])], ids[i]);
        }
      }
    }
  }
}

TEST(RowIdsTest, WhatIsNoRowIsNamed) {
  std::vector<int64_t> inverse(2);
  for (const int64_t bad : {-1L, 10L}) {
    const std::vector<int64_t> ids = {3, bad};
    expect_error([&] { find_rows(ids, 10, 2, inverse); }, ErrorCode::kOutOfRange,
                 "got row " + std::to_string(bad) + "; it has rows 0 to 9");
  }
}

}  // namespace
}  // namespace strata::ps
