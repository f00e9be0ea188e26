#include "collective/algorithms/reduction.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/SmallVector.h>

#include "collective/algorithms/tree_op.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

template <typename T>
void fill(ReduceOp op, void* data, int64_t size) {
  T value = T(0);
  constexpr bool kInteger = std::is_integral_v<T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      value = kInteger ? T(0) : T(-0.0f);  // 0 + -0 is 0, -0 + -0 is -0
      break;
    case ReduceOp::kMin:
      value = kInteger ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
      break;
    case ReduceOp::kMax:
      value = kInteger ? std::numeric_limits<T>::lowest()
                       : static_cast<T>(-std::numeric_limits<T>::infinity());
      break;
  }
  std::fill_n(static_cast<T*>(data), size, value);
}

}  // namespace

template <typename T>
void Reduction::reduce_as(const Reduction& self, const Operand* sources, int n, int64_t size,
                          Operand target, bool finish) {
  c10::SmallVector<const T*, 16> pointers;
  for (int i = 0; i < n; ++i) pointers.push_back(static_cast<const T*>(sources[i].data));
  T* const out = static_cast<T*>(target.data);
  const bool partition = finish && self.op_ == ReduceOp::kMean;
  if (!partition) {
    tensor::reduce_in_tree_order(tree_op(self.op_), pointers.data(), n, size, out);
    return;
  }
  constexpr int64_t kBlock = 8192 / sizeof(T);  // divided while it is in the first-level cache
  const T count = static_cast<T>(self.num_values_);
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t block = std::min(kBlock, size - begin);
    tensor::reduce_in_tree_order(tree_op(self.op_), pointers.data(), n, block, out + begin);
    for (int64_t i = begin; i < begin + block; ++i) out[i] /= count;
    for (const T*& pointer : pointers) pointer = pointer == nullptr ? nullptr : pointer + block;
  }
}

void Reduction::reduce_halves(const Reduction& self, const Operand* sources, int n, int64_t size,
                              Operand target, bool finish) {
  c10::SmallVector<tensor::HalfSource, 16> halves;
  for (int i = 0; i < n; ++i) {
    halves.push_back({.data = sources[i].data, .is_float = sources[i].partial});
  }
  const bool partition = finish && self.op_ == ReduceOp::kMean;
  tensor::reduce_halves_in_tree_order(
      self.dtype_ == c10::ScalarType::Half ? tensor::HalfFormat::kFloat16
                                           : tensor::HalfFormat::kBFloat16,
      tree_op(self.op_), halves.data(), n, size,
      {.data = target.data,
       .is_float = target.partial,
       .divisor = partition ? static_cast<float>(self.num_values_) : 1.0f});
}

template <typename T>
void Reduction::use() {
  element_bytes_ = sizeof(T);
  partial_bytes_ = sizeof(T);
  reduce_ = reduce_as<T>;
  fill_ = fill<T>;
}

Reduction::Reduction(c10::ScalarType dtype, ReduceOp op, int num_values)
    : dtype_(dtype), op_(op), num_values_(num_values) {
  STRATA_CHECK(op != ReduceOp::kMean || c10::isFloatingType(dtype), kInvalidArgument,
               "[collective] all_reduce: got MEAN of ", dtype,
               "; expected a floating dtype, because the result is written in place");
  switch (dtype) {
    case c10::ScalarType::Float:
      use<float>();
      return;
    case c10::ScalarType::Double:
      use<double>();
      return;
    case c10::ScalarType::Int:
      use<int32_t>();
      return;
    case c10::ScalarType::Long:
      use<int64_t>();
      return;
    case c10::ScalarType::Short:
      use<int16_t>();
      return;
    case c10::ScalarType::Char:
      use<int8_t>();
      return;
    case c10::ScalarType::Byte:
      use<uint8_t>();
      return;
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
      element_bytes_ = 2;
      partial_bytes_ = 4;
      reduce_ = reduce_halves;
      fill_ = dtype == c10::ScalarType::Half ? fill<c10::Half> : fill<c10::BFloat16>;
      return;
    default:
      detail::throw_error(
          ErrorCode::kInvalidArgument,
          str_cat("[collective] all_reduce: got ", dtype,
                  "; expected a real number's dtype; cast it first (bool to int32, complex to its "
                  "two parts)"));
  }
}

}  // namespace strata::collective
