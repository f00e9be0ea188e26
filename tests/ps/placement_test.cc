#include "strata/ps/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "support/expect_error.h"

namespace strata::ps {
namespace {

VariableSpec floats(std::string name, std::vector<int64_t> shape, Split split = Split::kAnywhere) {
  return {.name = std::move(name), .shape = std::move(shape), .split = split};
}

// Each element once, in order, by servers that there are; the bytes are those of the pieces.
void expect_sound(const Placement& placement, const std::vector<VariableSpec>& variables,
                  int num_servers) {
  std::vector<int64_t> bytes(static_cast<size_t>(num_servers));
  size_t next = 0;
  for (size_t i = 0; i < variables.size(); ++i) {
    const int64_t size = num_elements(variables[i]);
    for (int64_t begin = 0; begin < size; ++next) {
      ASSERT_LT(next, placement.pieces.size());
      const Piece& piece = placement.pieces[next];
      ASSERT_EQ(piece.variable, i);
      ASSERT_EQ(piece.begin, begin);
      ASSERT_GT(piece.end, begin);
      ASSERT_LE(piece.end, size);
      ASSERT_GE(piece.server, 0);
      ASSERT_LT(piece.server, num_servers);
      bytes[static_cast<size_t>(piece.server)] +=
          piece.size() * static_cast<int64_t>(c10::elementSize(variables[i].dtype));
      begin = piece.end;
    }
  }
  EXPECT_EQ(next, placement.pieces.size());
  EXPECT_EQ(bytes, placement.server_bytes);
}

TEST(PlaceTest, OneRangeIsCutIntoEqualParts) {
  const std::vector<VariableSpec> variables = {floats("a", {100}), floats("b", {300})};
  const Placement placement = place(variables, 4);
  expect_sound(placement, variables, 4);
  // 400 bytes each: the first cut is at the end of `a`, the others at multiples of 64 in `b`.
  EXPECT_EQ(placement.pieces,
            (std::vector<Piece>{{0, 0, 100, 0}, {1, 0, 96, 1}, {1, 96, 192, 2}, {1, 192, 300, 3}}));
}

TEST(PlaceTest, DtypesAreSpreadSeparately) {
  std::vector<VariableSpec> variables = {floats("a", {1024}), floats("b", {1024}),
                                         floats("c", {1024})};
  variables[1].dtype = c10::ScalarType::Double;
  const Placement placement = place(variables, 2);
  expect_sound(placement, variables, 2);
  EXPECT_EQ(
      placement.pieces,
      (std::vector<Piece>{{0, 0, 1024, 0}, {1, 0, 512, 0}, {1, 512, 1024, 1}, {2, 0, 1024, 1}}));
}

TEST(PlaceTest, TablesAreCutBetweenRowsOverAllServers) {
  const std::vector<VariableSpec> variables = {floats("table", {10, 3}, Split::kRows),
                                               floats("dense", {4096}),
                                               floats("second", {1000, 3}, Split::kRows)};
  const Placement placement = place(variables, 3);
  expect_sound(placement, variables, 3);
  for (const Piece& piece : placement.pieces) {
    if (piece.variable != 1) {
      EXPECT_EQ(piece.begin % 3, 0);
    }
  }
  for (const size_t variable : {0, 1, 2}) {
    EXPECT_EQ(std::ranges::count(placement.pieces, variable, &Piece::variable), 3) << variable;
  }
  EXPECT_LE(placement.imbalance(), 1.01);
}

TEST(PlaceTest, WholeVariablesGoFirstAndTheRestEvensOut) {
  const std::vector<VariableSpec> variables = {
      floats("small", {100}, Split::kNever), floats("dense", {4000}),
      floats("large", {3000}, Split::kNever), floats("middle", {500}, Split::kNever)};
  const Placement placement = place(variables, 2);
  expect_sound(placement, variables, 2);
  // large on 0; middle and small on 1; of 7600 elements each gets half, nearly.
  EXPECT_EQ(
      placement.pieces,
      (std::vector<Piece>{
          {0, 0, 100, 1}, {1, 0, 800, 0}, {1, 800, 4000, 1}, {2, 0, 3000, 0}, {3, 0, 500, 1}}));
  EXPECT_EQ(placement.server_bytes, (std::vector<int64_t>{15200, 15200}));
}

TEST(PlaceTest, ServersThatAreTooFullGetNoMore) {
  const std::vector<VariableSpec> variables = {floats("large", {100000}, Split::kNever),
                                               floats("dense", {6400})};
  const Placement placement = place(variables, 3);
  EXPECT_EQ(placement.server_bytes, (std::vector<int64_t>{400000, 12800, 12800}));
}

TEST(PlaceTest, ExplicitTasksAreKept) {
  std::vector<VariableSpec> variables = {floats("a", {64}), floats("b", {64}), floats("c", {64})};
  variables[1].device = "/job:ps/task:2";
  variables[2].device = "/gpu:0";
  for (const PlacementOptions& options :
       {PlacementOptions{}, PlacementOptions{.strategy = round_robin}}) {
    const Placement placement = place(variables, 3, options);
    expect_sound(placement, variables, 3);
    const auto pinned = std::ranges::find(placement.pieces, size_t{1}, &Piece::variable);
    EXPECT_EQ(*pinned, (Piece{1, 0, 64, 2}));
  }
  // The strategy is asked for it all the same, as TensorFlow's is.
  EXPECT_EQ(place(variables, 3, {.strategy = round_robin}).pieces[2].server, 2);
}

TEST(PlaceTest, PartitionersPartsGoRoundRobin) {
  const std::vector<VariableSpec> variables = {
      floats("a", {13}), floats("scalar", {}), floats("row", {1, 8}),
      floats("whole", {8}, Split::kNever), floats("b", {10, 2})};
  const Placement placement = place(variables, 3, {.partitioner = FixedShardsPartitioner(2)});
  expect_sound(placement, variables, 3);
  EXPECT_EQ(placement.pieces, (std::vector<Piece>{{0, 0, 7, 0},
                                                  {0, 7, 13, 1},
                                                  {1, 0, 1, 2},
                                                  {2, 0, 8, 0},
                                                  {3, 0, 8, 1},
                                                  {4, 0, 10, 2},
                                                  {4, 10, 20, 0}}));
}

TEST(PlaceTest, PartsMayBePlacedByBytes) {
  std::vector<std::string> names;
  const auto strategy = [&](int num_servers) -> PlacementStrategy {
    return [&names, rule = greedy(num_servers)](const VariableSpec& part) {
      names.push_back(part.name);
      return rule(part);
    };
  };
  const std::vector<VariableSpec> variables = {floats("a", {5, 4}), floats("b", {2})};
  const Placement placement =
      place(variables, 2, {.strategy = strategy, .partitioner = FixedShardsPartitioner(2)});
  EXPECT_EQ(names, (std::vector<std::string>{"a/part_0", "a/part_1", "b/part_0", "b/part_1"}));
  EXPECT_EQ(placement.pieces,
            (std::vector<Piece>{{0, 0, 12, 0}, {0, 12, 20, 1}, {1, 0, 1, 1}, {1, 1, 2, 1}}));
}

TEST(PlaceTest, EmptyVariablesHaveNoPieces) {
  const std::vector<VariableSpec> variables = {
      floats("empty", {0, 4}), floats("table", {0, 4}, Split::kRows), floats("a", {1}),
      floats("odd", {4, 0}, Split::kRows)};
  for (const PlacementOptions& options :
       {PlacementOptions{}, PlacementOptions{.partitioner = FixedShardsPartitioner(2)}}) {
    const Placement placement = place(variables, 2, options);
    expect_sound(placement, variables, 2);
    EXPECT_EQ(placement.pieces.size(), 1);
  }
  EXPECT_EQ(place({}, 2).imbalance(), 1);
}

TEST(PlaceTest, SmallVariablesLeaveServersWithout) {
  const std::vector<VariableSpec> variables = {floats("a", {4})};
  const Placement placement = place(variables, 5);
  expect_sound(placement, variables, 5);
  EXPECT_EQ(placement.pieces.size(), 1);
}

TEST(PlaceTest, OptionsChooseTheRule) {
  const auto placed_like = [](const PlacementOptions& options) {
    std::vector<VariableSpec> variables = {
        {.name = "embedding", .shape = {10'000, 16}, .split = Split::kRows},
        {.name = "dense/kernel", .shape = {512, 256}},
        {.name = "dense/bias", .shape = {256}}};
    const Placement placement = place(variables, /*num_servers=*/4, options);
    return placement.imbalance();
  };
  const PlacementOptions automatic;
  const PlacementOptions whole{.strategy = ps::greedy};
  const PlacementOptions as_tensorflow{
      .partitioner = MinSizePartitioner({.min_shard_bytes = 256 << 10, .max_shards = 4})};
  EXPECT_LE(placed_like(automatic), 1.001);
  EXPECT_NEAR(placed_like(whole), 4 * 640'000.0 / (640'000 + 524'288 + 1024), 1e-6);
  EXPECT_GT(placed_like(as_tensorflow), 1.2);
}

// Any mixture, any number of servers: sound, and as even as cuts allow.
TEST(PlaceTest, RandomVariablesAreSpreadEvenly) {
  std::mt19937 random(3);
  const std::vector<c10::ScalarType> dtypes = {c10::ScalarType::Float, c10::ScalarType::Double,
                                               c10::ScalarType::Half, c10::ScalarType::Char};
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<VariableSpec> variables;
    int64_t coarsest = 64;  // bytes of the largest thing that is not cut
    for (int i = 0, n = static_cast<int>(random() % 20); i < n; ++i) {
      VariableSpec variable{.name = str_cat("v", i), .dtype = dtypes[random() % dtypes.size()]};
      for (int axis = 0, rank = static_cast<int>(random() % 4); axis < rank; ++axis)
        variable.shape.push_back(static_cast<int64_t>(random() % 40));
      variable.split = static_cast<Split>(random() % 3);
      variables.push_back(variable);
      if (variable.split == Split::kNever) coarsest = std::max(coarsest, num_bytes(variable));
      if (variable.split == Split::kRows && !variable.shape.empty() && variable.shape[0] > 0)
        coarsest = std::max(coarsest, num_bytes(variable) / variable.shape[0]);
    }
    const int num_servers = 1 + static_cast<int>(random() % 9);
    const Placement placement = place(variables, num_servers);
    expect_sound(placement, variables, num_servers);
    const int64_t total =
        std::accumulate(placement.server_bytes.begin(), placement.server_bytes.end(), int64_t{0});
    EXPECT_LE(std::ranges::max(placement.server_bytes), total / num_servers + 2 * coarsest + 1);
    EXPECT_EQ(placement, place(variables, num_servers));
  }
}

TEST(PlaceTest, BadArgumentsSaySo) {
  const std::vector<VariableSpec> a = {floats("a", {4, 4})};
  expect_error([&] { (void)place(a, 0); },
               "[ps] place: got 0 servers; expected at least one; start tasks of job \"ps\"");
  const std::vector<VariableSpec> unknown = {floats("a", {4, -1})};
  expect_error([&] { (void)place(unknown, 2); },
               "[ps] variable \"a\": got size -1 in its shape; expected sizes of 0 or more; build "
               "the variable first, or place it with a rule that does not look at shapes (round "
               "robin)");
  std::vector<VariableSpec> pinned = a;
  pinned[0].device = "/job:worker/task:0";
  expect_error(
      [&] { (void)place(pinned, 2); },
      "[ps] place: got variable \"a\" for /job:worker/task:0; expected job \"ps\" or none; "
      "leave variables of other jobs out");
  pinned[0].device = "/job:ps/task:2";
  expect_error(
      [&] { (void)place(pinned, 2); },
      "[ps] place: got variable \"a\" for /job:ps/task:2 of 2 servers; expected a task from "
      "0 to 1");
  expect_error(
      [&] { (void)place(a, 2, {.partitioner = [](const VariableSpec&) { return 0; }}); },
      "[ps] place: got 0 parts from the partitioner for variable \"a\"; expected 1 or more");
  const auto wrong = [](int) -> PlacementStrategy { return [](const VariableSpec&) { return 2; }; };
  expect_error([&] { (void)place(a, 2, {.strategy = wrong}); },
               "[ps] place: got server 2 from the strategy for variable \"a\"; expected 0 to 1");
}

}  // namespace
}  // namespace strata::ps
