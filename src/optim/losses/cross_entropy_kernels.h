#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Plain data only, as in tensor/update_kernels.h.

namespace strata::losses {

enum LabelKind : int { kLabelInt64, kLabelInt32, kLabelUint8 };

template <typename T>
struct CrossEntropyArguments {
  const T* logits;  ///< [rows, classes]
  const void* labels;
  LabelKind label_kind;
  int64_t rows;
  int64_t classes;
  bool ignores;  ///< rows whose label is `ignored_label`: loss and gradient 0
  int64_t ignored_label;
  T* losses;      ///< [rows]
  T* difference;  ///< [rows, classes]: softmax minus one-hot; nullptr: not wanted
};

struct CrossEntropyKernels {
  /// @return -1, or the first row whose label is out of range (the results are then unspecified).
  int64_t (*forward_f32)(const CrossEntropyArguments<float>&);
  int64_t (*forward_f64)(const CrossEntropyArguments<double>&);
  /// out[r][c] = difference[r][c] * scale[r * scale_stride]; `out` may be `difference`.
  void (*backward_f32)(const float* difference, const float* scale, int64_t scale_stride,
                       int64_t rows, int64_t classes, float* out);
  void (*backward_f64)(const double* difference, const double* scale, int64_t scale_stride,
                       int64_t rows, int64_t classes, double* out);
};

const CrossEntropyKernels& cross_entropy_kernels(CpuIsa isa);  // in cross_entropy.cc
const CrossEntropyKernels& cross_entropy_kernels_baseline();
const CrossEntropyKernels& cross_entropy_kernels_avx2();
const CrossEntropyKernels& cross_entropy_kernels_avx512();

}  // namespace strata::losses
