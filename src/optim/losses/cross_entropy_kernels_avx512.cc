#define STRATA_CROSS_ENTROPY_KERNELS cross_entropy_kernels_avx512
#include "optim/losses/cross_entropy_kernels.inc"
