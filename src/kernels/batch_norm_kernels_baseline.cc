#define STRATA_BATCH_NORM_KERNELS batch_norm_kernels_baseline
#include "kernels/batch_norm_kernels.inc"
