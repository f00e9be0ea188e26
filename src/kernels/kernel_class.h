#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Shapes for which one choice is made: whether this library's kernel runs, or libtorch's. What a
/// class holds and its name are in `kKernelClasses`, in the same order.
enum class KernelClass : uint8_t {
  kMatmulSmall,
  kMatmulTransposed,
  kMatmulTall,
  kMatmulWide,
  kMatmulSquare,
  kMatmulBatched,
  kMatmulBfloat16,
  kConvPointwise,
  kConvWinograd,
  kConvFewChannels,
  kConvManyChannels,
  kConvStrided,
  kAttention,
  kLayerNorm,
  kActivation,
  kSoftmax,
  kLstm,
  kGru,
  kEmbedding,
  kDenseLayer,
  kRelu,
  kMaxPool,
  kBatchNorm,
  kImageCopy,
};

struct KernelClassInfo {
  KernelClass id;
  std::string_view name;    ///< a family, and in a family of several a dot and the class
  std::string_view shapes;  ///< for people
  CpuIsa least;             ///< the narrowest instruction set with kernels for it
  bool by_default;          ///< strata's kernel runs where the table's row has no measurement

  constexpr std::string_view family() const { return name.substr(0, name.find('.')); }
};

/// The narrowest instruction set with kernels for products, and for what is made of them, that are
/// faster than libtorch's.
inline constexpr CpuIsa kProducts = CpuIsa::kAvx2;

inline constexpr std::array kKernelClasses = {
    KernelClassInfo{KernelClass::kMatmulSmall, "matmul.small", "fewer than 2^19 multiplications",
                    kProducts, false},
    KernelClassInfo{KernelClass::kMatmulTransposed, "matmul.transposed",
                    "a side that lies by columns", kProducts, false},
    KernelClassInfo{KernelClass::kMatmulTall, "matmul.tall", "four times as many rows as columns",
                    kProducts, false},
    KernelClassInfo{KernelClass::kMatmulWide, "matmul.wide", "four times as many columns as rows",
                    kProducts, false},
    KernelClassInfo{KernelClass::kMatmulSquare, "matmul.square", "other products", kProducts,
                    false},
    KernelClassInfo{KernelClass::kMatmulBatched, "matmul.batched", "products of one matrix a batch",
                    kProducts, false},
    KernelClassInfo{KernelClass::kMatmulBfloat16, "matmul.bfloat16", "products of 16-bit floats",
                    CpuIsa::kAvx512, true},
    KernelClassInfo{KernelClass::kConvPointwise, "convolution.pointwise", "1 x 1", kProducts,
                    false},
    KernelClassInfo{KernelClass::kConvWinograd, "convolution.winograd",
                    "3 x 3, 16 channels or more on both sides", kProducts, false},
    KernelClassInfo{KernelClass::kConvFewChannels, "convolution.few_channels",
                    "stride 1, fewer than 16 channels", kProducts, false},
    KernelClassInfo{KernelClass::kConvManyChannels, "convolution.many_channels",
                    "stride 1, other kernels of 16 channels or more", kProducts, false},
    KernelClassInfo{KernelClass::kConvStrided, "convolution.strided",
                    "stride 2 over at most 4 channels", kProducts, false},
    KernelClassInfo{KernelClass::kAttention, "attention", "scaled dot products", kProducts, true},
    KernelClassInfo{KernelClass::kLayerNorm, "layer_norm", "normalization of rows",
                    CpuIsa::kBaseline, true},
    KernelClassInfo{KernelClass::kActivation, "activation", "gelu, tanh, sigmoid",
                    CpuIsa::kBaseline, true},
    KernelClassInfo{KernelClass::kSoftmax, "softmax", "of the last dimension", CpuIsa::kBaseline,
                    true},
    KernelClassInfo{KernelClass::kLstm, "recurrent.lstm", "all steps of an LSTM", kProducts, true},
    KernelClassInfo{KernelClass::kGru, "recurrent.gru", "all steps of a GRU", kProducts, true},
    KernelClassInfo{KernelClass::kEmbedding, "embedding", "gradients of rows", CpuIsa::kBaseline,
                    true},
    KernelClassInfo{KernelClass::kDenseLayer, "dense_layer", "the node behind addmm",
                    CpuIsa::kBaseline, true},
    KernelClassInfo{KernelClass::kRelu, "relu", "all", CpuIsa::kBaseline, true},
    KernelClassInfo{KernelClass::kMaxPool, "max_pool", "2 x 2, and 3 x 3 two apart",
                    CpuIsa::kBaseline, true},
    KernelClassInfo{KernelClass::kBatchNorm, "batch_norm", "contiguous planes", CpuIsa::kBaseline,
                    true},
    KernelClassInfo{KernelClass::kImageCopy, "image_copy", "to and from channels last",
                    CpuIsa::kBaseline, true},
};
inline constexpr size_t kNumKernelClasses = kKernelClasses.size();

constexpr size_t index_of(KernelClass id) { return static_cast<size_t>(id); }

static_assert([] {
  for (size_t i = 0; i < kNumKernelClasses; ++i) {
    if (index_of(kKernelClasses[i].id) != i) return false;
  }
  return true;
}());

/// Of one product [m, k] x [k, n] of float32. @param transposed  A side lies by columns.
constexpr KernelClass matmul_class(int64_t m, int64_t n, int64_t k, bool transposed) {
  constexpr int64_t kSmall = int64_t{1} << 19;
  if (m * n * k < kSmall) return KernelClass::kMatmulSmall;
  if (transposed) return KernelClass::kMatmulTransposed;
  if (m >= 4 * n) return KernelClass::kMatmulTall;
  if (n >= 4 * m) return KernelClass::kMatmulWide;
  return KernelClass::kMatmulSquare;
}

}  // namespace strata::kernels
