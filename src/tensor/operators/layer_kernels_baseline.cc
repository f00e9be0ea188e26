#define STRATA_LAYER_KERNELS layer_kernels_baseline
#include "tensor/operators/layer_kernels.inc"
