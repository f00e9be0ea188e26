#pragma once

#include <cstdint>

#include "strata/ps/table.h"

namespace strata::ps {

/// The first values of row `row`, `width` of them: they depend on the initializer and the row
/// alone.
template <typename T>
void make_row(const RowInitializer& initializer, int64_t row, int64_t width, T* values);

}  // namespace strata::ps
