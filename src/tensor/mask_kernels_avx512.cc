#define STRATA_MASK_KERNELS mask_kernels_avx512
#include "tensor/mask_kernels.inc"
