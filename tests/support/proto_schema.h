#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace strata::test {

/// A field as a .proto file declares it. A map is `repeated` and of a message with `key` and `value`.
struct ProtoField {
  uint32_t number = 0;
  std::string name;
  std::string type;   ///< "uint64", "ErrorCode", "Tensor"
  std::string label;  ///< "", "optional", "repeated", "oneof"
  bool packed = false;
};

/// The messages and enums of a .proto file and of the files that it imports, by name; those within a
/// message have their own name alone. Knows as much of proto3 as the files in proto/ have.
struct ProtoSchema {
  std::map<std::string, std::vector<ProtoField>> messages;
  std::map<std::string, std::map<std::string, int64_t>> enums;

  /// @param file  Below proto/: "strata/values.proto". @throws std::runtime_error  not understood.
  static ProtoSchema read(const std::string& file);
  static ProtoSchema parse(std::string_view text);
};

/// What is wrong with `bytes` as a message of `schema`: a field that is not declared, or of another
/// wire type. Empty: nothing.
std::string find_fault(const ProtoSchema& schema, const std::string& message,
                       std::string_view bytes);

/// The enumerators of `enum class name` in a C++ header: {"kGet", 3}.
/// @param header  In the source tree: "src/cluster/control_message.h".
std::map<std::string, int64_t> read_enumerators(const std::string& header, const std::string& name);

/// "CompareAndSet" -> "COMPARE_AND_SET".
std::string upper_snake(std::string_view camel);

}  // namespace strata::test
