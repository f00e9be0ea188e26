#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::keras_files {

/// What Keras keeps of one object of a model, and the objects below it: one group of a weights
/// file. Copies share the tensors.
///
///     tree.at("layers/dense").vars[0];  // the kernel, (in, out)
struct WeightsGroup {
  /// The object's own name ("dense_3"), where the file says it. Keras writes it and never reads it.
  std::optional<std::string> name = {};
  /// The datasets `vars/0`, `vars/1`, ... On the CPU when they were read.
  std::vector<at::Tensor> vars = {};
  /// Datasets in `vars` whose names are no numbers, as few layers of Keras have.
  std::map<std::string, at::Tensor> named_vars = {};
  std::map<std::string, WeightsGroup> groups = {};

  /// The group at `path`, parts divided by '/'; "" is this one. Null if it does not exist.
  const WeightsGroup* find(std::string_view path) const;
  /// @throws Error kNotFound: names the path and what is there instead.
  const WeightsGroup& at(std::string_view path) const;
  /// The same, and makes what is missing. @throws Error kInvalidArgument: an empty part, "." or
  /// "vars", which HDF5 and Keras keep for themselves.
  WeightsGroup& make(std::string_view path);

  /// Of all tensors in and below this group.
  int64_t num_bytes() const;
};

/// True if both hold the same names, dtypes, shapes and bytes. Tensors must be on the CPU.
bool equal(const WeightsGroup& a, const WeightsGroup& b);

}  // namespace strata::keras_files
