#define STRATA_UPDATE_KERNELS update_kernels_avx2
#include "tensor/update_kernels.inc"
