#include <algorithm>

#include <filesystem>
#include <set>

#include "core/sha256.h"
#include "data/chains.h"
#include "data/elements.h"
#include "support/temp_folder.h"

// Random chains of up to three transforms: whatever they are, a position saved anywhere restores
// exactly, and neither threads nor a second pass change anything. `make soak` draws others, by
// gtest's random seed.
namespace strata::data {
namespace {

constexpr int64_t kMostElements = 60;  // elements looked at, since some chains are endless
constexpr uint32_t kChains = 25;

/// Type, sizes and bytes of every tensor.
std::string digest(const Example& element) {
  Sha256 sha;
  for (const at::Tensor& field : element.fields) {
    const std::string head = str_cat(field.scalar_type(), field.sizes());
    sha.update(head.data(), head.size());
    const at::Tensor dense = field.contiguous();
    sha.update(dense.const_data_ptr(), dense.nbytes());
  }
  return sha.hex_digest();
}

struct Seen {
  std::string element;   // or the error
  std::string position;  // behind it
};

/// Up to `limit` steps, errors included.
std::vector<Seen> run_chain(Iterator& iterator, int64_t limit = kMostElements) {
  std::vector<Seen> steps;
  while (static_cast<int64_t>(steps.size()) < limit) {
    Seen step;
    try {
      const std::optional<Example> element = iterator.next();
      if (!element) break;
      step.element = digest(*element);
    } catch (const std::exception& error) {
      step.element = first_line(error);
    }
    step.position = iterator.position().to_string();
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Seen> run_chain(const Dataset& dataset, int64_t epoch) {
  Iterator iterator = dataset.iterator(epoch);
  return run_chain(iterator);
}

std::vector<std::string> elements_of(const std::vector<Seen>& steps, size_t from = 0) {
  std::vector<std::string> all;
  for (size_t i = from; i < steps.size(); ++i) all.push_back(steps[i].element);
  return all;
}

std::vector<std::string> positions_of(const std::vector<Seen>& steps, size_t from = 0) {
  std::vector<std::string> all;
  for (size_t i = from; i < steps.size(); ++i) all.push_back(steps[i].position);
  return all;
}

/// Equal; or one says of an input that has ended that it was asked once more, and what follows is
/// the same.
void expect_equivalent(const Dataset& dataset, const std::string& position,
                       const std::string& other) {
  if (position == other) return;
  const auto behind = [&](const std::string& text) {
    Iterator iterator = dataset.iterator(7);
    iterator.restore(Position::from_string(text));
    return elements_of(run_chain(iterator));
  };
  EXPECT_EQ(behind(position), behind(other)) << position << "\n" << other;
}

class CompositionTest : public testing::TestWithParam<uint32_t> {
 protected:
  Build build(int64_t parallel_calls) const {
    return {.parallel_calls = parallel_calls, .folder = folder_.path()};
  }
  // 0 but under `make soak`, which shuffles.
  static uint32_t base_seed() {
    if (!GTEST_FLAG_GET(shuffle)) return 0;
    return static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed()) * 10007u;
  }
  uint32_t seed(uint32_t chain) const { return base_seed() + GetParam() * kChains + chain; }

 private:
  test::TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, CompositionTest, testing::Range(0u, 8u));

TEST_P(CompositionTest, PositionsRestoreExactly) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const int source = static_cast<int>(c % 2);
    const Chain chain = draw_chain(seed(c), source, build(2));
    SCOPED_TRACE(str_cat(chain.name, " seed ", seed(c)));
    const int64_t epoch = c % 3;
    const std::vector<Seen> all = run_chain(chain.dataset, epoch);
    std::set<size_t> cuts = {0, all.size() / 2, all.size()};
    std::mt19937 random(seed(c));
    for (int i = 0; i < 3; ++i) cuts.insert(random() % (all.size() + 1));
    for (const size_t cut : cuts) {
      const std::string text =
          cut > 0 ? all[cut - 1].position : chain.dataset.iterator(epoch).position().to_string();
      // As after a restart: nothing is left of the dataset that was saved.
      const Chain rebuilt = draw_chain(seed(c), source, build(1 + random() % 4));
      Iterator restored = rebuilt.dataset.iterator(7);
      restored.restore(Position::from_string(text));
      ASSERT_EQ(restored.position().to_string(), text);
      const auto rest = run_chain(restored, kMostElements - static_cast<int64_t>(cut));
      ASSERT_EQ(elements_of(rest), elements_of(all, cut)) << text;
      for (size_t i = 0; i < rest.size(); ++i) {
        expect_equivalent(rebuilt.dataset, rest[i].position, all[cut + i].position);
      }
    }
  }
}

TEST_P(CompositionTest, ThreadsAndPassesChangeNothing) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t s = 5000 + seed(c);
    const Chain chain = draw_chain(s, 0, build(2));
    SCOPED_TRACE(str_cat(chain.name, " seed ", s));
    const std::vector<Seen> all = run_chain(chain.dataset, 1);
    const std::vector<Seen> again = run_chain(chain.dataset, 1);
    ASSERT_EQ(elements_of(again), elements_of(all));
    ASSERT_EQ(positions_of(again), positions_of(all));
    for (const int64_t calls : {0, 1, 4}) {
      const Chain other = draw_chain(s, 0, build(calls));
      const std::vector<Seen> steps = run_chain(other.dataset, 1);
      ASSERT_EQ(elements_of(steps), elements_of(all)) << calls;
      if (calls > 0) {
        ASSERT_EQ(positions_of(steps), positions_of(all)) << calls;
      }
      // Serial ones go on from positions of parallel ones, and the reverse.
      const size_t cut = all.size() / 2;
      if (cut == 0) continue;
      Iterator to_other = other.dataset.iterator(0);
      to_other.restore(Position::from_string(all[cut - 1].position));
      ASSERT_EQ(elements_of(run_chain(to_other, kMostElements - static_cast<int64_t>(cut))),
                elements_of(all, cut))
          << all[cut - 1].position;
      Iterator from_other = chain.dataset.iterator(0);
      from_other.restore(Position::from_string(steps[cut - 1].position));
      ASSERT_EQ(elements_of(run_chain(from_other, kMostElements - static_cast<int64_t>(cut))),
                elements_of(all, cut))
          << steps[cut - 1].position;
    }
  }
}

TEST_P(CompositionTest, RowsAndElementsAgree) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t s = 10000 + seed(c);
    const Chain rows = draw_chain(s, 0, build(2));
    const Chain elements = draw_chain(s, 1, build(2));
    SCOPED_TRACE(str_cat(rows.name, " seed ", s));
    EXPECT_EQ(elements_of(run_chain(rows.dataset, 2)), elements_of(run_chain(elements.dataset, 2)));
  }
}

// What has been given and what comes behind a restore is together everything, each element once.
TEST_P(CompositionTest, FreeOrdersLoseAndRepeatNothing) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t s = 15000 + seed(c);
    const Chain chain = draw_free_chain(s, build(3));
    SCOPED_TRACE(str_cat(chain.name, " seed ", s));
    std::vector<std::string> all = elements_of(run_chain(draw_free_chain(s, build(0)).dataset, 1));
    if (all.size() >= static_cast<size_t>(kMostElements)) continue;  // cut off: not comparable
    std::sort(all.begin(), all.end());
    for (size_t cut = 0; cut <= all.size(); cut += 1 + all.size() / 4) {
      Iterator first = chain.dataset.iterator(1);
      std::vector<Seen> given = run_chain(first, static_cast<int64_t>(cut));
      ASSERT_EQ(given.size(), cut);
      const std::string text = first.position().to_string();
      Iterator restored = draw_free_chain(s, build(c % 4)).dataset.iterator(0);
      restored.restore(Position::from_string(text));
      std::vector<std::string> seen = elements_of(given);
      for (const std::string& element : elements_of(run_chain(restored))) seen.push_back(element);
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(seen, all) << text;
    }
  }
}

TEST_P(CompositionTest, WhatIsKnownBeforehandHolds) {
  for (uint32_t c = 0; c < kChains; ++c) {
    const uint32_t s = 20000 + seed(c);
    const Chain chain = draw_chain(s, 0, build(2));
    SCOPED_TRACE(str_cat(chain.name, " seed ", s));
    const int64_t cardinality = chain.dataset.cardinality();
    const auto spec = chain.dataset.known_element_spec();
    const auto batch_size = chain.dataset.batch_size();
    Iterator iterator = chain.dataset.iterator(0);
    int64_t count = 0;
    bool errors = false;
    for (; count < 500; ++count) {
      std::optional<Example> element;
      try {
        element = iterator.next();
      } catch (const std::exception&) {
        errors = true;
        continue;
      }
      if (!element) break;
      if (batch_size && chain.batched) {
        EXPECT_LE(element->num_rows(), *batch_size);
      }
      if (!spec) continue;
      ASSERT_EQ(element->fields.size(), spec->size());
      for (size_t f = 0; f < spec->size(); ++f) {
        const at::Tensor& field = element->fields[f];
        EXPECT_EQ(field.scalar_type(), (*spec)[f].dtype);
        ASSERT_EQ(field.sizes().size(), (*spec)[f].shape.size());
        for (size_t d = 0; d < field.sizes().size(); ++d)
          EXPECT_TRUE((*spec)[f].shape[d] == -1 || (*spec)[f].shape[d] == field.sizes()[d])
              << (*spec)[f].to_string() << " " << field.sizes();
      }
    }
    if (errors) continue;
    if (cardinality >= 0) {
      EXPECT_EQ(count, cardinality);
    } else if (cardinality == Dataset::kInfinite) {
      EXPECT_EQ(count, 500);
    }
  }
}

TEST(ChainsTest, DrawEveryTransform) {
  std::set<std::string> seen;
  for (uint32_t s = 0; s < 1000; ++s) {
    const std::string name = draw_chain(s, 0, {.folder = testing::TempDir()}).name;
    for (size_t dot = name.find('.'); dot != std::string::npos;) {
      const size_t end = name.find('.', dot + 1);
      seen.insert(name.substr(dot, end - dot));
      dot = end;
    }
  }
  EXPECT_EQ(seen.size(), num_transforms());
}

}  // namespace
}  // namespace strata::data
