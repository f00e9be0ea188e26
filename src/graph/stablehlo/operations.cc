#include "graph/stablehlo/operations.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "strata/core/error.h"

namespace strata::graph::stablehlo {
namespace {

std::string signature(const std::vector<Array>& from, const std::string& to) {
  std::string text;
  for (const Array& each : from) text += (text.empty() ? "" : ", ") + type_of(each);
  return "(" + text + ") -> " + to;
}

Array with_new_sizes(const Array& x, const std::string& text, const Sizes& sizes) {
  return x.program->emit(str_cat(text, " : ", signature({x}, type_of(x.dtype, sizes))), x.dtype,
                         sizes);
}

/// "array<i64: 1, 2>"
std::string array_of(const Sizes& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += str_cat(text.empty() ? ": " : ", ", number);
  return "array<i64" + text + ">";
}

/// "[[0, 1], [2, 3]]"
std::string pairs_of(const Sizes& low, const Sizes& high) {
  std::string text;
  for (size_t i = 0; i < low.size(); ++i) {
    text += str_cat(i == 0 ? "" : ", ", "[", low[i], ", ", high[i], "]");
  }
  return "[" + text + "]";
}

const char* operator_of_reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "stablehlo.add";
    case Reduction::kProduct:
      return "stablehlo.multiply";
    case Reduction::kMax:
      return "stablehlo.maximum";
    case Reduction::kMin:
      return "stablehlo.minimum";
    case Reduction::kAny:
      return "stablehlo.or";
    case Reduction::kAll:
      return "stablehlo.and";
  }
  return "";
}

Array limit_of(Program& program, at::ScalarType dtype, bool largest) {
  if (c10::isFloatingType(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return program.scalar(largest ? infinity : -infinity, dtype);
  }
  const auto of = [&](auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    return program.scalar(static_cast<int64_t>(largest ? Limits::max() : Limits::min()), dtype);
  };
  switch (dtype) {
    case at::kBool:
      return program.scalar(int64_t{largest}, dtype);
    case at::kByte:
      return of(uint8_t{});
    case at::kChar:
      return of(int8_t{});
    case at::kShort:
      return of(int16_t{});
    case at::kInt:
      return of(int32_t{});
    default:
      return of(int64_t{});
  }
}

Array neutral(Program& program, Reduction reduction, at::ScalarType dtype) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAny:
      return program.scalar(int64_t{0}, dtype);
    case Reduction::kProduct:
    case Reduction::kAll:
      return program.scalar(int64_t{1}, dtype);
    case Reduction::kMax:
      return limit_of(program, dtype, false);
    case Reduction::kMin:
      return limit_of(program, dtype, true);
  }
  return {};
}

/// A region of two numbers that gives `op` of them.
std::string region_of(Program& program, std::string_view op, at::ScalarType dtype) {
  const std::string a = program.unique(), b = program.unique(), c = program.unique();
  const std::string type = type_of(dtype, {});
  return str_cat("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, "):\n      ", c, " = ", op,
                 " ", a, ", ", b, " : ", type, "\n      stablehlo.return ", c, " : ", type,
                 "\n    })");
}

/// The same of one that gives its second number.
std::string region_of_second(Program& program, at::ScalarType dtype) {
  const std::string a = program.unique(), b = program.unique();
  const std::string type = type_of(dtype, {});
  return str_cat("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, "):\n      stablehlo.return ",
                 b, " : ", type, "\n    })");
}

}  // namespace

// --- Element by element

Array unary(std::string_view op, const Array& x) {
  // Operators of CHLO, which a compiler takes apart, are printed with both types.
  const std::string type =
      op.starts_with("chlo.") ? str_cat(type_of(x), " -> ", type_of(x)) : type_of(x);
  return x.program->emit(str_cat(op, " ", x.name, " : ", type), x.dtype, x.sizes);
}

Array binary(std::string_view op, const Array& a, const Array& b) {
  STRATA_DCHECK(a.dtype == b.dtype);
  const Sizes sizes = broadcast_sizes(a.sizes, b.sizes);
  const Array left = broadcast_to(a, sizes), right = broadcast_to(b, sizes);
  return a.program->emit(str_cat(op, " ", left.name, ", ", right.name, " : ", type_of(left)),
                         a.dtype, sizes);
}

Array compare(std::string_view direction, const Array& a, const Array& b) {
  STRATA_DCHECK(a.dtype == b.dtype);
  const Sizes sizes = broadcast_sizes(a.sizes, b.sizes);
  const Array left = broadcast_to(a, sizes), right = broadcast_to(b, sizes);
  return a.program->emit(str_cat("stablehlo.compare ", direction, ", ", left.name, ", ", right.name,
                                 " : ", signature({left, right}, type_of(at::kBool, sizes))),
                         at::kBool, sizes);
}

Array select(const Array& condition, const Array& yes, const Array& no) {
  STRATA_DCHECK(yes.dtype == no.dtype && condition.is_bool());
  const Sizes sizes = broadcast_sizes(condition.sizes, broadcast_sizes(yes.sizes, no.sizes));
  const Array c = broadcast_to(condition, sizes), a = broadcast_to(yes, sizes),
              b = broadcast_to(no, sizes);
  return a.program->emit(str_cat("stablehlo.select ", c.name, ", ", a.name, ", ", b.name, " : ",
                                 type_of(c), ", ", type_of(a)),
                         a.dtype, sizes);
}

Array convert(const Array& x, at::ScalarType dtype) {
  if (x.dtype == dtype) return x;
  if (dtype == at::kBool) return compare("NE", x, number_like(x, 0));
  return x.program->emit(
      str_cat("stablehlo.convert ", x.name, " : ", signature({x}, type_of(dtype, x.sizes))), dtype,
      x.sizes);
}

Array number_like(const Array& like, double value) {
  return like.program->scalar(value, like.dtype);
}

Array operator+(const Array& a, const Array& b) { return binary("stablehlo.add", a, b); }
Array operator-(const Array& a, const Array& b) { return binary("stablehlo.subtract", a, b); }
Array operator*(const Array& a, const Array& b) { return binary("stablehlo.multiply", a, b); }
Array operator/(const Array& a, const Array& b) { return binary("stablehlo.divide", a, b); }
Array operator-(const Array& x) { return unary("stablehlo.negate", x); }
Array operator+(const Array& a, double b) { return a + number_like(a, b); }
Array operator-(const Array& a, double b) { return a - number_like(a, b); }
Array operator*(const Array& a, double b) { return a * number_like(a, b); }
Array operator/(const Array& a, double b) { return a / number_like(a, b); }
Array operator+(double a, const Array& b) { return number_like(b, a) + b; }
Array operator-(double a, const Array& b) { return number_like(b, a) - b; }
Array operator*(double a, const Array& b) { return number_like(b, a) * b; }
Array operator/(double a, const Array& b) { return number_like(b, a) / b; }
Array exp(const Array& x) { return unary("stablehlo.exponential", x); }
Array log(const Array& x) { return unary("stablehlo.log", x); }
Array sqrt(const Array& x) { return unary("stablehlo.sqrt", x); }
Array tanh(const Array& x) { return unary("stablehlo.tanh", x); }
Array erf(const Array& x) { return unary("chlo.erf", x); }
Array logistic(const Array& x) { return unary("stablehlo.logistic", x); }
Array absolute(const Array& x) { return unary("stablehlo.abs", x); }
Array maximum(const Array& a, const Array& b) { return binary("stablehlo.maximum", a, b); }
Array minimum(const Array& a, const Array& b) { return binary("stablehlo.minimum", a, b); }
Array maximum(const Array& a, double b) { return maximum(a, number_like(a, b)); }
Array minimum(const Array& a, double b) { return minimum(a, number_like(a, b)); }
Array power(const Array& a, const Array& b) { return binary("stablehlo.power", a, b); }
Array either(const Array& a, const Array& b) { return binary("stablehlo.or", a, b); }
Array both(const Array& a, const Array& b) { return binary("stablehlo.and", a, b); }
Array is_nan(const Array& x) {
  if (!x.is_floating()) return filled(*x.program, 0, at::kBool, x.sizes);
  return compare("NE", x, x);
}

// --- Sizes

Array reshape(const Array& x, const Sizes& sizes) {
  if (x.sizes == sizes) return x;
  return with_new_sizes(x, str_cat("stablehlo.reshape ", x.name), sizes);
}

Array transpose(const Array& x, const Sizes& order) {
  if (order == all_axes(x.rank())) return x;
  Sizes sizes;
  for (const int64_t axis : order) sizes.push_back(x.size(axis));
  return with_new_sizes(x, str_cat("stablehlo.transpose ", x.name, ", dims = ", list_of(order)),
                        sizes);
}

Array swap_axes(const Array& x, int64_t a, int64_t b) {
  Sizes order = all_axes(x.rank());
  if (!order.empty()) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return transpose(x, order);
}

Array move_axis(const Array& x, int64_t from, int64_t to) {
  Sizes order = all_axes(x.rank());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return transpose(x, order);
}

Array broadcast_in(const Array& x, const Sizes& sizes, const Sizes& axes) {
  if (x.sizes == sizes) return x;
  return with_new_sizes(
      x, str_cat("stablehlo.broadcast_in_dim ", x.name, ", dims = ", list_of(axes)), sizes);
}

Array broadcast_to(const Array& x, const Sizes& sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  STRATA_DCHECK(rank >= x.rank());
  Sizes axes;
  for (int64_t axis = rank - x.rank(); axis < rank; ++axis) axes.push_back(axis);
  return broadcast_in(x, sizes, axes);
}

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes result = a.size() >= b.size() ? a : b;
  const Sizes& other = a.size() >= b.size() ? b : a;
  const size_t first = result.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& size = result[first + i];
    STRATA_DCHECK(size == other[i] || size == 1 || other[i] == 1);
    if (size == 1) size = other[i];
  }
  return result;
}

Array along(const Array& x, const Sizes& sizes, int64_t axis) {
  return broadcast_in(x, sizes, {axis});
}

Array slice(const Array& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  if (begin == 0 && end == x.size(axis) && step == 1) return x;
  std::string ranges;
  Sizes sizes = x.sizes;
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (a > 0) ranges += ", ";
    if (a != axis) {
      ranges += str_cat("0:", x.size(a));
      continue;
    }
    ranges += str_cat(begin, ":", end, ":", step);
    sizes[static_cast<size_t>(a)] = (end - begin + step - 1) / step;
  }
  return with_new_sizes(x, str_cat("stablehlo.slice ", x.name, " [", ranges, "]"), sizes);
}

Array pad(const Array& x, const Array& value, const Sizes& low, const Sizes& high,
          const Sizes& between) {
  Sizes sizes;
  bool same = true;
  for (size_t a = 0; a < low.size(); ++a) {
    const int64_t spread = x.sizes[a] == 0 ? 0 : x.sizes[a] + (x.sizes[a] - 1) * between[a];
    sizes.push_back(low[a] + spread + high[a]);
    same = same && low[a] == 0 && high[a] == 0 && between[a] == 0;
  }
  if (same) return x;
  return x.program->emit(
      str_cat("stablehlo.pad ", x.name, ", ", value.name, ", low = ", list_of(low),
              ", high = ", list_of(high), ", interior = ", list_of(between), " : ",
              signature({x, value}, type_of(x.dtype, sizes))),
      x.dtype, sizes);
}

Array concatenate(const std::vector<Array>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Sizes sizes = parts[0].sizes;
  std::string names;
  sizes[static_cast<size_t>(axis)] = 0;
  for (const Array& part : parts) {
    names += str_cat(names.empty() ? "" : ", ", part.name);
    sizes[static_cast<size_t>(axis)] += part.size(axis);
  }
  return parts[0].program->emit(str_cat("stablehlo.concatenate ", names, ", dim = ", axis, " : ",
                                        signature(parts, type_of(parts[0].dtype, sizes))),
                                parts[0].dtype, sizes);
}

Array reverse(const Array& x, const Sizes& axes) {
  if (axes.empty()) return x;
  return x.program->emit(
      str_cat("stablehlo.reverse ", x.name, ", dims = ", list_of(axes), " : ", type_of(x)), x.dtype,
      x.sizes);
}

Array iota(Program& program, at::ScalarType dtype, const Sizes& sizes, int64_t axis) {
  return program.emit(str_cat("stablehlo.iota dim = ", axis, " : ", type_of(dtype, sizes)), dtype,
                      sizes);
}

Array filled(Program& program, double value, at::ScalarType dtype, const Sizes& sizes) {
  return broadcast_to(program.scalar(value, dtype), sizes);
}

Array zeros_like(const Array& x) { return filled(*x.program, 0, x.dtype, x.sizes); }

Sizes all_axes(int64_t rank) {
  Sizes axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Sizes kept(const Sizes& sizes, const Sizes& axes) {
  Sizes result = sizes;
  for (const int64_t axis : axes) result[static_cast<size_t>(axis)] = 1;
  return result;
}

Sizes without(const Sizes& sizes, const Sizes& axes) {
  Sizes result;
  for (size_t a = 0; a < sizes.size(); ++a) {
    if (std::ranges::find(axes, static_cast<int64_t>(a)) == axes.end()) result.push_back(sizes[a]);
  }
  return result;
}

// --- Over axes

Array reduce(Reduction reduction, const Array& x, const Sizes& axes, bool keep) {
  Sizes sorted = axes;
  std::ranges::sort(sorted);
  const Sizes sizes = without(x.sizes, sorted);
  Array result = x;
  if (!sorted.empty()) {
    const Array first = neutral(*x.program, reduction, x.dtype);
    result = x.program->emit(
        str_cat("stablehlo.reduce(", x.name, " init: ", first.name, ") applies ",
                operator_of_reduction(reduction), " across dimensions = ", list_of(sorted), " : ",
                signature({x, first}, type_of(x.dtype, sizes))),
        x.dtype, sizes);
  }
  return keep ? reshape(result, kept(x.sizes, sorted)) : result;
}

Array sum(const Array& x, const Sizes& axes, bool keep) {
  return reduce(Reduction::kSum, x, axes, keep);
}

Array mean(const Array& x, const Sizes& axes, bool keep) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.size(axis));
  return sum(x, axes, keep) / count;
}

Array first_index_of(bool largest, const Array& x, int64_t axis, bool keep) {
  const Array best = reduce(largest ? Reduction::kMax : Reduction::kMin, x, {axis}, true);
  const Array hit = either(compare("EQ", x, best), is_nan(x));
  const Array index = iota(*x.program, at::kLong, x.sizes, axis);
  const Array none = x.program->scalar(x.size(axis), at::kLong);
  return reduce(Reduction::kMin, select(hit, index, none), {axis}, keep);
}

Array reduce_window(Reduction reduction, const Array& x, const Sizes& window, const Sizes& strides,
                    const Sizes& dilations, const Sizes& low, const Sizes& high) {
  Sizes sizes;
  for (size_t a = 0; a < window.size(); ++a) {
    const int64_t reach = (window[a] - 1) * dilations[a] + 1;
    sizes.push_back((low[a] + x.sizes[a] + high[a] - reach) / strides[a] + 1);
  }
  const Array first = neutral(*x.program, reduction, x.dtype);
  const Sizes ones(window.size(), 1);
  return x.program->emit(
      str_cat("\"stablehlo.reduce_window\"(", x.name, ", ", first.name, ") ",
              region_of(*x.program, operator_of_reduction(reduction), x.dtype),
              " {window_dimensions = ", array_of(window), ", window_strides = ", array_of(strides),
              ", base_dilations = ", array_of(ones), ", window_dilations = ", array_of(dilations),
              ", padding = dense<", pairs_of(low, high), "> : tensor<", window.size(),
              "x2xi64>} : ", signature({x, first}, type_of(x.dtype, sizes))),
      x.dtype, sizes);
}

Array cumulate(Reduction reduction, const Array& x, int64_t axis) {
  if (x.count() == 0) return x;
  const Sizes ones(x.sizes.size(), 1);
  Sizes window = ones, low(x.sizes.size(), 0);
  window[static_cast<size_t>(axis)] = x.size(axis);
  low[static_cast<size_t>(axis)] = x.size(axis) - 1;
  return reduce_window(reduction, x, window, ones, ones, low, Sizes(x.sizes.size(), 0));
}

std::pair<Array, Array> sort(const Array& x, int64_t axis, bool descending) {
  Program& program = *x.program;
  const Array index = iota(program, at::kLong, x.sizes, axis);
  const std::string a = program.unique(), b = program.unique(), c = program.unique(),
                    d = program.unique();
  const std::string type = type_of(x.dtype, {}), index_type = type_of(at::kLong, {});
  std::string region = str_cat("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, ", ", c, ": ",
                               index_type, ", ", d, ": ", index_type, "):\n");
  const auto line = [&](const std::string& text) {
    const std::string name = program.unique();
    region += str_cat("      ", name, " = ", text, "\n");
    return name;
  };
  const auto compared = [&](const char* direction, const std::string& left,
                            const std::string& right) {
    return line(str_cat("stablehlo.compare ", direction, ", ", left, ", ", right, " : (", type,
                        ", ", type, ") -> tensor<i1>"));
  };
  std::string first = compared(descending ? "GT" : "LT", a, b);
  if (x.is_floating()) {  // a NaN, whichever its sign, is larger than all numbers
    const std::string& large = descending ? a : b;
    const std::string& small = descending ? b : a;
    const std::string is_number = compared("EQ", small, small);
    const std::string is_none = compared("NE", large, large);
    const std::string by_nan =
        line(str_cat("stablehlo.and ", is_none, ", ", is_number, " : tensor<i1>"));
    first = line(str_cat("stablehlo.or ", first, ", ", by_nan, " : tensor<i1>"));
  }
  region += str_cat("      stablehlo.return ", first, " : tensor<i1>\n    })");
  const std::vector<Array> sorted = program.emit_all(
      str_cat("\"stablehlo.sort\"(", x.name, ", ", index.name, ") ", region, " {dimension = ", axis,
              " : i64, is_stable = true} : ",
              signature({x, index}, str_cat("(", type_of(x), ", ", type_of(index), ")"))),
      {{x.dtype, x.sizes}, {at::kLong, x.sizes}});
  return {sorted[0], sorted[1]};
}

// --- Products

Array dot(const Array& a, const Array& b, const Sizes& batch_a, const Sizes& batch_b,
          const Sizes& contract_a, const Sizes& contract_b) {
  STRATA_DCHECK(a.dtype == b.dtype);
  Sizes sizes;
  for (const int64_t axis : batch_a) sizes.push_back(a.size(axis));
  const auto add_others = [&](const Array& x, const Sizes& batch, const Sizes& contract) {
    Sizes used = batch;
    used.insert(used.end(), contract.begin(), contract.end());
    const Sizes others = without(x.sizes, used);
    sizes.insert(sizes.end(), others.begin(), others.end());
  };
  add_others(a, batch_a, contract_a);
  add_others(b, batch_b, contract_b);
  const std::string batching = batch_a.empty() ? ""
                                               : str_cat(" batching_dims = ", list_of(batch_a),
                                                         " x ", list_of(batch_b), ",");
  return a.program->emit(
      str_cat("stablehlo.dot_general ", a.name, ", ", b.name, ",", batching,
              " contracting_dims = ", list_of(contract_a), " x ", list_of(contract_b), " : ",
              signature({a, b}, type_of(a.dtype, sizes))),
      a.dtype, sizes);
}

Array matmul(const Array& a, const Array& b) { return dot(a, b, {}, {}, {1}, {0}); }
Array batch_matmul(const Array& a, const Array& b) { return dot(a, b, {0}, {0}, {2}, {1}); }

Array convolution(const Array& input, const Array& kernel, const ConvolutionOptions& options,
                  const Sizes& sizes) {
  STRATA_DCHECK(input.dtype == kernel.dtype);
  const auto dimensions = [&](const ConvolutionAxes& axes, const char* first, const char* second) {
    std::string text;
    for (int64_t a = 0; a < input.rank(); ++a) {
      if (a > 0) text += ", ";
      if (a == axes.first) {
        text += first;
      } else if (a == axes.second) {
        text += second;
      } else {
        text += str_cat(a - 2);
      }
    }
    return "[" + text + "]";
  };
  std::string reversed;
  for (size_t i = 0; i < options.strides.size(); ++i) reversed += i == 0 ? "false" : ", false";
  return input.program->emit(
      str_cat("stablehlo.convolution(", input.name, ", ", kernel.name,
              ") dim_numbers = ", dimensions(options.input, "b", "f"), "x",
              dimensions(options.kernel, "o", "i"), "->", dimensions(options.output, "b", "f"),
              ", window = {stride = ", list_of(options.strides),
              ", pad = ", pairs_of(options.low, options.high), ", lhs_dilate = ",
              list_of(options.input_dilation), ", rhs_dilate = ", list_of(options.kernel_dilation),
              ", reverse = [", reversed, "]} {batch_group_count = ", options.batch_groups,
              " : i64, feature_group_count = ", options.feature_groups,
              " : i64} : ", signature({input, kernel}, type_of(input.dtype, sizes))),
      input.dtype, sizes);
}

Array mapped(const Array& x, const std::vector<at::Tensor>& matrices) {
  STRATA_DCHECK(x.rank() == static_cast<int64_t>(matrices.size()) + 1);
  Array result = x;
  for (const at::Tensor& matrix : matrices) {  // each product puts its dimension behind the others
    result = dot(result, x.program->constant(matrix.to(x.dtype).contiguous()), {}, {}, {1}, {1});
  }
  return result;
}

// --- By indices

Array take_rows(const Array& x, const Array& indices) {
  const Array column = reshape(indices, {indices.size(0), 1});
  Sizes sizes = x.sizes, window = x.sizes, offsets;
  sizes[0] = indices.size(0);
  window[0] = 1;
  for (int64_t a = 1; a < x.rank(); ++a) offsets.push_back(a);
  return x.program->emit(
      str_cat("\"stablehlo.gather\"(", x.name, ", ", column.name,
              ") {dimension_numbers = #stablehlo.gather<offset_dims = ", list_of(offsets),
              ", collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
              "slice_sizes = ",
              array_of(window),
              ", indices_are_sorted = false} : ", signature({x, column}, type_of(x.dtype, sizes))),
      x.dtype, sizes);
}

Array scatter_rows(Scatter scatter, const Array& x, const Array& indices, const Array& updates) {
  STRATA_DCHECK(x.dtype == updates.dtype);
  const Array column = reshape(indices, {indices.size(0), 1});
  Sizes window;
  for (int64_t a = 1; a < x.rank(); ++a) window.push_back(a);
  const auto region = [&] {
    switch (scatter) {
      case Scatter::kAdd:
        return region_of(*x.program, x.is_bool() ? "stablehlo.or" : "stablehlo.add", x.dtype);
      case Scatter::kMultiply:
        return region_of(*x.program, "stablehlo.multiply", x.dtype);
      case Scatter::kMax:
        return region_of(*x.program, "stablehlo.maximum", x.dtype);
      case Scatter::kMin:
        return region_of(*x.program, "stablehlo.minimum", x.dtype);
      default:
        return region_of_second(*x.program, x.dtype);
    }
  };
  return x.program->emit(
      str_cat(
          "\"stablehlo.scatter\"(", x.name, ", ", column.name, ", ", updates.name, ") ", region(),
          " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ", list_of(window),
          ", inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim "
          "= 1>, indices_are_sorted = false, unique_indices = false} : ",
          signature({x, column, updates}, type_of(x))),
      x.dtype, x.sizes);
}

Array wrap(const Array& indices, int64_t size) {
  const Array zero = number_like(indices, 0);
  return select(compare("LT", indices, zero), indices + static_cast<double>(size), indices);
}

}  // namespace strata::graph::stablehlo
