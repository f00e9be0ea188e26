#include "tensor/arena.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "strata/core/error.h"

namespace strata::tensor {
namespace {

template <typename Call>
std::string message_of(Call call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

class ArenaDtypeTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(ArenaDtypeTest, TensorsLieBackToBackAlignedAndZero) {
  const at::ScalarType dtype = GetParam();
  const Arena arena({{.sizes = {3, 5}}, {.sizes = {}}, {.sizes = {0, 4}}, {.sizes = {1000, 700}}},
                    dtype);
  ASSERT_EQ(arena.num_tensors(), 4);
  EXPECT_EQ(arena.size(0), 15);
  EXPECT_EQ(arena.size(1), 1);
  EXPECT_EQ(arena.size(2), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.flat().data_ptr()) % (2 << 20), 0u);
  EXPECT_EQ(arena.flat().count_nonzero().item<int64_t>(), 0);
  int64_t end = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const at::Tensor tensor = arena.view(i);
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_EQ(tensor.numel(), arena.size(i));
    EXPECT_EQ(arena.offset(i) * tensor.element_size() % 64, 0);
    EXPECT_GE(arena.offset(i), end);
    EXPECT_LT(arena.offset(i) - end, 64);
    end = arena.offset(i) + arena.size(i);
    tensor.fill_(i + 1);
  }
  EXPECT_LE(end, arena.numel());
  const double sum = arena.flat().to(at::kDouble).sum().item<double>();
  EXPECT_EQ(sum, 15 * 1 + 1 * 2 + 0 + 700000.0 * 4);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ArenaDtypeTest,
                         testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                         at::kLong, at::kByte),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(ArenaTest, AliasesHaveTheirOwnVersionAndAutograd) {
  const Arena arena({{.sizes = {4}}}, at::kFloat);
  at::Tensor one = arena.view(0);
  at::Tensor two = arena.view(0);
  EXPECT_TRUE(one.is_alias_of(two));
  EXPECT_FALSE(one.is_view());
  one.fill_(3);
  EXPECT_EQ(one._version(), 1u);
  EXPECT_EQ(two._version(), 0u);
  EXPECT_EQ(two[0].item<float>(), 3);
  one.requires_grad_();
  EXPECT_FALSE(two.requires_grad());
  (one * one).sum().backward();
  EXPECT_EQ(one.grad()[1].item<float>(), 6);
}

TEST(ArenaTest, StridesAreKept) {
  const at::Tensor weight = at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  const Arena arena(
      {{.sizes = {7}}, {.sizes = weight.sizes().vec(), .strides = weight.strides().vec()}},
      at::kFloat);
  at::Tensor tensor = arena.view(1);
  EXPECT_EQ(tensor.strides(), weight.strides());
  EXPECT_TRUE(tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
  tensor.copy_(weight);
  const at::Tensor expected = weight.permute({0, 2, 3, 1}).reshape({-1});
  EXPECT_TRUE(at::equal(arena.flat().narrow(0, arena.offset(1), arena.size(1)), expected));
}

TEST(ArenaTest, FlatRangesCoverWholeTensors) {
  const Arena arena({{.sizes = {5}}, {.sizes = {20}}, {.sizes = {2}}}, at::kFloat);
  EXPECT_EQ(arena.numel(), 16 + 32 + 16);
  at::Tensor middle = arena.flat(1, 3);
  EXPECT_EQ(middle.numel(), 48);
  middle.fill_(1);
  EXPECT_EQ(arena.view(0).sum().item<float>(), 0);
  EXPECT_EQ(arena.view(2).sum().item<float>(), 2);
  EXPECT_EQ(arena.flat(2, 2).numel(), 0);
}

TEST(ArenaTest, TensorsOutliveTheArena) {
  at::Tensor survivor;
  {
    const Arena arena({{.sizes = {100000}}}, at::kDouble);
    survivor = arena.view(0);
    survivor.fill_(2);
  }
  EXPECT_EQ(survivor.sum().item<double>(), 200000);
}

TEST(ArenaTest, MakeLikeCopiesTheLayoutOnly) {
  const Arena arena({{.sizes = {5}}, {.sizes = {2, 2}}}, at::kFloat);
  arena.flat().fill_(1);
  const Arena slots = arena.make_like();
  EXPECT_EQ(slots.offset(1), arena.offset(1));
  EXPECT_EQ(slots.numel(), arena.numel());
  EXPECT_EQ(slots.flat().sum().item<float>(), 0);
  EXPECT_EQ(arena.make_like(at::kBFloat16, at::kCPU).view(1).sizes(), arena.view(1).sizes());
}

TEST(ArenaTest, AnEmptyArenaIsEmpty) {
  const Arena arena({}, at::kFloat);
  EXPECT_EQ(arena.num_tensors(), 0);
  EXPECT_EQ(arena.numel(), 0);
  EXPECT_EQ(arena.flat().numel(), 0);
}

TEST(ArenaTest, BadInputIsNamed) {
  const Arena arena({{.sizes = {5}}}, at::kFloat);
  EXPECT_EQ(message_of([&] { (void)arena.view(1); }, ErrorCode::kOutOfRange),
            "[arena] view: got index 1 of 1 tensors; expected one of them");
  EXPECT_EQ(message_of([&] { (void)arena.flat(1, 0); }, ErrorCode::kOutOfRange),
            "[arena] flat: got tensors 1 to 0 of 1; expected 0 <= first <= last <= 1");
  EXPECT_EQ(message_of(
                [] {
                  Arena({{.sizes = {2, -1}}}, at::kFloat);
                },
                ErrorCode::kInvalidArgument),
            "[arena] Arena: got sizes [2, -1]; expected none below zero");
  EXPECT_EQ(message_of(
                [] {
                  Arena({{.sizes = {2}, .strides = {1, 1}}}, at::kFloat);
                },
                ErrorCode::kInvalidArgument),
            "[arena] Arena: got 2 strides for 1 sizes; expected one each, or none for a contiguous "
            "tensor");
  EXPECT_EQ(message_of(
                [] {
                  Arena({{.sizes = {2, 3}, .strides = {6, 1}}}, at::kFloat);
                },
                ErrorCode::kInvalidArgument),
            "[arena] Arena: got sizes [2, 3] with strides [6, 1]; expected a tensor without gaps "
            "or overlap; "
            "call contiguous() on it first");
  EXPECT_EQ(message_of([] { Arena({{.sizes = {int64_t{1} << 58}}}, at::kByte); },
                       ErrorCode::kResourceExhausted)
                .substr(0, 48),
            "[arena] Arena: got no memory for 288230376151711");
}

}  // namespace
}  // namespace strata::tensor
