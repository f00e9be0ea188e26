#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/proto_wire.h"

/// Messages in Protocol Buffers' format from one table of fields. A message has one function that
/// lists its fields, for both directions, in the order in which they are written:
///
///     void visit_fields(auto& field, MessageOf<Call> auto& call) {
///       field(1, "number", call.number);
///       field(2, "function", call.function);
///       field.bytes(4, "arguments", call.arguments);
///     }
///
/// A member is a number, an enumerator, a text, a message, or a std::optional or std::vector of
/// these; texts may be views of the bytes that were read. The table has four calls:
///
///     field(number, name, member)            not written where it is zero or empty
///     field.bytes(number, name, member)      the same; any bytes, not just text in UTF-8
///     field.always(number, name, member)     written in any case
///     field.checked(number, name, member, problem)
///                                            as the first; `problem()`, called after each time that
///                                            the field was read, returns what is wrong, or nullptr
///
/// A reader skips fields that it does not know. Of a field that comes twice the last one counts; a
/// vector keeps all. The written contracts are proto/strata/*.proto; the tests of the modules
/// compare them with the tables (tests/support/proto_contract.h).
namespace strata::detail {

/// `MessageOf<Call> auto&` takes a Call, or a const one.
template <typename T, typename Message>
concept MessageOf = std::same_as<std::remove_const_t<T>, Message>;

/// Any of the classes that fields are shown to; for the next concept only.
struct AnyFieldVisitor {};

/// Whether T is a message: `visit_fields` is found for it.
template <typename T>
concept HasFields = requires(AnyFieldVisitor& field, T& message) {
  visit_fields(field, message);
};

template <HasFields Message>
void write_message(const Message& message, std::string& out);
template <HasFields Message>
void read_message(Message& message, WireReader& reader);

/// Writes each field that it is shown.
class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(uint32_t number, const char*, const T& member) {
    if constexpr (std::convertible_to<T, std::string_view>) {
      if (!std::string_view(member).empty()) write(number, member);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (member != T{}) write(number, member);
    } else {
      write(number, member);
    }
  }
  template <typename T>
  void bytes(uint32_t number, const char* name, const T& member) {
    (*this)(number, name, member);
  }
  template <typename T>
  void always(uint32_t number, const char*, const T& member) {
    write(number, member);
  }
  template <typename T, typename Problem>
  void checked(uint32_t number, const char* name, const T& member, const Problem&) {
    (*this)(number, name, member);
  }

 private:
  void write(uint32_t number, std::string_view text) { put_bytes(number, text, out_); }
  void write(uint32_t number, double value) { put_double(number, value, out_); }
  void write(uint32_t number, float value) { put_float(number, value, out_); }
  template <typename T>
  requires(std::integral<T> || std::is_enum_v<T>) void write(uint32_t number, T value) {
    put_integer(number, static_cast<int64_t>(value), out_);
  }
  template <typename T>
  void write(uint32_t number, const std::optional<T>& member) {
    if (member) write(number, *member);
  }
  template <typename T>
  void write(uint32_t number, const std::vector<T>& members) {
    for (const T& member : members) write(number, member);
  }
  template <HasFields Message>
  void write(uint32_t number, const Message& message) {
    nested_.clear();
    write_message(message, nested_);
    put_bytes(number, nested_, out_);
  }

  std::string& out_;
  std::string nested_;  // its memory is used again
};

/// Reads one field, into the member that has its number.
class FieldReader {
 public:
  FieldReader(WireReader& reader, uint32_t number, WireType type)
      : reader_(reader), number_(number), type_(type) {}

  /// Whether the message has this field.
  bool found() const { return found_; }

  template <typename T>
  void operator()(uint32_t number, const char*, T& member) {
    if (number == number_) read_found(member);
  }
  template <typename T>
  void bytes(uint32_t number, const char*, T& member) {
    if (number == number_) read_found(member);
  }
  template <typename T>
  void always(uint32_t number, const char*, T& member) {
    if (number == number_) read_found(member);
  }
  template <typename T, typename Problem>
  void checked(uint32_t number, const char*, T& member, const Problem& problem) {
    if (number != number_) return;
    read_found(member);
    if (const char* const got = problem()) reader_.fail(got);
  }

 private:
  template <typename T>
  void read_found(T& member) {
    found_ = true;
    read(member);
  }
  void expect(WireType type) const {
    if (type_ != type) reader_.fail("a field of another kind");
  }

  void read(std::string& text) {
    expect(WireType::kBytes);
    text = reader_.bytes();
  }
  void read(std::string_view& text) {
    expect(WireType::kBytes);
    text = reader_.bytes();
  }
  void read(double& value) {
    expect(WireType::kFixed64);
    value = std::bit_cast<double>(reader_.fixed<uint64_t>());
  }
  void read(float& value) {
    expect(WireType::kFixed32);
    value = std::bit_cast<float>(reader_.fixed<uint32_t>());
  }
  template <typename T>
  requires(std::integral<T> || std::is_enum_v<T>) void read(T& value) {
    expect(WireType::kVarint);
    value = static_cast<T>(reader_.varint());
  }
  void read(ErrorCode& code) {  // a later version may have more of them
    expect(WireType::kVarint);
    const uint64_t number = reader_.varint();
    code = static_cast<ErrorCode>(number);
    const bool known = static_cast<uint64_t>(code) == number && error_code_name(code) != "UNKNOWN";
    if (!known) code = ErrorCode::kUnknown;
  }
  template <typename T>
  void read(std::optional<T>& member) {
    read(member.emplace());
  }
  template <typename T>
  void read(std::vector<T>& members) {
    T member{};
    read(member);
    members.push_back(std::move(member));
  }
  template <HasFields Message>
  void read(Message& message) {
    expect(WireType::kBytes);
    WireReader nested = reader_.nested(reader_.bytes());
    read_message(message, nested);
  }

  WireReader& reader_;
  uint32_t number_;
  WireType type_;
  bool found_ = false;
};

/// Appends the bytes of `message`.
template <HasFields Message>
void write_message(const Message& message, std::string& out) {
  FieldWriter writer(out);
  visit_fields(writer, message);
}

/// Reads up to the reader's end. Members whose fields are absent keep their values.
/// @throws Error  kDataLoss: not such a message; says where.
template <HasFields Message>
void read_message(Message& message, WireReader& reader) {
  while (!reader.at_end()) {
    WireType type{};
    const uint32_t number = reader.field(type);
    FieldReader field(reader, number, type);
    visit_fields(field, message);
    if (!field.found()) reader.skip(type);  // a later version's
  }
}

}  // namespace strata::detail
