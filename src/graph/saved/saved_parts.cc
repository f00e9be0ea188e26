#include "graph/saved/saved_parts.h"

#include <algorithm>

namespace strata::graph::saved {
namespace {

/// @return Nothing for a number of another kind.
std::optional<SavedNumber> save_number(const c10::IValue& value) {
  SavedNumber saved;
  if (value.isInt()) {
    saved.integer = value.toInt();
  } else if (value.isDouble()) {
    saved.real = value.toDouble();
  } else if (value.isBool()) {
    saved.boolean = value.toBool();
  } else if (value.isString()) {
    saved.text = value.toStringRef();
  } else if (value.isIntList()) {
    saved.list = SavedNumber::kIntegers;
    saved.integers = value.toIntVector();
  } else if (value.isDoubleList()) {
    saved.list = SavedNumber::kReals;
    saved.reals = value.toDoubleVector();
  } else if (value.isBoolList()) {
    saved.list = SavedNumber::kBooleans;
    for (const bool each : value.toBoolList()) saved.integers.push_back(each ? 1 : 0);
  } else if (value.isDevice() && value.toDevice().is_cpu()) {
    saved.cpu = true;
  } else if (!value.isNone()) {
    return std::nullopt;
  }
  return saved;
}

}  // namespace

bool is_known_dtype(uint64_t dtype) {
  constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                        at::kBool,  at::kByte,   at::kChar, at::kShort,
                                        at::kInt,   at::kLong};
  return std::ranges::any_of(
      kDtypes, [&](at::ScalarType each) { return static_cast<uint64_t>(each) == dtype; });
}

std::vector<int64_t> wide_ids(const std::vector<ValueId>& ids) { return {ids.begin(), ids.end()}; }

std::optional<SavedOperand> save_operand(const Operand& operand) {
  SavedOperand saved{.kind = static_cast<uint64_t>(operand.kind),
                     .values = wide_ids(operand.values)};
  if (operand.kind != Operand::Kind::kNumber) return saved;
  saved.number = save_number(operand.number);
  return saved.number ? std::optional(std::move(saved)) : std::nullopt;
}

ValueId PartsReader::id(int64_t saved) const {
  require_(saved >= kNoValue && saved < static_cast<int64_t>(num_values_),
           "a value that does not exist");
  return static_cast<ValueId>(saved);
}

std::vector<ValueId> PartsReader::ids(const std::vector<int64_t>& saved) const {
  std::vector<ValueId> made;
  made.reserve(saved.size());
  for (const int64_t each : saved) made.push_back(id(each));
  return made;
}

Node PartsReader::node(const SavedNode& saved) const {
  Node made{.name = saved.name, .written = ids(saved.written)};
  for (const SavedOperand& each : saved.arguments) made.arguments.push_back(operand(each));
  for (const SavedOperand& each : saved.results) made.results.push_back(operand(each));
  return made;
}

Operand PartsReader::operand(const SavedOperand& saved) const {
  require_(saved.kind <= static_cast<uint64_t>(Operand::Kind::kNumber),
           "an operand of an unknown kind");
  Operand made{.kind = static_cast<Operand::Kind>(saved.kind), .values = ids(saved.values)};
  require_(made.kind != Operand::Kind::kValue || made.values.size() == 1,
           "an operand of one value with another number of them");
  if (made.kind == Operand::Kind::kNumber) {
    require_(saved.number.has_value() && saved.values.empty(), "a number that is none");
    made.number = number(*saved.number);
  }
  return made;
}

c10::IValue PartsReader::number(const SavedNumber& saved) const {
  require_(saved.list <= SavedNumber::kBooleans, "a list of an unknown kind");
  if (saved.list == SavedNumber::kIntegers) return saved.integers;
  if (saved.list == SavedNumber::kReals) return saved.reals;
  if (saved.list == SavedNumber::kBooleans) {
    c10::List<bool> list;
    for (const int64_t each : saved.integers) list.push_back(each != 0);
    return list;
  }
  if (saved.integer) return *saved.integer;
  if (saved.real) return *saved.real;
  if (saved.boolean) return *saved.boolean;
  if (saved.text) return *saved.text;
  if (saved.cpu) return c10::Device(c10::kCPU);
  return {};
}

}  // namespace strata::graph::saved
