#include "graph/stablehlo/program.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <functional>
#include <numeric>

#include "strata/core/error.h"

namespace strata::graph::stablehlo {
namespace {

const char* element_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return "i1";
    case at::kByte:
      return "ui8";
    case at::kChar:
      return "i8";
    case at::kShort:
      return "i16";
    case at::kInt:
      return "i32";
    case at::kLong:
      return "i64";
    case at::ScalarType::UInt32:
      return "ui32";
    case at::ScalarType::UInt64:
      return "ui64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    default:
      STRATA_CHECK(false, kUnimplemented, "[stablehlo] got a tensor of ", dtype,
                   "; expected real numbers, integers or bool; run this part outside the graph");
      return nullptr;
  }
}

std::string hex_of(uint64_t bits, int digits) {
  std::string text(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, bits >>= 4) {
    text[static_cast<size_t>(i)] = "0123456789ABCDEF"[bits & 15];
  }
  return "0x" + text;
}

std::string join_of(const std::vector<Array>& arrays, const auto& text_of) {
  std::string text;
  for (const Array& each : arrays) text += (text.empty() ? "" : ", ") + text_of(each);
  return text;
}

/// A name that may stand behind an @.
std::string symbol_of(std::string name) {
  for (char& c : name) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!fits) c = '_';
  }
  return "m_" + name;
}

}  // namespace

int64_t Array::count() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::string type_of(at::ScalarType dtype, const Sizes& sizes) {
  std::string text = "tensor<";
  for (const int64_t size : sizes) text += str_cat(size, "x");
  return str_cat(text, element_name(dtype), ">");
}

std::string list_of(const Sizes& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += str_cat(text.empty() ? "" : ", ", number);
  return "[" + text + "]";
}

std::string Program::unique() { return str_cat("%", next_++); }

Array Program::parameter(at::ScalarType dtype, const Sizes& sizes) {
  parameters_.push_back({.program = this,
                         .name = str_cat("%arg", parameters_.size()),
                         .dtype = dtype,
                         .sizes = sizes});
  return parameters_.back();
}

Array Program::emit(const std::string& text, at::ScalarType dtype, Sizes sizes) {
  Array array{.program = this, .name = unique(), .dtype = dtype, .sizes = std::move(sizes)};
  body_ += str_cat("    ", array.name, " = ", text, "\n");
  return array;
}

std::vector<Array> Program::emit_all(const std::string& text,
                                     const std::vector<std::pair<at::ScalarType, Sizes>>& results) {
  const std::string name = unique();
  body_ += str_cat("    ", name, ":", results.size(), " = ", text, "\n");
  std::vector<Array> arrays;
  for (const auto& [dtype, sizes] : results) {
    arrays.push_back({.program = this,
                      .name = str_cat(name, "#", arrays.size()),
                      .dtype = dtype,
                      .sizes = sizes});
  }
  return arrays;
}

Array Program::literal(const std::string& text, at::ScalarType dtype) {
  const auto key = std::pair(text, dtype);
  const auto found = literals_.find(key);
  if (found != literals_.end()) return found->second;
  const Array made =
      emit(str_cat("stablehlo.constant dense<", text, "> : ", type_of(dtype, {})), dtype, {});
  return literals_.emplace(key, made).first->second;
}

Array Program::scalar(double value, at::ScalarType dtype) {
  switch (dtype) {  // by their bits: no digit is lost, and infinities have names
    case at::kDouble:
      return literal(hex_of(std::bit_cast<uint64_t>(value), 16), dtype);
    case at::kFloat:
      return literal(hex_of(std::bit_cast<uint32_t>(static_cast<float>(value)), 8), dtype);
    case at::kHalf:
      return literal(hex_of(c10::Half(static_cast<float>(value)).x, 4), dtype);
    case at::kBFloat16:
      return literal(hex_of(c10::BFloat16(static_cast<float>(value)).x, 4), dtype);
    case at::kBool:
      return literal(value != 0 ? "true" : "false", dtype);
    default:
      return scalar(static_cast<int64_t>(value), dtype);
  }
}

Array Program::scalar(int64_t value, at::ScalarType dtype) {
  if (c10::isFloatingType(dtype) || dtype == at::kBool) {
    return scalar(static_cast<double>(value), dtype);
  }
  return literal(str_cat(value), dtype);
}

Array Program::constant(const at::Tensor& tensor) {
  // MLIR packs the bits of booleans.
  const bool is_bool = tensor.scalar_type() == at::kBool;
  const at::Tensor dense = (is_bool ? tensor.to(at::kByte) : tensor).contiguous();
  const Sizes sizes = tensor.sizes().vec();
  const std::string type = type_of(dense.scalar_type(), sizes);
  std::string text = "dense<>";
  if (dense.numel() > 0) {
    const auto* const bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
    std::string digits;
    for (size_t i = 0; i < dense.nbytes(); ++i) {
      digits += "0123456789ABCDEF"[bytes[i] >> 4];
      digits += "0123456789ABCDEF"[bytes[i] & 15];
    }
    text = str_cat("dense<\"0x", digits, "\">");
  }
  const Array array =
      emit(str_cat("stablehlo.constant ", text, " : ", type), dense.scalar_type(), sizes);
  if (!is_bool) return array;
  return emit(
      str_cat("stablehlo.convert ", array.name, " : (", type, ") -> ", type_of(at::kBool, sizes)),
      at::kBool, sizes);
}

std::string Program::function(const std::string& name, const std::vector<Array>& results,
                              const std::vector<int64_t>& donated) const {
  std::string arguments;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    arguments += str_cat(i == 0 ? "" : ", ", parameters_[i].name, ": ", type_of(parameters_[i]));
    if (!donated.empty() && donated[i] >= 0) {
      arguments += str_cat(" {tf.aliasing_output = ", donated[i], " : i32}");
    }
  }
  const auto name_of = [](const Array& each) { return each.name; };
  const auto type = [](const Array& each) { return type_of(each); };
  return str_cat("  func.func ", name == "main" ? "public" : "private", " @", name, "(", arguments,
                 ") -> (", join_of(results, type), ") {\n", body_, "    return ",
                 join_of(results, name_of), results.empty() ? "" : " : ", join_of(results, type),
                 "\n  }\n");
}

std::string module_of(const std::string& name, const std::string& functions, int64_t num_replicas) {
  return str_cat("module @", symbol_of(name), " attributes {mhlo.num_replicas = ", num_replicas,
                 " : i32, mhlo.num_partitions = 1 : i32} {\n", functions, "}\n");
}

}  // namespace strata::graph::stablehlo
