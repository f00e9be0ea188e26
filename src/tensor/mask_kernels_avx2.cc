#define STRATA_MASK_KERNELS mask_kernels_avx2
#include "tensor/mask_kernels.inc"
