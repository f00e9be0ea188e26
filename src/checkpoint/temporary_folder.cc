#include "checkpoint/temporary_folder.h"

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::checkpoint {
namespace {

void recover(const FileSystem& files, const std::string& folder, const std::string& entry,
             const ScratchName& scratch) {
  const std::string path = join_path(folder, entry);
  const auto lock = strata::detail::lock_abandoned(files, path, scratch);
  if (!lock) return;
  const std::string home = join_path(folder, scratch.name);
  if (scratch.kind == ScratchKind::kReplaced && !files.info(home)) {
    files.rename(path, home);
    files.sync_folder(folder);
    STRATA_LOG(kWarning) << "[checkpoint] " << home
                         << ": put back; the process that replaced it had died";
    return;
  }
  // Away first: where locks are unsupported, a process that was only slow then fails to give the
  // folder its name, rather than name a folder that lacks a shard.
  const auto info = files.info(path);
  if (info && info->is_folder && scratch.kind != ScratchKind::kTrash) {
    discard_checkpoint(files, path);
  } else {
    remove_folder(files, path);
  }
  STRATA_VLOG(1) << "[checkpoint] removed " << path << ", left by a process that died";
}

// Another process may remove the same.
void remove_if_there(const FileSystem& files, const std::string& path) {
  try {
    files.remove(path);
  } catch (const Error&) {
    if (files.info(path)) throw;
  }
}

std::vector<std::string> list_if_there(const FileSystem& files, const std::string& folder) {
  try {
    return files.list(folder);
  } catch (const Error&) {
    if (files.info(folder)) throw;
    return {};
  }
}

}  // namespace

void clean_up(const FileSystem& files, const std::string& folder) {
  try {
    if (!files.info(folder)) return;
    for (const std::string& entry : files.list(folder)) {
      if (const auto scratch = strata::detail::parse_scratch_name(entry)) {
        recover(files, folder, entry, *scratch);
      }
    }
  } catch (const Error& error) {
    STRATA_LOG(kWarning) << "[checkpoint] " << folder
                         << ": cannot remove what dead processes left there: " << error.what();
  }
}

void remove_folder(const FileSystem& files, const std::string& folder) {
  const auto info = files.info(folder);
  if (!info) return;
  if (!info->is_folder) return remove_if_there(files, folder);
  remove_if_there(files, join_path(folder, kManifestFile));
  for (const std::string& name : list_if_there(files, folder)) {
    remove_if_there(files, join_path(folder, name));
  }
  remove_if_there(files, folder);
}

void discard_checkpoint(const FileSystem& files, const std::string& folder) {
  if (!files.renames_folders()) return remove_folder(files, folder);
  const auto [parent, name] = split_path(folder);
  const PathLock lock = files.try_lock(folder);  // whether or not: two may remove it at once
  const std::string trash = join_path(parent, make_scratch_name(ScratchKind::kTrash, name));
  files.rename(folder, trash);
  remove_folder(files, trash);
}

}  // namespace strata::checkpoint
