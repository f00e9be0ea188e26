#pragma once

#include <cstddef>
#include <cstdint>

#include "ps/tables/request.h"

namespace strata::ps {

/// Bytes of an element of a push.
template <typename T>
size_t bytes_of_element(PushEncoding encoding) {
  return encoding == PushEncoding::kFull ? sizeof(T) : 2;
}

/// Elements [begin, begin + size) of a push's data as numbers: where they are, or made in `buffer`.
template <typename T>
const T* gradient_values(const std::byte* data, PushEncoding encoding, int64_t begin, int64_t size,
                         T* buffer);

/// Element of the first infinity or NaN, or `size`.
template <typename T>
int64_t find_not_finite(const std::byte* data, PushEncoding encoding, int64_t size);

/// The inverse of `gradient_values`: `size` numbers as 16 bits each.
template <typename T>
void encode_gradients(const T* values, PushEncoding encoding, int64_t size, std::byte* to);

}  // namespace strata::ps
