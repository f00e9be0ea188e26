#pragma once

#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/recurrent.h"

namespace strata::layers {

struct MergeModeWords {
  enum Word { kConcat, kSum, kMul, kAve };
  static constexpr const char* kOption = "merge_mode";
  static constexpr const char* kWords[] = {"concat", "sum", "mul", "ave"};
};
using MergeMode = OneOf<MergeModeWords>;

struct BidirectionalOptions {
  /// "concat", "sum", "mul", "ave"; unset: both outputs.
  std::optional<MergeMode> merge_mode = "concat";
  /// Default: a copy of `layer`.
  std::optional<keras::Layer> backward_layer = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// A recurrent layer in both directions. `layer` itself is not used: two copies are made,
/// "forward_<name>" and "backward_<name>".
class STRATA_API Bidirectional : public Recurrent {
 public:
  explicit Bidirectional(const keras::Layer& layer, const BidirectionalOptions& options = {});
};

struct TimeDistributedOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Applies `layer` to each step of `[batch, time, ...]`. All steps are one call of it, as a larger
/// batch; if that would differ (layers with moving statistics, in training) each step is a call.
class STRATA_API TimeDistributed : public keras::Layer {
 public:
  explicit TimeDistributed(const keras::Layer& layer, const TimeDistributedOptions& options = {});
};

}  // namespace strata::layers
