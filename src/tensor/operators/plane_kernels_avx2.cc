#define STRATA_PLANE_KERNELS plane_kernels_avx2
#include "tensor/operators/plane_kernels.inc"
