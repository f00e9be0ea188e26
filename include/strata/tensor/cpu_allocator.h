#pragma once

#include <cstdint>

#include "strata/core/export.h"

namespace strata::tensor {

struct CpuAllocatorOptions {
  /// Bytes of free large blocks (2 MiB and more) that are kept for reuse, over all threads. Above
  /// it the classes that rested longest go back to the kernel. 0: a quarter of this machine's
  /// memory (of the control group's limit, where that is lower).
  int64_t max_cached_bytes = 0;
};

struct CpuAllocatorStats {
  int64_t in_use_bytes = 0;        ///< Handed out now, rounded up to size classes.
  int64_t mapped_bytes = 0;        ///< Taken from the kernel now, address space.
  int64_t cached_large_bytes = 0;  ///< Of those, free blocks of 2 MiB and more.
  int64_t allocations = 0;         ///< Since the start.
  int64_t system_allocations = 0;  ///< Of those, the ones that had to ask the kernel.
};

/// Makes a caching allocator the one that libtorch takes CPU tensors from; strategies call it
/// first. glibc gives every large block back to the kernel when it is freed, so that two replica
/// threads of one process fault the same pages in again each step and wait for each other's TLB
/// shoot-downs. Here a freed block waits in its thread's magazine for the next tensor of its size
/// class (four classes a power of two, starts aligned to 64 bytes; blocks of 2 MiB and more are
/// aligned to 2 MiB and backed by huge pages where the kernel gives them).
///
/// Calling it again changes the options that are given (not 0) only. Tensors made before keep their
/// own way of being freed; memory made here stays valid to the very end of the process.
/// @return False when the default stays: in builds with the address sanitizer (memory errors stay
///   visible) unless STRATA_CPU_ALLOCATOR=caching is in the environment, in others with
///   STRATA_CPU_ALLOCATOR=system, and when the program has set an allocator of its own with a
///   higher priority.
/// Threads: call it while no other thread makes tensors (c10::SetCPUAllocator's rule). Afterwards
///   any thread may allocate and free, also what another thread allocated.
/// Cost: 10-20 ns for an allocation and its free, no lock.
STRATA_API bool install_cpu_allocator(const CpuAllocatorOptions& options = {});

/// All zero unless installed. Threads: any; a snapshot that may be a few calls old.
STRATA_API CpuAllocatorStats cpu_allocator_stats();

/// Gives free blocks back to the kernel: the large ones are unmapped, the pages of the middle ones
/// (64 KiB and more) dropped. Blocks in the magazines of other threads follow at those threads'
/// next large allocation or free.
/// @return Bytes given back by this call.
STRATA_API int64_t trim_cpu_allocator();

}  // namespace strata::tensor
