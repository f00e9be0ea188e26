#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes `tensors` as a safetensors file: what `safetensors.numpy.load_file` and the other readers
/// of the format take. The bytes are those that Python's package writes: tensors by dtype, wide
/// ones first, and then by name. The file appears whole or not at all (temporary file, fsync,
/// rename).
///
/// @param tensors   Any shape and device, dense: bool, integers, float8 to float64, complex64.
/// @param metadata  Goes into the header as "__metadata__".
/// @throws Error  kInvalidArgument: a name twice or "__metadata__", a tensor that is undefined or
///                sparse. kUnimplemented: a dtype that the format does not have. And what
///                core/file_system.h throws.
/// Threads: any. Source: huggingface/safetensors 0.8.
STRATA_API void save_safetensors(const std::string& path, const NamedTensors& tensors,
                                 const std::map<std::string, std::string>& metadata = {});

/// Every tensor of the file, on the CPU, in the order of their bytes.
/// @throws Error  kDataLoss: not a safetensors file, or damaged; says what is wrong where.
///                kUnimplemented: a dtype that libtorch does not have. And what core/file_system.h
///                throws.
STRATA_API NamedTensors load_safetensors(const std::string& path);

}  // namespace strata
