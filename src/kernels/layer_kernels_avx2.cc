#define STRATA_LAYER_KERNELS layer_kernels_avx2
#include "kernels/layer_kernels.inc"
