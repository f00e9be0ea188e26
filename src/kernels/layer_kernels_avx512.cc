#define STRATA_LAYER_KERNELS layer_kernels_avx512
#include "kernels/layer_kernels.inc"
