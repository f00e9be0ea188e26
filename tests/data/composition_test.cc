#include <ATen/ops/arange.h>

#include <random>

#include "data/elements.h"

// Random chains of up to three transforms: whatever they are, a position saved anywhere restores
// exactly.
namespace strata::data {
namespace {

constexpr int64_t kLimit = 60;  // elements looked at, since some chains are endless

// What a chain is drawn from, and the facts that tell which transforms fit.
struct Chain {
  std::string name;
  Dataset dataset;
  bool batched = false;
};

class Drawer {
 public:
  explicit Drawer(uint32_t seed) : random_(seed) {}

  // The same transforms for each kind of source, if the seed is the same.
  Chain draw(bool rows) {
    const int64_t n = pick(0, 30);
    Chain chain{rows ? "slices" : "generator", rows ? slices(n) : generator(n)};
    chain.name += "(" + std::to_string(n) + ")";
    for (int64_t length = pick(1, 3); length > 0; --length) add_transform(chain);
    return chain;
  }

 private:
  static Dataset slices(int64_t n) {
    return Dataset::from_tensor_slices({at::arange(2 * n).view({n, 2}), at::arange(n)});
  }
  static Dataset generator(int64_t n) {
    return Dataset::from_generator([n, i = int64_t{0}]() mutable -> std::optional<Example> {
      if (i == n) return std::nullopt;
      const int64_t at = i++;
      return Example{longs({2 * at, 2 * at + 1}), longs({at}).squeeze(0)};
    });
  }

  int64_t pick(int64_t lowest, int64_t highest) {
    return lowest + static_cast<int64_t>(random_() % static_cast<uint32_t>(highest - lowest + 1));
  }

  void add_transform(Chain& chain) {
    const int64_t kind = pick(0, 10), n = pick(0, 7), m = pick(1, 9);
    const auto apply = [&](const std::string& name, Dataset dataset) {
      chain.name += "." + name;
      chain.dataset = std::move(dataset);
    };
    const Dataset& input = chain.dataset;
    const std::string with_n = "(" + std::to_string(n) + ")",
                      with_m = "(" + std::to_string(m) + ")";
    switch (kind) {
      case 0:
        return apply("take" + with_m, input.take(m * 3));
      case 1:
        return apply("skip" + with_n, input.skip(n));
      case 2:
        return apply("shard" + with_m, input.shard(m, n % m));
      case 3:
        return apply("repeat" + with_n, n == 7 ? input.repeat() : input.repeat(n));
      case 4:
        return apply("shuffle" + with_m,
                     input.shuffle(m * m, {.seed = static_cast<uint64_t>(n),
                                           .reshuffle_each_iteration = n % 3 > 0}));
      case 5:
        return apply("cache", input.cache());
      case 6:
        return apply("prefetch" + with_m, input.prefetch(m));
      case 7:
        return apply("map", input.map([](const Example& e) {
          return e.map([](const at::Tensor& t) { return t.add(1); });
        }));
      case 8:
        chain.batched = false;
        return apply("zip", Dataset::zip({input, Dataset::range(n * m).shuffle(m)}));
      default:
        if (chain.batched) {
          chain.batched = false;
          return apply("unbatch", input.unbatch());
        }
        chain.batched = true;
        return apply("batch" + with_m, input.batch(m, {.drop_remainder = n % 2 == 0}));
    }
  }

  std::mt19937 random_;
};

class CompositionTest : public testing::TestWithParam<uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, CompositionTest, testing::Range(0u, 8u));

constexpr uint32_t kChains = 50;  // a seed

TEST_P(CompositionTest, PositionsRestoreExactly) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t seed = GetParam() * kChains + c;
    const bool rows = c % 2 == 0;
    const Chain chain = Drawer(seed).draw(rows);
    SCOPED_TRACE(chain.name);
    const int64_t epoch = seed % 3;
    const auto all = describe(chain.dataset, epoch, kLimit);
    Iterator saved = chain.dataset.iterator(epoch);
    for (size_t cut = 0; cut <= all.size(); cut += cut < 8 ? 1 : 5) {
      Iterator reader = chain.dataset.iterator(epoch);
      for (size_t i = 0; i < cut; ++i) ASSERT_TRUE(reader.next());
      const std::string text = reader.position().to_string();
      // As after a restart: nothing is left of the dataset that was saved.
      const Dataset rebuilt = Drawer(seed).draw(rows).dataset;
      Iterator restored = rebuilt.iterator(7);
      restored.restore(Position::from_string(text));
      const std::vector<std::string> rest(all.begin() + static_cast<ptrdiff_t>(cut), all.end());
      ASSERT_EQ(describe_rest(restored, kLimit - static_cast<int64_t>(cut)), rest) << text;
    }
  }
}

TEST_P(CompositionTest, RowsAndElementsAgree) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t seed = 1000 + GetParam() * kChains + c;
    const Chain rows = Drawer(seed).draw(true);
    const Chain elements = Drawer(seed).draw(false);
    SCOPED_TRACE(rows.name);
    EXPECT_EQ(describe(rows.dataset, 2, kLimit), describe(elements.dataset, 2, kLimit));
  }
}

TEST_P(CompositionTest, CardinalityAndBatchSizeHold) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const Chain chain = Drawer(2000 + GetParam() * kChains + c).draw(true);
    SCOPED_TRACE(chain.name);
    const int64_t cardinality = chain.dataset.cardinality();
    const auto count = static_cast<int64_t>(describe(chain.dataset, 0, 2000).size());
    if (cardinality >= 0) {
      EXPECT_EQ(count, cardinality);
    } else if (cardinality == Dataset::kInfinite) {
      EXPECT_EQ(count, 2000);
    }
    if (const auto batch_size = chain.dataset.batch_size()) {
      Iterator iterator = chain.dataset.iterator(0);
      for (int64_t i = 0; i < std::min(count, kLimit); ++i)
        EXPECT_LE(iterator.next()->num_rows(), *batch_size);
    }
  }
}

}  // namespace
}  // namespace strata::data
