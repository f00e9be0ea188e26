#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Of the raw register: neither inverted before nor after.
using Crc32cFunction = uint32_t (*)(uint32_t crc, const unsigned char* data, size_t size);

/// Null where the processor has no instruction for it.
Crc32cFunction hardware_crc32c();

uint32_t software_crc32c(uint32_t crc, const unsigned char* data, size_t size);

}  // namespace strata::detail
