#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "core/proto_message.h"
#include "support/proto_schema.h"

namespace strata::test {

/// Compares a .proto file with the tables of fields of the messages in it (core/proto_message.h):
/// numbers, names, types and order of nothing but what is declared there.
///
///     ProtoContract contract("strata/call_message.proto");
///     contract.expect_message<CallMessage>("CallMessage");  // and the messages in it
///     contract.expect_enum("CallKind", "src/ps/coordinator/call_message.h");
///     contract.expect_nothing_else();
class ProtoContract {
 public:
  explicit ProtoContract(const std::string& file) : schema_(ProtoSchema::read(file)) {}

  const ProtoSchema& schema() const { return schema_; }

  template <typename Message>
  void expect_message(const std::string& name);

  /// The enumerator kPullRows of RequestKind is REQUEST_KIND_PULL_ROWS; the file may have a
  /// REQUEST_KIND_UNSPECIFIED = 0 besides.
  void expect_enum(const std::string& name, const std::string& header) {
    seen_.insert(name);
    std::map<std::string, int64_t> expected;
    for (const auto& [enumerator, number] : read_enumerators(header, name)) {
      expected[upper_snake(name) + "_" + upper_snake(enumerator.substr(1))] = number;
    }
    std::map<std::string, int64_t> declared = schema_.enums[name];
    const auto unspecified = declared.find(upper_snake(name) + "_UNSPECIFIED");
    if (unspecified != declared.end()) {
      EXPECT_EQ(unspecified->second, 0);
      declared.erase(unspecified);
    }
    EXPECT_FALSE(declared.empty());
    EXPECT_EQ(declared, expected) << name;
  }

  /// All that the file declares has been compared.
  void expect_nothing_else() const {
    for (const auto& [name, fields] : schema_.messages) EXPECT_TRUE(seen_.contains(name)) << name;
    for (const auto& [name, values] : schema_.enums) EXPECT_TRUE(seen_.contains(name)) << name;
  }

 private:
  class Comparison;

  ProtoSchema schema_;
  std::set<std::string> seen_;
};

/// The visitor of a message's fields.
class ProtoContract::Comparison {
 public:
  Comparison(ProtoContract& contract, std::string message)
      : contract_(contract),
        message_(std::move(message)),
        fields_(contract.schema_.messages[message_]) {}

  template <typename T>
  void operator()(uint32_t number, const char* name, const T&) {
    compare<T>(number, name, "string", "");
  }
  template <typename T>
  void bytes(uint32_t number, const char* name, const T&) {
    compare<T>(number, name, "bytes", "");
  }
  template <typename T>
  void always(uint32_t number, const char* name, const T&) {
    compare<T>(number, name, "string", "optional");
  }
  template <typename T, typename Problem>
  void checked(uint32_t number, const char* name, const T&, const Problem&) {
    compare<T>(number, name, "string", "");
  }

  void expect_all_shown() const {
    for (const ProtoField& field : fields_) {
      EXPECT_TRUE(shown_.contains(field.number)) << message_ << "." << field.name;
    }
  }

 private:
  template <typename T>
  struct Inner {
    using Type = T;
    static constexpr const char* kLabel = "";
  };
  template <typename T>
  struct Inner<std::optional<T>> {
    using Type = T;
    static constexpr const char* kLabel = "optional";
  };
  template <typename T>
  struct Inner<std::vector<T>> {
    using Type = T;
    static constexpr const char* kLabel = "repeated";
  };

  template <typename T>
  void compare(uint32_t number, const std::string& name, const char* text_type, std::string label) {
    using Type = typename Inner<T>::Type;
    if (*Inner<T>::kLabel != '\0') label = Inner<T>::kLabel;
    EXPECT_TRUE(shown_.insert(number).second) << message_ << " has " << number << " twice";
    const auto field = std::ranges::find(fields_, number, &ProtoField::number);
    ASSERT_NE(field, fields_.end()) << message_ << ": no field " << number << ", " << name;
    EXPECT_EQ(field->name, name) << message_ << ", field " << number;
    EXPECT_EQ(field->label, label) << message_ << "." << name;
    EXPECT_FALSE(field->packed) << message_ << "." << name << " is written one by one";
    if constexpr (strata::detail::HasFields<Type>) {
      contract_.expect_message<Type>(field->type);
    } else if constexpr (std::is_enum_v<Type>) {
      EXPECT_TRUE(contract_.schema_.enums.contains(field->type)) << message_ << "." << name;
    } else {
      EXPECT_EQ(field->type, type_name<Type>(text_type)) << message_ << "." << name;
    }
  }

  template <typename T>
  static std::string type_name(const char* text_type) {
    if constexpr (std::is_same_v<T, bool>) return "bool";
    if constexpr (std::is_same_v<T, double>) return "double";
    if constexpr (std::is_same_v<T, float>) return "float";
    if constexpr (std::is_same_v<T, int32_t>) return "int32";
    if constexpr (std::is_same_v<T, uint32_t>) return "uint32";
    if constexpr (std::is_same_v<T, uint64_t>) return "uint64";
    if constexpr (std::is_same_v<T, int64_t>) return "int64";
    if constexpr (std::is_convertible_v<T, std::string_view>) return text_type;
    return "another type";
  }

  ProtoContract& contract_;
  const std::string message_;
  const std::vector<ProtoField> fields_;
  std::set<uint32_t> shown_;
};

template <typename Message>
void ProtoContract::expect_message(const std::string& name) {
  if (!seen_.insert(name).second) return;
  ASSERT_TRUE(schema_.messages.contains(name)) << name;
  Comparison comparison(*this, name);
  Message message{};
  visit_fields(comparison, message);
  comparison.expect_all_shown();
}

}  // namespace strata::test
