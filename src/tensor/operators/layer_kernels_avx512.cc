#define STRATA_LAYER_KERNELS layer_kernels_avx512
#include "tensor/operators/layer_kernels.inc"
