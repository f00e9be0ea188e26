#define STRATA_UPDATE_KERNELS update_kernels_baseline
#include "tensor/update_kernels.inc"
