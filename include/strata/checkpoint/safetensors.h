#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes `tensors` as a safetensors file, for `safetensors.numpy.load_file` and the other readers
/// of the format. The bytes are those of Python's package: tensors by dtype, wide ones first, and
/// then by name. The file is written completely or not at all (temporary file, fsync, rename).
///
/// @param tensors   Any shape and device, dense: bool, integers, float8 to float64, complex64.
/// @param metadata  Is written to the header as "__metadata__".
/// @throws Error  kInvalidArgument: a duplicate name or "__metadata__", a tensor that is undefined
///                or sparse. kUnimplemented: a dtype that the format does not have. Errors of
///                core/file_system.h.
/// Threads: any. Source: huggingface/safetensors 0.8.
STRATA_API void save_safetensors(const std::string& path, const NamedTensors& tensors,
                                 const std::map<std::string, std::string>& metadata = {});

/// Loads every tensor of the file, on the CPU, in the order of their bytes.
/// @throws Error  kDataLoss: not a safetensors file, or damaged; names the fault and its place.
///                kUnimplemented: a dtype that libtorch does not have. Errors of
///                core/file_system.h.
STRATA_API NamedTensors load_safetensors(const std::string& path);

}  // namespace strata
