#define STRATA_LAYER_KERNELS layer_kernels_avx2
#include "tensor/layer_kernels.inc"
