#include "gpu/fake_nccl/reductions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace strata::test::fake_nccl {
namespace {

// A binary float of 16 bits, by way of float, which holds each of its values.
struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) {
      bits = 0x7fc0;
    } else {  // to the nearest, ties to even
      bits = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const float size = std::fabs(value);
    if (std::isnan(value)) {
      bits = 0x7e00;
    } else if (size >=
               65520.0F) {  // above half way from the largest value to the next power of two
      bits = sign | 0x7c00;
    } else if (size < 6.103515625e-05F) {  // a multiple of 2^-24: nearbyint rounds ties to even
      bits =
          static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 16777216.0F)));
    } else {
      const auto wide = std::bit_cast<uint32_t>(size);
      const uint32_t rounded = wide + 0xfff + ((wide >> 13) & 1);
      bits = static_cast<uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
    }
  }
  explicit operator float() const {
    const uint32_t exponent = (bits >> 10) & 0x1f;
    const uint32_t fraction = bits & 0x3ff;
    float size = 0;
    if (exponent == 0) {
      size = static_cast<float>(fraction) / 16777216.0F;
    } else if (exponent == 31) {
      size = std::bit_cast<float>(0x7f800000U | fraction << 13);
    } else {
      size = std::bit_cast<float>((exponent + 112) << 23 | fraction << 13);
    }
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

template <typename T>
constexpr bool kIsShortFloat = std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>;

// As CUDA: integers wrap around.
template <typename T>
T combine(ncclRedOp_t op, T a, T b) {
  if constexpr (kIsShortFloat<T>) {
    return T(combine(op, static_cast<float>(a), static_cast<float>(b)));
  } else {
    switch (op) {
      case ncclProd:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        } else {
          return a * b;
        }
      case ncclMax:
        return std::max(a, b);
      case ncclMin:
        return std::min(a, b);
      default:
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        } else {
          return a + b;
        }
    }
  }
}

template <typename T>
T scaled(T value, int ranks) {
  if constexpr (kIsShortFloat<T>) {
    const T factor(1.0F / static_cast<float>(ranks));
    return T(static_cast<float>(value) * static_cast<float>(factor));
  } else {
    return value * (T(1) / static_cast<T>(ranks));
  }
}

template <typename T>
struct Type {
  using type = T;
};

// Calls `with` with the C++ type.
template <typename With>
void with_type(ncclDataType_t type, const With& with) {
  switch (type) {
    case ncclInt8:
      return with(Type<int8_t>());
    case ncclUint8:
      return with(Type<uint8_t>());
    case ncclInt32:
      return with(Type<int32_t>());
    case ncclUint32:
      return with(Type<uint32_t>());
    case ncclInt64:
      return with(Type<int64_t>());
    case ncclUint64:
      return with(Type<uint64_t>());
    case ncclFloat16:
      return with(Type<Float16>());
    case ncclBfloat16:
      return with(Type<Bfloat16>());
    case ncclFloat32:
      return with(Type<float>());
    case ncclFloat64:
      return with(Type<double>());
    default:
      return;
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  if (type == ncclFloat8e4m3 || type == ncclFloat8e5m2) return 1;
  size_t size = 0;
  with_type(type, [&](auto tag) { size = sizeof(typename decltype(tag)::type); });
  return size;
}

const char* name_of(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                    "int64",   "uint64",   "float16",    "float32",
                                    "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return size_of(type) == 0 ? "no type" : kNames[type];
}

const char* name_of(ncclRedOp_t op) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op < 0 || op >= ncclNumOps ? "no operation" : kNames[op];
}

bool can_reduce(ncclDataType_t type) {
  return size_of(type) != 0 && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

void reduce(ncclDataType_t type, ncclRedOp_t op, void* accumulated, const void* other,
            size_t count) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* const to = static_cast<T*>(accumulated);
    const auto* const from = static_cast<const T*>(other);
    for (size_t i = 0; i < count; ++i) to[i] = combine(op, to[i], from[i]);
  });
}

void before_mean(ncclDataType_t type, void* values, size_t count, int ranks) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) {
      for (size_t i = 0; i < count; ++i)
        static_cast<T*>(values)[i] = scaled(static_cast<T*>(values)[i], ranks);
    }
  });
}

void after_mean(ncclDataType_t type, void* values, size_t count, int ranks) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      for (size_t i = 0; i < count; ++i) static_cast<T*>(values)[i] /= static_cast<T>(ranks);
    }
  });
}

}  // namespace strata::test::fake_nccl
