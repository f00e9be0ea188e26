#define STRATA_PLANE_KERNELS plane_kernels_avx512
#include "tensor/operators/plane_kernels.inc"
