#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/core/export.h"

namespace strata::data {

/// The three kinds of a tf.train.Feature.
enum class FeatureType { kBytes, kFloat, kInt64 };

/// A tf.train.Feature: a list of strings, floats or integers; or no list.
struct TfFeature {
  using Values = std::variant<std::monostate, std::vector<std::string>, std::vector<float>,
                              std::vector<int64_t>>;
  Values values;

  static TfFeature bytes(std::vector<std::string> list) { return {std::move(list)}; }
  static TfFeature floats(std::vector<float> list) { return {std::move(list)}; }
  static TfFeature int64s(std::vector<int64_t> list) { return {std::move(list)}; }

  friend bool operator==(const TfFeature&, const TfFeature&) = default;
};

/// A tf.train.Example: features by name.
using TfExample = std::map<std::string, TfFeature>;

/// Returns the bytes of a tf.train.Example, equal to TensorFlow's deterministic ones: names in
/// order, lists packed. (TensorFlow's Python writes a name that begins with another before that
/// one.)
///
///     writer.write(serialize_example({{"image", TfFeature::bytes({jpeg})},
///                                     {"label", TfFeature::int64s({3})}}));
STRATA_API std::string serialize_example(const TfExample& example);

/// Decodes a whole tf.train.Example; lists packed or not. For known features, ExampleParser is
/// several times faster.
/// @throws Error kDataLoss: not the bytes of an Example; names the offset.
STRATA_API TfExample decode_example(std::string_view bytes);

}  // namespace strata::data
