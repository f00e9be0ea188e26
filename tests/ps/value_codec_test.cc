// Values on the wire: what goes in comes out, and bytes that are none are refused.
#include "ps/coordinator/value_codec.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "strata/ps/remote_value.h"
#include "support/proto_contract.h"
#include "support/replicas.h"

namespace strata::ps {
namespace {

static_assert(!std::is_convertible_v<RemoteValue<>, Value>,
              "the result of one function is not an argument of another");
static_assert(!std::is_constructible_v<Value, RemoteValue<>>);

// Through text and transfers, as over a wire.
std::vector<Value> round_trip(const std::vector<Value>& values) {
  const EncodedValues encoded = encode_values(values);
  std::vector<at::Tensor> follow;
  std::vector<Value> decoded = decode_values(encoded.text, follow);
  EXPECT_EQ(follow.size(), encoded.tensors.size());
  for (size_t i = 0; i < follow.size(); ++i) {
    EXPECT_EQ(follow[i].nbytes(), encoded.tensors[i].nbytes());
    std::memcpy(follow[i].mutable_data_ptr(), encoded.tensors[i].const_data_ptr(),
                follow[i].nbytes());
  }
  return decoded;
}

Value round_trip(const Value& value) { return round_trip(std::vector<Value>{value}).at(0); }

TEST(ValueCodecTest, NumbersTextsAndTruthsComeBack) {
  for (const int64_t number :
       {int64_t{0}, int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(round_trip(Value(number)).as_int(), number);
  }
  EXPECT_EQ(round_trip(Value(-0.25)).as_double(), -0.25);
  EXPECT_TRUE(std::signbit(round_trip(Value(-0.0)).as_double()));
  EXPECT_EQ(round_trip(Value(std::numeric_limits<double>::infinity())).as_double(),
            std::numeric_limits<double>::infinity());
  EXPECT_TRUE(round_trip(Value(true)).as_bool());
  EXPECT_FALSE(round_trip(Value(false)).as_bool());
  EXPECT_EQ(round_trip(Value("a\0b")).text(), "a");
  EXPECT_EQ(round_trip(Value(std::string("a\0b", 3))).text(), std::string("a\0b", 3));
  EXPECT_EQ(round_trip(Value("")).text(), "");
  EXPECT_EQ(round_trip(Value()).kind(), Value::Kind::kNothing);
  EXPECT_EQ(round_trip(Value(ResourceId{77})).resource().number, 77U);
}

TEST(ValueCodecTest, IsWhatItsContractSays) {
  test::ProtoContract contract("strata/values.proto");
  contract.expect_message<TensorMessage>("Tensor");
  const std::pair<Value, std::string> cases[] = {
      {at::ones({2, 3}), "tensor"},
      {0.5, "float64"},
      {7, "int64"},
      {true, "boolean"},
      {"x", "text"},
      {Value::List{1, at::ones({4097})}, "list"},
      {ResourceId{3}, "resource"},
  };
  const auto& fields = contract.schema().messages.at("Value");
  EXPECT_EQ(fields.size(), std::size(cases));
  for (const auto& [value, name] : cases) {
    const auto field = std::ranges::find(fields, name, &test::ProtoField::name);
    ASSERT_NE(field, fields.end()) << name;
    EXPECT_EQ(field->number, static_cast<uint32_t>(value.kind()));
    const std::string text = encode_values(std::vector<Value>{value}).text;
    EXPECT_EQ(find_fault(contract.schema(), "List", text), "") << name;
    EXPECT_EQ(static_cast<uint32_t>(text[2]) >> 3, field->number);  // behind the list's own field
  }
}

TEST(ValueCodecTest, TensorsOfAllSizesComeBack) {
  for (const int64_t size : {0, 1, 7, 4095, 4096, 4097, 100'000}) {
    const at::Tensor tensor = at::rand({size});
    EXPECT_TRUE(at::equal(round_trip(Value(tensor)).tensor(), tensor)) << size;
  }
  for (const at::ScalarType dtype :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kBool, at::kComplexFloat}) {
    const at::Tensor tensor = at::ones({3, 0, 2}, dtype);
    EXPECT_EQ(round_trip(Value(tensor)).tensor().scalar_type(), dtype);
    EXPECT_EQ(round_trip(Value(tensor)).tensor().sizes(), tensor.sizes());
    const at::Tensor scalar = at::ones({}, dtype);
    EXPECT_TRUE(at::equal(round_trip(Value(scalar)).tensor(), scalar));
  }
  EXPECT_FALSE(round_trip(Value(at::Tensor())).tensor().defined());
}

TEST(ValueCodecTest, ViewsArriveDenseAndWithoutHistory) {
  const at::Tensor view = at::arange(12).view({3, 4}).t().to(at::kFloat).requires_grad_();
  const at::Tensor back = round_trip(Value(view)).tensor();
  EXPECT_TRUE(back.is_contiguous());
  EXPECT_FALSE(back.requires_grad());
  EXPECT_TRUE(at::equal(back, view.detach()));
  const at::Tensor conjugate = at::randn({3}, at::kComplexFloat).conj();
  EXPECT_TRUE(at::equal(round_trip(Value(conjugate)).tensor(), conjugate.resolve_conj()));
}

TEST(ValueCodecTest, ListsAreKeptWithTheOrderOfTheirTensors) {
  const at::Tensor large = at::rand({10'000});
  const Value nested = Value::List{1, "two", Value::List{3.0, at::rand({10'000}), Value()}, large};
  const std::vector<Value> back = round_trip({nested, at::ones({5}), large});
  ASSERT_EQ(back.size(), 3U);
  EXPECT_TRUE(at::equal(back[0].list()[2].list()[1].tensor(), nested.list()[2].list()[1].tensor()));
  EXPECT_TRUE(at::equal(back[0].list()[3].tensor(), large));
  EXPECT_TRUE(at::equal(back[2].tensor(), large));
  EXPECT_TRUE(round_trip(std::vector<Value>()).empty());
}

// Small ones are in the text, as long as there is room; the others travel by themselves.
TEST(ValueCodecTest, OnlySmallTensorsAreInTheText) {
  EXPECT_TRUE(encode_values(std::vector<Value>{at::zeros({4096})}).tensors.empty());
  EXPECT_EQ(encode_values(std::vector<Value>{at::zeros({4097})}).tensors.size(), 1U);
  const std::vector<Value> many(20, at::zeros({4096}));
  const EncodedValues encoded = encode_values(many);
  EXPECT_EQ(encoded.tensors.size(), 4U);
  EXPECT_LT(encoded.text.size(), kInlineTensors + 4096);
}

TEST(ValueCodecTest, WhatCannotTravelIsNamed) {
  const at::Tensor sparse = at::ones({2, 2}).to_sparse();
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"[ps] Value", "expected a dense one"},
                     [&] { encode_values(std::vector<Value>{sparse}); }));
  Value deep;
  for (int i = 0; i < 40; ++i) deep = Value::List{deep};
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"more than 32 deep"},
                     [&] { encode_values(std::vector<Value>{deep}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"bytes; expected at most 1048576"},
                     [] { encode_values(std::vector<Value>{std::string(2 << 20, 'x')}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got 18446744073709551615", "an int64"},
                     [] { Value(~uint64_t{0}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got string; expected Tensor"},
                     [] { (void)Value("x").tensor(); }));
}

// Every prefix and every flipped bit: an error or another value, never a crash, and no memory
// beyond what the bytes stand for.
TEST(ValueCodecTest, DamagedBytesAreRefusedOrHarmless) {
  const std::string text =
      encode_values(std::vector<Value>{1, 2.0, true, "text", at::arange(5), Value::List{1, "x"},
                                       ResourceId{3}, Value()})
          .text;
  int refused = 0;
  const auto try_it = [&](const std::string& bytes) {
    std::vector<at::Tensor> follow;
    try {
      (void)decode_values(bytes, follow);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      ++refused;
    }
  };
  for (size_t size = 0; size < text.size(); ++size) try_it(text.substr(0, size));
  for (size_t i = 0; i < text.size() * 8; ++i) {
    std::string flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    try_it(flipped);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    try_it(noise);
  }
  EXPECT_GT(refused, 500);
}

TEST(ValueCodecTest, SizesThatCannotBeAreRefused) {
  // A tensor of 2^62 x 2^62 floats, of which the bytes are to follow.
  std::string tensor = "\x08\x06";  // dtype 6
  for (int i = 0; i < 2; ++i) {
    tensor += "\x10";
    for (int j = 0; j < 8; ++j) tensor += "\x80";
    tensor += "\x40";
  }
  tensor += "\x20\x01";
  const std::string value = "\x0a" + std::string(1, static_cast<char>(tensor.size())) + tensor;
  const std::string list = "\x0a" + std::string(1, static_cast<char>(value.size())) + value;
  std::vector<at::Tensor> follow;
  EXPECT_TRUE(throws(ErrorCode::kDataLoss, {"[ps] values", "more than 1 TiB"},
                     [&] { (void)decode_values(list, follow); }));
}

// A few bytes ask for much memory: of all tensors of a message together, before any of it is there.
TEST(ValueCodecTest, NoMoreMayFollowThanThereIsMemory) {
  const at::Tensor large = at::zeros({100'000}, at::kByte);
  const EncodedValues two = encode_values({{Value(large), Value(large)}});
  std::vector<at::Tensor> follow;
  EXPECT_EQ(decode_values(two.text, follow, 200'000).size(), 2U);
  EXPECT_EQ(follow.size(), 2U);
  EXPECT_TRUE(throws(ErrorCode::kResourceExhausted, {"[ps] values", "more than 199999 bytes"},
                     [&] { (void)decode_values(two.text, follow, 199'999); }));
}

}  // namespace
}  // namespace strata::ps
