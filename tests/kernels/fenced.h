#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace strata {

/// Memory between two pages that cannot be touched, at the end of its own pages or at the start.
class FencedBytes {
 public:
  enum class At { kEnd, kStart };

  explicit FencedBytes(size_t bytes, At at = At::kEnd) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + 2 * page;
    start_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || mprotect(start_, page, PROT_NONE) != 0 ||
        mprotect(start_ + size_ - page, page, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    data_ = at == At::kStart ? start_ + page : start_ + size_ - page - bytes;
  }
  ~FencedBytes() { munmap(start_, size_); }
  FencedBytes(const FencedBytes&) = delete;
  FencedBytes& operator=(const FencedBytes&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  char* start_;
  size_t size_;
  void* data_;
};

/// Floats in such memory.
class Fenced {
 public:
  using At = FencedBytes::At;

  explicit Fenced(const at::Tensor& values, At at = At::kEnd) : Fenced(values.numel(), at) {
    std::memcpy(data(), values.const_data_ptr(), values.nbytes());
  }
  explicit Fenced(int64_t floats, At at = At::kEnd)
      : memory_(static_cast<size_t>(floats) * sizeof(float), at) {}

  float* data() const { return static_cast<float*>(memory_.data()); }
  at::Tensor tensor(at::IntArrayRef sizes) const {
    return torch::from_blob(data(), sizes, at::kFloat).clone();
  }

 private:
  FencedBytes memory_;
};

/// A copy of a dense tensor in such memory, with its strides.
class FencedTensor {
 public:
  explicit FencedTensor(const at::Tensor& values, FencedBytes::At at)
      : memory_(values.nbytes(), at) {
    std::memcpy(memory_.data(), values.const_data_ptr(), values.nbytes());
    tensor_ = torch::from_blob(memory_.data(), values.sizes(), values.strides(), values.options());
  }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  FencedBytes memory_;
  at::Tensor tensor_;
};

}  // namespace strata
