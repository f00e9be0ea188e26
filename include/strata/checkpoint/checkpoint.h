#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/tracked.h"
#include "strata/core/export.h"

namespace strata {

struct CheckpointOptions {
  // Contents.
  /// Saves libtorch's CPU generator and the replicas' random streams, so that a resumed run draws
  /// the same numbers.
  bool random_state = true;
  /// Saves each replica's own values if the replicas differ (moving statistics, metrics in the
  /// middle of an epoch). As many replicas restore these exactly; for another number TensorFlow's
  /// rule applies: the one value for all, v/N of a sum.
  bool per_replica = true;

  // Behaviour.
  /// `save` copies the state and returns; a thread of low priority writes it.
  bool asynchronous = false;
  /// If the previous asynchronous save is still being written, a save waits for it, or is skipped.
  enum class Busy { kWait, kSkip } while_saving = Busy::kWait;
  /// Bytes of a safetensors file; larger tensors are cut by rows.
  int64_t shard_bytes = int64_t{1} << 30;
};

/// Options for callers that number checkpoints themselves (CheckpointManager).
struct WriteOptions {
  int64_t number = 0;
  std::map<std::string, double> metrics = {};
  /// Seconds since 1970; unset: the system's clock.
  std::optional<double> saved_at = {};
  /// Called when the checkpoint is on the medium, by the thread that wrote it.
  std::function<void()> on_written = {};
};

namespace detail {
class CheckpointState;
class RestoreSession;
}  // namespace detail

/// The status of a restore. Copies share it. Source: the status of tf.train.Checkpoint.restore.
///
/// If a restore left values without an object, and neither an assertion nor `expect_partial` was
/// called, a warning names these values at its end (with the Checkpoint, or at its next restore).
class STRATA_API RestoreStatus {
 public:
  explicit RestoreStatus(std::shared_ptr<detail::RestoreSession> session);

  /// Asserts that everything in the checkpoint has an object, and every object has its value.
  /// @throws Error  kFailedPrecondition: names what did not match, on both sides.
  RestoreStatus& assert_consumed();
  /// Asserts that every existing object has its value; the checkpoint may hold more.
  /// @throws Error  kFailedPrecondition: names the objects' entries that the checkpoint lacks.
  RestoreStatus& assert_existing_objects_matched();
  /// Suppresses the warning about values without an object.
  RestoreStatus& expect_partial();

  /// Restores objects that were created since (slots of an optimizer that was built later,
  /// variables of layers). The assertions do this, too. Call it before these are trained.
  RestoreStatus& restore_created();

  /// Names in the checkpoint that match no object, and the other way round.
  std::vector<std::string> unused() const;
  std::vector<std::string> unmatched() const;

  const std::string& path() const;
  /// The metrics and the number that were saved with it.
  const std::map<std::string, double>& metrics() const;
  int64_t number() const;

 private:
  std::shared_ptr<detail::RestoreSession> session_;
};

/// Objects that are saved and restored together, by name: the state of a training run.
///
///     Checkpoint checkpoint({{"model", net}, {"optimizer", adam}, {"step", step}, {"input", it}});
///     checkpoint.save("run/ckpt");                        // run/ckpt-1
///     checkpoint.restore(*latest_checkpoint("run"));
///
/// A checkpoint is a folder of safetensors files and a manifest with their SHA-256; it is written
/// completely or not at all. It may be restored under another strategy, placement, number of
/// replicas. Format and guarantees: docs/checkpoints.md.
///
/// If the replicas are in several processes, each has such a Checkpoint and makes the same calls in
/// the same order (except saving(), save_counter(), options()). The chief writes; all return when
/// it has, or throw the same error. All must see the folder. A Checkpoint without variables belongs
/// to the strategy in whose scope it is made.
///
/// Threads: one at a time, outside `run`. Cost for the caller: an asynchronous save takes one copy
/// of the state by all cores, a synchronous one the writing to disk.
/// Source: tf.train.Checkpoint.
class STRATA_API Checkpoint {
 public:
  using Objects = std::vector<std::pair<std::string, Tracked>>;

  /// @throws Error kInvalidArgument: names that are empty, duplicate, contain '/' or begin with
  /// '_'.
  explicit Checkpoint(Objects objects, CheckpointOptions options = {});
  /// Waits for a pending save; logs its error, unless it was reported.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Adds an object and restores its values from the last restored checkpoint.
  void add(const std::string& name, const Tracked& object);

  /// Saves as `<prefix>-<number of saves>`. @return that path.
  /// @throws as write.
  std::string save(const std::string& prefix);

  /// Saves as the folder `path`; a checkpoint of that name is replaced when this one is complete.
  /// @return false if it was skipped (Busy::kSkip).
  /// @throws Error  kAlreadyExists: the path is something else. kInvalidArgument, kUnimplemented: a
  ///                tensor that cannot be saved. Errors of core/file_system.h. The error of an
  ///                asynchronous save is thrown by the next call of write, save or wait.
  bool write(const std::string& path, const WriteOptions& options = {});

  /// Restores a checkpoint of `save` or `write`; `restore` also continues the count of saves.
  /// Nothing is changed unless the files are complete and every shape and dtype fits; only an
  /// iterator of another pipeline is detected later.
  /// @throws Error  kNotFound, kDataLoss (damaged; names file, what came, what was expected),
  ///                kUnimplemented (another format version). kInvalidArgument: shapes, dtypes or
  ///                values that do not fit, by name; positions of another number of workers, each
  ///                of which reads data of its own. kFailedPrecondition: workers see different
  ///                folders; it was saved with other kernels (docs/kernels.md), a run is to
  ///                continue (there is an optimizer among the objects, or a place in the input), and
  ///                STRATA_KERNELS_MISMATCH=allow is not in the environment.
  /// Cost: reading and hashing everything; memory for one more copy.
  RestoreStatus restore(const std::string& path);
  RestoreStatus read(const std::string& path);

  /// Returns when nothing is being written. @throws the pending save's error.
  void wait();
  /// True while this process is saving.
  bool saving() const;

  /// Allocates the memory of asynchronous saves now, so that the first one is as fast as the
  /// others.
  void prepare();

  int64_t save_counter() const;
  const CheckpointOptions& options() const;

 private:
  friend class CheckpointManager;
  friend class PreemptionCheckpointHandler;
  std::shared_ptr<detail::RestoreSession> open(const std::string& path);
  std::shared_ptr<detail::RestoreSession> open_together(
      const std::string& path, std::shared_ptr<detail::RestoreSession> session = {});
  std::shared_ptr<detail::RestoreSession> open_checked(const std::string& path);
  RestoreStatus apply(std::shared_ptr<detail::RestoreSession> session);
  void set_save_counter(int64_t counter);
  const ReplicaGroup& workers() const;
  void wait_local();

  std::shared_ptr<detail::CheckpointState> state_;
};

/// Returns the newest complete checkpoint `<prefix>-<number>` in `folder`, judged by manifest and
/// sizes. Incomplete ones are skipped with a warning that names them. Source:
/// tf.train.latest_checkpoint.
STRATA_API std::optional<std::string> latest_checkpoint(const std::string& folder,
                                                        const std::string& prefix = "ckpt");

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
