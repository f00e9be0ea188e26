#include "strata/collective/schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "strata/core/str_cat.h"

namespace strata::collective {
namespace {

using Cell = std::pair<int, int>;  // (rank, chunk)

/// The fixed order over [first, last) of `leaves`, written out: "((0+1)+2)".
std::string tree(const std::vector<std::string>& leaves, int first, int last) {
  if (last - first == 1) return leaves[static_cast<size_t>(first)];
  const int middle =
      first + static_cast<int>(std::bit_floor(static_cast<unsigned>(last - first - 1)));
  return str_cat("(", tree(leaves, first, middle), "+", tree(leaves, middle, last), ")");
}

/// The steps of each rank between two barriers.
std::vector<std::vector<Step>> phases(const std::vector<Step>& steps) {
  std::vector<std::vector<Step>> result(1);
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kBarrier) {
      result.emplace_back();
    } else {
      result.back().push_back(step);
    }
  }
  return result;
}

/// What keeps `schedule` from being an all-reduce in tree order; empty if nothing does. Since no
/// two ranks touch what either writes within a phase, one order of the ranks stands for all.
std::string find_fault(const Schedule& schedule) {
  const int ranks = static_cast<int>(schedule.ranks.size());
  std::map<Cell, std::string> cells;
  std::vector<std::string> leaves;
  for (int rank = 0; rank < ranks; ++rank) {
    leaves.push_back(std::to_string(rank));
    for (int chunk = 0; chunk < schedule.num_chunks(); ++chunk)
      cells[{rank, chunk}] = leaves.back();
  }

  std::vector<std::vector<std::vector<Step>>> all;
  for (const auto& steps : schedule.ranks) {
    all.push_back(phases(steps));
    if (all.back().size() != all[0].size()) return "different numbers of barriers";
    if (!all.back().front().empty())
      return "a step before the first barrier: buffers may not be ready";
    if (!all.back().back().empty()) return "a step after the last barrier: buffers may be gone";
  }
  for (size_t phase = 0; phase < all[0].size(); ++phase) {
    std::map<Cell, std::set<int>> touched;
    std::map<Cell, std::set<int>> written;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Step& step : all[static_cast<size_t>(rank)][phase]) {
        if (step.chunk < 0 || step.chunk >= schedule.num_chunks()) return "no such chunk";
        if (step.first < 0 || step.last <= step.first || step.last > ranks) return "no such source";
        if (step.kind == Step::Kind::kCopy && step.last != step.first + 1) return "copies several";
        if (step.target < 0 || step.target >= ranks) return "no such target";
        std::vector<std::string> sources;
        for (int i = step.first; i < step.last; ++i) {
          const int source = schedule.sources[static_cast<size_t>(i)];
          sources.push_back(cells[{source, step.chunk}]);
          touched[{source, step.chunk}].insert(rank);
        }
        touched[{step.target, step.chunk}].insert(rank);
        written[{step.target, step.chunk}].insert(rank);
        cells[{step.target, step.chunk}] = tree(sources, 0, static_cast<int>(sources.size()));
      }
    }
    for (const auto& [cell, writers] : written) {
      if (touched[cell].size() > 1) {
        return str_cat("two ranks touch chunk ", cell.second, " of rank ", cell.first,
                       " in one phase");
      }
    }
  }
  const std::string expected = tree(leaves, 0, ranks);
  for (const auto& [cell, value] : cells) {
    if (value != expected) {
      return str_cat("rank ", cell.first, " ends with ", value, " in chunk ", cell.second);
    }
  }
  return {};
}

TEST(ScheduleTest, TreeOrderIsTheDocumentedOne) {
  EXPECT_EQ(tree({"0", "1", "2", "3", "4", "5", "6"}, 0, 7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(ScheduleTest, SharedDirectAllReduceGivesEveryRankTheFixedTreeForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    const Schedule schedule = shared_direct_all_reduce(ranks);
    EXPECT_EQ(schedule.name, "shared_direct");
    ASSERT_EQ(schedule.ranks.size(), static_cast<size_t>(ranks));
    EXPECT_EQ(find_fault(schedule), "") << ranks << " ranks";
  }
}

TEST(ScheduleTest, SharedDirectAllReduceDividesTheWorkAndMeetsTwice) {
  const Schedule schedule = shared_direct_all_reduce(5);
  for (const auto& steps : schedule.ranks) {
    int barriers = 0;
    int writes = 0;
    for (const Step& step : steps) ++(step.kind == Step::Kind::kBarrier ? barriers : writes);
    EXPECT_EQ(barriers, 2);
    EXPECT_EQ(writes, 5);
  }
}

// The proof must find what is wrong, or it proves nothing.
TEST(ScheduleTest, ProofFindsBrokenSchedules) {
  const auto broken = [](const auto& change) {
    Schedule schedule = shared_direct_all_reduce(4);
    change(schedule);
    return find_fault(schedule);
  };
  EXPECT_EQ(broken([](Schedule&) {}), "");
  EXPECT_NE(broken([](Schedule& s) { s.ranks[1][1].last = 3; }), "");   // misses a rank
  EXPECT_NE(broken([](Schedule& s) { s.ranks[1][1].chunk = 0; }), "");  // races with rank 0
  EXPECT_NE(broken([](Schedule& s) { s.ranks[2].erase(s.ranks[2].begin() + 2); }), "");  // a copy
  EXPECT_NE(broken([](Schedule& s) { s.ranks[3].pop_back(); }), "");  // a barrier
  EXPECT_NE(broken([](Schedule& s) { std::swap(s.ranks[0][0], s.ranks[0][1]); }), "");
}

TEST(ChunkRangeTest, ChunksCoverTheRangeOnceOnAlignedBorders) {
  for (const int64_t size : {0, 1, 7, 63, 64, 65, 1000, 4096, 100003}) {
    for (int count = 1; count <= 33; ++count) {
      int64_t end = 0;
      for (int i = 0; i < count; ++i) {
        const Range range = chunk_range(size, count, i);
        ASSERT_EQ(range.begin, end) << size << " elements, " << count << " chunks, chunk " << i;
        ASSERT_LE(range.begin, range.end);
        ASSERT_LT(range.end - range.begin, (size + count - 1) / count + 64) << "not nearly equal";
        if (range.end < size) {
          ASSERT_EQ(range.end % 64, 0) << "two ranks would write one cache line";
        }
        end = range.end;
      }
      ASSERT_EQ(end, size);
    }
  }
}

}  // namespace
}  // namespace strata::collective
