#define STRATA_BATCH_NORM_KERNELS batch_norm_kernels_avx2
#include "tensor/operators/batch_norm_kernels.inc"
