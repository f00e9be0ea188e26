#include "core/crc32c.h"

namespace strata::detail {

Crc32cFunction hardware_crc32c() { return nullptr; }

}  // namespace strata::detail
