#include "data/element_specs.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <sstream>

namespace strata::data {

std::string TensorSpec::to_string() const {
  std::ostringstream out;
  out << dtype << at::IntArrayRef(shape);
  return out.str();
}

namespace detail {

std::optional<ElementSpec> batched_spec(std::optional<ElementSpec> element, int64_t rows) {
  if (!element) return element;
  for (TensorSpec& field : *element) field.shape.insert(field.shape.begin(), rows);
  return element;
}

std::optional<ElementSpec> row_spec(std::optional<ElementSpec> batch) {
  if (!batch) return batch;
  for (TensorSpec& field : *batch) {
    if (field.shape.empty()) return std::nullopt;  // `next` will say why
    field.shape.erase(field.shape.begin());
  }
  return batch;
}

std::optional<ElementSpec> joined_spec(const std::vector<SourcePtr>& sources) {
  ElementSpec all;
  for (const SourcePtr& source : sources) {
    const auto spec = source->element_spec();
    if (!spec) return std::nullopt;
    all.insert(all.end(), spec->begin(), spec->end());
  }
  return all;
}

std::optional<ElementSpec> common_spec(const std::vector<SourcePtr>& sources) {
  std::optional<ElementSpec> common = sources.front()->element_spec();
  for (const SourcePtr& source : sources) {
    const auto spec = source->element_spec();
    if (!common || !spec || spec->size() != common->size()) return std::nullopt;
    for (size_t f = 0; f < spec->size(); ++f) {
      TensorSpec& field = (*common)[f];
      const TensorSpec& other = (*spec)[f];
      if (field.dtype != other.dtype || field.shape.size() != other.shape.size())
        return std::nullopt;
      for (size_t d = 0; d < field.shape.size(); ++d)
        if (field.shape[d] != other.shape[d]) field.shape[d] = -1;
    }
  }
  return common;
}

ElementSpec spec_of(const Example& element) {
  ElementSpec spec;
  for (const at::Tensor& field : element.fields)
    spec.push_back({.shape = field.sizes().vec(), .dtype = field.scalar_type()});
  return spec;
}

uint64_t most_shuffles(const std::vector<SourcePtr>& sources) {
  uint64_t most = 0;
  for (const SourcePtr& source : sources) most = std::max(most, source->num_shuffles());
  return most;
}

}  // namespace detail
}  // namespace strata::data
