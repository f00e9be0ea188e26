// What is not tf.data's to say (golden_test.cc): arguments, errors, and what is strata's own.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "data/elements.h"

namespace strata::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;
using Longs = std::vector<int64_t>;

int64_t value_of(const Example& element) { return element.x().item<int64_t>(); }
bool is_odd(const Example& element) { return value_of(element) % 2 == 1; }

TEST(FilterTest, KeepsWhatThePredicateSays) {
  for (const Dataset& source : {Dataset::range(7), counting_generator(7)}) {
    EXPECT_EQ(values_of(source.filter(is_odd)), (Longs{1, 3, 5}));
    EXPECT_EQ(values_of(source.filter([](const Example&) { return false; })), Longs{});
    EXPECT_EQ(rows_of(source.filter(is_odd).batch(2)), (Rows{{1, 3}, {5}}));
  }
}

TEST(FilterTest, ErrorsComeInTheirPlace) {
  const Dataset dataset = Dataset::range(4).filter([](const Example& e) -> bool {
    if (value_of(e) == 1) throw std::out_of_range("one");
    return true;
  });
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(value_of(*iterator.next()), 0);
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  EXPECT_EQ(value_of(*iterator.next()), 2);
}

TEST(TakeWhileTest, EndsForGood) {
  const Dataset dataset =
      Dataset::range(9).take_while([](const Example& e) { return value_of(e) != 3; });
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(describe_rest(iterator).size(), 3u);
  Iterator restored = dataset.iterator(0);
  restored.restore(iterator.position());
  EXPECT_FALSE(restored.next());
}

TEST(FlatMapTest, OfWhateverDatasets) {
  const Dataset dataset = Dataset::range(3).flat_map(
      [](const Example& e) { return Dataset::range(value_of(e)).shuffle(5).repeat(2); });
  const Longs values = values_of(dataset);
  EXPECT_EQ(values.size(), 6u);
  EXPECT_EQ(values_of(dataset.skip(4)), Longs(values.begin() + 4, values.end()));
}

TEST(ConcatenateTest, OneBehindTheOther) {
  const Dataset both = Dataset::range(2).concatenate(counting_generator(3));
  EXPECT_EQ(values_of(both), (Longs{0, 1, 0, 1, 2}));
  EXPECT_EQ(values_of(both.skip(3)), (Longs{1, 2}));
  EXPECT_EQ(Dataset::range(4).batch(2).concatenate(Dataset::range(4).batch(2)).batch_size(), 2);
  EXPECT_FALSE(Dataset::range(4).batch(2).concatenate(Dataset::range(4).batch(3)).batch_size());
}

TEST(EnumerateTest, NumbersComeFirst) {
  EXPECT_EQ(describe(Dataset::range(7, 9).enumerate(3)),
            (std::vector<std::string>{"Long[](3) Long[](7)", "Long[](4) Long[](8)"}));
  EXPECT_EQ(describe(Dataset::range(5).enumerate().skip(4))[0], "Long[](4) Long[](4)");
}

TEST(ReduceTest, GoesThroughAnEpoch) {
  const auto sum = [](int64_t state, const Example& e) { return state + value_of(e); };
  EXPECT_EQ(Dataset::range(5).reduce(int64_t{0}, sum), 10);
  EXPECT_EQ(Dataset::range(0).reduce(int64_t{7}, sum), 7);
}

// An element that fails costs what is made of it, and no more; what comes behind stays as it was.
TEST(ErrorsTest, StayInTheirPlace) {
  const auto fail_at_4 = [](Example e) {
    if (value_of(e) == 4) throw std::out_of_range("four");
    return e;
  };
  const auto run = [](const Dataset& dataset) {
    std::string all;
    for (Iterator iterator = dataset.iterator(0);;) {
      try {
        const auto element = iterator.next();
        if (!element) return all;
        all += describe(*element).substr(4) + " ";
      } catch (const std::out_of_range&) {
        all += "error ";
      }
      Iterator restored = dataset.iterator(1);
      restored.restore(iterator.position());  // which must not throw
      EXPECT_EQ(restored.position(), iterator.position());
    }
  };
  for (const int64_t calls : {0, 2}) {
    const Dataset failing = Dataset::range(8).map(fail_at_4, {.num_parallel_calls = calls}).skip(1);
    EXPECT_EQ(run(failing.batch(2)), "[2](1,2) error [2](5,6) [1](7) ");
    EXPECT_EQ(run(failing.batch(2).unbatch()), "[](1) [](2) error [](5) [](6) [](7) ");
    EXPECT_EQ(run(failing.batch(2).rebatch({3})), "error [3](5,6,7) ");
    EXPECT_EQ(run(failing.padded_batch(3)), "[3](1,2,3) error [1](7) ");
    EXPECT_EQ(run(failing.window({.size = 2, .shift = 1, .drop_remainder = true})),
              "[2](1,2) [2](2,3) error error [2](5,6) [2](6,7) ");
    EXPECT_EQ(run(failing.shard(3, 0)), "[](1) error [](7) ");
    EXPECT_EQ(run(failing.shard(3, 1)), "[](2) [](5) ");
    EXPECT_EQ(run(failing.take(5)), "[](1) [](2) [](3) error [](5) ");
    EXPECT_EQ(run(Dataset::zip({failing, Dataset::range(10, 20)}).skip(2)),
              "[](3) Long[](12) error [](5) Long[](14) [](6) Long[](15) [](7) Long[](16) ");
    EXPECT_EQ(run(failing.enumerate().skip(3)),
              "error [](4) Long[](5) [](5) Long[](6) [](6) Long[](7) ");
    EXPECT_EQ(run(failing.cache()), "[](1) [](2) [](3) error [](5) [](6) [](7) ");
    EXPECT_EQ(run(failing.repeat(2).skip(6)), "[](7) [](1) [](2) [](3) error [](5) [](6) [](7) ");
    // A shuffle draws the error as it would the element.
    const std::string shuffled = run(failing.shuffle(3));
    EXPECT_EQ(std::count(shuffled.begin(), shuffled.end(), ' '), 7);
    EXPECT_EQ(shuffled.find("error"), run(Dataset::range(8).skip(1).shuffle(3)).find("[](4)"));
  }
}

TEST(ErrorsTest, EndAGenerator) {
  const Dataset dataset = Dataset::from_generator([i = 0]() mutable -> std::optional<Example> {
    if (i++ == 2) throw std::out_of_range("two");
    return Example{longs({i})};
  });
  Iterator iterator = dataset.iterator(0);
  EXPECT_TRUE(iterator.next());
  EXPECT_TRUE(iterator.next());
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  Iterator restored = dataset.iterator(0);
  restored.restore(iterator.position());
  EXPECT_FALSE(restored.next());
  EXPECT_FALSE(iterator.next());
}

TEST(PaddedBatchTest, SaysWhatDoesNotFit) {
  const auto run = [](const Dataset& dataset) { return [dataset] { (void)describe(dataset); }; };
  const Dataset ragged = Dataset::range(1, 4).map([](const Example& e) {
    return Example{at::zeros({value_of(e)}), e.x()};
  });
  EXPECT_EQ(describe(ragged.padded_batch(2, {.padding_values = {-1, 9}}))[0],
            "Float[2, 2](0,-1,0,0) Long[2](1,2)");
  EXPECT_EQ(ragged.padded_batch(2).batch_size(), 2);
  expect_error(ErrorCode::kInvalidArgument, {"padded_batch: got batch_size 0"},
               [&] { (void)ragged.padded_batch(0); });
  expect_error(ErrorCode::kInvalidArgument,
               {"got 2 elements along dimension 0 of field 0", "the 1"},
               run(ragged.padded_batch(2, {.padded_shapes = {{1}, {}}})));
  expect_error(ErrorCode::kInvalidArgument, {"got 1 dimensions in field 0", "expected 2"},
               run(ragged.padded_batch(2, {.padded_shapes = {{1, 1}, {}}})));
  expect_error(ErrorCode::kInvalidArgument, {"got 1 padded_shapes for 2 fields"},
               run(ragged.padded_batch(2, {.padded_shapes = {{1}}})));
  expect_error(ErrorCode::kInvalidArgument, {"got 3 padding_values for 2 fields"},
               run(ragged.padded_batch(2, {.padding_values = {1, 2, 3}})));
  expect_error(ErrorCode::kInvalidArgument, {"got 2 and 1 fields"},
               run(Dataset::range(1).concatenate(ragged).padded_batch(2)));
  expect_error(ErrorCode::kInvalidArgument, {"got Long and Float in field 0"},
               run(Dataset::range(1)
                       .concatenate(Dataset::from_tensor_slices({at::zeros({1})}))
                       .padded_batch(2)));
}

TEST(WindowTest, RejectsBadArguments) {
  const auto window = [](const WindowOptions& options) {
    return [options] { (void)Dataset::range(3).window(options); };
  };
  expect_error(ErrorCode::kInvalidArgument, {"window: got size 0"}, window({.size = 0}));
  expect_error(ErrorCode::kInvalidArgument, {"shift -1"}, window({.shift = -1}));
  expect_error(ErrorCode::kInvalidArgument, {"stride 0"}, window({.stride = 0}));
  EXPECT_EQ(Dataset::range(3).repeat().window({.size = 2}).cardinality(), Dataset::kInfinite);
}

// tf.data's own example: windows zipped into pairs of input and target.
TEST(WindowTest, FunctionsGetWholeDatasets) {
  const Dataset pairs = Dataset::range(8).window(
      {.size = 3, .shift = 2, .drop_remainder = true}, [](const Dataset& window) {
        EXPECT_EQ(window.cardinality(), 3);
        return Dataset::zip({window.take(2).batch(2), window.skip(2)});
      });
  EXPECT_EQ(describe(pairs),
            (std::vector<std::string>{"Long[2](0,1) Long[](2)", "Long[2](2,3) Long[](4)",
                                      "Long[2](4,5) Long[](6)"}));
}

TEST(GroupByWindowTest, RejectsBadArguments) {
  const auto key = [](const Example&) { return 0; };
  const auto batch = [](int64_t, const Dataset& window) { return window.batch(2); };
  expect_error(ErrorCode::kInvalidArgument, {"group_by_window: got window_size 0"},
               [&] { (void)Dataset::range(3).group_by_window(key, batch, 0); });
  expect_error(ErrorCode::kInvalidArgument, {"got window size -1 for key 0"}, [&] {
    (void)values_of(Dataset::range(3).group_by_window(key, batch, [](int64_t) { return -1; }));
  });
}

TEST(GroupByWindowTest, ErrorsLoseAnElementOrAWindow) {
  const auto key = [](const Example& e) -> int64_t {
    if (value_of(e) == 2) throw std::out_of_range("key");
    return value_of(e) % 2;
  };
  const auto reduce = [](int64_t key, const Dataset& window) {
    if (key == 1) throw std::domain_error("reduce");
    return window.batch(9);
  };
  Iterator iterator = Dataset::range(8).group_by_window(key, reduce, 2).iterator(0);
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  EXPECT_THROW((void)iterator.next(), std::domain_error);  // 1 and 3
  EXPECT_EQ(describe(*iterator.next()), "Long[2](0,4)");
  EXPECT_THROW((void)iterator.next(), std::domain_error);  // 5 and 7
  EXPECT_EQ(describe(*iterator.next()), "Long[1](6)");
  EXPECT_FALSE(iterator.next());
}

TEST(GroupByWindowTest, DamagedPositionsAreRejected) {
  const Dataset dataset =
      Dataset::range(9).group_by_window([](const Example& e) { return value_of(e) % 2; },
                                        [](int64_t, const Dataset& window) { return window; }, 3);
  for (const char* text : {"iterator[0](group_by_window[3,0,0](rows[3,9]))",
                           "iterator[0](group_by_window[3,0,0,4](rows[3,9]))",
                           "iterator[0](group_by_window[3,0,0,0,2,5](rows[0,9]))",
                           "iterator[0](group_by_window[3,0,7,0,0,3](rows[0,9],elements[0]))",
                           "iterator[0](group_by_window[12,0,0,0,9,11](rows[0,9]))"})
    expect_error(ErrorCode::kInvalidArgument, {"restore"},
                 [&] { dataset.iterator(0).restore(Position::from_string(text)); });
}

TEST(BucketTest, RejectsBadArguments) {
  const auto length = [](const Example& e) { return value_of(e); };
  const auto bucket = [&](const BucketOptions& options) {
    return [&length, options] {
      (void)values_of(Dataset::range(9).bucket_by_sequence_length(length, options));
    };
  };
  expect_error(ErrorCode::kInvalidArgument, {"got 1 batch sizes for 1 boundaries"},
               bucket({.bucket_boundaries = {3}, .bucket_batch_sizes = {2}}));
  expect_error(ErrorCode::kInvalidArgument, {"boundaries that ascend"},
               bucket({.bucket_boundaries = {3, 3}, .bucket_batch_sizes = {1, 1, 1}}));
  expect_error(ErrorCode::kInvalidArgument, {"got batch size 0"},
               bucket({.bucket_boundaries = {3}, .bucket_batch_sizes = {1, 0}}));
  expect_error(ErrorCode::kInvalidArgument, {"the last bucket"},
               bucket({.bucket_boundaries = {3},
                       .bucket_batch_sizes = {2, 2},
                       .pad_to_bucket_boundary = true}));
  expect_error(ErrorCode::kInvalidArgument, {"got an empty function"}, [] {
    (void)Dataset::range(9).bucket_by_sequence_length(
        nullptr, {.bucket_boundaries = {}, .bucket_batch_sizes = {1}});
  });
}

TEST(BucketTest, WithoutPaddingElementsAreAlike) {
  const Dataset buckets = Dataset::range(5).bucket_by_sequence_length(
      [](const Example& e) { return value_of(e) % 2; },
      {.bucket_boundaries = {1}, .bucket_batch_sizes = {2, 2}, .no_padding = true});
  EXPECT_EQ(rows_of(buckets), (Rows{{0, 2}, {1, 3}, {4}}));
}

TEST(RebatchTest, SizesTakeTurns) {
  const Dataset batches = Dataset::range(12).batch(5);
  EXPECT_EQ(rows_of(batches.rebatch({3, 0, 2})),
            (Rows{{0, 1, 2}, {}, {3, 4}, {5, 6, 7}, {}, {8, 9}, {10, 11}}));
  EXPECT_EQ(rows_of(batches.rebatch({7}, {.drop_remainder = true})), (Rows{{0, 1, 2, 3, 4, 5, 6}}));
  EXPECT_EQ(batches.rebatch({3, 0, 2}).batch_size(), 3);
  expect_error(ErrorCode::kInvalidArgument, {"rebatch: got a batch size of -1"},
               [&] { (void)batches.rebatch({-1}); });
  expect_error(ErrorCode::kInvalidArgument, {"without a row"}, [&] { (void)batches.rebatch({0}); });
  expect_error(ErrorCode::kInvalidArgument, {"with 2 and 1 fields"}, [&] {
    (void)rows_of(Dataset::zip({Dataset::range(2), Dataset::range(2)})
                      .batch(2)
                      .concatenate(batches)
                      .rebatch({5}));
  });
}

TEST(RebatchTest, OfBatchesWithoutRows) {  // as TensorFlow 2.21
  const Dataset empty = Dataset::from_tensors({at::empty({0, 3}), at::empty({0})});
  for (const BatchOptions& options : {BatchOptions{}, BatchOptions{.drop_remainder = true}}) {
    EXPECT_EQ(rows_of(empty.rebatch({2}, options)), Rows{});
  }
  EXPECT_EQ(rows_of(Dataset::from_tensors({at::empty({0}, at::kLong)}).rebatch({0, 2})),
            (Rows{{}}));
  EXPECT_EQ(rows_of(Dataset::from_tensor_slices({at::empty({0, 3})}).batch(4).rebatch({2})),
            Rows{});
  const Dataset between = Dataset::range(3).batch(3).concatenate(
      Dataset::from_tensors({at::empty({0}, at::kLong)}).concatenate(Dataset::range(2).batch(2)));
  EXPECT_EQ(rows_of(between.rebatch({2})), (Rows{{0, 1}, {2, 0}, {1}}));
  EXPECT_EQ(rows_of(between.rebatch({0, 2})), (Rows{{}, {0, 1}, {}, {2, 0}, {}, {1}}));
}

TEST(ShardHintTest, IsEverythingUntilADistributionKnows) {
  EXPECT_EQ(values_of(Dataset::range(4).shard(kShardHint, kShardHint)), (Longs{0, 1, 2, 3}));
  expect_error(ErrorCode::kInvalidArgument, {"shard: got index 0 of -1"},
               [] { (void)Dataset::range(4).shard(kShardHint, 0); });
}

TEST(TransformsTest, RejectEmptyFunctionsAndBadNumbers) {
  const Dataset dataset = Dataset::range(3);
  const auto expect_bad = [](const std::string& part, const std::function<void()>& call) {
    expect_error(ErrorCode::kInvalidArgument, {part}, call);
  };
  expect_bad("map: got an empty function", [&] { (void)dataset.map(KeyedMapFunction()); });
  expect_bad("filter: got an empty function", [&] { (void)dataset.filter(nullptr); });
  expect_bad("take_while: got an empty function", [&] { (void)dataset.take_while(nullptr); });
  expect_bad("flat_map: got an empty function", [&] { (void)dataset.flat_map(nullptr); });
  expect_bad("interleave: got an empty function", [&] { (void)dataset.interleave(nullptr); });
  expect_bad("window: got an empty function", [&] { (void)dataset.window({}, nullptr); });
  expect_bad("group_by_window: got an empty function",
             [&] { (void)dataset.group_by_window(nullptr, nullptr, 3); });
  const auto same = [](Example e) { return e; };
  const auto one = [](const Example&) { return Dataset::range(1); };
  expect_bad("map: got num_parallel_calls -2",
             [&] { (void)dataset.map(same, {.num_parallel_calls = -2}); });
  expect_bad("interleave: got num_parallel_calls -2",
             [&] { (void)dataset.interleave(one, {.num_parallel_calls = -2}); });
  expect_bad("interleave: got cycle_length 0",
             [&] { (void)dataset.interleave(one, {.cycle_length = 0}); });
  expect_bad("block_length 0", [&] { (void)dataset.interleave(one, {.block_length = 0}); });
}

}  // namespace
}  // namespace strata::data
