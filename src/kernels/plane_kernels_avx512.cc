#define STRATA_PLANE_KERNELS plane_kernels_avx512
#include "kernels/plane_kernels.inc"
