#pragma once

#include <optional>
#include <string>
#include <vector>

namespace strata::checkpoint {

/// A checkpoint in a manager's folder.
struct ManagedCheckpoint {
  std::string path = {};
  int64_t number = 0;
  double saved_at = 0;
  std::optional<double> metric = {};  ///< The one that decides which is best.
};

struct FolderListing {
  std::vector<ManagedCheckpoint> good = {};  ///< By manifest and sizes; oldest first.
  std::vector<std::string> damaged = {};     ///< "path: what is wrong"
};

/// The folders <name>-<number> in `folder`, but for those in an object store that are not written to
/// their end. Nothing for a folder that does not exist.
FolderListing list_checkpoints(const std::string& folder, const std::string& name,
                               const std::string& metric = {});

/// What a manager cannot see in the checkpoints themselves.
struct PreservedState {
  double last_preserved = 0;                ///< Seconds since 1970.
  std::vector<std::string> preserved = {};  ///< Names of those that stay for good.
};

/// <folder>/<name>-manager.json. @return nullopt, with a warning if there is one, when it is not
/// readable.
std::optional<PreservedState> read_preserved(const std::string& folder, const std::string& name);
void write_preserved(const std::string& folder, const std::string& name,
                     const PreservedState& state);

}  // namespace strata::checkpoint
