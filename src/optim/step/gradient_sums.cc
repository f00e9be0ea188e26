#include "optim/step/gradient_sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/nontemporal_copy.h"
#include "kernels/find_operator.h"
#include "optim/step/update_operator.h"
#include "strata/core/error.h"
#include "tensor/tree_sum.h"

namespace strata::optimizers {
namespace {

using tensor::kNormBlock;

void check_source(const at::Tensor& source, const at::Tensor& sum) {
  STRATA_CHECK(source.numel() == 0 ||
                   (source.numel() == sum.numel() && source.scalar_type() == sum.scalar_type()),
               kInvalidArgument, "[optim] add_gradients_: got a gradient of ", source.sizes(),
               " for a sum of ", sum.sizes());
}

/// `to` = the sum of elements [begin, end) of the sources, in the order of memory.
void store_sum(const at::Tensor& to, at::TensorList sources, int64_t begin, int64_t end) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& source : sources) {
    parts.push_back(source.numel() == 0 ? at::Tensor()
                                        : in_memory_order(source).slice(0, begin, end));
  }
  const at::Tensor total = tensor::reduce_in_tree_order(tensor::TreeOp::kSum, parts);
  if (total.defined()) {
    to.copy_(total);
  } else {
    to.zero_();
  }
}

/// Calls `call(variable, sources, begin, size, block)` for the blocks that are wanted.
template <typename Call>
void for_each_block(at::TensorList sums, const at::Tensor& squares, at::TensorList gradients,
                    at::IntArrayRef num_gradients, int64_t first, int64_t step, const Call& call) {
  int64_t blocks = 0;
  for (const at::Tensor& sum : sums) blocks += num_norm_blocks(sum.numel());
  STRATA_CHECK(num_gradients.size() == sums.size() && step > 0 && squares.numel() >= blocks &&
                   squares.scalar_type() == at::kDouble,
               kInvalidArgument, "[optim] add_gradients_: got ", squares.numel(),
               " places for squares and ", num_gradients.size(), " numbers of gradients for ",
               sums.size(), " variables of ", blocks, " blocks");
  int64_t block = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const at::TensorList sources = gradients.slice(0, static_cast<size_t>(num_gradients[i]));
    gradients = gradients.slice(sources.size());
    const int64_t elements = sums[i].numel();
    for (const at::Tensor& source : sources) check_source(source, sums[i]);
    for (int64_t begin = 0; begin < elements; begin += kNormBlock, ++block) {
      if (block % step != first) continue;
      call(sums[i], sources, begin, std::min(kNormBlock, elements - begin), block);
    }
  }
}

template <typename T>
double add_block(const at::Tensor& sum, at::TensorList gradients, int64_t begin, int64_t size) {
  c10::SmallVector<const T*, 16> sources;
  for (const at::Tensor& gradient : gradients) {
    sources.push_back(gradient.numel() == 0 ? nullptr : gradient.const_data_ptr<T>() + begin);
  }
  T* const to = sum.mutable_data_ptr<T>() + begin;
  tensor::sum_in_tree_order(sources.data(), static_cast<int>(sources.size()), size, to);
  return tensor::sum_of_squares(to, size);
}

void add_gradients_cpu(at::TensorList sums, const at::Tensor& squares, at::TensorList gradients,
                       at::IntArrayRef num_gradients, int64_t first, int64_t step) {
  auto* const to = squares.mutable_data_ptr<double>();
  for_each_block(sums, squares, gradients, num_gradients, first, step,
                 [&](const at::Tensor& sum, at::TensorList sources, int64_t begin, int64_t size,
                     int64_t block) {
                   to[block] = sum.scalar_type() == at::kFloat
                                   ? add_block<float>(sum, sources, begin, size)
                                   : add_block<double>(sum, sources, begin, size);
                 });
}

void add_gradients_by_libtorch(at::TensorList sums, const at::Tensor& squares,
                               at::TensorList gradients, at::IntArrayRef num_gradients,
                               int64_t first, int64_t step) {
  for_each_block(sums, squares, gradients, num_gradients, first, step,
                 [&](const at::Tensor& sum, at::TensorList sources, int64_t begin, int64_t size,
                     int64_t block) {
                   const at::Tensor to = in_memory_order(sum).slice(0, begin, begin + size);
                   store_sum(to, sources, begin, begin + size);
                   squares[block].copy_(to.to(at::kDouble).square().sum());
                 });
}

/// Elements that are added at a time, in the first-level cache.
constexpr int64_t kScaledBlock = 1024;

template <typename T>
void multiply(T* values, int64_t size, const std::array<T, 2>& factors) {
  for (const T factor : factors) {
    if (factor == T(1)) continue;
    for (int64_t i = 0; i < size; ++i) values[i] *= factor;
  }
}

template <typename T>
void add_scaled(const at::Tensor& sum, at::TensorList gradients, at::ArrayRef<double> both,
                bool cached) {
  std::vector<const T*> sources;
  for (const at::Tensor& gradient : gradients) {
    sources.push_back(gradient.numel() == 0 ? nullptr : gradient.const_data_ptr<T>());
  }
  const std::array<T, 2> factors = {static_cast<T>(both[0]), static_cast<T>(both[1])};
  const int64_t size = sum.numel();
  T* const to = sum.mutable_data_ptr<T>();
  const auto copy = [&](int64_t begin, const T* from, int64_t count) {
    if (cached) {
      std::copy_n(from, count, to + begin);
      return;
    }
    strata::detail::nontemporal_copy(reinterpret_cast<std::byte*>(to + begin),
                                     reinterpret_cast<const std::byte*>(from),
                                     count * static_cast<int64_t>(sizeof(T)));
  };
  if (sources.size() == 1 && sources[0] != nullptr && factors == std::array<T, 2>{1, 1}) {
    return copy(0, sources[0], size);
  }
  alignas(64) T block[kScaledBlock];
  for (int64_t begin = 0; begin < size; begin += kScaledBlock) {
    const int64_t count = std::min(kScaledBlock, size - begin);
    tensor::sum_in_tree_order(sources.data(), static_cast<int>(sources.size()), count, block);
    multiply(block, count, factors);
    copy(begin, block, count);
    for (const T*& source : sources) {
      if (source != nullptr) source += count;
    }
  }
}

/// Calls `call(variable, sources, factors)` for each.
template <typename Call>
void for_each_sum(at::TensorList sums, at::TensorList gradients, at::IntArrayRef num_gradients,
                  at::ArrayRef<double> factors, const Call& call) {
  STRATA_CHECK(num_gradients.size() == sums.size() && factors.size() == 2 * sums.size(),
               kInvalidArgument, "[optim] add_scaled_gradients_: got ", num_gradients.size(),
               " numbers of gradients and ", factors.size(), " factors for ", sums.size(),
               " variables");
  for (size_t i = 0; i < sums.size(); ++i) {
    const at::TensorList sources = gradients.slice(0, static_cast<size_t>(num_gradients[i]));
    gradients = gradients.slice(sources.size());
    for (const at::Tensor& source : sources) check_source(source, sums[i]);
    call(sums[i], sources, factors.slice(2 * i, 2));
  }
}

void add_scaled_gradients_cpu(at::TensorList sums, at::TensorList gradients,
                              at::IntArrayRef num_gradients, at::ArrayRef<double> factors,
                              bool cached) {
  for_each_sum(sums, gradients, num_gradients, factors,
               [&](const at::Tensor& sum, at::TensorList sources, at::ArrayRef<double> both) {
                 if (sum.scalar_type() == at::kFloat) {
                   add_scaled<float>(sum, sources, both, cached);
                 } else {
                   add_scaled<double>(sum, sources, both, cached);
                 }
               });
  if (!cached) strata::detail::nontemporal_fence();
}

void add_scaled_gradients_by_libtorch(at::TensorList sums, at::TensorList gradients,
                                      at::IntArrayRef num_gradients, at::ArrayRef<double> factors,
                                      bool /*cached*/) {
  for_each_sum(sums, gradients, num_gradients, factors,
               [](const at::Tensor& sum, at::TensorList sources, at::ArrayRef<double> both) {
                 store_sum(in_memory_order(sum), sources, 0, sum.numel());
                 for (const double factor : both) sum.mul_(factor);
               });
}

at::Tensor sums_of_blocks_cpu(const at::Tensor& squares, at::IntArrayRef sizes) {
  at::Tensor sums = at::zeros({static_cast<int64_t>(sizes.size())}, at::kDouble);
  const auto values = squares.expect_contiguous();
  const double* from = values->const_data_ptr<double>();
  auto* const to = sums.mutable_data_ptr<double>();
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int64_t block = num_norm_blocks(sizes[i]); block > 0; --block) to[i] += *from++;
  }
  return sums;
}

at::Tensor sums_of_blocks_by_libtorch(const at::Tensor& squares, at::IntArrayRef sizes) {
  at::Tensor sums = at::zeros({static_cast<int64_t>(sizes.size())}, squares.options());
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t blocks = num_norm_blocks(sizes[i]);
    sums[static_cast<int64_t>(i)].copy_(squares.slice(0, first, first + blocks).sum());
    first += blocks;
  }
  return sums;
}

at::Tensor sum_of_squares_cpu(const at::Tensor& values) {
  const auto dense = values.expect_contiguous();
  at::Tensor sum = at::empty({}, at::kDouble);
  *sum.mutable_data_ptr<double>() =
      values.scalar_type() == at::kFloat
          ? tensor::sum_of_squares(dense->const_data_ptr<float>(), values.numel())
          : tensor::sum_of_squares(dense->const_data_ptr<double>(), values.numel());
  return sum;
}

at::Tensor sum_of_squares_by_libtorch(const at::Tensor& values) {
  return values.to(at::kDouble).square().sum();
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "add_gradients_(Tensor(a!)[] sums, Tensor(b!) squares, Tensor[] gradients, "
      "int[] num_gradients, int first, int step) -> ()");
  library.def(
      "add_scaled_gradients_(Tensor(a!)[] sums, Tensor[] gradients, int[] num_gradients, "
      "float[] factors, bool cached) -> ()");
  library.def("sums_of_blocks(Tensor squares, int[] sizes) -> Tensor");
  library.def("sum_of_squares(Tensor values) -> Tensor");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("add_gradients_", add_gradients_cpu);
  library.impl("add_scaled_gradients_", add_scaled_gradients_cpu);
  library.impl("sums_of_blocks", sums_of_blocks_cpu);
  library.impl("sum_of_squares", sum_of_squares_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("add_gradients_", add_gradients_by_libtorch);
  library.impl("add_scaled_gradients_", add_scaled_gradients_by_libtorch);
  library.impl("sums_of_blocks", sums_of_blocks_by_libtorch);
  library.impl("sum_of_squares", sum_of_squares_by_libtorch);
}

}  // namespace

void add_gradients_(at::TensorList sums, const at::Tensor& squares, at::TensorList gradients,
                    at::IntArrayRef num_gradients, int64_t first, int64_t step) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto add =
      kernels::find_operator<decltype(add_gradients_cpu)>("strata::add_gradients_");
  add.call(sums, squares, gradients, num_gradients, first, step);
}

void add_scaled_gradients_(at::TensorList sums, at::TensorList gradients,
                           at::IntArrayRef num_gradients, at::ArrayRef<double> factors,
                           bool cached) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto add =
      kernels::find_operator<decltype(add_scaled_gradients_cpu)>("strata::add_scaled_gradients_");
  add.call(sums, gradients, num_gradients, factors, cached);
}

at::Tensor sums_of_blocks(const at::Tensor& squares, at::IntArrayRef sizes) {
  static const auto add =
      kernels::find_operator<decltype(sums_of_blocks_cpu)>("strata::sums_of_blocks");
  return add.call(squares, sizes);
}

at::Tensor sum_of_squares(const at::Tensor& values) {
  static const auto add =
      kernels::find_operator<decltype(sum_of_squares_cpu)>("strata::sum_of_squares");
  return add.call(values);
}

}  // namespace strata::optimizers
