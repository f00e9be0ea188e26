#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "strata/core/file_system.h"

namespace strata::keras_files {

/// Bytes as a file.
class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::string bytes)
      : owned_(std::move(bytes)), bytes_(std::as_bytes(std::span(owned_))) {}
  /// `bytes` must outlive it.
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  size_t read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return 0;
    const size_t size = std::min<size_t>(out.size(), bytes_.size() - offset);
    if (size > 0) std::memcpy(out.data(), bytes_.data() + offset, size);
    return size;
  }
  uint64_t size() const override { return bytes_.size(); }

 private:
  std::string owned_;
  std::span<const std::byte> bytes_;
};

}  // namespace strata::keras_files
