#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "strata/data/tf_example.h"

namespace strata::data::detail {

// The messages are those of proto/tensorflow/example.proto.

/// Where the values of one feature lie in the bytes of an Example. Checked to its end: counting and
/// filling cannot fail.
struct FeatureBytes {
  std::optional<FeatureType> type;              ///< nullopt: none of the lists
  c10::SmallVector<std::string_view, 1> lists;  ///< messages, to be joined; nearly always one
  size_t count = 0;                             ///< of values
  size_t total_bytes = 0;                       ///< of strings
};

/// Reads a Feature message into `out`, whose memory is used again.
void read_feature(std::string_view message, std::string_view whole, FeatureBytes& out);

/// Writes `feature.count` values.
void fill(const FeatureBytes& feature, float* out);
void fill(const FeatureBytes& feature, int64_t* out);

/// Calls fn(string_view) for each string.
template <class Fn>
void for_each_string(const FeatureBytes& feature, Fn fn);

/// Calls fn(name, Feature message) for each feature of an Example, in order.
template <class Fn>
void for_each_feature(std::string_view example, Fn fn);

}  // namespace strata::data::detail

#include "data/files/proto_wire.h"

namespace strata::data::detail {

template <class Fn>
void for_each_string(const FeatureBytes& feature, Fn fn) {
  for (const std::string_view list : feature.lists) {
    WireReader reader(list, list);
    while (!reader.at_end()) {
      WireType type{};
      if (reader.field(type) == 1 && type == WireType::kBytes) {
        fn(reader.bytes());
      } else {
        reader.skip(type);
      }
    }
  }
}

template <class Fn>
void for_each_feature(std::string_view example, Fn fn) {
  WireReader outer(example, example);
  while (!outer.at_end()) {
    WireType type{};
    if (outer.field(type) != 1 || type != WireType::kBytes) {
      outer.skip(type);
      continue;
    }
    WireReader features(outer.bytes(), example);
    while (!features.at_end()) {
      if (features.field(type) != 1 || type != WireType::kBytes) {
        features.skip(type);
        continue;
      }
      WireReader entry(features.bytes(), example);
      std::string_view name, value;
      while (!entry.at_end()) {
        const uint32_t field = entry.field(type);
        if (field == 1 && type == WireType::kBytes) {
          name = entry.bytes();
        } else if (field == 2 && type == WireType::kBytes) {
          value = entry.bytes();
        } else {
          entry.skip(type);
        }
      }
      fn(name, value);
    }
  }
}

}  // namespace strata::data::detail
