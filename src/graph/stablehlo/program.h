#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::graph::stablehlo {

using Sizes = std::vector<int64_t>;

class Program;

/// A value of a program that is being written; operators on it (operations.h) append to the program.
struct Array {
  Program* program = nullptr;
  std::string name;  // "%7"
  at::ScalarType dtype = at::kFloat;
  Sizes sizes;

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t size(int64_t axis) const { return sizes[static_cast<size_t>(axis)]; }
  int64_t count() const;
  bool is_integer() const { return c10::isIntegralType(dtype, /*includeBool=*/false); }
  bool is_bool() const { return dtype == at::kBool; }
  bool is_floating() const { return c10::isFloatingType(dtype); }
};

/// "tensor<2x3xf64>". @throws Error  kUnimplemented: StableHLO, or strata, has no such dtype.
std::string type_of(at::ScalarType dtype, const Sizes& sizes);
inline std::string type_of(const Array& array) { return type_of(array.dtype, array.sizes); }

/// "[1, 2]"
std::string list_of(const Sizes& numbers);

/// The text of a function, written from its begin to its end.
/// Source: the StableHLO specification; operators are in its pretty form, or in MLIR's generic one where
/// regions are needed.
class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// One more argument.
  Array parameter(at::ScalarType dtype, const Sizes& sizes);

  /// Appends `name = text`; what follows " : " in `text` are its types.
  Array emit(const std::string& text, at::ScalarType dtype, Sizes sizes);
  /// One operator with several results.
  std::vector<Array> emit_all(const std::string& text,
                              const std::vector<std::pair<at::ScalarType, Sizes>>& results);
  /// A name that nothing has.
  std::string unique();

  /// A number without dimensions; equal ones are written once.
  Array scalar(double value, at::ScalarType dtype);
  Array scalar(int64_t value, at::ScalarType dtype);
  Array constant(const at::Tensor& tensor);

  /// Appends lines that are no operator: a region's begin, its end.
  void append(const std::string& text) { body_ += text; }

  const std::vector<Array>& parameters() const { return parameters_; }
  /// The function that this is, with a name of its own.
  /// @param donated  For each parameter the result that takes its memory, or -1; empty: none is.
  std::string function(const std::string& name, const std::vector<Array>& results,
                       const std::vector<int64_t>& donated = {}) const;

 private:
  Array literal(const std::string& text, at::ScalarType dtype);

  std::vector<Array> parameters_;
  std::string body_;
  int64_t next_ = 0;
  std::map<std::pair<std::string, at::ScalarType>, Array> literals_;
};

/// A module of functions, of which @main is called.
std::string module_of(const std::string& name, const std::string& functions, int64_t num_replicas);

}  // namespace strata::graph::stablehlo
