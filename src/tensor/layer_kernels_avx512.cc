#define STRATA_LAYER_KERNELS layer_kernels_avx512
#include "tensor/layer_kernels.inc"
