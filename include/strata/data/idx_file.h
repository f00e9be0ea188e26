#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "strata/core/export.h"
#include "strata/core/read_limits.h"

namespace strata::data {

/// Reads an IDX file, the format of MNIST: two zero bytes, a type code, the number of dimensions,
/// the dimensions as 32-bit big-endian numbers, then the values in C order. Codes: 0x08 uint8, 0x09
/// int8, 0x0B int16, 0x0C int32, 0x0D float32, 0x0E float64; values come in the host's byte order.
/// Gzipped files are detected by their first bytes, not by their name; their checksum is verified.
/// @return `[*dimensions]`, on the CPU.
/// @throws Error as FileSystem::open. kDataLoss: not an IDX file, truncated, bytes left over,
/// damaged gzip. kUnimplemented: gzipped, and strata was built without zlib. Each names file,
/// offset, what was expected and what was found. kResourceExhausted: gzipped, and its values exceed
/// `limits.unpacked_bytes`, or exceed 16 MiB and `limits.expansion` times the file. Threads: any.
/// Source: yann.lecun.com/exdb/mnist.
STRATA_API at::Tensor read_idx_file(const std::string& path, const ReadLimits& limits = {});

}  // namespace strata::data
