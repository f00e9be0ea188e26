#define STRATA_TREE_KERNELS tree_kernels_avx2
#include "tensor/tree_kernels.inc"
