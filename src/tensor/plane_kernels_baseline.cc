#define STRATA_PLANE_KERNELS plane_kernels_baseline
#include "tensor/plane_kernels.inc"
