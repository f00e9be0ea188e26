#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers that move values without changing them. Integers stay integers.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct FlattenOptions {
  /// "channels_first" returns the same order as channels last.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Reshapes `[batch, ...]` to `[batch, size]`.
class STRATA_API Flatten : public keras::Layer {
 public:
  explicit Flatten(const FlattenOptions& options = {});
};

struct ReshapingOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Reshapes to `[batch, target_shape...]`; one size may be -1: the rest.
/// @throws Error kInvalidArgument: another number of elements.
class STRATA_API Reshape : public keras::Layer {
 public:
  explicit Reshape(std::vector<int64_t> target_shape, const ReshapingOptions& options = {});
};

/// Permutes dimensions: dimension i + 1 of the output is dimension `dims[i]` of the input; 1 is the
/// first after the batch.
class STRATA_API Permute : public keras::Layer {
 public:
  explicit Permute(std::vector<int64_t> dims, const ReshapingOptions& options = {});
};

/// Repeats `[batch, features]` to `[batch, n, features]`.
class STRATA_API RepeatVector : public keras::Layer {
 public:
  explicit RepeatVector(int64_t n, const ReshapingOptions& options = {});
};

/// The sizes that are added or cropped at both ends of `N` dimensions: `1` everywhere, `{1, 2}` by
/// dimension, `{{0, 1}, {2, 3}}` by dimension and end.
template <size_t N>
struct Edges {
  std::array<std::array<int64_t, 2>, N> values = {};

  Edges(int64_t all) {  // NOLINT(google-explicit-constructor)
    for (auto& each : values) each = {all, all};
  }
  /// @throws Error kInvalidArgument: the list does not have `N` elements.
  Edges(std::initializer_list<keras::Sizes<2>> each) {
    STRATA_CHECK(each.size() == N, kInvalidArgument, "[layers] edges: got ", each.size(),
                 " dimensions; expected ", N);
    for (size_t i = 0; i < N; ++i) values[i] = (each.begin() + i)->values;
  }
};

struct ImageReshapingOptions {
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

class STRATA_API ZeroPadding1D : public keras::Layer {
 public:
  /// @param padding  At the start, at the end.
  explicit ZeroPadding1D(keras::Sizes<2> padding = 1, const ImageReshapingOptions& options = {});
};
class STRATA_API ZeroPadding2D : public keras::Layer {
 public:
  explicit ZeroPadding2D(Edges<2> padding = 1, const ImageReshapingOptions& options = {});
  ZeroPadding2D(std::initializer_list<keras::Sizes<2>> padding,
                const ImageReshapingOptions& options = {})
      : ZeroPadding2D(Edges<2>(padding), options) {}
};
class STRATA_API ZeroPadding3D : public keras::Layer {
 public:
  explicit ZeroPadding3D(Edges<3> padding = 1, const ImageReshapingOptions& options = {});
  ZeroPadding3D(std::initializer_list<keras::Sizes<2>> padding,
                const ImageReshapingOptions& options = {})
      : ZeroPadding3D(Edges<3>(padding), options) {}
};

class STRATA_API Cropping1D : public keras::Layer {
 public:
  explicit Cropping1D(keras::Sizes<2> cropping = 1, const ReshapingOptions& options = {});
};
class STRATA_API Cropping2D : public keras::Layer {
 public:
  explicit Cropping2D(Edges<2> cropping = 0, const ImageReshapingOptions& options = {});
  Cropping2D(std::initializer_list<keras::Sizes<2>> cropping,
             const ImageReshapingOptions& options = {})
      : Cropping2D(Edges<2>(cropping), options) {}
};
class STRATA_API Cropping3D : public keras::Layer {
 public:
  explicit Cropping3D(Edges<3> cropping = 1, const ImageReshapingOptions& options = {});
  Cropping3D(std::initializer_list<keras::Sizes<2>> cropping,
             const ImageReshapingOptions& options = {})
      : Cropping3D(Edges<3>(cropping), options) {}
};

/// Repeats each step `size` times.
class STRATA_API UpSampling1D : public keras::Layer {
 public:
  explicit UpSampling1D(int64_t size = 2, const ReshapingOptions& options = {});
};

struct UpSampling2DOptions {
  DataFormat data_format = "channels_last";
  /// "nearest", "bilinear", "bicubic", "lanczos3" or "lanczos5".
  Interpolation interpolation = "nearest";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
class STRATA_API UpSampling2D : public keras::Layer {
 public:
  explicit UpSampling2D(keras::Sizes<2> size = 2, const UpSampling2DOptions& options = {});
};
class STRATA_API UpSampling3D : public keras::Layer {
 public:
  explicit UpSampling3D(keras::Sizes<3> size = 2, const ImageReshapingOptions& options = {});
};

}  // namespace strata::layers
