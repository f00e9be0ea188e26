#pragma once

#include "strata/core/export.h"

namespace strata::summary {

/// True if calls of writers on this thread write. In replica functions only those of the process's
/// first replica do, so that a step of many replicas writes a number once, as in TensorFlow; the
/// other replicas' calls check their arguments and do nothing. Threads: any.
/// Source: tf.summary.should_record_summaries.
[[nodiscard]] STRATA_API bool should_record_summaries();

/// While one exists, calls of writers on this thread write only if `condition`; the innermost
/// counts:
///
///     const summary::RecordIf record(step % 100 == 0);
///
/// Threads: destroyed on the thread that made it. Source: tf.summary.record_if.
class STRATA_API RecordIf {
 public:
  explicit RecordIf(bool condition);
  ~RecordIf();
  RecordIf(const RecordIf&) = delete;
  RecordIf& operator=(const RecordIf&) = delete;

 private:
  bool previous_;
};

namespace detail {

/// Sets whether the replica of this thread records; called by the runtime.
STRATA_API void set_replica_records(bool records);

}  // namespace detail
}  // namespace strata::summary
