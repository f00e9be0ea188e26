#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "strata/data/example.h"
#include "strata/keras/model.h"
#include "strata/strategies/strategy.h"

namespace strata::keras::detail {

enum class StepKind : uint8_t { kTrain, kTest, kPredict };

/// The steps of a model as graphs: `fit`, `evaluate` and `predict` call them through it. A step is
/// recorded once it has been called so often that recording is a small part of the time, one graph a
/// signature and replica, and then replayed with the same bits. One that cannot be recorded runs as it
/// is written, with one line in the log.
///
/// Each compile makes new ones: graphs have the optimizer, the losses and which weights are trained.
/// Threads: `call` on each replica; the rest outside `run`.
class StepGraphs {
 public:
  StepGraphs(const ModelImpl& model, bool run_eagerly, bool jit_compile = false);
  ~StepGraphs();

  /// Call it before every `run`: recordings may be about to begin.
  void prepare();

  using Step = std::function<Tensors(const data::Example&)>;
  /// `step(part)`, in the thread's present context.
  Tensors call(StepKind kind, const data::Example& part, const Step& step);

  /// The graphs are made anew: what they have captured is no longer what the model has.
  void forget();

  /// The second call of a step is recorded, whatever it costs: for tests. Also forgets.
  void record_at_once();
  /// How many graphs were recorded, on all replicas.
  int64_t tracing_count() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> make_functions(double share);

  const ModelImpl& model_;
  bool run_eagerly_;
  bool jit_compile_;
  std::unique_ptr<Functions> functions_;  // null until the first call may record
};

/// A function for Strategy::run that computes in steps of StepGraphs alone, so that strategies whose replicas
/// run graphs take it.
template <typename Fn>
struct CallsOfSteps {
  Fn calls;
  decltype(auto) operator()() const { return calls(); }
};
template <typename Fn>
CallsOfSteps(Fn) -> CallsOfSteps<Fn>;

}  // namespace strata::keras::detail

namespace strata::detail {
template <typename Fn>
inline constexpr bool kIsFunction<keras::detail::CallsOfSteps<Fn>> = true;
}  // namespace strata::detail
