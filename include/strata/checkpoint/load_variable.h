#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata {

struct CheckpointVariable {
  std::string name;  ///< As `strata inspect` prints it: "model/fc1.weight".
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

/// Lists the contents of a checkpoint by name, without any object to restore into: tensors, and
/// booleans, integers and numbers as scalars (bool, int64, float64). Strings, which are positions
/// of iterators, are left out.
///
/// @param path  A checkpoint, or a folder of checkpoints `ckpt-<number>`, of which the newest
///              complete one is taken.
/// @throws Error  kNotFound: no checkpoint at `path`. kDataLoss: damaged. Errors of
///                core/file_system.h. Threads: any. Cost: the manifest is read, and no shard.
/// Source: tf.train.list_variables.
STRATA_API std::vector<CheckpointVariable> list_variables(const std::string& path);

/// Loads one variable, on the CPU. If replicas keep values of their own, it is the common one.
/// @throws Error  kNotFound: no variable of that name; lists some existing ones. Otherwise as
///                list_variables. Threads: any. Cost: its shards are read whole, and their
///                checksums compared.
/// Source: tf.train.load_variable.
STRATA_API at::Tensor load_variable(const std::string& path, const std::string& name);

}  // namespace strata
