#define STRATA_POOL_KERNELS pool_kernels_baseline
#include "kernels/pool_kernels.inc"
