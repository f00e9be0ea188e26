#include "keras/layers/windows.h"

#include <algorithm>

#include "keras/layers/image_layout.h"
#include "strata/core/error.h"

namespace strata::layers {

std::pair<int64_t, int64_t> Windows::pad(size_t i, int64_t input) const {
  if (padding == Padding::kValid) return {0, 0};
  if (padding == Padding::kCausal) return {span(i) - 1, 0};
  const int64_t output = output_size(i, input);
  const int64_t total = std::max<int64_t>((output - 1) * strides[i] + span(i) - input, 0);
  return {total / 2, total - total / 2};
}

int64_t Windows::output_size(size_t i, int64_t input) const {
  if (input == keras::kNone) return keras::kNone;
  if (padding != Padding::kValid) return (input + strides[i] - 1) / strides[i];
  return input < span(i) ? 0 : (input - span(i)) / strides[i] + 1;
}

keras::Shape windowed_shape(const std::string& layer, const char* what, const Windows& windows,
                            const keras::Shape& input, const std::string& data_format,
                            int64_t channels) {
  STRATA_CHECK(input.size() == windows.size.size() + 2, kInvalidArgument, "[keras] layer '", layer,
               "': got input of shape ", keras::to_string(input), "; expected ",
               windows.size.size() + 2, " dimensions, as ", what, "=",
               keras::to_string(windows.size.vec()), " has ", windows.size.size());
  keras::Shape output = input;
  output[static_cast<size_t>(channel_axis(input.size(), data_format))] = channels;
  for (size_t i = 0; i < windows.size.size(); ++i) {
    int64_t& size = output[first_spatial_axis(data_format) + i];
    size = windows.output_size(i, size);
    STRATA_CHECK(size != 0, kInvalidArgument, "[keras] layer '", layer,
                 "': Computed output size would be zero or negative. Received: inputs.shape=",
                 keras::to_string(input), ", ", what, "=", keras::to_string(windows.size.vec()),
                 ", strides=", keras::to_string(windows.strides.vec()),
                 ", dilation_rate=", keras::to_string(windows.dilation.vec()),
                 ", padding=", windows.padding);
  }
  return output;
}

void check_padding(std::string_view class_name, const Padding& padding, bool allow_causal) {
  const bool known = padding == Padding::kValid || padding == Padding::kSame;
  STRATA_CHECK(known || (allow_causal && padding == Padding::kCausal), kInvalidArgument,
               "[layers] ", class_name, ": got padding='", padding, "'; expected 'valid'",
               allow_causal ? ", 'same' or 'causal'" : " or 'same'");
}

void check_positive(std::string_view class_name, const char* option, at::IntArrayRef sizes) {
  for (const int64_t size : sizes) {
    STRATA_CHECK(size > 0, kInvalidArgument, "[layers] ", class_name, ": got ", option, "=",
                 keras::to_string(sizes.vec()), "; expected positive integers");
  }
}

}  // namespace strata::layers
