#define STRATA_MASK_KERNELS mask_kernels_baseline
#include "tensor/mask_kernels.inc"
