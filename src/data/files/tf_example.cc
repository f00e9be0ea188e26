#include "strata/data/tf_example.h"

#include <bit>

#include "data/files/proto_wire.h"
#include "data/files/tf_feature.h"

namespace strata::data {
namespace {

using detail::put_bytes;
using detail::put_varint;

std::string list_of(const std::vector<std::string>& values) {
  std::string list;
  for (const auto& value : values) put_bytes(1, value, list);
  return list;
}

std::string list_of(const std::vector<float>& values) {
  std::string packed;
  packed.reserve(values.size() * sizeof(float));
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) packed += static_cast<char>(bits >> shift & 0xFF);
  }
  std::string list;
  if (!values.empty()) put_bytes(1, packed, list);
  return list;
}

std::string list_of(const std::vector<int64_t>& values) {
  std::string packed;
  for (const int64_t value : values) put_varint(static_cast<uint64_t>(value), packed);
  std::string list;
  if (!values.empty()) put_bytes(1, packed, list);
  return list;
}

std::string feature_message(const TfFeature& feature) {
  return std::visit(
      [&](const auto& values) {
        std::string message;
        if constexpr (!std::is_same_v<std::decay_t<decltype(values)>, std::monostate>)
          put_bytes(static_cast<uint32_t>(feature.values.index()), list_of(values), message);
        return message;
      },
      feature.values);
}

}  // namespace

std::string serialize_example(const TfExample& example) {
  std::string features;
  for (const auto& [name, feature] : example) {
    std::string entry;
    put_bytes(1, name, entry);
    put_bytes(2, feature_message(feature), entry);
    put_bytes(1, entry, features);
  }
  std::string bytes;
  put_bytes(1, features, bytes);
  return bytes;
}

TfExample decode_example(std::string_view bytes) {
  TfExample example;
  detail::FeatureBytes found;
  detail::for_each_feature(bytes, [&](std::string_view name, std::string_view message) {
    detail::read_feature(message, bytes, found);
    TfFeature& feature = example[std::string(name)];
    feature = {};
    if (!found.type) return;
    switch (*found.type) {
      case FeatureType::kBytes: {
        std::vector<std::string> list;
        detail::for_each_string(found, [&](std::string_view s) { list.emplace_back(s); });
        feature = TfFeature::bytes(std::move(list));
        return;
      }
      case FeatureType::kFloat: {
        std::vector<float> list(found.count);
        detail::fill(found, list.data());
        feature = TfFeature::floats(std::move(list));
        return;
      }
      case FeatureType::kInt64: {
        std::vector<int64_t> list(found.count);
        detail::fill(found, list.data());
        feature = TfFeature::int64s(std::move(list));
        return;
      }
    }
  });
  return example;
}

}  // namespace strata::data
