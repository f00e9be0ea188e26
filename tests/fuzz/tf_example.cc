// tf.train.Examples: everything in them, and what a parser asks for.
#include "strata/data/tf_example.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data;
  const std::string_view bytes = strata::fuzz::text_of(data, size);
  TfExample example;
  if (strata::fuzz::takes([&] { example = decode_example(bytes); })) {
    const std::string again = serialize_example(example);
    strata::fuzz::expect(serialize_example(decode_example(again)) == again,
                         "serialize(decode(bytes)) == bytes");
  }
  static const ExampleParser parser({
      {"a", FixedLenFeature{FeatureType::kInt64, {2}, TfFeature::int64s({1})}},
      {"b", VarLenFeature{FeatureType::kFloat}},
      {"c", FixedLenSequenceFeature{FeatureType::kBytes, {}, {}}},
      {"d", FixedLenFeature{FeatureType::kBytes, {}, TfFeature::bytes({"x"})}},
  });
  (void)strata::fuzz::takes([&] { (void)parser.parse(bytes); });
  const std::string_view batch[] = {bytes, bytes.substr(0, bytes.size() / 2)};
  (void)strata::fuzz::takes([&] { (void)parser.parse_batch(batch); });
  return 0;
}
