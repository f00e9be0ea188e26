#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::ps {

class Value;
template <typename T = Value>
class RemoteValue;

/// The number of a value that each worker has its own of (see
/// ClusterCoordinator::create_per_worker_values).
struct ResourceId {
  uint64_t number = 0;

  friend bool operator==(const ResourceId&, const ResourceId&) = default;
};

/// An argument or result of a function on a worker: a tensor, a number, a bool, a string, a list of
/// these, or nothing; or, as an argument only, the worker's own value of a ResourceId.
///
/// Tensors arrive dense, contiguous and on the CPU, without their autograd history (requires_grad).
/// They are not copied into the Value.
class STRATA_API Value {
 public:
  using List = std::vector<Value>;
  /// The numbers are those of the variant's alternatives.
  enum class Kind { kNothing, kTensor, kDouble, kInt, kBool, kString, kList, kResource };

  Value() = default;
  Value(at::Tensor tensor) : held_(std::move(tensor)) {}
  Value(std::floating_point auto number) : held_(static_cast<double>(number)) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Value(Number number) : held_(static_cast<int64_t>(number)) {
    STRATA_CHECK(std::in_range<int64_t>(number), kInvalidArgument, "[ps] Value: got ", number,
                 "; expected an int64");
  }
  Value(std::same_as<bool> auto truth) : held_(truth) {}
  Value(std::string text) : held_(std::move(text)) {}
  Value(std::string_view text) : held_(std::string(text)) {}
  Value(const char* text) : held_(std::string(text)) {}
  Value(List list) : held_(std::move(list)) {}
  Value(ResourceId resource) : held_(resource) {}
  template <typename Element>
  requires(!std::same_as<Element, Value>) Value(const std::vector<Element>& list)
      : held_(List(list.begin(), list.end())) {}
  /// Deleted: the result of one function is not an argument of another; fetch it first.
  template <typename T>
  Value(const RemoteValue<T>&) = delete;

  Kind kind() const { return static_cast<Kind>(held_.index()); }

  // The content, of exactly this kind. @throws Error  kInvalidArgument: it has another kind.
  const at::Tensor& tensor() const { return get<at::Tensor>(Kind::kTensor); }
  double as_double() const { return get<double>(Kind::kDouble); }
  int64_t as_int() const { return get<int64_t>(Kind::kInt); }
  bool as_bool() const { return get<bool>(Kind::kBool); }
  const std::string& text() const { return get<std::string>(Kind::kString); }
  const List& list() const { return get<List>(Kind::kList); }
  ResourceId resource() const { return get<ResourceId>(Kind::kResource); }

  /// "Tensor", "float64", "int64", "bool", "string", "list", "nothing", "per-worker value".
  static std::string_view kind_name(Kind kind);

 private:
  template <typename T>
  const T& get(Kind expected) const {
    if (const T* held = std::get_if<T>(&held_)) return *held;
    wrong_kind(expected);
  }
  [[noreturn]] void wrong_kind(Kind expected) const;

  std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::string, List, ResourceId>
      held_;
};

}  // namespace strata::ps
