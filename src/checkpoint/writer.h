#pragma once

#include <string>

#include "checkpoint/snapshot.h"
#include "strata/core/file_system.h"

namespace strata::checkpoint {

/// Writes `snapshot` as the checkpoint `path`, which afterwards is this one or what it was: into a
/// temporary folder beside it, everything synced, then renamed. What went wrong leaves no trace but
/// a temporary folder, and mostly not even that. Where folders cannot be renamed (object stores),
/// shards come into `path` under new names, and the manifest, which names them, replaces the old
/// one in one step.
/// @throws Error kAlreadyExists: `path` is something else than a checkpoint. And what
///         core/file_system.h throws.
void write_checkpoint(const std::string& path, Snapshot& snapshot);

/// The first half of it, for each process that writes a share: shards into `folder`, their
/// checksums into the manifest. Returns when they are on the medium.
void write_shards(const FileSystem& files, const std::string& folder, Snapshot& snapshot);

/// The second half, for one process: the manifest, then `folder` becomes `path`.
void commit(const FileSystem& files, const std::string& folder, const std::string& path,
            const Manifest& manifest);

/// Writes a file whole or not at all.
void write_file_atomically(const std::string& path, const std::string& contents);

}  // namespace strata::checkpoint
