#include "strata/data/example.h"

#include <ATen/ops/zeros.h>

#include "data/elements.h"

namespace strata::data {
namespace {

std::string text(const std::optional<ElementSpec>& spec) {
  if (!spec) return "unknown";
  std::string all;
  for (const TensorSpec& field : *spec) all += (all.empty() ? "" : " ") + field.to_string();
  return all;
}

TEST(ElementSpecTest, TellsWhatIsKnown) {
  const Dataset images =
      Dataset::from_tensor_slices({at::zeros({10, 4, 3}), at::zeros({10}, at::kLong)});
  const auto spec = [](const Dataset& dataset) { return text(dataset.known_element_spec()); };
  EXPECT_EQ(spec(images), "Float[4, 3] Long[]");
  EXPECT_EQ(spec(images.shuffle(3).take(2).repeat().cache().prefetch()), "Float[4, 3] Long[]");
  EXPECT_EQ(spec(images.batch(4)), "Float[-1, 4, 3] Long[-1]");
  EXPECT_EQ(spec(images.batch(4, {.drop_remainder = true})), "Float[4, 4, 3] Long[4]");
  EXPECT_EQ(spec(images.batch(4).unbatch()), "Float[4, 3] Long[]");
  EXPECT_EQ(spec(images.batch(4).rebatch({2})), "Float[-1, 4, 3] Long[-1]");
  EXPECT_EQ(spec(images.enumerate()), "Long[] Float[4, 3] Long[]");
  EXPECT_EQ(spec(Dataset::zip({images, Dataset::range(3)})), "Float[4, 3] Long[] Long[]");
  EXPECT_EQ(spec(Dataset::zip({images.batch(2), Dataset::range(3)})),
            "Float[-1, 4, 3] Long[-1] Long[]");
  EXPECT_EQ(spec(images.window({.size = 2})), "Float[-1, 4, 3] Long[-1]");
  EXPECT_EQ(spec(images.padded_batch(2, {.padded_shapes = {{-1, 5}, {}}})),
            "Float[-1, -1, 5] Long[-1]");
  const Dataset wide =
      Dataset::from_tensor_slices({at::zeros({2, 4, 7}), at::zeros({2}, at::kLong)});
  EXPECT_EQ(spec(images.concatenate(wide)), "Float[4, -1] Long[]");
  EXPECT_EQ(spec(images.concatenate(Dataset::range(2))), "unknown");
  EXPECT_EQ(spec(images.map([](Example e) { return e; })), "unknown");
  EXPECT_EQ(spec(counting_generator(3)), "unknown");
  EXPECT_EQ(spec(Dataset::range(3).batch(2).unbatch().unbatch()), "unknown");
}

TEST(ElementSpecTest, LooksAtTheFirstElementWhereItMust) {
  const Dataset mapped = Dataset::range(3).map(
      [](const Example& e) { return Example{at::zeros({1 + e.x().item<int64_t>()}, at::kInt)}; });
  EXPECT_EQ(text(mapped.element_spec()), "Int[1]");
  EXPECT_EQ(text(mapped.take(0).concatenate(Dataset::range(2)).element_spec()), "Long[]");
  EXPECT_EQ(text(Dataset::range(0).element_spec()), "Long[]");
  expect_error(ErrorCode::kOutOfRange, {"element_spec: the dataset is empty"},
               [&] { (void)mapped.take(0).element_spec(); });
}

}  // namespace
}  // namespace strata::data
