#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

/// What a summary holds: numbers, or strings.
struct SummaryTensor {
  std::string dtype;  ///< "float32", "string" and so on; "" for none
  std::vector<int64_t> shape;
  std::vector<double> numbers;  ///< of float16 to float64, int32, int64 (to 2^53), uint8 and bool
  std::vector<std::string> strings;
};

struct SummaryValue {
  std::string tag;
  std::string plugin;   ///< "scalars", "histograms", "images", "text", "hparams", ...; it may be
                        ///< empty behind the first record of a tag
  std::string content;  ///< the plugin's own metadata
  SummaryTensor tensor;
};

struct Event {
  double wall_time = 0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version;  ///< "brain.Event:2" in the first event of a file
  std::string graph_def;     ///< bytes of a tensorflow.GraphDef
  std::vector<SummaryValue> values;
};

struct EventFileDamage {
  uint64_t offset;  ///< bytes
  std::string what;
};

/// Reads an event file, also of other programs.
///
/// Damage: a record whose data is damaged is left out, and the file is read on, as TensorBoard's
/// own server does; `damage` has a line for each. Where a length is damaged it is unknown where the
/// next record starts: `next` stops there. A record that is cut off at the end is no damage: its
/// writer may be at work, and a later `next` looks again. Threads: one at a time.
class STRATA_API EventReader {
 public:
  /// @throws Error  as FileSystem::open; kDataLoss: its beginning is no record.
  explicit EventReader(const std::string& path);
  ~EventReader();
  EventReader(EventReader&&) noexcept;
  EventReader& operator=(EventReader&&) noexcept;

  /// @return false: there are no more whole records.
  /// @throws Error  as ReadableFile::read.
  bool next(Event& out);

  const std::vector<EventFileDamage>& damage() const;
  /// Bytes behind the last whole record.
  uint64_t cut_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// All of a file. Damage is logged.
STRATA_API std::vector<Event> read_events(const std::string& path);

/// The event files in `folder` (not below it) in the order of their names: what TensorBoard takes
/// for one run. Damage is logged.
STRATA_API std::vector<Event> read_run(const std::string& folder);

struct ScalarPoint {
  int64_t step;
  double wall_time;
  double value;
};

/// The curves that TensorBoard shows: where the steps of a tag go back, since a run was resumed
/// from a checkpoint, the older points from there on are dropped.
STRATA_API std::map<std::string, std::vector<ScalarPoint>> scalars_of(
    const std::vector<Event>& events);

}  // namespace strata::summary
