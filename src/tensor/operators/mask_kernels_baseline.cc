#define STRATA_MASK_KERNELS mask_kernels_baseline
#include "tensor/operators/mask_kernels.inc"
