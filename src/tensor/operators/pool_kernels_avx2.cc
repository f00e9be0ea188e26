#define STRATA_POOL_KERNELS pool_kernels_avx2
#include "tensor/operators/pool_kernels.inc"
