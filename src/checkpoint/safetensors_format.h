#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/file_system.h"

/// The safetensors format: 8 bytes of length N, N bytes of JSON that say where each tensor lies,
/// the tensors back to back, all little-endian.
namespace strata::checkpoint {

/// One tensor's line in a header.
struct TensorRecord {
  std::string name = {};
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape = {};
  uint64_t begin = 0;  ///< Of its bytes, counted behind the header.
  uint64_t end = 0;

  uint64_t bytes() const;  ///< That dtype and shape take.
};

using Metadata = std::map<std::string, std::string>;

/// "F32". @throws Error kUnimplemented: the format has no such dtype; names `tensor`.
std::string_view dtype_name(at::ScalarType dtype, const std::string& tensor);
/// @throws Error kUnimplemented; names `tensor` and `path`.
at::ScalarType dtype_of(std::string_view name, const std::string& tensor, const std::string& path);

/// Sorts `records` as the format's own writer does, gives each its place and returns the file's
/// bytes before the first tensor.
std::string make_header(std::vector<TensorRecord>& records, const Metadata& metadata);

struct Header {
  std::vector<TensorRecord> records = {};  ///< In the order of their bytes.
  Metadata metadata;
  uint64_t data_begin = 0;  ///< Offset in the file of the first tensor.
};

/// @param start      The file's first bytes, at least the header.
/// @param file_size  Of the whole file.
/// @throws Error kDataLoss: not what the format allows; names `path`.
Header parse_header(std::span<const std::byte> start, uint64_t file_size, const std::string& path);

/// Reads and parses a file's header.
Header read_header(const ReadableFile& file, const std::string& path);

}  // namespace strata::checkpoint
