#include "support/proto_schema.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

#include "core/proto_wire.h"
#include "strata/core/error.h"
#include "support/source_path.h"

namespace strata::test {
namespace {

std::string read_source(const std::string& path) {
  std::ifstream file(source_path(path));
  if (!file) throw std::runtime_error("there is no " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without_comments(const std::string& text) {
  static const std::regex kComment("//[^\n]*");
  return std::regex_replace(text, kComment, "");
}

class Parser {
 public:
  explicit Parser(std::string_view text) {
    static const std::regex kToken(R"re("[^"]*"|[\w.]+|[^\s\w])re");
    const std::string code = without_comments(std::string(text));
    for (std::sregex_iterator it(code.begin(), code.end(), kToken), end; it != end; ++it) {
      tokens_.push_back(it->str());
    }
  }

  ProtoSchema parse() {
    expect("syntax", "=", "\"proto3\"", ";");
    while (at_ < tokens_.size()) {
      const std::string what = take();
      if (what == "package") {
        (void)take();
        expect(";");
      } else if (what == "import") {
        const std::string quoted = take();
        ProtoSchema other = ProtoSchema::read(quoted.substr(1, quoted.size() - 2));
        schema_.messages.merge(other.messages);
        schema_.enums.merge(other.enums);
        expect(";");
      } else if (what == "message") {
        message();
      } else if (what == "enum") {
        enumeration();
      } else {
        fail(what);
      }
    }
    return std::move(schema_);
  }

 private:
  [[noreturn]] static void fail(const std::string& token) {
    throw std::runtime_error("a .proto file has \"" + token + "\" where it makes no sense");
  }
  std::string take() {
    if (at_ == tokens_.size()) fail("the end");
    return tokens_[at_++];
  }
  bool take_if(std::string_view token) {
    if (at_ == tokens_.size() || tokens_[at_] != token) return false;
    ++at_;
    return true;
  }
  void expect(std::same_as<const char*> auto... tokens) {
    for (const char* token : {tokens...}) {
      if (!take_if(token)) fail(take());
    }
  }

  void enumeration() {
    auto& values = schema_.enums[take()];
    expect("{");
    while (!take_if("}")) {
      const std::string name = take();
      expect("=");
      if (!values.emplace(name, std::stoll(take())).second) fail(name);
      expect(";");
    }
  }

  void message() {
    const std::string name = take();
    std::vector<ProtoField> fields;
    expect("{");
    while (!take_if("}")) {
      if (take_if("message")) {
        message();
      } else if (take_if("enum")) {
        enumeration();
      } else if (take_if("oneof")) {
        (void)take();
        expect("{");
        while (!take_if("}")) fields.push_back(field("oneof"));
      } else if (take_if("optional")) {
        fields.push_back(field("optional"));
      } else if (take_if("repeated")) {
        fields.push_back(field("repeated"));
      } else {
        fields.push_back(field(""));
      }
    }
    for (const ProtoField& each : fields) {
      const auto alike = std::ranges::count(fields, each.number, &ProtoField::number);
      if (alike != 1) fail(each.name + " = " + std::to_string(each.number));
    }
    if (!schema_.messages.emplace(name, std::move(fields)).second) fail(name);
  }

  ProtoField field(const char* label) {
    ProtoField result;
    result.label = label;
    result.type = take();
    if (result.type == "map") result = map_field();
    result.name = take();
    expect("=");
    result.number = static_cast<uint32_t>(std::stoul(take()));
    const bool is_number = result.type.starts_with("int") || result.type.starts_with("uint") ||
                           result.type == "double" || result.type == "float" ||
                           result.type == "bool";
    result.packed = result.label == "repeated" && is_number;
    if (take_if("[")) {
      expect("packed", "=", "false", "]");
      result.packed = false;
    }
    expect(";");
    return result;
  }

  ProtoField map_field() {
    expect("<");
    const std::string key = take();
    expect(",");
    const std::string value = take();
    expect(">");
    ProtoField result;
    result.label = "repeated";
    result.type = "map<" + key + ", " + value + ">";
    schema_.messages[result.type] = {{.number = 1, .name = "key", .type = key, .label = ""},
                                     {.number = 2, .name = "value", .type = value, .label = ""}};
    return result;
  }

  std::vector<std::string> tokens_;
  size_t at_ = 0;
  ProtoSchema schema_;
};

strata::detail::WireType wire_type(const ProtoSchema& schema, const std::string& type) {
  using strata::detail::WireType;
  if (type == "double") return WireType::kFixed64;
  if (type == "float") return WireType::kFixed32;
  if (type == "string" || type == "bytes" || schema.messages.contains(type)) {
    return WireType::kBytes;
  }
  return WireType::kVarint;
}

constexpr strata::detail::WireText kText = {"[test] find_fault", "a message"};

std::string fault_of(const ProtoSchema& schema, const std::string& message,
                     std::string_view bytes) {
  using strata::detail::WireType;
  const std::vector<ProtoField>& fields = schema.messages.at(message);
  strata::detail::WireReader reader(bytes, bytes, kText);
  while (!reader.at_end()) {
    WireType type{};
    const uint32_t number = reader.field(type);
    const auto field = std::ranges::find(fields, number, &ProtoField::number);
    if (field == fields.end()) return str_cat(message, " has no field ", number);
    const bool packed = field->packed && type == WireType::kBytes;
    if (type != wire_type(schema, field->type) && !packed) {
      return str_cat(message, ".", field->name, " is of wire type ", static_cast<uint32_t>(type));
    }
    if (schema.messages.contains(field->type)) {
      if (auto fault = fault_of(schema, field->type, reader.bytes()); !fault.empty()) return fault;
    } else {
      reader.skip(type);
    }
  }
  return "";
}

}  // namespace

ProtoSchema ProtoSchema::read(const std::string& file) {
  return parse(read_source("proto/" + file));
}

ProtoSchema ProtoSchema::parse(std::string_view text) { return Parser(text).parse(); }

std::string find_fault(const ProtoSchema& schema, const std::string& message,
                       std::string_view bytes) {
  try {
    return fault_of(schema, message, bytes);
  } catch (const Error& error) {
    return error.what();
  }
}

std::map<std::string, int64_t> read_enumerators(const std::string& header,
                                                const std::string& name) {
  const std::string text = without_comments(read_source(header));
  std::smatch body;
  if (!std::regex_search(text, body, std::regex("enum class " + name + "[^{;]*\\{([^}]*)\\}"))) {
    throw std::runtime_error("there is no enum class " + name + " in " + header);
  }
  const std::string inside = body[1];
  static const std::regex kEnumerator("(k\\w+)\\s*=\\s*(\\d+)");
  std::map<std::string, int64_t> found;
  for (std::sregex_iterator it(inside.begin(), inside.end(), kEnumerator), end; it != end; ++it) {
    found[(*it)[1]] = std::stoll((*it)[2]);
  }
  return found;
}

std::string upper_snake(std::string_view camel) {
  std::string result;
  for (size_t i = 0; i < camel.size(); ++i) {
    const auto is_upper = [&](size_t at) {
      return std::isupper(static_cast<unsigned char>(camel[at])) != 0;
    };
    if (i > 0 && is_upper(i) && !is_upper(i - 1)) result += '_';
    result += static_cast<char>(std::toupper(static_cast<unsigned char>(camel[i])));
  }
  return result;
}

}  // namespace strata::test
