#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace strata::pjrt {

/// Of an array's elements.
enum class ElementType {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt32,
  kUInt64,
  kHalf,
  kBFloat16,
  kFloat,
  kDouble,
};

constexpr size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kInt8:
    case ElementType::kUInt8:
      return 1;
    case ElementType::kInt16:
    case ElementType::kHalf:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kUInt32:
    case ElementType::kFloat:
      return 4;
    case ElementType::kInt64:
    case ElementType::kUInt64:
    case ElementType::kDouble:
      return 8;
  }
  return 0;
}

/// Elements and sizes of an array, whose elements are in row-major order.
struct ArrayType {
  ElementType element = ElementType::kFloat;
  std::vector<int64_t> sizes = {};

  size_t bytes() const {
    const int64_t count =
        std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    return static_cast<size_t>(count) * size_of(element);
  }
  friend bool operator==(const ArrayType&, const ArrayType&) = default;
};

}  // namespace strata::pjrt
