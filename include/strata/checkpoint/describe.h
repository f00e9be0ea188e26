#pragma once

#include <iosfwd>
#include <string>

#include "strata/core/export.h"

namespace strata {

/// True for a folder with a manifest.json of ours, whole or not.
STRATA_API bool is_checkpoint(const std::string& path);

struct DescribeOptions {
  bool verify = true;  ///< Reads everything and compares checksums.
};

/// Prints what a checkpoint holds: when and by what it was saved, its shards, and a line for each
/// tensor (name, dtype, shape) and value.
/// @return false if it is damaged; what is wrong is printed, too.
STRATA_API bool describe_checkpoint(const std::string& path, std::ostream& out,
                                    const DescribeOptions& options = {});

/// The same for a safetensors file.
STRATA_API bool describe_safetensors(const std::string& path, std::ostream& out);

}  // namespace strata
