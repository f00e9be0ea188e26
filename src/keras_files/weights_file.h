#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "keras_files/weights_tree.h"
#include "strata/core/read_limits.h"

namespace strata::keras_files {

/// False if this strata was built without HDF5 and libzip: then every function that reads or writes
/// a file of Keras's throws kUnimplemented and says what to install.
bool have_keras_files();

/// Reads what Keras's `save_weights` wrote: NAME.weights.h5, or NAME.weights.json with the shards
/// that it names. Dtypes: float64 to float16, bfloat16, integers and bool, in either byte order,
/// contiguous, chunked or gzipped.
///
/// Nothing in the file is trusted: sizes are held against the bytes that are there before memory
/// is taken; links that are no hard links, external and virtual datasets, and filters other than
/// HDF5's own are refused. We parse the format ourselves (HDF5's library crashes on damaged files),
/// and every number in it is held against the bytes that are there: damage ends in an error, or in
/// other values, since a bare `.h5` file has no checksums. A `.keras` archive has them.
///
/// @throws Error  kDataLoss: no HDF5, damaged, or refused; names the file, the group and the cause.
///                kUnimplemented: a dtype or filter that we do not read, and forms of HDF5 that
///                h5py chooses only on request (links or attributes outside of headers, committed
///                types, chunks of version 4, user blocks). kResourceExhausted: more than `limits`,
///                or no memory. And what core/file_system.h throws.
/// Threads: any. Cost: the file and its tensors are in memory at once. A file that uses its parts
/// several times over (nodes of trees, links, texts, data) is refused once that is more than its
/// own bytes could hold.
WeightsGroup load_weights_file(const std::string& path, const ReadLimits& limits = {});

/// The same for bytes; `source` names them in errors ("model.keras: model.weights.h5").
WeightsGroup parse_weights(std::span<const std::byte> bytes, const std::string& source,
                           const ReadLimits& limits = {});

/// Writes NAME.weights.h5 as Keras does: contiguous little-endian datasets, attributes `name`, no
/// times: equal trees give equal bytes. The file appears whole or not at all. Beyond 1 GB the bytes
/// go through a temporary file (TMPDIR), not through memory.
///
/// @throws Error  kInvalidArgument: a tensor that is undefined, sparse or of a dtype that Keras
///                does not store; names group and index. kResourceExhausted: no room. And what
///                core/file_system.h throws.
void save_weights_file(const WeightsGroup& weights, const std::string& path);

/// The bytes that `save_weights_file` writes.
std::string serialize_weights(const WeightsGroup& weights);

}  // namespace strata::keras_files
