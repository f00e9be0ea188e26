#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Pooling of `[batch, spatial..., channels]`, or with channels first.
/// Source: keras.layers 3.15.
namespace strata::layers {

template <size_t N>
struct PoolingOptions {
  std::optional<keras::Sizes<N>> strides = {};  ///< Default: the window's size.
  Padding padding = "valid";                    ///< Or "same"; padding does not count.
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

///     layers::MaxPooling2D(3, {.strides = 2, .padding = "same"})
class STRATA_API MaxPooling1D : public keras::Layer {
 public:
  explicit MaxPooling1D(keras::Sizes<1> pool_size = 2, const PoolingOptions<1>& options = {});
};
class STRATA_API MaxPooling2D : public keras::Layer {
 public:
  explicit MaxPooling2D(keras::Sizes<2> pool_size = 2, const PoolingOptions<2>& options = {});
};
class STRATA_API MaxPooling3D : public keras::Layer {
 public:
  explicit MaxPooling3D(keras::Sizes<3> pool_size = 2, const PoolingOptions<3>& options = {});
};
class STRATA_API AveragePooling1D : public keras::Layer {
 public:
  explicit AveragePooling1D(keras::Sizes<1> pool_size, const PoolingOptions<1>& options = {});
};
class STRATA_API AveragePooling2D : public keras::Layer {
 public:
  explicit AveragePooling2D(keras::Sizes<2> pool_size, const PoolingOptions<2>& options = {});
};
class STRATA_API AveragePooling3D : public keras::Layer {
 public:
  explicit AveragePooling3D(keras::Sizes<3> pool_size, const PoolingOptions<3>& options = {});
};

struct GlobalPoolingOptions {
  DataFormat data_format = "channels_last";
  bool keepdims = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Pools `[batch, spatial..., channels]` to `[batch, channels]`.
class STRATA_API GlobalMaxPooling1D : public keras::Layer {
 public:
  explicit GlobalMaxPooling1D(const GlobalPoolingOptions& options = {});
};
class STRATA_API GlobalMaxPooling2D : public keras::Layer {
 public:
  explicit GlobalMaxPooling2D(const GlobalPoolingOptions& options = {});
};
class STRATA_API GlobalMaxPooling3D : public keras::Layer {
 public:
  explicit GlobalMaxPooling3D(const GlobalPoolingOptions& options = {});
};
/// Averages over the steps that are not masked.
class STRATA_API GlobalAveragePooling1D : public keras::Layer {
 public:
  explicit GlobalAveragePooling1D(const GlobalPoolingOptions& options = {});
};
class STRATA_API GlobalAveragePooling2D : public keras::Layer {
 public:
  explicit GlobalAveragePooling2D(const GlobalPoolingOptions& options = {});
};
class STRATA_API GlobalAveragePooling3D : public keras::Layer {
 public:
  explicit GlobalAveragePooling3D(const GlobalPoolingOptions& options = {});
};

struct AdaptivePoolingOptions {
  DataFormat data_format = "channels_last";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Pools to `output_size`, whatever the input's: window i reaches from floor(i n / m) to ceil((i +
/// 1) n / m).
class STRATA_API AdaptiveMaxPooling1D : public keras::Layer {
 public:
  explicit AdaptiveMaxPooling1D(keras::Sizes<1> output_size,
                                const AdaptivePoolingOptions& options = {});
};
class STRATA_API AdaptiveMaxPooling2D : public keras::Layer {
 public:
  explicit AdaptiveMaxPooling2D(keras::Sizes<2> output_size,
                                const AdaptivePoolingOptions& options = {});
};
class STRATA_API AdaptiveMaxPooling3D : public keras::Layer {
 public:
  explicit AdaptiveMaxPooling3D(keras::Sizes<3> output_size,
                                const AdaptivePoolingOptions& options = {});
};
class STRATA_API AdaptiveAveragePooling1D : public keras::Layer {
 public:
  explicit AdaptiveAveragePooling1D(keras::Sizes<1> output_size,
                                    const AdaptivePoolingOptions& options = {});
};
class STRATA_API AdaptiveAveragePooling2D : public keras::Layer {
 public:
  explicit AdaptiveAveragePooling2D(keras::Sizes<2> output_size,
                                    const AdaptivePoolingOptions& options = {});
};
class STRATA_API AdaptiveAveragePooling3D : public keras::Layer {
 public:
  explicit AdaptiveAveragePooling3D(keras::Sizes<3> output_size,
                                    const AdaptivePoolingOptions& options = {});
};

}  // namespace strata::layers
