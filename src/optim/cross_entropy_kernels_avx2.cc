#define STRATA_CROSS_ENTROPY_KERNELS cross_entropy_kernels_avx2
#include "optim/cross_entropy_kernels.inc"
