#define STRATA_PLANE_KERNELS plane_kernels_avx2
#include "tensor/plane_kernels.inc"
