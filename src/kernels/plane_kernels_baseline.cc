#define STRATA_PLANE_KERNELS plane_kernels_baseline
#include "kernels/plane_kernels.inc"
