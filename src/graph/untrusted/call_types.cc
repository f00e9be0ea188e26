#include "graph/untrusted/call_types.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include "graph/saved/saved_parts.h"
#include "strata/core/str_cat.h"

namespace strata::graph::untrusted {
namespace {

/// An enumerator, which comes as a number: libtorch takes any for one, and some others end the process.
bool is_enumerator(const c10::IValue& number, const c10::Type& type) {
  const c10::Type& inner =
      type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
  if (!number.isInt()) return true;
  const int64_t value = number.toInt();
  switch (inner.kind()) {
    case c10::TypeKind::MemoryFormatType:
      return value >= 0 && value < static_cast<int64_t>(at::MemoryFormat::NumOptions);
    case c10::TypeKind::LayoutType:
      return value == static_cast<int64_t>(at::kStrided);
    case c10::TypeKind::ScalarTypeType:
      return value >= 0 && saved::is_known_dtype(static_cast<uint64_t>(value));
    default:
      return true;
  }
}

bool fits(const c10::IValue& number, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return number.isNone() || fits(number, *type.containedType(0));
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return number.isInt();
    case c10::TypeKind::FloatType:
      return number.isDouble();
    case c10::TypeKind::NumberType:
      return number.isInt() || number.isDouble() || number.isBool();
    case c10::TypeKind::BoolType:
      return number.isBool();
    case c10::TypeKind::StringType:
      return number.isString();
    case c10::TypeKind::DeviceObjType:
      return number.isDevice();
    case c10::TypeKind::GeneratorType:
      return number.isNone();
    case c10::TypeKind::ListType: {
      const c10::TypeKind element = type.containedType(0)->kind();
      if (element == c10::TypeKind::FloatType) return number.isDoubleList();
      if (element == c10::TypeKind::BoolType) return number.isBoolList();
      return (element == c10::TypeKind::IntType || element == c10::TypeKind::SymIntType) &&
             number.isIntList();
    }
    default:
      return false;
  }
}

/// A tensor, perhaps an absent one; for results too.
bool fits(const Operand& operand, const c10::Type& type) {
  const c10::Type& inner =
      type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
  if (operand.kind == Operand::Kind::kNumber) return fits(operand.number, type);
  if (operand.kind == Operand::Kind::kValue) {
    return inner.kind() == c10::TypeKind::TensorType &&
           (operand.values[0] != kNoValue || &inner != &type);
  }
  if (inner.kind() != c10::TypeKind::ListType) return false;
  const c10::Type& element = *inner.containedType(0);
  if (element.kind() == c10::TypeKind::OptionalType) {
    return element.containedType(0)->kind() == c10::TypeKind::TensorType;
  }
  for (const ValueId id : operand.values) {
    if (id == kNoValue) return false;
  }
  return element.kind() == c10::TypeKind::TensorType;
}

}  // namespace

std::string fault_of_call(const Node& node) {
  const size_t dot = node.name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {node.name.substr(0, dot), dot == std::string::npos ? "" : node.name.substr(dot + 1)});
  if (!op) return "is no operator of this libtorch";
  const c10::FunctionSchema& schema = op->schema();
  if (schema.arguments().size() != node.arguments.size() ||
      schema.returns().size() != node.results.size()) {
    return "has other numbers of arguments or results than its operator";
  }
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (node.arguments[i].kind == Operand::Kind::kValue && node.arguments[i].values.size() != 1) {
      return "has an operand of another number of values";
    }
    const c10::Argument& parameter = schema.arguments()[i];
    const bool number = node.arguments[i].kind == Operand::Kind::kNumber;
    if (!fits(node.arguments[i], *parameter.type()) ||
        (number && !is_enumerator(node.arguments[i].number, *parameter.real_type()))) {
      return str_cat("has an argument `", schema.arguments()[i].name(), "` of another type");
    }
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const bool list = schema.returns()[i].type()->kind() == c10::TypeKind::ListType;
    if (node.results[i].kind != (list ? Operand::Kind::kValues : Operand::Kind::kValue)) {
      return str_cat("has a result ", i, " of another type");
    }
  }
  return "";
}

}  // namespace strata::graph::untrusted
