#include "graph/size_number.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace strata::graph {
namespace {

/// Below it, doubles hold every integer.
constexpr double kWhole = 9007199254740992.0;  // 2^53
constexpr int kMaxPower = 2;

bool is_whole(double value) { return std::abs(value) < kWhole && std::nearbyint(value) == value; }

/// The nearest number with so many binary digits.
double rounded_to(double value, int digits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)), exponent - digits);
}

std::optional<double> product(const RowSizes& sizes, const std::vector<int64_t>& powers) {
  double result = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int64_t p = 0; p < powers[i]; ++p) result *= static_cast<double>(sizes[i]);
    if (result >= kWhole) return std::nullopt;
  }
  return result;
}

}  // namespace

SizeNumber::SizeNumber(const SizePoints& points, NumberType type, double at_base,
                       const std::vector<double>& at_others)
    : points_(points), type_(type) {
  const bool whole = is_whole(at_base) && std::ranges::all_of(at_others, is_whole);
  if (whole) {
    Form sum{.kind = Form::Kind::kSum, .factor = at_base, .coefficients = {}};
    for (const double other : at_others) {
      sum.coefficients.push_back(static_cast<int64_t>(other - at_base));
    }
    keep_if_right(sum, at_base, at_others);
  }
  if (type == NumberType::kInteger && !whole) return;
  // Digits of a factor that the number's own rounding does not hide.
  const int digits = type == NumberType::kFloat ? 20 : 24;
  if (const auto found = powers(at_base, at_others, /*divides=*/false)) {
    const std::optional<double> all = product(points_.base, *found);
    if (!all || at_base == 0) return;
    Form form{.kind = Form::Kind::kProduct, .factor = at_base / *all, .coefficients = *found};
    if (type != NumberType::kInteger) form.factor = rounded_to(form.factor, digits);
    if (type != NumberType::kInteger || is_whole(form.factor)) {
      keep_if_right(form, at_base, at_others);
    }
  }
  if (type == NumberType::kInteger) return;
  if (const auto found = powers(at_base, at_others, /*divides=*/true)) {
    const std::optional<double> all = product(points_.base, *found);
    if (!all || at_base == 0) return;
    if (type == NumberType::kDouble) {
      keep_if_right({.kind = Form::Kind::kQuotient,
                     .factor = rounded_to(at_base * *all, digits),
                     .coefficients = *found},
                    at_base, at_others);
    }
    keep_if_right({.kind = Form::Kind::kFloatQuotient,
                   .factor = rounded_to(at_base * *all, 20),
                   .coefficients = *found},
                  at_base, at_others);
  }
}

/// By which power of each size the number grows, or, if it `divides`, becomes smaller.
std::optional<std::vector<int64_t>> SizeNumber::powers(double at_base,
                                                       const std::vector<double>& at_others,
                                                       bool divides) const {
  constexpr double kRounding = 1e-5;  // a float's, with room to spare
  std::vector<int64_t> result;
  for (size_t i = 0; i < at_others.size(); ++i) {
    const double ratio = divides ? at_base / at_others[i] : at_others[i] / at_base;
    const double sizes =
        static_cast<double>(points_.others[i]) / static_cast<double>(points_.base[i]);
    int64_t power = 0;
    while (power <= kMaxPower &&
           !(std::abs(std::pow(sizes, static_cast<double>(power)) / ratio - 1) < kRounding)) {
      ++power;
    }
    if (power > kMaxPower) return std::nullopt;
    result.push_back(power);
  }
  return result;
}

std::optional<double> SizeNumber::value(const Form& form, const RowSizes& sizes) const {
  double result = form.factor;
  if (form.kind == Form::Kind::kSum) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t steps = sizes[i] - points_.base[i];
      const int64_t step = points_.others[i] - points_.base[i];
      int64_t change = 0;
      if (__builtin_mul_overflow(form.coefficients[i], steps, &change) || change % step != 0) {
        return std::nullopt;
      }
      result += static_cast<double>(change / step);
    }
    if (!is_whole(result)) return std::nullopt;
  } else {
    const std::optional<double> all = product(sizes, form.coefficients);
    if (!all) return std::nullopt;
    result = form.kind == Form::Kind::kProduct ? form.factor * *all : form.factor / *all;
    // Rounded twice, a quotient of two floats is the one that a division of floats gives.
    if (form.kind == Form::Kind::kFloatQuotient) result = static_cast<float>(result);
  }
  if (type_ == NumberType::kInteger && !is_whole(result)) return std::nullopt;
  return type_ == NumberType::kFloat ? static_cast<float>(result) : result;
}

void SizeNumber::keep_if_right(const Form& form, double at_base,
                               const std::vector<double>& at_others) {
  if (value(form, points_.base) != at_base) return;
  for (size_t i = 0; i < at_others.size(); ++i) {
    RowSizes sizes = points_.base;
    sizes[i] = points_.others[i];
    if (value(form, sizes) != at_others[i]) return;
  }
  forms_.push_back(form);
}

bool SizeNumber::agrees(const RowSizes& sizes, double number) {
  std::erase_if(forms_, [&](const Form& form) { return value(form, sizes) != number; });
  return is_known();
}

std::optional<double> SizeNumber::at(const RowSizes& sizes) const {
  std::optional<double> result;
  for (const Form& form : forms_) {
    const std::optional<double> found = value(form, sizes);
    if (!found || (result && *result != *found)) return std::nullopt;
    result = found;
  }
  return result;
}

}  // namespace strata::graph
