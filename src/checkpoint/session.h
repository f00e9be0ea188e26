#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/background.h"
#include "checkpoint/graph.h"
#include "checkpoint/reader.h"
#include "checkpoint/snapshot.h"
#include "runtime/replica_group.h"
#include "strata/checkpoint/checkpoint.h"

namespace strata::detail {

/// What a Checkpoint and the statuses of its restores share.
class CheckpointState {
 public:
  CheckpointState(checkpoint::Objects objects, CheckpointOptions options,
                  std::shared_ptr<ReplicaGroup> scope)
      : objects(std::move(objects)), options(options), scope(std::move(scope)) {}

  checkpoint::Graph graph() {
    checkpoint::Graph graph = checkpoint::walk(objects, options.random_state, save_counter, scope);
    workers = graph.workers;
    return graph;
  }

  checkpoint::Objects objects;
  const CheckpointOptions options;
  const std::shared_ptr<ReplicaGroup> scope;  // where the Checkpoint was made
  std::shared_ptr<ReplicaGroup> workers;      // as the last graph has it
  int64_t save_counter = 0;
  checkpoint::Staging staging;
  std::shared_ptr<RestoreSession> last_restore;  // for objects that come later
  checkpoint::Background background;             // last: its job uses the others
};

/// A loaded checkpoint and how much of it has found its objects.
class RestoreSession {
 public:
  RestoreSession(std::weak_ptr<CheckpointState> state, checkpoint::Loaded loaded);
  ~RestoreSession();

  /// Gives every entry that has none yet its value. All shapes and dtypes are checked first.
  void apply();

  std::vector<std::string> unused() const;
  std::vector<std::string> unmatched() const;
  void check(bool everything);
  void suppress_warning() { quiet_ = true; }
  const checkpoint::Loaded& loaded() const { return loaded_; }

 private:
  void check_shapes(const checkpoint::Graph& graph) const;
  void write(const checkpoint::GraphTensor& tensor, const checkpoint::LoadedTensor& value) const;
  void write(const checkpoint::GraphValue& value) const;

  std::weak_ptr<CheckpointState> state_;  // which owns the last session
  checkpoint::Loaded loaded_;
  std::set<std::string> restored_;    // names that have their value
  std::vector<std::string> missing_;  // names of objects that the checkpoint lacks
  bool quiet_ = false;
};

}  // namespace strata::detail
