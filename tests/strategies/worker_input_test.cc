// Rules 37 to 41 of the reference; the numbers are what TensorFlow printed.

#include "strata/strategies/distributed_dataset.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "data/source.h"
#include "support/expect_error.h"

namespace strata {
namespace {

using data::AutoShardPolicy;
using data::Dataset;
using Sizes = std::vector<int64_t>;
using Batches = std::vector<Sizes>;

Batches batches_of(const Dataset& dataset) {
  Batches batches;
  for (const data::Example& batch : dataset) {
    const at::Tensor rows = batch.x().contiguous();
    batches.emplace_back(rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel());
  }
  return batches;
}

/// Stands for a source of files: file i holds the numbers rows * i, ..., rows * i + rows - 1.
class FilesSource final : public data::detail::TransformSource {
 public:
  FilesSource(Sizes files, int64_t rows)
      : TransformSource(rows_of(files, rows)), files_(std::move(files)), rows_(rows) {}

  std::unique_ptr<data::detail::ExampleStream> examples(uint64_t epoch) const override {
    return input().examples(epoch);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  std::vector<data::detail::SourcePtr> inputs() const override { return {}; }
  int64_t num_files() const override { return static_cast<int64_t>(files_.size()); }
  data::detail::SourcePtr shard_files(int64_t num_shards, int64_t index) const override {
    Sizes local;
    for (auto i = static_cast<size_t>(index); i < files_.size();
         i += static_cast<size_t>(num_shards))
      local.push_back(files_[i]);
    return std::make_shared<FilesSource>(local, rows_);
  }

 private:
  static data::detail::SourcePtr rows_of(const Sizes& files, int64_t rows) {
    Dataset all = Dataset::range(0);
    for (const int64_t file : files)
      all = all.concatenate(Dataset::range(file * rows, (file + 1) * rows));
    return all.source();
  }

  Sizes files_;
  int64_t rows_;
};

Dataset files(int64_t count, int64_t rows) {
  Sizes names(static_cast<size_t>(count));
  std::iota(names.begin(), names.end(), 0);
  return Dataset(std::make_shared<FilesSource>(names, rows));
}

Dataset with_policy(const Dataset& dataset, AutoShardPolicy policy) {
  return dataset.with_options({.auto_shard_policy = policy});
}

TEST(WorkerInputTest, BatchSizesRotate) {
  const auto sizes = [](int64_t global, int workers, int replicas) {
    std::vector<Sizes> all;
    for (int w = 0; w < workers; ++w)
      all.push_back(per_replica_batch_sizes(global, {workers, w, replicas}));
    return all;
  };
  EXPECT_EQ(sizes(7, 2, 2), (Batches{{2, 2, 2, 1}, {2, 1, 2, 2}}));
  EXPECT_EQ(sizes(4, 3, 1), (Batches{{2, 1, 1}, {1, 1, 2}, {1, 2, 1}}));
  for (int64_t global = 1; global < 20; ++global) {
    for (int workers = 1; workers <= 4; ++workers) {
      for (int replicas = 1; replicas <= 3; ++replicas) {
        const auto all = sizes(global, workers, replicas);
        for (const Sizes& list : all) {
          EXPECT_EQ(std::accumulate(list.begin(), list.end(), int64_t{0}), global);
          const auto [least, most] = std::minmax_element(list.begin(), list.end());
          EXPECT_LE(*most - *least, 1);
        }
        // A step takes `replicas` sizes of each worker.
        for (int step = 0; step < workers; ++step) {
          int64_t sum = 0;
          for (const Sizes& list : all)
            for (int r = 0; r < replicas; ++r)
              sum += list[static_cast<size_t>(step * replicas + r)];
          EXPECT_EQ(sum, global);
        }
      }
    }
  }
}

TEST(WorkerInputTest, RebatchIsAStream) {
  EXPECT_EQ(batches_of(Dataset::range(5).batch(4).rebatch({2, 2})), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(batches_of(Dataset::range(12).batch(4).rebatch({6})),
            (Batches{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(batches_of(Dataset::range(3).batch(3).rebatch({2, 0})), (Batches{{0, 1}, {}, {2}}));
}

TEST(WorkerInputTest, FilesAreShared) {
  const Dataset four = with_policy(files(2, 6).batch(4), AutoShardPolicy::kFile);
  EXPECT_EQ(batches_of(dataset_for_worker(four, {2, 0, 1})), (Batches{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(batches_of(dataset_for_worker(four, {2, 1, 1})), (Batches{{6, 7}, {8, 9}, {10, 11}}));
  const Dataset five = with_policy(files(2, 6).shuffle(1).batch(5), AutoShardPolicy::kFile);
  EXPECT_EQ(batches_of(dataset_for_worker(five, {2, 0, 1})), (Batches{{0, 1, 2}, {3, 4}, {5}}));
  EXPECT_EQ(batches_of(dataset_for_worker(five, {2, 1, 1})), (Batches{{6, 7}, {8, 9, 10}, {11}}));
}

// Rule 37 has kAuto shard by file; ours keeps the rows where one worker has them.
TEST(WorkerInputTest, AutoCutsFilesByData) {
  const Dataset dataset = files(2, 6).batch(4);
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 0, 1})), (Batches{{0, 1}, {4, 5}, {8, 9}}));
}

TEST(WorkerInputTest, WorkersMayHaveUnequalNumbersOfReplicas) {
  const WorkerInput first{
      .num_workers = 2, .worker_index = 0, .replicas = {0, 3}, .num_replicas = 4};
  const WorkerInput second{
      .num_workers = 2, .worker_index = 1, .replicas = {1, 2}, .num_replicas = 4};
  const Dataset dataset = Dataset::range(6).batch(6);
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, first)), (Batches{{0, 1}, {5}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, second)), (Batches{{2, 3}, {4}}));
  EXPECT_EQ(per_replica_batch_sizes(6, first), (Sizes{2, 1}));
}

TEST(WorkerInputTest, DataIsCut) {
  for (const auto policy : {AutoShardPolicy::kData, AutoShardPolicy::kAuto}) {
    const Dataset dataset = with_policy(Dataset::range(12).batch(4), policy);
    EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 0, 1})),
              (Batches{{0, 1}, {4, 5}, {8, 9}}));
    EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 1, 1})),
              (Batches{{2, 3}, {6, 7}, {10, 11}}));
  }
  // By data although there are files.
  EXPECT_EQ(batches_of(dataset_for_worker(with_policy(files(2, 6).batch(4), AutoShardPolicy::kData),
                                          {2, 1, 1})),
            (Batches{{2, 3}, {6, 7}, {10, 11}}));
}

// Rules 39 and 40: TensorFlow cuts by ceil, and gives a third worker nothing.
TEST(WorkerInputTest, CutsAreBalanced) {
  const Dataset dataset = Dataset::range(10).batch(4);
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {3, 0, 1})), (Batches{{0, 1}, {4, 5}, {8}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {3, 1, 1})), (Batches{{2}, {6}, {9}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {3, 2, 1})), (Batches{{3}, {7}, {}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {1, 0, 2})),
            (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {9}}));
  // All workers together see every row once.
  for (int workers = 1; workers <= 4; ++workers) {
    for (int replicas = 1; replicas <= 3; ++replicas) {
      std::map<int64_t, int> seen;
      for (int w = 0; w < workers; ++w)
        for (const Sizes& batch : batches_of(dataset_for_worker(dataset, {workers, w, replicas})))
          for (const int64_t row : batch) ++seen[row];
      EXPECT_EQ(seen.size(), 10u);
      for (const auto& [row, times] : seen) EXPECT_EQ(times, 1) << row;
    }
  }
}

TEST(WorkerInputTest, OffReadsEverythingEverywhere) {
  const Dataset dataset = with_policy(Dataset::range(5).batch(4), AutoShardPolicy::kOff);
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 0, 1})), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 1, 1})), (Batches{{0, 1}, {2, 3}, {4}}));
  const Dataset seven = with_policy(Dataset::range(7).batch(7), AutoShardPolicy::kOff);
  EXPECT_EQ(batches_of(dataset_for_worker(seven, {2, 1, 2})),
            (Batches{{0, 1}, {2}, {3, 4}, {5, 6}}));
  // Nobody knows the batch size behind a map: then each batch is cut.
  const Dataset mapped = with_policy(
      Dataset::range(5).batch(4).map([](data::Example e) { return e; }), AutoShardPolicy::kOff);
  EXPECT_EQ(batches_of(dataset_for_worker(mapped, {2, 1, 1})), (Batches{{0, 1}, {2, 3}, {4}, {}}));
}

TEST(WorkerInputTest, HintsAreFilledIn) {
  const Dataset dataset =
      with_policy(Dataset::range(12).shard(data::kShardHint, data::kShardHint).batch(4),
                  AutoShardPolicy::kHint);
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 0, 1})), (Batches{{0, 2}, {4, 6}, {8, 10}}));
  EXPECT_EQ(batches_of(dataset_for_worker(dataset, {2, 1, 1})), (Batches{{1, 3}, {5, 7}, {9, 11}}));
}

// Every transform can be rebuilt over another worker's files, and is then what it was.
TEST(WorkerInputTest, EveryTransformIsRebuilt) {
  const auto same = [](data::Example e) { return e; };
  const auto one = [](const data::Example& e) { return Dataset::from_tensors(e); };
  const auto all = [](const data::Example&) { return true; };
  const auto whole = [](const Dataset& window) { return window; };
  const auto group = [](int64_t, const Dataset& window) { return window; };
  const auto chain = [&](Dataset d) {
    d = d.map(same).map(same, {.num_parallel_calls = 2}).filter(all).take_while(all);
    d = d.flat_map(one).interleave(one, {.cycle_length = 1});
    d = d.interleave(one, {.cycle_length = 1, .num_parallel_calls = 2}).take(99).skip(0).repeat(1);
    d = d.shuffle(1).cache().prefetch().ignore_errors().concatenate(Dataset::range(0));
    d = d.window({.size = 1}, whole).window({.size = 1}).unbatch();
    d = d.group_by_window([](const data::Example&) { return 0; }, group, 1).shard(1, 0);
    d = d.shard(data::kShardHint, data::kShardHint).padded_batch(2).unbatch();
    d = Dataset::sample_from_datasets({d});
    d = Dataset::choose_from_datasets({d},
                                      Dataset::from_tensors({at::zeros({}, at::kLong)}).repeat());
    d = Dataset::zip({d.enumerate(), Dataset::range(99)}).map([](const data::Example& e) {
      return data::Example{e[1]};
    });
    return d.batch(4).rebatch({4});
  };
  for (int w = 0; w < 2; ++w) {
    EXPECT_EQ(batches_of(dataset_for_worker(chain(files(2, 6)), {2, w, 1})),
              batches_of(dataset_for_worker(files(2, 6).batch(4), {2, w, 1})));
  }
}

TEST(WorkerInputTest, SaysWhatIsMissing) {
  const Dataset numbers = Dataset::range(4).batch(2);
  expect_error_containing(
      [&] { (void)dataset_for_worker(with_policy(numbers, AutoShardPolicy::kFile), {}); },
      ErrorCode::kNotFound, "reads no files");
  expect_error_containing(
      [&] { (void)dataset_for_worker(with_policy(numbers, AutoShardPolicy::kHint), {}); },
      ErrorCode::kNotFound, "without a hint");
  expect_error_containing(
      [&] {
        (void)dataset_for_worker(with_policy(files(2, 6).batch(2), AutoShardPolicy::kFile),
                                 {3, 0, 1});
      },
      ErrorCode::kInvalidArgument, "got 2 files for 3 workers");
  expect_error_containing(
      [&] {
        (void)dataset_for_worker(numbers, {2, 2, 1});
      },
      ErrorCode::kInvalidArgument, "got worker 2 of 2");
  expect_error_containing([] { (void)per_replica_batch_sizes(0, {}); }, ErrorCode::kInvalidArgument,
                          "got a global batch of 0");
}

WorkerInput worker_of_eight(int index) {
  const std::vector<std::vector<int>> replicas = {{0, 1, 2}, {3, 4, 5}, {6, 7}};
  return {.num_workers = 3,
          .worker_index = index,
          .replicas = replicas[static_cast<size_t>(index)],
          .num_replicas = 8};
}

TEST(WorkerInputTest, AMapIsCalledForAWorkersRowsAlone) {
  std::atomic<int> calls = 0;
  const Dataset dataset = Dataset::range(24)
                              .shuffle(24, {.seed = 4})
                              .map([&](data::Example row) {
                                ++calls;
                                return data::Example{row.x() * 2};
                              })
                              .batch(8);
  Sizes values;
  std::vector<int> counts;
  for (int worker = 0; worker < 3; ++worker) {
    calls = 0;
    for (const Sizes& part : batches_of(dataset_for_worker(dataset, worker_of_eight(worker)))) {
      values.insert(values.end(), part.begin(), part.end());
    }
    counts.push_back(calls);
  }
  EXPECT_EQ(counts, (std::vector<int>{9, 9, 6}));
  std::sort(values.begin(), values.end());
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 2 * i);
}

TEST(WorkerInputTest, SaysWhatAWorkerReads) {
  const Dataset dataset = files(3, 6).batch(20);
  const auto describe = [&](AutoShardPolicy policy) {
    return describe_for_worker(with_policy(dataset, policy), worker_of_eight(1));
  };
  EXPECT_EQ(describe(AutoShardPolicy::kAuto),
            "replicas 3, 4, 5 of 8: 7 of the 20 rows of each batch; the others are passed over");
  EXPECT_EQ(describe(AutoShardPolicy::kData), describe(AutoShardPolicy::kAuto));
  EXPECT_EQ(describe(AutoShardPolicy::kFile),
            "replicas 3, 4, 5 of 8: file 1 of every 3, counted from 0");
  EXPECT_EQ(describe(AutoShardPolicy::kHint),
            "replicas 3, 4, 5 of 8: element 1 of every 3, counted from 0, at the hint");
  EXPECT_EQ(describe(AutoShardPolicy::kOff), "replicas 3, 4, 5 of 8: all rows");
  EXPECT_EQ(describe_for_worker(dataset.ignore_errors(), worker_of_eight(2)),
            "replicas 6, 7 of 8: 4 of the 20 rows of each batch; whole batches are made");
  EXPECT_EQ(describe_for_worker(dataset, {.replicas_per_worker = 2}),
            "replicas 0, 1 of 2: 20 of the 20 rows of each batch");
  expect_error_containing(
      [&] {
        (void)describe_for_worker(dataset, {2, 2, 1});
      },
      ErrorCode::kInvalidArgument, "got worker 2 of 2");
}

}  // namespace
}  // namespace strata
