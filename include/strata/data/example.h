#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata::data {

/// An element of a dataset: an ordered tuple of tensors. By convention field 0 is x, field 1 is y,
/// field 2 the per-row weight. A batch is an Example too, whose fields share dimension 0, the rows.
struct STRATA_API Example {
  std::vector<at::Tensor> fields;

  Example() = default;
  Example(std::initializer_list<at::Tensor> fields) : fields(fields) {}
  explicit Example(std::vector<at::Tensor> fields) : fields(std::move(fields)) {}

  /// @throws Error kOutOfRange: this example has fewer fields.
  const at::Tensor& x() const { return field(0, "x"); }
  const at::Tensor& y() const { return field(1, "y"); }
  const at::Tensor& weight() const { return field(2, "weight"); }
  const at::Tensor& operator[](int64_t index) const { return field(index, nullptr); }

  int64_t size() const { return static_cast<int64_t>(fields.size()); }

  /// Size of dimension 0, which all fields share.
  /// @throws Error kInvalidArgument: no fields, a scalar field, or fields that disagree.
  int64_t num_rows() const;

  /// Returns a new example with `fn` applied to each field.
  Example map(const std::function<at::Tensor(const at::Tensor&)>& fn) const;

 private:
  const at::Tensor& field(int64_t index, const char* name) const;
};

/// The shape and dtype of a field before it is read. Source: tf.TensorSpec.
struct STRATA_API TensorSpec {
  std::vector<int64_t> shape;  ///< -1: varies, or unknown
  at::ScalarType dtype = at::kFloat;

  /// Prints "Float[-1, 28, 28]".
  std::string to_string() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// One for each field.
using ElementSpec = std::vector<TensorSpec>;

/// Copies `bytes` into a uint8 tensor `[length]`: libtorch has no tensors of strings.
STRATA_API at::Tensor bytes_tensor(std::string_view bytes);

/// The bytes of `tensor` as text: a view, valid as long as the tensor's data.
/// @throws Error kInvalidArgument: not a contiguous uint8 tensor of one dimension on the CPU.
STRATA_API std::string_view bytes_of(const at::Tensor& tensor);

/// Copies the same to a string.
STRATA_API std::string to_string(const at::Tensor& tensor);

}  // namespace strata::data
