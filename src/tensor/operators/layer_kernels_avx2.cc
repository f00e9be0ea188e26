#define STRATA_LAYER_KERNELS layer_kernels_avx2
#include "tensor/operators/layer_kernels.inc"
