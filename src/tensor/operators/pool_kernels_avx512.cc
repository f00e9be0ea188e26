#define STRATA_POOL_KERNELS pool_kernels_avx512
#include "tensor/operators/pool_kernels.inc"
