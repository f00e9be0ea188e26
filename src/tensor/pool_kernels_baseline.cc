#define STRATA_POOL_KERNELS pool_kernels_baseline
#include "tensor/pool_kernels.inc"
