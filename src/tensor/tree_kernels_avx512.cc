#define STRATA_TREE_KERNELS tree_kernels_avx512
#include "tensor/tree_kernels.inc"
