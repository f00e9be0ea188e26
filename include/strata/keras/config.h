#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/core/one_of.h"
#include "strata/keras/shape.h"

/// Conversion of objects to and from Keras's JSON. An object with options has one function that
/// names each of them by Keras's name, for both directions:
///
///     template <typename Config>
///     void visit(Config& config, DenseOptions& options) {
///       config("units", options.units);
///       config("activation", options.activation);
///       config.only("quantization_config", Json());   // Keras has it, strata does not
///     }
namespace strata::keras {

/// Converts a value to its form in a `config`. For types of your own overload both functions in
/// their namespace.
inline Json to_config(bool value) { return value; }
inline Json to_config(int value) { return value; }
inline Json to_config(int64_t value) { return value; }
inline Json to_config(double value) { return value; }
inline Json to_config(const std::string& value) { return value; }
inline Json to_config(const Json& value) { return value; }
STRATA_API Json to_config(const std::vector<int64_t>& value);
STRATA_API Json to_config(const std::vector<double>& value);
STRATA_API Json to_config(const std::vector<std::string>& value);
STRATA_API Json to_config(const std::vector<std::optional<int64_t>>& value);
template <size_t N>
Json to_config(const Sizes<N>& value) {
  return to_config(std::vector<int64_t>(value.values.begin(), value.values.end()));
}
template <typename T>
Json to_config(const std::optional<T>& value) {
  return value ? to_config(*value) : Json();
}

/// @throws Error kDataLoss: another type; names what was found and what was expected.
STRATA_API void from_config(const Json& json, bool& value);
STRATA_API void from_config(const Json& json, int& value);
STRATA_API void from_config(const Json& json, int64_t& value);
STRATA_API void from_config(const Json& json, double& value);
STRATA_API void from_config(const Json& json, std::string& value);
inline void from_config(const Json& json, Json& value) { value = json; }
STRATA_API void from_config(const Json& json, std::vector<int64_t>& value);
STRATA_API void from_config(const Json& json, std::vector<double>& value);
STRATA_API void from_config(const Json& json, std::vector<std::string>& value);
STRATA_API void from_config(const Json& json, std::vector<std::optional<int64_t>>& value);
template <typename Set>
void from_config(const Json& json, OneOf<Set>& value) {
  std::string word;
  from_config(json, word);
  value = std::move(word);
}
template <size_t N>
void from_config(const Json& json, Sizes<N>& value) {
  if (json.is_int()) {
    value = Sizes<N>(json.as_int());
    return;
  }
  std::vector<int64_t> sizes;
  from_config(json, sizes);
  if (sizes.size() == 1) {
    value = Sizes<N>(sizes[0]);
    return;
  }
  STRATA_CHECK(sizes.size() == N, kDataLoss, "got ", sizes.size(), " sizes; expected ", N);
  std::copy(sizes.begin(), sizes.end(), value.values.begin());
}
template <size_t N>
void from_config(const Json& json, std::optional<Sizes<N>>& value) {
  value.reset();
  if (json.is_null()) return;
  Sizes<N> sizes = 0;
  from_config(json, sizes);
  value = sizes;
}
template <typename T>
void from_config(const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
    return;
  }
  T inner{};
  from_config(json, inner);
  value = std::move(inner);
}

/// Collects an object's options.
class STRATA_API ConfigWriter {
 public:
  template <typename T>
  void operator()(const char* key, const T& value) {
    json_.set(key, to_config(value));
  }
  /// Writes an option that older versions of Keras do not know, or Keras itself omits, only if it
  /// is not `otherwise`.
  template <typename T>
  void unless(const char* key, const T& value, const std::type_identity_t<T>& otherwise) {
    if (value != otherwise) (*this)(key, value);
  }
  /// Handles a Keras option that strata does not have: nothing to write.
  void only(const char*, const Json&) {}
  void ignore(const char*) {}

  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

/// Reads an object's options. An absent option keeps its value.
class STRATA_API ConfigReader {
 public:
  /// @param owner  For messages: "Dense layer 'dense_1'". `config` must outlive the reader.
  ConfigReader(const Json& config, std::string owner);

  template <typename T>
  void operator()(const char* key, T& value) {
    const Json* json = take(key);
    if (json == nullptr) return;
    try {
      from_config(*json, value);
    } catch (const Error& error) {
      fail(key, *json, error);
    }
  }
  template <typename T>
  void unless(const char* key, T& value, const std::type_identity_t<T>&) {
    (*this)(key, value);
  }
  /// Handles a Keras option that may have only this value.
  /// @throws Error kUnimplemented: names object, option and value.
  void only(const char* key, const Json& value);
  /// Handles an option that has no effect here, with any value.
  void ignore(const char* key) { take(key); }

  /// Must be called when all options have been named.
  /// @throws Error kUnimplemented: an unknown option (unless null); names object and option.
  void finish() const;

 private:
  const Json* take(const char* key);
  [[noreturn]] void fail(const char* key, const Json& json, const Error& error) const;

  const Json& config_;
  std::string owner_;
  std::set<std::string, std::less<>> asked_;
};

/// Makes an object in Keras's form: `{"module": ..., "class_name": ..., "config": ...,
/// "registered_name": null}`.
STRATA_API Json make_object(std::string_view module, std::string_view class_name, Json config);

/// An object's class and config; a plain name ("relu") is a class name without config.
struct STRATA_API ObjectJson {
  std::string class_name;
  Json config = Json::object();
};
/// @param what  For messages: "an initializer".
/// @throws Error kDataLoss: neither a name nor such an object.
STRATA_API ObjectJson parse_object(const Json& json, std::string_view what);

}  // namespace strata::keras
