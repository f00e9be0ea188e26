#define STRATA_LAYER_KERNELS layer_kernels_baseline
#include "tensor/layer_kernels.inc"
