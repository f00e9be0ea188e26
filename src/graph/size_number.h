#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace strata::graph {

/// Sizes of first dimensions, one for each symbol of a step.
using RowSizes = std::vector<int64_t>;

/// Where a number of a step was seen: at `base`, and where symbol `i` alone has the size `others[i]`.
struct SizePoints {
  RowSizes base;
  RowSizes others;
};

/// What a number is and how it is rounded.
enum class NumberType { kInteger, kDouble, kFloat };

/// A number of a step as a function of sizes. Two recordings do not say which function it is (the sizes 2
/// and 4 give 4 and 16: 6 n - 8, or n * n), so all forms that agree with the recordings are kept, and
/// further recordings refute the wrong ones. The forms are
/// - a + sum of b_i n_i, where b_i may be a fraction and all parts have to be whole numbers;
/// - c times a product of powers of the sizes;
/// - of reals, c divided by such a product, rounded to double or to float.
/// A real `c` has few binary digits, so that one c alone agrees with a recording: then the number has
/// the same bits for every size. An integer is held exactly.
class SizeNumber {
 public:
  /// @param at_base, at_others  The values at `points`; integers and floats as doubles are exact below 2^53.
  SizeNumber(const SizePoints& points, NumberType type, double at_base,
             const std::vector<double>& at_others);

  /// Drops the forms that say otherwise. @return Whether one is left.
  bool agrees(const RowSizes& sizes, double value);
  /// Nothing: the forms that are left do not agree there, or a part is not whole.
  std::optional<double> at(const RowSizes& sizes) const;
  bool is_known() const { return !forms_.empty(); }

 private:
  struct Form {
    enum class Kind { kSum, kProduct, kQuotient, kFloatQuotient };
    Kind kind;
    double factor = 0;                  // of kSum, the value at the base
    std::vector<int64_t> coefficients;  // of kSum, the changes from base to others; else, powers
  };

  std::optional<double> value(const Form& form, const RowSizes& sizes) const;
  std::optional<std::vector<int64_t>> powers(double at_base, const std::vector<double>& at_others,
                                             bool divides) const;
  void keep_if_right(const Form& form, double at_base, const std::vector<double>& at_others);

  SizePoints points_;
  NumberType type_;
  std::vector<Form> forms_;
};

}  // namespace strata::graph
