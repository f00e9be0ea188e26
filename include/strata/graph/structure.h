#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace strata::graph {

/// The tensors of an argument or a result, in order, and the rest of it as text: that of numbers and
/// sizes of lists, by which graphs are told apart.
struct Leaves {
  std::vector<at::Tensor> tensors;
  std::string rest;
};

/// How a type holds tensors. `take(value, leaves)` appends what is in it; `make(value, next)` returns a
/// copy whose tensors are the next ones. Specialize it for types of your own.
template <typename T, typename = void>
struct Structure {
  static_assert(
      sizeof(T) == 0,
      "strata::function takes and returns tensors, numbers, strings, enums, pointers, and "
      "std::vector, array, pair, tuple, optional and map of them; specialize "
      "strata::graph::Structure for your own types, or capture the object by reference");
};

template <>
struct Structure<at::Tensor> {
  static void take(const at::Tensor& value, Leaves& leaves) { leaves.tensors.push_back(value); }
  static at::Tensor make(const at::Tensor&, const at::Tensor*& next) { return *next++; }
};

/// Numbers, enums and pointers: another one is another graph.
template <typename T>
struct Structure<
    T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>>> {
  static void take(const T& value, Leaves& leaves) {
    leaves.rest.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static T make(const T& value, const at::Tensor*&) { return value; }
};

template <>
struct Structure<std::string> {
  static void take(const std::string& value, Leaves& leaves) {
    leaves.rest.append(value).push_back('\0');
  }
  static std::string make(const std::string& value, const at::Tensor*&) { return value; }
};

template <typename T>
struct Structure<std::vector<T>> {
  static void take(const std::vector<T>& value, Leaves& leaves) {
    Structure<size_t>::take(value.size(), leaves);
    for (const T& each : value) Structure<T>::take(each, leaves);
  }
  static std::vector<T> make(const std::vector<T>& value, const at::Tensor*& next) {
    std::vector<T> made;
    made.reserve(value.size());
    for (const T& each : value) made.push_back(Structure<T>::make(each, next));
    return made;
  }
};

/// Types that keep their tensors in a member `fields`, as data::Example does.
template <typename T>
struct Structure<T,
                 std::enable_if_t<std::is_same_v<decltype(T::fields), std::vector<at::Tensor>>>> {
  static void take(const T& value, Leaves& leaves) {
    Structure<std::vector<at::Tensor>>::take(value.fields, leaves);
  }
  static T make(const T& value, const at::Tensor*& next) {
    T made;
    made.fields = Structure<std::vector<at::Tensor>>::make(value.fields, next);
    return made;
  }
};

template <typename T, size_t n>
struct Structure<std::array<T, n>> {
  static void take(const std::array<T, n>& value, Leaves& leaves) {
    for (const T& each : value) Structure<T>::take(each, leaves);
  }
  static std::array<T, n> make(std::array<T, n> value, const at::Tensor*& next) {
    for (T& each : value) each = Structure<T>::make(each, next);
    return value;
  }
};

template <typename T>
struct Structure<std::optional<T>> {
  static void take(const std::optional<T>& value, Leaves& leaves) {
    Structure<bool>::take(value.has_value(), leaves);
    if (value) Structure<T>::take(*value, leaves);
  }
  static std::optional<T> make(const std::optional<T>& value, const at::Tensor*& next) {
    if (!value) return std::nullopt;
    return Structure<T>::make(*value, next);
  }
};

template <typename A, typename B>
struct Structure<std::pair<A, B>> {
  static void take(const std::pair<A, B>& value, Leaves& leaves) {
    Structure<A>::take(value.first, leaves);
    Structure<B>::take(value.second, leaves);
  }
  static std::pair<A, B> make(const std::pair<A, B>& value, const at::Tensor*& next) {
    A first = Structure<A>::make(value.first, next);
    return {std::move(first), Structure<B>::make(value.second, next)};
  }
};

template <typename... T>
struct Structure<std::tuple<T...>> {
  static void take(const std::tuple<T...>& value, Leaves& leaves) {
    std::apply([&](const T&... each) { (Structure<T>::take(each, leaves), ...); }, value);
  }
  static std::tuple<T...> make(const std::tuple<T...>& value, const at::Tensor*& next) {
    return std::apply(  // braces: in order
        [&](const T&... each) { return std::tuple<T...>{Structure<T>::make(each, next)...}; },
        value);
  }
};

template <typename T>
struct Structure<std::map<std::string, T>> {
  static void take(const std::map<std::string, T>& value, Leaves& leaves) {
    Structure<size_t>::take(value.size(), leaves);
    for (const auto& [name, each] : value) {
      Structure<std::string>::take(name, leaves);
      Structure<T>::take(each, leaves);
    }
  }
  static std::map<std::string, T> make(std::map<std::string, T> value, const at::Tensor*& next) {
    for (auto& [name, each] : value) each = Structure<T>::make(each, next);
    return value;
  }
};

}  // namespace strata::graph
