// Summaries that replica functions write.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "strata/graph/function.h"
#include "strata/runtime/step_summary.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/summary/event_reader.h"
#include "strata/summary/recording.h"
#include "strata/summary/summary_writer.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

std::vector<int64_t> steps_of(const std::string& folder, const std::string& tag) {
  std::vector<int64_t> steps;
  const auto scalars = summary::scalars_of(summary::read_run(folder));
  for (const auto& point : scalars.at(tag)) {
    steps.push_back(point.step);
  }
  return steps;
}

TEST(SummariesTest, AStepOfManyReplicasWritesANumberOnce) {
  set_logical_devices("cpu", 3);
  const test::TempFolder folder;
  auto writer = summary::create_file_writer(folder.path());
  MirroredStrategy strategy({.devices = cpus(3)});
  for (int64_t step = 0; step < 4; ++step) {
    const auto recorded = strategy.run([&] {
      const int id = get_replica_context()->replica_id_in_sync_group();
      writer.scalar("id", id, step);
      get_replica_context()->merge_call([&](Strategy&) { writer.scalar("merged", 1, step); });
      const summary::RecordIf always(true);
      writer.scalar("always", id, step);
      return summary::should_record_summaries();
    });
    EXPECT_EQ(recorded.values(), (std::vector<bool>{true, false, false}));
    EXPECT_TRUE(summary::should_record_summaries());
  }
  writer.close();
  const std::vector<int64_t> once = {0, 1, 2, 3};
  EXPECT_EQ(steps_of(folder.path(), "id"), once);
  EXPECT_EQ(steps_of(folder.path(), "merged"), once);
  EXPECT_EQ(steps_of(folder.path(), "always"), once);
  const auto scalars = summary::scalars_of(summary::read_run(folder.path()));
  for (const auto& point : scalars.at("id")) {
    EXPECT_EQ(point.value, 0);
  }
}

/// Each replay of a function writes again, with what it computes.
TEST(SummariesTest, AFunctionsAreNodes) {
  set_logical_devices("cpu", 2);
  const test::TempFolder folder;
  auto writer = summary::create_file_writer(folder.path());
  MirroredStrategy strategy({.devices = cpus(2)});
  const std::vector<at::Tensor> counts = {torch::zeros({}, torch::kLong),
                                          torch::zeros({}, torch::kLong)};
  const auto step = strata::function([&](const at::Tensor& x) {
    const at::Tensor& count =
        counts[static_cast<size_t>(get_replica_context()->replica_id_in_sync_group())];
    summary::write_scalar(writer, "sum", x.sum(), count);
    summary::write_histogram(writer, "x", x, count);
    count.add_(1);
    return x * 2;
  });
  for (int i = 0; i < 6; ++i) strategy.run(step, torch::full({3}, static_cast<double>(i)));
  EXPECT_EQ(step.tracing_count(), 2);  // a replica
  writer.close();
  EXPECT_EQ(steps_of(folder.path(), "sum"), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const auto scalars = summary::scalars_of(summary::read_run(folder.path()));
  for (const auto& point : scalars.at("sum")) {
    EXPECT_EQ(point.value, 3 * static_cast<double>(point.step));
  }
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"write_scalar", "3 elements"}, [&] {
    summary::write_scalar(writer, "x", torch::ones({3}), torch::zeros({}));
  }));
}

TEST(SummariesTest, AConditionHoldsWhileItLives) {
  const test::TempFolder folder;
  auto writer = summary::create_file_writer(folder.path());
  for (int64_t step = 0; step < 6; ++step) {
    const summary::RecordIf every_second(step % 2 == 0);
    writer.scalar("some", 1, step);
    const summary::RecordIf inner(true);
    writer.scalar("all", 1, step);
  }
  writer.close();
  EXPECT_EQ(steps_of(folder.path(), "some"), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(steps_of(folder.path(), "all"), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace strata
