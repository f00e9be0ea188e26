#define STRATA_POOL_KERNELS pool_kernels_avx2
#include "kernels/pool_kernels.inc"
