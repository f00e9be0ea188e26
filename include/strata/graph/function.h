#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/graph/structure.h"

namespace strata {

struct FunctionOptions {
  std::string name = "function";  ///< For messages and printed graphs.
  /// Every call runs the function as it is written.
  bool run_eagerly = false;
  /// Graphs are compiled for this machine by the plugin that STRATA_PJRT_PLUGIN names (XLA's; docs/tpu.md),
  /// and give other last bits than the step. On one replica. An operator without a rule is an error of
  /// the first call. Cost: seconds a signature, and in each call a copy of all that it writes, there and back.
  /// @throws Error  when the function is made. kUnimplemented: this program has no compiler (link
  ///   strata::tpu). kNotFound: no plugin.
  bool jit_compile = false;
  /// Once a second size of first dimensions was seen, one graph is for all sizes: calls with new ones are
  /// replayed, and have the bits of the function. For smaller last batches and lengths that vary. A size
  /// beyond all that were recorded is recorded once more, to compare. Sizes 0 and 1 have graphs of their own,
  /// and so have arguments of which other ones have equal sizes. A function that does something else for
  /// other sizes runs as it is written for them, and one line in the log says why (docs/function.md).
  /// Where steps run elsewhere (TPUStrategy, standalone clients, jit_compile) each size has a graph.
  /// Source: tf.function(reduce_retracing=True).
  bool reduce_retracing = false;
  /// How many signatures a replica keeps the graphs of; the one that was called longest ago is dropped. With
  /// reduce_retracing each size that was called is one.
  size_t max_graphs = 64;
};

namespace graph {

struct Graph;  // strata/graph/graph.h

/// When a FunctionCore records, and what it does with a step that cannot be recorded. The default is
/// strata::function's; keras's `fit` has another.
struct RecordingPolicy {
  /// The share of the time that a signature's calls have taken so far which recording it may take. A
  /// signature that is called a few times is not recorded then, and no program is slower by more than
  /// about this share. Infinite: the second call records.
  double share = std::numeric_limits<double>::infinity();
  /// Gets the reason why a step cannot be recorded, once; every later call runs the step as it is
  /// written. So does a step that keeps tensors for the program, which replays would not renew. Empty:
  /// the reason is thrown. Threads: any.
  std::function<void(const std::string& reason)> refused = {};
};

/// What `strata::function` is without the types of its arguments.
class STRATA_API FunctionCore {
 public:
  /// A result without its tensors.
  struct Structured {
    std::any value;
    std::string rest;  ///< Of its Leaves: two are alike if this is.
  };
  /// The function on flat lists.
  using Step =
      std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&, Structured& structure)>;
  struct Result {
    std::vector<at::Tensor> tensors;
    std::shared_ptr<const Structured> structure;
  };
  /// What a call fills: calls of one thread take turns with it, so that it need not grow again.
  struct Scratch {
    Leaves arguments;
    Result result;
  };
  /// A thread's, until it is destroyed. Cost: no allocation, where as deep a nest has been before.
  class STRATA_API ScratchLease {
   public:
    ScratchLease();
    ~ScratchLease();
    ScratchLease(const ScratchLease&) = delete;
    ScratchLease& operator=(const ScratchLease&) = delete;
    Scratch* operator->() const { return scratch_.get(); }

   private:
    std::unique_ptr<Scratch> scratch_;
  };

  explicit FunctionCore(FunctionOptions options, RecordingPolicy policy = {});
  ~FunctionCore();

  /// With a finite share, registers what recordings need, if a call has asked for it. Call it between
  /// calls, where no replica is at work. Cost: about 30 ms once a process, if it was asked for.
  void prepare_to_record();

  void call(const Leaves& arguments, const Step& step, Result& result);
  int64_t tracing_count() const;
  std::vector<std::shared_ptr<const Graph>> graphs() const;
  /// Drops all graphs; signatures are recorded anew.
  void forget();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graph

/// A function that is recorded as a graph of operators once for each signature and then replayed,
/// without the program's own code, autograd's and the modules': `strata::function(fn)` has `fn`'s
/// arguments and results. Made for steps of few or small operators, where that code is what takes the
/// time. Copies share their graphs.
///
/// A signature is the dtypes, shapes, strides and devices of the tensors among the arguments, and the
/// values of all others. The first call with one runs `fn` as it is written, so that variables, slots of
/// optimizers and the like are made; the second and third also record it, and compare; all later ones
/// replay. Every call has the effects and the bits that `fn` itself would have, if `fn`
/// - computes with tensors alone: `item()`, `data_ptr()` and conditions on elements are errors;
/// - has no number that changes from call to call but in tensors, strata's optimizers and metrics: an
///   error names it (`torch::optim::Adam` counts its steps in one), if it changes between the second
///   and the third call, and goes unnoticed if later;
/// - reads no other tensors than arguments, and those that stay, such as weights;
/// - does nothing else that counts, such as printing: replays leave it out.
/// Results are detached: backward belongs into the function. Within a replica function each replica has
/// graphs of its own; sums over replicas, synchronized BatchNormalization, metrics and random numbers
/// are as they would be without. On a GPU a replay runs on the calling thread's current stream, as
/// `fn` would.
///
/// Threads: any; calls with one signature on one replica take turns.
/// Source: tf.function.
template <typename Fn>
class Function {
 public:
  Function(Fn fn, FunctionOptions options)
      : shared_(std::make_shared<Shared>(std::move(fn), std::move(options))) {}

  /// @throws Error  kFailedPrecondition: `fn` cannot be recorded; says where, and what to do.
  ///   kUnimplemented: sparse tensors; with jit_compile, tensors on a GPU.
  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) const {
    using Result = std::decay_t<std::invoke_result_t<Fn&, const Arguments&...>>;
    const graph::FunctionCore::ScratchLease scratch;
    (graph::Structure<Arguments>::take(arguments, scratch->arguments), ...);
    const auto step = [&](const std::vector<at::Tensor>& tensors,
                          graph::FunctionCore::Structured& structure) {
      const at::Tensor* next = tensors.data();
      const std::tuple<Arguments...> made{graph::Structure<Arguments>::make(arguments, next)...};
      graph::Leaves results;
      if constexpr (std::is_void_v<Result>) {
        std::apply(shared_->fn, made);
      } else {
        Result result = std::apply(shared_->fn, made);
        graph::Structure<Result>::take(result, results);
        const std::vector<at::Tensor> none(results.tensors.size());
        const at::Tensor* no_tensor = none.data();
        structure.value = graph::Structure<Result>::make(result, no_tensor);
        structure.rest = std::move(results.rest);
      }
      return results.tensors;
    };
    shared_->core.call(scratch->arguments, std::cref(step), scratch->result);
    if constexpr (!std::is_void_v<Result>) {
      const at::Tensor* next = scratch->result.tensors.data();
      return graph::Structure<Result>::make(
          std::any_cast<const Result&>(scratch->result.structure->value), next);
    }
  }

  /// How many graphs were recorded, on all replicas. Source: experimental_get_tracing_count.
  int64_t tracing_count() const { return shared_->core.tracing_count(); }
  /// Those that are kept, the one that was called last first.
  std::vector<std::shared_ptr<const graph::Graph>> graphs() const { return shared_->core.graphs(); }

 private:
  struct Shared {
    Shared(Fn function, FunctionOptions options)
        : fn(std::move(function)), core(std::move(options)) {}
    Fn fn;
    graph::FunctionCore core;
  };
  std::shared_ptr<Shared> shared_;
};

template <typename Fn>
Function<std::decay_t<Fn>> function(Fn&& fn, FunctionOptions options = {}) {
  return {std::forward<Fn>(fn), std::move(options)};
}

}  // namespace strata
