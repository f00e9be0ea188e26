#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "graph/layouts.h"
#include "graph/relaxed_graph.h"
#include "graph/signature.h"
#include "graph/tracer.h"
#include "strata/graph/function.h"

namespace strata::graph {

/// One graph for the calls of a function that differ in sizes of first dimensions alone: learned from
/// recordings at several sizes, checked at others, and then instantiated for each new size, without the
/// program's code.
///
/// Which dimensions are one symbol: those that are equal in a call. Calls whose equal ones are others have
/// a RelaxedSizes of their own, and so have sizes 0 and 1, for which libtorch chooses other operators
/// (broadcasting, strides of no meaning). A dimension that was the same in all calls is no symbol.
///
/// What holds for a graph that was instantiated. Each number in it agrees with all recordings, of which one
/// at least was not used to find it. Sizes lie between sizes that were recorded: a condition such as n > 4,
/// in the program's code or in libtorch's, has one outcome at all of them if it has one at both ends, and
/// else the recordings differ. A size of the same parity was recorded. So a size beyond the others runs as it
/// is written, is recorded, and compared node by node; then sizes up to it are instantiated. To begin with,
/// the sizes 2 and 3 are recorded, too, without a call that has them. A condition that changes in between
/// and back (n == 37) is not seen.
///
/// Threads: any. Recordings hold a lock; the function itself runs outside.
class RelaxedSizes {
 public:
  struct Recorded {
    Trace trace;
    std::shared_ptr<const FunctionCore::Structured> structure;
  };
  /// Records the step, for inputs without elements. @param leaves  As Tracer::trace has them.
  using Record = std::function<Recorded(const std::vector<at::Tensor>& inputs, Layouts& layouts,
                                        const std::vector<at::Tensor>& leaves)>;
  struct Instance {
    std::shared_ptr<const Trace> trace;
    std::shared_ptr<const FunctionCore::Structured> structure;
  };

  RelaxedSizes(std::string name, const Leaves& arguments);

  /// Whether a call on this thread is one of these.
  bool fits(const Leaves& arguments) const;
  /// Whether it has the sizes of the first call.
  bool is_first(const Leaves& arguments) const;

  /// @return Nothing: there is no graph, or it was not checked for such sizes.
  /// Cost: a copy of the graph.
  std::optional<Instance> instantiate(const Leaves& arguments);

  /// Whether `learn` of such a call may change anything.
  bool wants(const Leaves& arguments);
  /// After a call that ran as it is written. Logs once why sizes have no graph.
  /// @param seen  How its results lie. @param record  Runs the function. Called six times for a
  ///   graph with one symbol, and then once for each size that is larger or smaller than all before.
  /// @return True: calls get another graph from now on.
  bool learn(const Leaves& arguments, Layouts&& seen, const Record& record) STRATA_EXCLUDES(turn_);

  /// Held while a graph runs: those of all sizes share their host functions.
  Mutex& turn() STRATA_RETURN_CAPABILITY(turn_) { return turn_; }

 private:
  /// Groups of first dimensions that are equal, in the order of their first ones.
  struct Groups {
    explicit Groups(const Leaves& arguments);
    std::vector<int> of;  // by tensor; -1: it has none
    RowSizes sizes;       // by group
  };
  /// For which sizes of a symbol the graph was found to be right, and for which it was not.
  struct Range {
    enum class Known { kNo, kRight, kWrong };
    int64_t low, high;
    int64_t too_low, too_high;
    std::array<Known, 2> parity = {Known::kNo, Known::kNo};  // of even sizes, of odd ones

    Known& known(int64_t size) { return parity[static_cast<size_t>(size % 2)]; }
    Known known(int64_t size) const { return parity[static_cast<size_t>(size % 2)]; }
    bool is_between(int64_t size) const { return low <= size && size <= high; }
    bool has(int64_t size) const { return is_between(size) && known(size) == Known::kRight; }
    bool may_have(int64_t size) const {
      return too_low < size && size < too_high && known(size) != Known::kWrong;
    }
    void add(int64_t size);
    void refuse(int64_t size);
  };
  class Learning;

  RowSizes symbols_of(const RowSizes& sizes) const STRATA_REQUIRES(mutex_);
  bool is_in_range(const RowSizes& sizes) const STRATA_REQUIRES(mutex_);
  bool may_check(const RowSizes& sizes) const STRATA_REQUIRES(mutex_);
  bool wants(const RowSizes& sizes) const STRATA_REQUIRES(mutex_);
  bool keeps_constants(const RowSizes& sizes) const STRATA_REQUIRES(mutex_);
  void extend(const RowSizes& sizes) STRATA_REQUIRES(mutex_);
  void refuse(const RowSizes& sizes) STRATA_REQUIRES(mutex_);
  void make_graph(Learning& learning, const RowSizes& sizes) STRATA_REQUIRES(mutex_);
  void try_small_sizes(Learning& learning) STRATA_REQUIRES(mutex_);
  void check(Learning& learning, const RowSizes& sizes) STRATA_REQUIRES(mutex_);
  void fail(const RowSizes& sizes, const std::string& reason) STRATA_REQUIRES(mutex_);
  void log(const std::string& reason) STRATA_REQUIRES(mutex_);

  const std::string name_;
  const Signature signature_;
  const Groups groups_;  // of the first call

  Mutex turn_;
  Mutex mutex_;
  RowSizes base_ STRATA_GUARDED_BY(mutex_);  // that graphs are made from, by group
  std::vector<int64_t> others_
      STRATA_GUARDED_BY(mutex_);  // another size of a group; 0: it has none
  std::vector<size_t> varying_ STRATA_GUARDED_BY(mutex_);  // the groups that are symbols
  std::vector<RowSizes> fitted_
      STRATA_GUARDED_BY(mutex_);                         // sizes of symbols that it was made from
  std::vector<Range> ranges_ STRATA_GUARDED_BY(mutex_);  // by symbol
  Layouts layouts_ STRATA_GUARDED_BY(mutex_);
  std::optional<std::vector<at::Tensor>> leaves_ STRATA_GUARDED_BY(mutex_);  // as Record has them
  std::optional<RelaxedGraph> graph_ STRATA_GUARDED_BY(mutex_);
  std::shared_ptr<const FunctionCore::Structured> structure_ STRATA_GUARDED_BY(mutex_);
  bool checked_ STRATA_GUARDED_BY(mutex_) = false;  // at sizes that it was not made from
  int failures_ STRATA_GUARDED_BY(mutex_) = 0;
  bool logged_ STRATA_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::graph
