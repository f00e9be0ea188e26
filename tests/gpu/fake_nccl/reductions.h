#pragma once

#include <cstddef>

#include "gpu/fake_nccl/exported_nccl.h"

namespace strata::test::fake_nccl {

/// 0: no such type.
size_t size_of(ncclDataType_t type);
/// "float32".
const char* name_of(ncclDataType_t type);
const char* name_of(ncclRedOp_t op);

/// Whether reductions take it; other types are moved alone.
bool can_reduce(ncclDataType_t type);

/// accumulated[i] = op(accumulated[i], other[i]), rounded to the type. A mean adds: its division is in the next two.
void reduce(ncclDataType_t type, ncclRedOp_t op, void* accumulated, const void* other,
            size_t count);

/// What NCCL does to a rank's values before a mean of them is added: floats are multiplied by 1 / ranks.
void before_mean(ncclDataType_t type, void* values, size_t count, int ranks);
/// After it: integers are divided by the ranks.
void after_mean(ncclDataType_t type, void* values, size_t count, int ranks);

}  // namespace strata::test::fake_nccl
