#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/example.h"

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

/// A feature of exactly product(shape) values. `default_value` replaces a missing feature: as many
/// values, or one for all; without it the feature is required.
struct FixedLenFeature {
  FeatureType type;
  std::vector<int64_t> shape = {};
  TfFeature default_value = {};
};

/// A feature of any number of values; none if it is missing.
struct VarLenFeature {
  FeatureType type;
};

/// A feature of any number of blocks of `shape`; none if it is missing. `default_value` pads the
/// shorter rows of a batch: one value (default: 0, or the empty string).
struct FixedLenSequenceFeature {
  FeatureType type;
  std::vector<int64_t> shape = {};
  TfFeature default_value = {};
};

using FeatureSpec = std::variant<FixedLenFeature, VarLenFeature, FixedLenSequenceFeature>;

/// The contents of one feature. `n` counts values.
struct STRATA_API ParsedFeature {
  /// Numbers (float32 or int64): fixed `[*shape]`, variable `[n]`, sequence `[length, *shape]`; a
  /// batch has `[batch, ...]` in front, except for variable ones, whose rows are concatenated to
  /// `[n]`. Strings: their bytes, concatenated, uint8 `[bytes]`.
  at::Tensor values;

  /// Strings only: int64 `[n + 1]`; string i is values[offsets[i]] up to values[offsets[i + 1]].
  at::Tensor offsets;

  /// Variable features of a batch only: int64 `[batch + 1]`; row i has the values (or strings)
  /// row_splits[i] up to row_splits[i + 1].
  at::Tensor row_splits;

  /// Sequences of a batch only: int64 `[batch]`, before the padding.
  at::Tensor lengths;

  /// Returns strings as such. @throws Error  kInvalidArgument: these are numbers.
  std::vector<std::string> strings() const;
};

class STRATA_API ParsedExample {
 public:
  /// @throws Error  kNotFound: `name` is no feature of the parser.
  const ParsedFeature& operator[](std::string_view name) const;

  /// In the order of the parser's features.
  const std::vector<ParsedFeature>& features() const { return features_; }

  /// Returns fields in the order of the parser's features: `values`; after them `offsets` (except
  /// for a single string of one example), `row_splits`, `lengths`, if defined.
  Example to_example() const;

 private:
  friend class ExampleParser;
  struct Names;
  std::shared_ptr<const Names> names_;
  std::vector<ParsedFeature> features_;
  bool batch_ = false;
};

/// Parses tf.train.Examples.
///
///     const ExampleParser parser({{"image", FixedLenFeature{FeatureType::kBytes}},
///                                 {"label", FixedLenFeature{FeatureType::kInt64}}});
///     Dataset d = tf_records({"train.tfrecord"}).map(parser);  // x: uint8 [length], y: int64 []
///
/// Other features are ignored; of two with one name, the last counts.
/// Threads: any, at once.   Cost: 0.3 us a feature.
/// Source: tf.io.parse_single_example, tf.io.parse_example.
class STRATA_API ExampleParser {
 public:
  /// @throws Error  kInvalidArgument: a name twice, negative sizes, defaults of another type or
  /// number of values.
  explicit ExampleParser(std::vector<std::pair<std::string, FeatureSpec>> features);

  /// @throws Error  kDataLoss: not a tf.train.Example; names the offset. kInvalidArgument: a
  /// feature that is missing, of another type, or with another number of values; names it.
  ParsedExample parse(std::string_view bytes) const;

  /// Parses one row for each example. @throws as `parse`; the message names the row.
  ParsedExample parse_batch(std::span<const std::string_view> batch) const;

  /// The function of Dataset::map: field 0 is the bytes of an example; returns `to_example()` and
  /// the other fields after it.
  Example operator()(const Example& element) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// The same for a single call; ExampleParser is faster for many.
STRATA_API ParsedExample parse_example(std::string_view bytes,
                                       std::vector<std::pair<std::string, FeatureSpec>> features);

}  // namespace strata::data
