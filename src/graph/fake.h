#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::graph {

/// Memory that has a size and no bytes. Asking for its address is an error that says so.
c10::Storage make_fake_memory(int64_t bytes, c10::Device device);

/// A tensor in fake memory, or in a program's, on the device that it is on.
at::Tensor tensor_in(const c10::Storage& memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset, at::ScalarType dtype);

/// A stand-in for `tensor`, in memory of its own, that a trace hands to the program.
at::Tensor fake_like(const at::Tensor& tensor);

/// A contiguous one in memory of its own.
at::Tensor fake_contiguous(at::IntArrayRef sizes, at::ScalarType dtype,
                           c10::Device device = c10::kCPU);

/// True if the exception came from asking for the address of fake memory.
bool is_access_to_fake(const c10::Error& error);

/// How many elements of memory a tensor reaches over, without its offset.
int64_t extent(at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace strata::graph
