#include "data/elements.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <sstream>

namespace strata::data {

std::string describe(const Example& element) {
  std::ostringstream out;
  for (int64_t f = 0; f < element.size(); ++f) {
    const at::Tensor& field = element[f];
    out << (f ? " " : "") << field.scalar_type() << field.sizes() << "(";
    const at::Tensor flat = field.contiguous().to(at::kDouble);
    for (int64_t i = 0; i < flat.numel(); ++i)
      out << (i ? "," : "") << flat.const_data_ptr<double>()[i];
    out << ")";
  }
  return out.str();
}

std::vector<std::string> describe_rest(Iterator& iterator, int64_t limit) {
  std::vector<std::string> all;
  while (static_cast<int64_t>(all.size()) < limit) {
    const auto element = iterator.next();
    if (!element) break;
    all.push_back(describe(*element));
  }
  return all;
}

std::vector<std::string> describe(const Dataset& dataset, int64_t epoch, int64_t limit) {
  Iterator iterator = dataset.iterator(epoch);
  return describe_rest(iterator, limit);
}

std::vector<std::vector<int64_t>> rows_of(const Dataset& dataset, int64_t epoch, int64_t limit) {
  std::vector<std::vector<int64_t>> all;
  Iterator iterator = dataset.iterator(epoch);
  while (static_cast<int64_t>(all.size()) < limit) {
    const auto element = iterator.next();
    if (!element) break;
    const at::Tensor x = element->x().to(at::kLong).contiguous();
    const auto* data = x.const_data_ptr<int64_t>();
    all.emplace_back(data, data + x.numel());
  }
  return all;
}

std::vector<int64_t> values_of(const Dataset& dataset, int64_t epoch, int64_t limit) {
  std::vector<int64_t> all;
  for (const auto& row : rows_of(dataset, epoch, limit))
    all.insert(all.end(), row.begin(), row.end());
  return all;
}

at::Tensor longs(std::vector<int64_t> values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

at::Tensor floats(std::vector<float> values, std::vector<int64_t> sizes) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  EXPECT_EQ(tensor.numel(), static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<float>());
  return tensor;
}

Dataset counting_generator(int64_t n) {
  return Dataset::from_generator([n, i = int64_t{0}]() mutable -> std::optional<Example> {
    if (i == n) return std::nullopt;
    return Example{at::scalar_tensor(i++, at::kLong)};
  });
}

void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                  const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const auto& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no '" << part << "' in: " << error.what();
    return;
  }
  ADD_FAILURE() << "no error";
}

}  // namespace strata::data
