#include "strata/ps/placement.h"

#include "strata/core/error.h"

namespace strata::ps {

int64_t num_elements(const VariableSpec& variable) {
  int64_t product = 1;
  for (const int64_t size : variable.shape) {
    STRATA_CHECK(size >= 0, kInvalidArgument, "[ps] variable \"", variable.name, "\": got size ",
                 size, " in its shape; expected sizes of 0 or more; build the variable first, or ",
                 "place it with a rule that does not look at shapes (round robin)");
    product *= size;
  }
  return product;
}

int64_t num_bytes(const VariableSpec& variable) {
  return num_elements(variable) * static_cast<int64_t>(c10::elementSize(variable.dtype));
}

}  // namespace strata::ps
