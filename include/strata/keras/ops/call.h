#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/keras/config.h"
#include "strata/keras/layer.h"

/// What the functions of `ops` have in common: each takes symbolic tensors, and makes a node of a
/// graph, or tensors, and computes. Nodes are operations with Keras's names and options, and files
/// hold them.
namespace strata::keras {

/// An argument of an operation: a tensor (or none), a list of tensors, or a constant.
template <typename T>
class OperandOf {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  OperandOf(const T& tensor) : tensors_{tensor}, is_tensor_(true) {}
  OperandOf(const std::optional<T>& tensor) : is_tensor_(tensor.has_value()) {
    if (tensor) tensors_.push_back(*tensor);
  }
  OperandOf(const std::vector<T>& list) : tensors_(list), is_list_(true) {}
  OperandOf(double number) : constant_(number) {}
  OperandOf(int number) : constant_(number) {}
  OperandOf(int64_t number) : constant_(number) {}
  OperandOf(Json constant) : constant_(std::move(constant)) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_tensor() const { return is_tensor_; }
  bool is_list() const { return is_list_; }
  const std::vector<T>& tensors() const { return tensors_; }
  const Json& constant() const { return constant_; }

 private:
  std::vector<T> tensors_;
  bool is_tensor_ = false;
  bool is_list_ = false;
  Json constant_;
};
using Operand = OperandOf<SymbolicTensor>;

namespace ops {

/// Options of an operation by Keras's names.
using Options = std::vector<std::pair<std::string, Json>>;

/// The outputs of an operation, by the name of Keras's class: "Mean".
/// @param named  Arguments of the call that Keras takes by name.
/// @throws Error kUnimplemented: no such operation or option; lists the known ones.
///         kInvalidArgument: no tensor among the arguments; shapes that do not fit.
/// Threads: any.  Cost: the operators of libtorch that it consists of.
STRATA_API std::vector<SymbolicTensor> invoke(const std::string& class_name,
                                              const std::vector<Operand>& arguments,
                                              const Options& options = {},
                                              const Options& named = {});
STRATA_API Tensors invoke(const std::string& class_name,
                          const std::vector<OperandOf<at::Tensor>>& arguments,
                          const Options& options = {}, const Options& named = {});

/// What the functions of `ops` take and give.
template <typename T>
concept Value = std::same_as<T, SymbolicTensor> || std::same_as<T, at::Tensor>;

/// That, or a number.
template <typename T>
concept ValueOrNumber = Value<T> || std::is_arithmetic_v<T>;

/// Which of the two kinds of tensors the arguments are.
template <typename... Arguments>
using ValueOf =
    std::conditional_t<(std::is_constructible_v<OperandOf<SymbolicTensor>, Arguments> && ...) &&
                           (!std::is_arithmetic_v<Arguments> || ...),
                       SymbolicTensor, at::Tensor>;

template <typename... Arguments>
std::vector<ValueOf<Arguments...>> call_all(const char* class_name, const Options& options,
                                            const Arguments&... arguments) {
  using T = ValueOf<Arguments...>;
  return invoke(class_name, std::vector<OperandOf<T>>{OperandOf<T>(arguments)...}, options);
}
template <typename... Arguments>
ValueOf<Arguments...> call(const char* class_name, const Options& options,
                           const Arguments&... arguments) {
  return std::move(call_all(class_name, options, arguments...)[0]);
}

/// Axes of a reduction: none (`{}`: all of them), one, or several.
class Axis {
 public:
  Axis() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  Axis(int axis) : json_(axis) {}
  Axis(int64_t axis) : json_(axis) {}
  Axis(std::initializer_list<int64_t> axes) : Axis(std::vector<int64_t>(axes)) {}
  Axis(const std::vector<int64_t>& axes)
      : json_(axes.empty()       ? Json()
              : axes.size() == 1 ? Json(axes[0])
                                 : to_config(axes)) {}
  // NOLINTEND(google-explicit-constructor)
  operator Json() const { return json_; }  // NOLINT(google-explicit-constructor)

 private:
  Json json_;
};

/// Sizes, strides and the like: one number for all dimensions, or one for each.
class Numbers {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Numbers(int number) : json_(number) {}
  Numbers(int64_t number) : json_(number) {}
  Numbers(std::initializer_list<int64_t> numbers) : json_(to_config(std::vector(numbers))) {}
  Numbers(const std::vector<int64_t>& numbers) : json_(to_config(numbers)) {}
  Numbers(std::nullopt_t) {}
  operator Json() const { return json_; }
  // NOLINTEND(google-explicit-constructor)

 private:
  Json json_;
};

namespace detail {
/// Null where it is unset.
template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
STRATA_API Json dtype_or_null(const std::optional<at::ScalarType>& dtype);
}  // namespace detail

}  // namespace ops
}  // namespace strata::keras
