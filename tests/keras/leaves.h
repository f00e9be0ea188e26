#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/keras/config.h"
#include "support/source_path.h"

// Reading tests/golden/keras_leaves.json, and comparing with it.
namespace strata::keras::golden {

inline const Json& leaves() {
  static const Json all =
      Json::parse(read_file(strata::test::source_path("tests/golden/keras_leaves.json")));
  return all;
}

/// The cases that have `key`.
inline std::vector<Json> cases_with(const char* key) {
  std::vector<Json> cases;
  for (const Json& each : leaves().at("cases").as_array()) {
    if (each.find(key) != nullptr) cases.push_back(each);
  }
  EXPECT_FALSE(cases.empty()) << key;
  return cases;
}

inline at::Tensor golden_tensor(const Json& array) {
  std::vector<int64_t> shape;
  for (const Json& size : array.at("shape").as_array()) shape.push_back(size.as_int());
  std::vector<double> data;
  for (const Json& value : array.at("data").as_array()) data.push_back(value.as_double());
  return at::tensor(data, at::kDouble).reshape(shape);
}

inline double number(const Json& options, const char* key, double otherwise) {
  const Json* value = options.find(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_double();
}

/// |a - b| <= tolerance * |b|, with `floor` in place of a smaller |b|.
inline void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance, double floor) {
  ASSERT_EQ(a.sizes(), b.sizes());
  const at::Tensor error = (a.to(at::kDouble) - b).abs() / b.abs().clamp_min(floor);
  const at::Tensor bad = error > tolerance;
  EXPECT_FALSE(bad.any().item<bool>())
      << "largest error " << error.max().item<double>() << "\n got " << a.masked_select(bad)
      << "\n for " << b.masked_select(bad);
}

/// Whatever the order of members; numbers up to float32's precision, since Keras keeps some so.
inline bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return std::abs(a.as_double() - b.as_double()) <= 1e-7 * std::abs(b.as_double());
  }
  if (a.is_array() && b.is_array()) {
    bool equal = a.as_array().size() == b.as_array().size();
    for (size_t i = 0; equal && i < a.as_array().size(); ++i) {
      equal = same(a.as_array()[i], b.as_array()[i]);
    }
    return equal;
  }
  if (a.is_object() && b.is_object()) {
    bool equal = a.as_object().size() == b.as_object().size();
    for (const auto& [name, value] : a.as_object()) {
      equal = equal && b.find(name) != nullptr && same(value, b.at(name));
    }
    return equal;
  }
  return a == b;
}

/// `object`, made here, is written as Keras writes it, and Keras's own object is read as it.
template <typename Object>
void expect_same_json(const Object& object, const Json& golden) {
  const Json written = to_config(object);
  EXPECT_TRUE(same(written, golden.at("least")))
      << written.dump() << "\n expected " << golden.at("least").dump();
  Object read = object;
  for (const char* form : {"saved", "least"}) {
    from_config(golden.at(form), read);
    EXPECT_TRUE(same(to_config(read), golden.at("least")))
        << to_config(read).dump() << "\n expected " << golden.at("least").dump();
  }
}

/// Every name that Keras has makes an object of the class that Keras says.
template <typename Object>
void expect_names(const char* kind) {
  for (const auto& [name, class_name] : leaves().at("names").at(kind).as_object()) {
    EXPECT_EQ(to_config(Object(name)).at("class_name"), class_name) << name;
  }
}

}  // namespace strata::keras::golden
