#define STRATA_POOL_KERNELS pool_kernels_avx512
#include "kernels/pool_kernels.inc"
