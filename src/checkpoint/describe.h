#pragma once

#include <iosfwd>
#include <string>

#include "strata/core/export.h"

namespace strata {

/// True for a folder with strata's manifest.json, complete or not.
STRATA_API bool is_checkpoint(const std::string& path);

struct DescribeOptions {
  bool verify = true;  ///< Reads everything and compares checksums.
};

/// Prints the contents of a checkpoint: the time and program of the save, its shards, and a line
/// for each tensor (name, dtype, shape) and value.
/// @return false if it is damaged; the fault is printed, too.
STRATA_API bool describe_checkpoint(const std::string& path, std::ostream& out,
                                    const DescribeOptions& options = {});

/// Does the same for a safetensors file.
STRATA_API bool describe_safetensors(const std::string& path, std::ostream& out);

}  // namespace strata
