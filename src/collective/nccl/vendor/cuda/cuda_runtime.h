#pragma once

#include <stddef.h>

/// What <nccl.h> uses of CUDA's header: handles, with CUDA's own names for what they point to. CUDART_VERSION is not defined, so
/// <nccl.h> includes no further headers of CUDA.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
