#define STRATA_LAYER_KERNELS layer_kernels_baseline
#include "kernels/layer_kernels.inc"
