#pragma once

#include "strata/core/export.h"

namespace strata::summary {

/// Whether calls of writers on this thread write. In a replica function only those of its process's
/// first replica do, so that a step of many replicas writes a number once, as in TensorFlow; the
/// other replicas' calls check their arguments and do nothing. Threads: any.
/// Source: tf.summary.should_record_summaries.
[[nodiscard]] STRATA_API bool should_record_summaries();

/// While it lives, calls of writers on this thread write only if `condition`; of nested ones the
/// innermost counts:
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

/// Whether the replica that this thread runs records; set by the runtime.
STRATA_API void set_replica_records(bool records);

}  // namespace detail
}  // namespace strata::summary
