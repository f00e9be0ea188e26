#include "strata/collective/reduce_op.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "strata/core/error.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"SUM", "MEAN", "MIN", "MAX"};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::toupper(x) == std::toupper(y);
  });
}

}  // namespace

std::string_view reduce_op_name(ReduceOp op) { return kNames[static_cast<size_t>(op)]; }

ReduceOp parse_reduce_op(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (equal_ignoring_case(name, kNames[i])) return static_cast<ReduceOp>(i);
  }
  detail::throw_error(ErrorCode::kInvalidArgument, str_cat("[reduce_op] parse: got '", name,
                                                           "'; expected SUM, MEAN, MIN or MAX"));
}

}  // namespace strata
