#include "ps/tables/gradient_values.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>

#include "core/all_finite.h"

namespace strata::ps {
namespace {

constexpr int64_t kGradientBlock = 4096;

template <typename Half, typename T>
const T* decode(const std::byte* data, int64_t begin, int64_t size, T* buffer) {
  const Half* from = reinterpret_cast<const Half*>(data) + begin;
  for (int64_t i = 0; i < size; ++i) buffer[i] = static_cast<T>(static_cast<float>(from[i]));
  return buffer;
}

template <typename Half, typename T>
void encode(const T* values, int64_t size, std::byte* data) {
  Half* to = reinterpret_cast<Half*>(data);
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<Half>(static_cast<float>(values[i]));
}

}  // namespace

template <typename T>
const T* gradient_values(const std::byte* data, PushEncoding encoding, int64_t begin, int64_t size,
                         T* buffer) {
  switch (encoding) {
    case PushEncoding::kFloat16:
      return decode<c10::Half>(data, begin, size, buffer);
    case PushEncoding::kBFloat16:
      return decode<c10::BFloat16>(data, begin, size, buffer);
    case PushEncoding::kFull:
      break;
  }
  return reinterpret_cast<const T*>(data) + begin;
}

template <typename T>
int64_t find_not_finite(const std::byte* data, PushEncoding encoding, int64_t size) {
  T buffer[kGradientBlock];
  for (int64_t begin = 0; begin < size; begin += kGradientBlock) {
    const int64_t count = std::min(kGradientBlock, size - begin);
    const T* values = gradient_values(data, encoding, begin, count, buffer);
    if (all_finite(values, count)) continue;
    return begin + (std::find_if(values, values + count,
                                 [](const T& value) { return !all_finite(&value, 1); }) -
                    values);
  }
  return size;
}

template <typename T>
void encode_gradients(const T* values, PushEncoding encoding, int64_t size, std::byte* to) {
  if (encoding == PushEncoding::kFloat16) {
    encode<c10::Half>(values, size, to);
  } else {
    encode<c10::BFloat16>(values, size, to);
  }
}

template const float* gradient_values(const std::byte*, PushEncoding, int64_t, int64_t, float*);
template const double* gradient_values(const std::byte*, PushEncoding, int64_t, int64_t, double*);
template int64_t find_not_finite<float>(const std::byte*, PushEncoding, int64_t);
template int64_t find_not_finite<double>(const std::byte*, PushEncoding, int64_t);
template void encode_gradients(const float*, PushEncoding, int64_t, std::byte*);
template void encode_gradients(const double*, PushEncoding, int64_t, std::byte*);

}  // namespace strata::ps
