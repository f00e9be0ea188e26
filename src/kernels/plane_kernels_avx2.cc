#define STRATA_PLANE_KERNELS plane_kernels_avx2
#include "kernels/plane_kernels.inc"
