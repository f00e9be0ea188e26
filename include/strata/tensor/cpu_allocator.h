#pragma once

#include <cstdint>

#include "strata/core/export.h"

namespace strata::tensor {

struct CpuAllocatorOptions {
  /// The bytes of free large blocks (2 MiB and more) that are kept for reuse, over all threads.
  /// Above it the least recently used classes are returned to the kernel. 0: a quarter of this
  /// machine's memory (of the control group's limit, if that is lower).
  int64_t max_cached_bytes = 0;
};

struct CpuAllocatorStats {
  int64_t in_use_bytes = 0;        ///< Allocated now, rounded up to size classes.
  int64_t mapped_bytes = 0;        ///< Mapped from the kernel now, address space.
  int64_t cached_large_bytes = 0;  ///< Its free blocks of 2 MiB and more.
  int64_t allocations = 0;         ///< Since the start.
  int64_t system_allocations = 0;  ///< Allocations that called the kernel.
};

/// Installs a caching allocator for libtorch's CPU tensors; strategies call it first. glibc returns
/// every large block to the kernel when it is freed, so that two replica threads of one process
/// fault the same pages in again each step and wait for each other's TLB shoot-downs. This one
/// keeps a freed block in its thread's magazine for the next tensor of its size class (four classes
/// for each power of two, starts aligned to 64 bytes; blocks of 2 MiB and more are aligned to 2 MiB
/// and backed by huge pages if the kernel has them).
///
/// Calling it again changes only the options that are given (not 0). Tensors made before keep their
/// own deleter; memory made here stays valid to the very end of the process.
/// @return False when the default stays: in builds with the address sanitizer (memory errors stay
///   visible) unless STRATA_CPU_ALLOCATOR=caching is in the environment, in others with
///   STRATA_CPU_ALLOCATOR=system, and when the program has set an allocator of its own with a
///   higher priority.
/// Threads: call it while no other thread makes tensors (c10::SetCPUAllocator's rule). Afterwards
///   any thread may allocate and free, also another thread's blocks.
/// Cost: 10-20 ns for an allocation and its free, no lock.
STRATA_API bool install_cpu_allocator(const CpuAllocatorOptions& options = {});

/// Returns zeros unless installed. Threads: any; a snapshot that may be a few calls old.
STRATA_API CpuAllocatorStats cpu_allocator_stats();

/// Returns free blocks to the kernel: the large ones are unmapped, the pages of the middle ones (64
/// KiB and more) dropped. Blocks in the magazines of other threads follow at those threads' next
/// large allocation or free.
/// @return Bytes returned by this call.
STRATA_API int64_t trim_cpu_allocator();

}  // namespace strata::tensor
