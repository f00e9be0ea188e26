#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/source_path.h"

namespace strata {

/// Reads tests/golden/<name>.
inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(test::source_path("tests/golden/" + name));
  return nlohmann::json::parse(file);
}

/// {"shape": [...], "data": [...]} as a tensor: float32, or int64 where every number is written as
/// a whole one.
inline at::Tensor golden_tensor(const nlohmann::json& array) {
  const auto shape = array["shape"].get<std::vector<int64_t>>();
  const auto data = array["data"].get<std::vector<double>>();
  bool whole = !array["data"].empty();
  for (const auto& number : array["data"]) whole = whole && number.is_number_integer();
  return at::tensor(data, at::kDouble).reshape(shape).to(whole ? at::kLong : at::kFloat);
}

/// |a - b| <= 1e-5 |b|, with `floor` in place of a smaller |b|.
inline bool close_to_golden(const at::Tensor& a, const at::Tensor& b, double floor) {
  if (a.sizes() != b.sizes()) return false;
  const at::Tensor wanted = b.to(at::kDouble), got = a.to(at::kDouble);
  const at::Tensor difference = (got - wanted).abs();
  return (difference <= wanted.abs().clamp_min(floor) * 1e-5).all().item<bool>();
}

}  // namespace strata
