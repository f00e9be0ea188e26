#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Nothing but plain data here: the files that include this are compiled with wider instruction
// sets, and one of their inline functions that the linker kept for everyone would crash on an older
// processor.

namespace strata::tensor {

enum UpdateKernelId : int {
  kSgd,
  kSgdMomentum,
  kSgdNesterov,
  kAdam,
  kAdamAmsgrad,
  kAdagrad,
  kRmsprop,
  kRmspropMomentum,
  kRmspropCentered,
  kRmspropCenteredMomentum,
  kAdadelta,
  kFtrlSquareRoot,  ///< learning_rate_power == -0.5
  kFtrlPower,
  kAdamax,
  kNadam,
  kLion,
  kLambMoments,  ///< decay and the two moments; the parameter waits for the norms
  kLambStep,     ///< by a learning rate that holds the ratio of norms; no gradient
  kMovingAverage,
  kNumUpdateKernels,
};

template <typename T>
struct UpdateArguments {
  T* parameter;
  const T* gradient;  ///< nullptr: zeros
  T* slots[4];
  T* copy;  ///< nullptr: none
  int64_t size;
  T gradient_scale;
  T clip_limit;  ///< infinity: no clipping
  T weight_decay;
  T learning_rate;
  T constants[6];
};

template <typename T>
using UpdateKernel = void (*)(const UpdateArguments<T>&);

struct UpdateKernels {
  UpdateKernel<float> f32[kNumUpdateKernels];
  UpdateKernel<double> f64[kNumUpdateKernels];
};

const UpdateKernels& update_kernels(CpuIsa isa);  // in update_rule.cc
const UpdateKernels& update_kernels_baseline();
const UpdateKernels& update_kernels_avx2();
const UpdateKernels& update_kernels_avx512();

}  // namespace strata::tensor
