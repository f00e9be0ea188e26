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

/// What a checkpoint holds, by name, without any object to restore it into: tensors, and booleans,
/// integers and numbers as scalars (bool, int64, float64). Texts, which are positions of iterators,
/// are left out.
///
/// @param path  A checkpoint, or a folder of checkpoints `ckpt-<number>`, of which the newest whole
///              one is taken.
/// @throws Error  kNotFound: no checkpoint there. kDataLoss: damaged. And what core/file_system.h
///                throws. Threads: any. Cost: the manifest is read, and no shard.
/// Source: tf.train.list_variables.
STRATA_API std::vector<CheckpointVariable> list_variables(const std::string& path);

/// One of them, on the CPU. Where replicas keep values of their own, it is the one that stands for
/// all.
/// @throws Error  kNotFound: no variable of that name; names some that are there. And as
///                list_variables. Threads: any. Cost: the shards that hold it are read whole, and
///                their checksums compared.
/// Source: tf.train.load_variable.
STRATA_API at::Tensor load_variable(const std::string& path, const std::string& name);

}  // namespace strata
