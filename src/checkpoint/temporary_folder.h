#pragma once

#include <string>

#include "core/scratch.h"
#include "strata/core/file_system.h"

/// Folders that are not checkpoints: being written, being replaced, being removed (core/scratch.h).
namespace strata::checkpoint {

using strata::detail::make_scratch;
using strata::detail::make_scratch_name;
using strata::detail::Scratch;
using strata::detail::ScratchKind;
using strata::detail::ScratchName;

/// Removes what dead processes left in `folder`, and puts back what one of them had moved aside
/// without bringing the new one. Failures are logged: a folder may be read-only.
void clean_up(const FileSystem& files, const std::string& folder);

/// Removes a folder of files, its manifest first: without that it is no checkpoint. Another process may do
/// the same at once.
void remove_folder(const FileSystem& files, const std::string& folder);

/// Moves `folder` aside in one step, where the file system can, then removes it. @throws as FileSystem.
void discard_checkpoint(const FileSystem& files, const std::string& folder);

}  // namespace strata::checkpoint
