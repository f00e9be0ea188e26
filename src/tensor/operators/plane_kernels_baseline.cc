#define STRATA_PLANE_KERNELS plane_kernels_baseline
#include "tensor/operators/plane_kernels.inc"
