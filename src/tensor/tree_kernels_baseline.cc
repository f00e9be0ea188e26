#define STRATA_TREE_KERNELS tree_kernels_baseline
#include "tensor/tree_kernels.inc"
