#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <variant>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

/// A hyperparameter: a number, a text or a flag.
struct HparamValue {
  HparamValue(bool flag) : value(flag) {}                      // NOLINT: so that {"lr", 0.1} works
  HparamValue(const char* text) : value(std::string(text)) {}  // NOLINT
  HparamValue(std::string text) : value(std::move(text)) {}    // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> HparamValue(T number)  // NOLINT
      : value(static_cast<double>(number)) {}

  std::variant<double, std::string, bool> value;
};

/// The outcome of a run; TensorBoard's numbers.
enum class SessionStatus { kSuccess = 1, kFailure = 2, kRunning = 3 };

struct GraphNode {
  std::string name;  ///< "dense/MatMul" is drawn in the box "dense"
  std::string op;    ///< "MatMul"
  std::vector<std::string>
      inputs;               ///< names of nodes; "^name": runs after it; "name:1": its output 1
  std::string device = {};  ///< "/job:worker/task:0/device:GPU:0"; colours the graph
  std::optional<std::vector<int64_t>> output_shape = {};  ///< written beside the edge; -1 is "any"
};

/// A graph on TensorBoard's Graphs page.
class STRATA_API GraphDef {
 public:
  /// Adds a node, in any order. @return itself, for the next call.
  /// @throws Error  kInvalidArgument: no name, no op, or an existing name.
  GraphDef& add(GraphNode node);

  const std::vector<GraphNode>& nodes() const { return nodes_; }

  /// @throws Error  kInvalidArgument: an input that is no node's name.
  void check_inputs() const;

 private:
  std::vector<GraphNode> nodes_;
  std::unordered_set<std::string> names_;
};

struct SummaryWriterOptions {
  /// The number of events that are written together.
  int64_t max_queue = 10;
  /// The time after which queued events are written, however few.
  std::chrono::milliseconds flush_millis{120'000};
  std::string filename_suffix = ".v2";

  /// Returns the time of an event in seconds since 1970; by default the system's clock.
  std::function<double()> wall_time = {};
  /// The number of unwritten bytes at which a call waits.
  int64_t max_queue_bytes = int64_t{64} << 20;
  /// The limit of a call's wait for the disk.
  std::chrono::milliseconds timeout{60'000};
};

/// Writes a TensorBoard event file, on a thread of its own. Only whole records are written, so
/// TensorBoard can read at the same time. Names, plugins and bytes are those of tf.summary. In
/// replica functions the process's first replica alone writes (recording.h).
///
/// An error of the thread is thrown by the next call of any kind, and by every call after it:
/// nothing can be read after a truncated record (a full disk). Open a new writer to continue. Every
/// call throws kFailedPrecondition after `close`, kDeadlineExceeded after `timeout`.
/// Threads: any.
/// Cost: a call of `scalar` takes about 0.3 us; the thread writes to the disk.
/// Source: tf.summary.create_file_writer.
class STRATA_API SummaryWriter {
 public:
  /// Closes the file if `close` was not called: a failure is logged.
  ~SummaryWriter();
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;

  /// Writes a value as float32, as TensorFlow does.
  void scalar(std::string_view tag, double value, int64_t step);

  /// See make_histogram. @throws Error  kInvalidArgument: buckets < 0.
  void histogram(std::string_view tag, std::span<const double> numbers, int64_t step,
                 int64_t buckets = 30);
  void histogram(std::string_view tag, std::span<const float> numbers, int64_t step,
                 int64_t buckets = 30);

  /// @param pngs  Whole PNG files (data::encode_png makes them), all of this size; shown side by
  ///   side.
  /// @param width, height  In pixels.
  /// @throws Error  kInvalidArgument: no PNG file, or one of another size.
  void image(std::string_view tag, std::span<const std::string> pngs, int64_t width, int64_t height,
             int64_t step);

  /// Writes a text, which is shown as Markdown.
  void text(std::string_view tag, std::string_view markdown, int64_t step);
  /// Writes texts, which are shown as a column of a table.
  void text(std::string_view tag, std::span<const std::string> markdowns, int64_t step);

  /// Writes the run's hyperparameters for the page HParams: once for each run, which is one folder.
  /// @param trial  Runs of the same trial are averaged; by default a hash of the values.
  void hparams(const std::map<std::string, HparamValue>& values, std::string_view trial = {});
  void hparams_end(SessionStatus status);

  /// Writes a graph. The page Graphs keeps one for each run. @throws Error  kInvalidArgument: an
  /// input that is no node.
  void graph(const GraphDef& graph);

  /// Writes the conceptual graph of a Keras model. @param json  From keras.Model.to_json().
  void keras_model(std::string_view json, int64_t step = 0);

  /// Returns when everything is in the file: other programs see it, and it survives this process,
  /// though not a power cut.
  void flush();

  /// Flushes, ends the thread and closes the file. A second call does nothing.
  void close();

  const std::string& path() const;

 private:
  friend STRATA_API SummaryWriter create_file_writer(const std::string&,
                                                     const SummaryWriterOptions&);
  class Impl;
  explicit SummaryWriter(std::unique_ptr<Impl> impl);
  Impl& open(const char* call) const;
  void add(const char* call, std::string_view tag, std::string value, int64_t step);

  std::unique_ptr<Impl> impl_;
};

/// Makes `logdir` with all its parents, and in it a new event file
/// "events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER" and the suffix, whose name sorts after the
/// existing event files. So a resumed run continues in the same folder, in a file of its own.
/// @throws Error  as FileSystem; kInvalidArgument: an option that is not positive.
[[nodiscard]] STRATA_API SummaryWriter create_file_writer(const std::string& logdir,
                                                          const SummaryWriterOptions& options = {});

}  // namespace strata::summary
