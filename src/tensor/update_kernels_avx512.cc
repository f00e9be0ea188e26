#define STRATA_UPDATE_KERNELS update_kernels_avx512
#include "tensor/update_kernels.inc"
