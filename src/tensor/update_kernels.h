#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

// Nothing but plain data here: the files that include this are compiled with wider instruction
// sets, and one of their inline functions that the linker kept for everyone would crash on an older
// processor.

namespace strata::tensor {

/// The kernels, KERNEL(id, the rule's loop for elements of type T, in update_kernels.inc).
#define STRATA_UPDATE_LOOPS(KERNEL)                                   \
  KERNEL(kSgd, SGD<T>)                                                \
  KERNEL(kSgdMomentum, SGDMomentum<T, false>)                         \
  KERNEL(kSgdNesterov, SGDMomentum<T, true>)                          \
  KERNEL(kAdam, Adam<T, false>)                                       \
  KERNEL(kAdamAmsgrad, Adam<T, true>)                                 \
  KERNEL(kAdagrad, Adagrad<T, false>)                                 \
  KERNEL(kLegacyAdagrad, Adagrad<T, true>)                            \
  KERNEL(kRmsprop, RMSprop<T, false, false, false>)                   \
  KERNEL(kRmspropMomentum, RMSprop<T, false, true, false>)            \
  KERNEL(kRmspropCentered, RMSprop<T, true, false, false>)            \
  KERNEL(kRmspropCenteredMomentum, RMSprop<T, true, true, false>)     \
  KERNEL(kLegacyRmsprop, RMSprop<T, false, false, true>)              \
  KERNEL(kLegacyRmspropCentered, RMSprop<T, true, false, true>)       \
  KERNEL(kAdadelta, Adadelta<T>)                                      \
  /* learning_rate_power == -0.5 */                                   \
  KERNEL(kFtrlSquareRoot, Ftrl<T, true>)                              \
  KERNEL(kFtrlPower, Ftrl<T, false>)                                  \
  KERNEL(kAdamax, Adamax<T>)                                          \
  KERNEL(kNadam, Nadam<T>)                                            \
  KERNEL(kLion, Lion<T>)                                              \
  /* decay and the two moments; the parameter waits for the norms */  \
  KERNEL(kLambMoments, LambMoments<T>)                                \
  /* by a learning rate that holds the ratio of norms; no gradient */ \
  KERNEL(kLambStep, LambStep<T>)                                      \
  /* by a learning rate that holds the ratio; decay is its own */     \
  KERNEL(kLars, Lars<T, false>)                                       \
  KERNEL(kLarsNesterov, Lars<T, true>)                                \
  KERNEL(kScheduleFree, ScheduleFree<T>)                              \
  KERNEL(kMovingAverage, MovingAverage<T>)

#define STRATA_KERNEL_ID(id, ...) id,
enum UpdateKernelId : int { STRATA_UPDATE_LOOPS(STRATA_KERNEL_ID) kNumUpdateKernels };
#undef STRATA_KERNEL_ID

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
