#include "strata/data/tf_example.h"

#include <random>

#include "data/elements.h"
#include "data/files/proto_wire.h"
#include "strata/data/example.h"
#include "support/proto_schema.h"

namespace strata::data {
namespace {

using Specs = std::vector<std::pair<std::string, FeatureSpec>>;

const TfExample kExample = {{"ints", TfFeature::int64s({1, -2, int64_t{1} << 62})},
                            {"floats", TfFeature::floats({0.5F, -2})},
                            {"strings", TfFeature::bytes({"one", "", "three"})},
                            {"empty", TfFeature::int64s({})},
                            {"none", TfFeature{}}};

TEST(TfExampleTest, GoesThroughBytes) {
  EXPECT_EQ(decode_example(serialize_example(kExample)), kExample);
  EXPECT_EQ(decode_example(serialize_example({})), TfExample{});
  EXPECT_EQ(decode_example(""), TfExample{});
}

TEST(TfExampleTest, IsWhatItsContractSays) {
  const auto schema = test::ProtoSchema::read("tensorflow/example.proto");
  EXPECT_EQ(find_fault(schema, "Example", serialize_example(kExample)), "");
}

TEST(TfExampleTest, ParsesFields) {
  const ParsedExample parsed =
      parse_example(serialize_example(kExample),
                    {{"ints", FixedLenFeature{FeatureType::kInt64, {3}}},
                     {"strings", VarLenFeature{FeatureType::kBytes}},
                     {"none", VarLenFeature{FeatureType::kFloat}},
                     {"floats", FixedLenSequenceFeature{FeatureType::kFloat, {2}}},
                     {"more", FixedLenFeature{FeatureType::kFloat, {2}, TfFeature::floats({7})}}});
  EXPECT_EQ(parsed["strings"].strings(), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(describe(parsed.to_example()),
            "Long[3](1,-2,4.61169e+18) Byte[8](111,110,101,116,104,114,101,101) Long[4](0,3,3,8) "
            "Float[0]() Float[1, 2](0.5,-2) Float[2](7,7)");
  expect_error(ErrorCode::kNotFound, {"feature \"x\""}, [&] { (void)parsed["x"]; });
  expect_error(ErrorCode::kInvalidArgument, {"got a feature of numbers"},
               [&] { (void)parsed["ints"].strings(); });
}

TEST(TfExampleTest, MapsRecords) {
  const ExampleParser parser({{"image", FixedLenFeature{FeatureType::kBytes}},
                              {"label", FixedLenFeature{FeatureType::kInt64}}});
  const std::string bytes =
      serialize_example({{"image", TfFeature::bytes({"AB"})}, {"label", TfFeature::int64s({3})}});
  const Dataset records = Dataset::from_tensors({bytes_tensor(bytes), longs({5})});
  EXPECT_EQ(describe(records.map(parser)),
            (std::vector<std::string>{"Byte[2](65,66) Long[](3) Long[1](5)"}));
}

TEST(TfExampleTest, PadsBatches) {
  const ExampleParser parser(
      {{"s", FixedLenSequenceFeature{FeatureType::kInt64, {}, TfFeature::int64s({-1})}},
       {"v", VarLenFeature{FeatureType::kFloat}}});
  const std::string a = serialize_example({{"s", TfFeature::int64s({1, 2, 3})}});
  const std::string b = serialize_example({{"v", TfFeature::floats({4})}});
  const ParsedExample batch = parser.parse_batch(std::vector<std::string_view>{a, b, a});
  EXPECT_EQ(describe(batch.to_example()),
            "Long[3, 3](1,2,3,-1,-1,-1,1,2,3) Long[3](3,0,3) Float[1](4) Long[4](0,0,1,1)");
  EXPECT_EQ(describe(parser.parse_batch({}).to_example()),
            "Long[0, 0]() Long[0]() Float[0]() Long[1](0)");
}

// As Protocol Buffers say: messages in parts are joined, of a oneof the last counts, and so does
// the last of two equal names.
TEST(TfExampleTest, PartsAreJoined) {
  const auto field = [](uint32_t number, const std::string& bytes) {
    std::string out;
    detail::put_bytes(number, bytes, out);
    return out;
  };
  const auto entry = [&](const std::string& feature) {
    return field(1, field(1, field(1, "f") + field(2, feature)));
  };
  const std::string one = field(3, field(1, "\x01")), two = field(3, field(1, "\x02"));
  EXPECT_EQ(decode_example(entry(one + two)), (TfExample{{"f", TfFeature::int64s({1, 2})}}));
  EXPECT_EQ(decode_example(entry(one + field(1, field(1, "s")) + two)),
            (TfExample{{"f", TfFeature::int64s({2})}}));
  EXPECT_EQ(decode_example(entry(one) + entry(two)), (TfExample{{"f", TfFeature::int64s({2})}}));
}

TEST(TfExampleTest, SaysWhatDoesNotFit) {
  const std::string bytes = serialize_example(kExample);
  const auto fails = [&](FeatureSpec spec, const char* name, const std::string& part) {
    expect_error(ErrorCode::kInvalidArgument, {str_cat("feature \"", name, "\""), part}, [&] {
      (void)parse_example(bytes, {{name, spec}});
    });
  };
  fails(FixedLenFeature{FeatureType::kInt64, {2}}, "ints",
        "got 3 values; expected 2, for shape [2]");
  fails(FixedLenFeature{FeatureType::kFloat, {3}}, "ints", "got integers; expected floats");
  fails(VarLenFeature{FeatureType::kBytes}, "empty", "got integers; expected strings");
  fails(FixedLenFeature{FeatureType::kFloat}, "none", "got no such feature; expected 1 floats");
  fails(FixedLenSequenceFeature{FeatureType::kInt64, {2}}, "ints", "expected a multiple of 2");
  // The parser itself.
  fails(FixedLenFeature{FeatureType::kInt64, {2, -1}}, "a", "got shape [2, -1]");
  fails(FixedLenFeature{FeatureType::kInt64, {}, TfFeature::floats({1})}, "a",
        "got a default of floats");
  fails(FixedLenFeature{FeatureType::kInt64, {3}, TfFeature::int64s({1, 2})}, "a",
        "got 2 default values; expected 1 or 3");
  fails(FixedLenSequenceFeature{FeatureType::kInt64, {0}}, "a", "at least one value");
  expect_error(ErrorCode::kInvalidArgument, {"got feature \"a\" twice"}, [] {
    ExampleParser(Specs{{"a", VarLenFeature{}}, {"a", VarLenFeature{}}});
  });
  const ExampleParser parser({{"ints", FixedLenFeature{FeatureType::kInt64, {3}}}});
  expect_error(ErrorCode::kInvalidArgument, {"row 1 of the batch"}, [&] {
    (void)parser.parse_batch(std::vector<std::string_view>{bytes, ""});
  });
  expect_error(ErrorCode::kDataLoss, {"offset", "row 1 of the batch"}, [&] {
    (void)parser.parse_batch(std::vector<std::string_view>{bytes, "\x0A\xFF"});
  });
}

TEST(TfExampleTest, SaysWhereBytesAreWrong) {
  const auto fails = [](const std::string& bytes, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::kDataLoss, parts, [&] { (void)decode_example(bytes); });
  };
  fails("\x0A", {"offset 1", "the end inside of a number"});
  fails("\x0A\x05", {"offset 2", "a length beyond the end"});
  fails(std::string("\x00", 1), {"an invalid field number"});
  fails("\x0B", {"an invalid wire type"});
  fails(std::string(11, '\xFF'), {"offset 10", "a number of more than 10 bytes"});
  fails("\x0D\x01", {"offset 1", "got the end"});
  const std::string float_of_three_bytes("\x0A\x0C\x0A\x0A\x0A\x01q\x12\x05\x12\x03\x0A\x01z", 14);
  fails(float_of_three_bytes, {"floats whose size is no multiple of 4"});
}

// Run under the address sanitizer this shows that nothing is read out of bounds.
TEST(TfExampleTest, AnyBytesEndInAResultOrAnError) {
  const std::string good = serialize_example(kExample);
  const ExampleParser parser({{"ints", VarLenFeature{FeatureType::kInt64}},
                              {"floats", VarLenFeature{FeatureType::kFloat}},
                              {"strings", VarLenFeature{FeatureType::kBytes}}});
  std::mt19937 random(1);
  int parsed = 0, refused = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (unsigned change = random() % 4; change > 0 && !bytes.empty(); --change)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    // Exactly so many bytes on the heap: what lies behind is not ours.
    const std::unique_ptr<char[]> copy(new char[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), copy.get());
    try {
      (void)parser.parse({copy.get(), bytes.size()});
      ++parsed;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(parsed, 10000);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace strata::data
