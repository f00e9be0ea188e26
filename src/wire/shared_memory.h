#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "wire/tcp/file_descriptor.h"

namespace strata::wire {

/// "Operation not permitted", of errno.
std::string system_error_text(int error);

/// A file in memory, without a name: it ends with the last descriptor and mapping, whatever becomes
/// of the processes. Its bytes are zeros, and take memory once they are touched.
/// @throws Error  kUnavailable: the system has none (says why).
FileDescriptor make_memory_file(const std::string& name, int64_t bytes);

/// A part of such a file in this process's address space.
class SharedMapping {
 public:
  SharedMapping() = default;
  /// @throws Error  kUnavailable, kResourceExhausted: the system refuses (says why).
  SharedMapping(const FileDescriptor& file, int64_t offset, int64_t bytes);
  SharedMapping(SharedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMapping();

  /// Takes the memory now, in large pages where the system gives them, so that its lack is an error
  /// and no signal later. @throws Error  kResourceExhausted.
  void reserve(const FileDescriptor& file);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace strata::wire
