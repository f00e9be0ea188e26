#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "strata/core/file_system.h"

/// Folders that are not checkpoints: being written, being replaced, being removed. Their names say
/// which process made them, so that what a dead one left behind can be told from what a living one
/// works on.
namespace strata::checkpoint {

enum class ScratchKind {
  kTemporary,  ///< ".tmp-": being written.
  kReplaced,   ///< ".old-": steps aside for a new checkpoint of that name.
  kTrash,      ///< ".trash-": being removed.
};

struct ScratchName {
  ScratchKind kind;
  std::string host = {};
  int64_t pid = 0;
  int64_t started = 0;    ///< When the process did, as /proc says.
  std::string name = {};  ///< Of the checkpoint.
};

/// A name that nobody else has: ".tmp-<pid>-<started>-<counter>@<host>@<name>".
std::string make_scratch_name(ScratchKind kind, std::string_view name);
std::optional<ScratchName> parse_scratch_name(std::string_view text);

/// True if the process that made it is gone: on this host by its id and start, elsewhere if it was
/// not touched for a day.
bool is_abandoned(const ScratchName& scratch, const FileInfo& info);

/// Removes what dead processes left in `folder`, and puts back what one of them had moved aside
/// without bringing the new one. Failures are logged: a folder may be read-only.
void clean_up(const FileSystem& files, const std::string& folder);

/// Removes a folder of files, its manifest first: without that it is no checkpoint.
void remove_folder(const FileSystem& files, const std::string& folder);

/// Moves `folder` aside in one step, then removes it. @throws as FileSystem.
void discard_checkpoint(const FileSystem& files, const std::string& folder);

}  // namespace strata::checkpoint
