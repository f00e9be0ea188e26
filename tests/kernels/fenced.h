#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace strata {

/// Memory between two pages that cannot be touched, at the end of its own pages or at the start.
class Fenced {
 public:
  enum class At { kEnd, kStart };

  explicit Fenced(const at::Tensor& values, At at = At::kEnd) : Fenced(values.numel(), at) {
    std::memcpy(data_, values.const_data_ptr(), values.nbytes());
  }
  explicit Fenced(int64_t floats, At at = At::kEnd) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    size_ = (bytes + page - 1) / page * page + 2 * page;
    start_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED) throw std::bad_alloc();
    EXPECT_EQ(mprotect(start_, page, PROT_NONE), 0);
    EXPECT_EQ(mprotect(start_ + size_ - page, page, PROT_NONE), 0);
    char* const first = at == At::kStart ? start_ + page : start_ + size_ - page - bytes;
    data_ = reinterpret_cast<float*>(first);
  }
  ~Fenced() { munmap(start_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  float* data() const { return data_; }
  at::Tensor tensor(at::IntArrayRef sizes) const {
    return torch::from_blob(data_, sizes, at::kFloat).clone();
  }

 private:
  char* start_;
  size_t size_;
  float* data_;
};

}  // namespace strata
