#pragma once

#include <string>

#include "keras/layers/image_layout.h"

namespace strata::layers {

/// A layer on images `[batch, height, width, channels]`, or one image, or with channels first.
class ImageLayerImpl : public keras::UnaryLayerImpl {
 public:
  ImageLayerImpl(keras::LayerOptions options, std::string_view class_name, DataFormat data_format)
      : UnaryLayerImpl(std::move(options)), data_format_(std::move(data_format)) {
    check_data_format(class_name, data_format_);
  }

 protected:
  /// @param x  `[batch, channels, height, width]`, of any strides and dtype.
  virtual at::Tensor transform(const at::Tensor& x, bool training) = 0;
  /// Height and width of what `transform` gives; {kNone, kNone}: as they were.
  virtual std::pair<int64_t, int64_t> new_size() const { return {keras::kNone, keras::kNone}; }

 private:
  at::Tensor call(const at::Tensor& x, const keras::Call& call) final {
    check_dimensions(x.sizes().vec());
    const bool one = x.dim() == 3;
    const at::Tensor y =
        transform(planes_view(one ? x.unsqueeze(0) : x, data_format_), call.training);
    const at::Tensor result = user_shape(y, data_format_);
    return one ? result.squeeze(0) : result;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const final {
    check_dimensions(input);
    keras::Shape output = input;
    const size_t height = first_spatial_axis(data_format_) + input.size() - 4;
    const auto [new_height, new_width] = new_size();
    if (new_height != keras::kNone) output[height] = new_height;
    if (new_width != keras::kNone) output[height + 1] = new_width;
    return output;
  }

  void check_dimensions(const keras::Shape& shape) const {
    STRATA_CHECK(shape.size() == 3 || shape.size() == 4, kInvalidArgument, "[keras] layer '",
                 name(),
                 "': Expected image tensor to have rank 3 (single image) or 4 (batch of images). "
                 "Received: data.shape=",
                 keras::to_string(shape));
  }

  const std::string data_format_;
};

}  // namespace strata::layers
