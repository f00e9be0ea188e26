#define STRATA_BATCH_NORM_KERNELS batch_norm_kernels_avx2
#include "kernels/batch_norm_kernels.inc"
