#include "strata/ps/table.h"

#include <gtest/gtest.h>

#include <set>

#include "ps/tables/row_values.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

TEST(TableTest, AnEvenCutLeavesNoServerHot) {
  for (const int servers : {1, 2, 3, 7, 116}) {
    for (const int64_t elements : {1, 15, 16, 17, 1000, 23'817'352}) {
      const std::vector<TablePart> parts = cut_evenly(elements, 4, servers);
      int64_t next = 0;
      for (const TablePart& part : parts) {
        EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.begin % 16, 0);
        EXPECT_LE(part.end - part.begin, elements / servers + 32);
        next = part.end;
      }
      EXPECT_EQ(next, elements) << servers;
    }
  }
}

TEST(TableTest, ASpecComesBackFromJson) {
  const TableSpec spec = {
      .name = "users",
      .dtype = c10::ScalarType::Double,
      .rule = tensor::AdagradRule{.epsilon = 1e-5},
      .consistency = {.kind = Consistency::kBounded, .staleness = 3},
      .backup = true,
      .no_weight_decay = {{1, 2, 0}},
      .rows = 10,
      .width = 4,
      .initializer = {
          .kind = RowInitializer::Kind::kNormal, .a = 0.1, .b = 0.2, .seed = ~uint64_t{0}}};
  const std::string text = table_to_json(spec).dump();
  const TableSpec back = table_from_json(Json::parse(text));
  EXPECT_EQ(table_to_json(back).dump(), text);
  EXPECT_EQ(back.initializer.seed, ~uint64_t{0});
  EXPECT_EQ(back.consistency, spec.consistency);
  EXPECT_TRUE(back.backup);
  EXPECT_EQ(back.no_weight_decay, spec.no_weight_decay);
}

TEST(TableTest, WhatIsWrongWithASpecIsNamed) {
  TableSpec good = {.name = "t", .parts = cut_evenly(100, 4, 2)};
  check_table(good, 2);
  TableSpec gap = good;
  gap.parts[1].begin += 1;
  expect_error([&] { check_table(gap, 2); },
               "[ps] table 't': got a part of elements 49 to 100 behind 48; parts must follow each "
               "other without gaps");
  expect_error([&] { check_table(good, 1); }, "[ps] table 't': got a part on server 1 of 1");
  TableSpec half = good;
  half.dtype = c10::ScalarType::Half;
  expect_error([&] { check_table(half, 2); },
               "[ps] table 't': got dtype Half; parameter servers hold float32 and float64");
  TableSpec lamb = good;
  lamb.rule = tensor::LambRule{};
  expect_error_containing([&] { check_table(lamb, 2); }, ErrorCode::kUnimplemented,
                          "got the rule lamb, which needs norms of whole variables");
  TableSpec both = good;
  both.rows = 3;
  expect_error_containing([&] { check_table(both, 2); }, ErrorCode::kInvalidArgument,
                          "a table has either parts or rows");
  TableSpec alone = {.name = "t", .backup = true, .parts = cut_evenly(100, 4, 1)};
  expect_error([&] { check_table(alone, 1); },
               "[ps] table 't': got backup with 1 server; a copy needs another one: start two, or "
               "do without");
  TableSpec backups = good;
  backups.consistency = {.kind = Consistency::kSynchronous, .workers = 2, .backups = 2};
  expect_error_containing([&] { check_table(backups, 2); }, ErrorCode::kInvalidArgument,
                          "got 2 backups of 2 workers");
}

TEST(TableTest, RowsAreDrawnFromTheirNumbers) {
  const RowInitializer normal = {.kind = RowInitializer::Kind::kNormal, .a = 1, .b = 2, .seed = 7};
  std::set<float> values;
  double sum = 0;
  double squares = 0;
  for (int64_t row = 0; row < 1000; ++row) {
    float a[5];
    float b[5];
    make_row(normal, row, 5, a);
    make_row(normal, row, 5, b);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(a[i], b[i]);
      values.insert(a[i]);
      sum += a[i];
      squares += (a[i] - 1) * (a[i] - 1);
    }
  }
  EXPECT_GT(values.size(), 4990);
  EXPECT_NEAR(sum / 5000, 1, 0.12);
  EXPECT_NEAR(squares / 5000, 4, 0.35);
  const RowInitializer uniform = {.kind = RowInitializer::Kind::kUniform, .a = -1, .b = 1};
  double u[8];
  make_row(uniform, 3, 8, u);
  for (const double value : u) EXPECT_LT(std::abs(value), 1);
}

}  // namespace
}  // namespace strata::ps
