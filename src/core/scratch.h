#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/file_system.h"

/// Files and folders that are nothing yet, or no longer: being written, being replaced, being
/// removed. The process that works on one holds a lock on it (FileSystem::try_lock), which the
/// kernel drops with the process however that ends. So the remains of a dead process can be told
/// from what a living one works on, by any process of the same kernel, whatever namespaces and
/// containers the two are in; process numbers could not tell.
///
/// Other kernels may share the folder (NFS), and some file systems have no locks: there what was
/// touched within a day is left alone.
namespace strata::detail {

enum class ScratchKind {
  kTemporary,  ///< ".tmp-": being written.
  kReplaced,   ///< ".old-": steps aside for a new one of that name.
  kTrash,      ///< ".trash-": being removed.
};

struct ScratchName {
  ScratchKind kind;
  std::string kernel = {};  ///< Where it was made, see `this_kernel`.
  std::string name = {};    ///< What it is to be, or was.
};

/// A name that nothing else has: ".tmp-<kernel>-<random>-<counter>@<host>@<name>".
std::string make_scratch_name(ScratchKind kind, std::string_view name);
std::optional<ScratchName> parse_scratch_name(std::string_view text);

/// The running kernel, as it names this boot of itself; "unknown" if it does not say.
std::string this_kernel();

struct Scratch {
  std::string path;
  PathLock lock;
};

/// Makes a file or a folder (`make`, of a path) in `folder` under a new temporary name, and locks
/// it. @throws what `make` throws.
Scratch make_scratch(const FileSystem& files, const std::string& folder, std::string_view name,
                     const std::function<void(const std::string& path)>& make);

/// The lock on `path`, if the process that worked on it has ended; nullopt if it lives, if that
/// cannot be known, or if another process is cleaning up there. Keep the lock while it is removed.
std::optional<PathLock> lock_abandoned(const FileSystem& files, const std::string& path,
                                       const ScratchName& scratch);

}  // namespace strata::detail
