#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/worker_memory.h"

namespace strata::ps {

/// Where a worker's requests have their data: in memory that servers of its host map, as long as
/// there may be such servers, else in any other. What it has made may outlive it.
/// Threads: any.
class RequestMemory {
 public:
  RequestMemory();
  RequestMemory(const RequestMemory&) = delete;
  RequestMemory& operator=(const RequestMemory&) = delete;

  /// Whether servers may map it. False at first.
  void set_shared(bool shared) { shared_ = shared; }
  WorkerMemory& segments() { return segments_; }
  const WorkerMemory& segments() const { return segments_; }

  /// For data that is made for a request.
  BufferPool& pool() { return *pool_; }
  /// The same as a tensor, contiguous and of arbitrary values.
  at::Tensor make_tensor(at::IntArrayRef sizes, c10::ScalarType dtype);
  /// `tensor`, if servers can reach it or there are none that could, else a copy that they can.
  at::Tensor within_reach(const at::Tensor& tensor);
  /// To be kept: `[elements]` zeros that are unused before and after.
  at::Tensor make_buffer(int64_t elements, c10::ScalarType dtype);

 private:
  BufferPool::Block fresh_block(size_t bytes);

  std::atomic<bool> shared_{false};
  WorkerMemory segments_;
  const std::shared_ptr<BufferPool> pool_;
};

}  // namespace strata::ps
