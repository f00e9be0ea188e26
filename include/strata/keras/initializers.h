#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/core/one_of.h"

/// Initial values of weights. Shapes are Keras's: (in, out), (kh, kw, in, out).
/// Source: keras.initializers 3.15, distributions and defaults (not its random numbers).
namespace strata::initializers {

/// An initializer as layers take it: a name ("he_normal"), one of the classes below, or a
/// user-defined function. A value.
class STRATA_API Initializer {
 public:
  using Function = std::function<at::Tensor(at::IntArrayRef shape, at::ScalarType dtype)>;

  /// @throws Error kInvalidArgument: no such initializer; lists the known ones.
  Initializer(const char* name);         // NOLINT(google-explicit-constructor)
  Initializer(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved in Keras's files.
  explicit Initializer(Function function);

  /// Returns new values, on the CPU. Without a seed they are drawn from libtorch's global generator
  /// (torch::manual_seed); with one, every call returns the same. 16-bit values are drawn as
  /// float32.
  /// @throws Error kInvalidArgument: random values of a dtype that is not floating; a shape that
  /// the class cannot fill; a user-defined function that returns another shape or dtype.
  at::Tensor operator()(at::IntArrayRef shape, at::ScalarType dtype) const;

  /// Keras's class: "GlorotUniform"; "" for a user-defined function.
  const std::string& class_name() const;

  /// Returns the same with these axes of a shape as inputs and outputs, for layers whose kernels
  /// have another layout than the one above (EinsumDense). An initializer that does not depend on
  /// inputs and outputs, or was given axes by its user, is unchanged.
  Initializer with_fan_axes(const std::vector<int64_t>& input_axes,
                            const std::vector<int64_t>& output_axes) const;

  friend STRATA_API Json to_config(const Initializer& initializer);

 protected:
  Initializer(std::string class_name, Json config, Function function);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

struct STRATA_API Zeros : Initializer {
  Zeros();
};
struct STRATA_API Ones : Initializer {
  Ones();
};
struct STRATA_API Constant : Initializer {
  explicit Constant(double value = 0);
};
/// Fills the diagonal of a matrix with `gain`.
struct STRATA_API Identity : Initializer {
  explicit Identity(double gain = 1);
};

struct NormalOptions {
  double mean = 0;
  double stddev = 0.05;
  std::optional<int64_t> seed = {};
};
struct STRATA_API RandomNormal : Initializer {
  explicit RandomNormal(const NormalOptions& options = {});
};
/// Draws are cut at two `stddev`, so that the standard deviation is 0.88 of it.
struct STRATA_API TruncatedNormal : Initializer {
  explicit TruncatedNormal(const NormalOptions& options = {});
};

struct UniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
  std::optional<int64_t> seed = {};
};
struct STRATA_API RandomUniform : Initializer {
  explicit RandomUniform(const UniformOptions& options = {});
};

struct OrthogonalOptions {
  double gain = 1;
  std::optional<int64_t> seed = {};
};
/// Returns `gain` times a matrix with orthonormal columns (rows, if it is wider than high); with
/// more than two dimensions all but the last count as rows.
struct STRATA_API Orthogonal : Initializer {
  explicit Orthogonal(const OrthogonalOptions& options = {});
};

struct FanModeWords {
  enum Word { kFanIn, kFanOut, kFanAvg };
  static constexpr const char* kOption = "mode";
  static constexpr const char* kWords[] = {"fan_in", "fan_out", "fan_avg"};
};
using FanMode = OneOf<FanModeWords>;

struct VarianceDistributionWords {
  enum Word { kTruncatedNormal, kUntruncatedNormal, kUniform };
  static constexpr const char* kOption = "distribution";
  static constexpr const char* kWords[] = {"truncated_normal", "untruncated_normal", "uniform"};
};
using VarianceDistribution = OneOf<VarianceDistributionWords>;

struct VarianceScalingOptions {
  double scale = 1;         ///< above 0
  FanMode mode = "fan_in";  ///< "fan_in", "fan_out" or "fan_avg"
  /// "truncated_normal" (or "normal"), "untruncated_normal" or "uniform".
  VarianceDistribution distribution = "truncated_normal";
  std::optional<int64_t> seed = {};
  /// The axes of a shape that are inputs and outputs; both or none. Default: the last is outputs,
  /// the one before inputs, and those before these count for both.
  std::optional<std::vector<int64_t>> input_axes = {};
  std::optional<std::vector<int64_t>> output_axes = {};
};
/// The variance is `scale / fan`, where the fan is the number of inputs, of outputs, or their mean.
struct STRATA_API VarianceScaling : Initializer {
  explicit VarianceScaling(const VarianceScalingOptions& options = {});
};

struct ScalingOptions {
  std::optional<int64_t> seed = {};
  std::optional<std::vector<int64_t>> input_axes = {};  ///< see VarianceScalingOptions
  std::optional<std::vector<int64_t>> output_axes = {};
};
/// Variance 2 / (inputs + outputs), truncated normal.
struct STRATA_API GlorotNormal : Initializer {
  explicit GlorotNormal(const ScalingOptions& options = {});
};
/// Variance 2 / (inputs + outputs), uniform.
struct STRATA_API GlorotUniform : Initializer {
  explicit GlorotUniform(const ScalingOptions& options = {});
};
/// Variance 2 / inputs, truncated normal.
struct STRATA_API HeNormal : Initializer {
  explicit HeNormal(const ScalingOptions& options = {});
};
/// Variance 2 / inputs, uniform.
struct STRATA_API HeUniform : Initializer {
  explicit HeUniform(const ScalingOptions& options = {});
};
/// Variance 1 / inputs, truncated normal.
struct STRATA_API LecunNormal : Initializer {
  explicit LecunNormal(const ScalingOptions& options = {});
};
/// Variance 1 / inputs, uniform.
struct STRATA_API LecunUniform : Initializer {
  explicit LecunUniform(const ScalingOptions& options = {});
};

/// @throws Error kUnimplemented: a user-defined function.
STRATA_API Json to_config(const Initializer& initializer);
/// Reads a name, or Keras's object. A SeedGenerator's object is read as its seed.
/// @throws Error kUnimplemented: an unknown class or option; names it.
STRATA_API void from_config(const Json& json, Initializer& initializer);

}  // namespace strata::initializers
