#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/read_limits.h"

namespace strata {

/// A JSON value. Objects keep the order of their members; integers are exact in 64 bits. Strict:
/// `parse` takes what RFC 8259 allows and nothing else, and no member twice.
///
///     Json json = Json::object();
///     json.set("shape", Json::array({2, 3}));
///     json.dump();  // {"shape":[2,3]}
class STRATA_API Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;                                      // null
  Json(bool value) : value_(value) {}                    // NOLINT(google-explicit-constructor)
  Json(int value) : value_(int64_t{value}) {}            // NOLINT(google-explicit-constructor)
  Json(int64_t value) : value_(value) {}                 // NOLINT(google-explicit-constructor)
  Json(double value) : value_(value) {}                  // NOLINT(google-explicit-constructor)
  Json(std::string value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Json(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  Json(const char* value) : value_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Json(Array value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Json(Object value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)

  static Json array(Array elements = {}) { return Json(std::move(elements)); }
  static Json object() { return Json(Object{}); }

  /// Arrays and objects may be nested 200 deep.
  /// @throws Error kDataLoss: not JSON; names the byte and what was found. kResourceExhausted: more
  ///               values than `limits.parts` (each takes some 60 bytes).
  static Json parse(std::string_view text, const ReadLimits& limits = {});

  /// @param indent  Spaces a level; below 0: one line without spaces.
  /// @throws Error kInvalidArgument: NaN or infinity, which JSON does not have.
  std::string dump(int indent = -1) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// @throws Error kDataLoss: another type; names what came and what was expected.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;  ///< integers too
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// Returns the member `name`, or null if it does not exist. @throws as as_object.
  const Json* find(std::string_view name) const;
  /// @throws Error kDataLoss: no such member.
  const Json& at(std::string_view name) const;
  /// Adds a member, or replaces the one of that name.
  Json& set(std::string name, Json value);
  /// Adds an element.
  Json& push_back(Json value);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace strata
