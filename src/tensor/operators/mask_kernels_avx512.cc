#define STRATA_MASK_KERNELS mask_kernels_avx512
#include "tensor/operators/mask_kernels.inc"
