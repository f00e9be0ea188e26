#include "core/sha256_blocks.h"

namespace strata::detail {

Sha256Blocks sha256_blocks_of_this_processor() { return &sha256_blocks; }

}  // namespace strata::detail
