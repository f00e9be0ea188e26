#define STRATA_POOL_KERNELS pool_kernels_baseline
#include "tensor/operators/pool_kernels.inc"
