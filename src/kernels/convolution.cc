// aten::convolution and its backward on the kernels of conv_*.inc, where those are faster
// than oneDNN as libtorch calls it: oneDNN converts tensors to its blocked layouts and back. Three
// ways: kernels of 1 x 1 as matrix products, stride 1 directly or by Winograd, and stride 2 over
// few channels as stride 1.
//
// Winograd's sums and the zeros that pad an image or a kernel of stride 2 bring a NaN or an infinity
// to elements that do not read it. So images whose results are not finite are computed again:
// directly instead of by Winograd, by libtorch instead of by phases; and libtorch has kernels that
// are not finite, and makes their gradients where those are not.
#include "kernels/convolution.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/all_finite.h"
#include "core/cpu_isa.h"
#include "kernels/conv_by_phases.h"
#include "kernels/conv_kernels.h"
#include "kernels/conv_pointwise.h"
#include "kernels/dispatch_key.h"
#include "kernels/fixed_parts.h"
#include "kernels/kernel_choice.h"
#include "kernels/kernel_threads.h"
#include "kernels/portable/portable_bits.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "kernels/scratch.h"
#include "strata/core/error.h"

namespace strata::kernels {

ConvKernels conv_kernels(CpuIsa isa) {
  return {STRATA_KERNELS_FOR(isa, conv_images), STRATA_KERNELS_FOR(isa, conv_winograd_images),
          STRATA_KERNELS_FOR(isa, conv_weights), STRATA_KERNELS_FOR(isa, conv_winograd_weights)};
}

bool use_own_convolution() {
  static const bool some = runs_own_of("convolution");
  return some || portable_bits();
}

namespace {

bool plain(const at::Tensor& tensor, int64_t dim) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         tensor.dim() == dim && tensor.numel() > 0 && tensor.is_contiguous() &&
         tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

/// One or two numbers.
std::optional<std::pair<int64_t, int64_t>> pair_of(c10::SymIntArrayRef values) {
  if (values.empty() || values.size() > 2) return std::nullopt;
  const auto first = values.front().maybe_as_int();
  const auto last = values.back().maybe_as_int();
  if (!first || !last) return std::nullopt;
  return std::pair{*first, *last};
}

bool all_one(c10::SymIntArrayRef values) {
  return pair_of(values) == std::pair<int64_t, int64_t>(1, 1);
}

struct Arguments {
  c10::SymIntArrayRef stride;
  c10::SymIntArrayRef padding;
  c10::SymIntArrayRef dilation;
  bool transposed;
  const c10::SymInt& groups;
};

/// Whether the saved multiplications outweigh the transforms.
bool winograd_suits(const ConvShape& shape) {
  return shape.kernel_height == 3 && shape.kernel_width == 3 && shape.in_channels >= 16 &&
         shape.out_channels >= 16;
}

/// Where these kernels are faster by measurement. Not on small planes, which leave vectors half
/// empty or, with many channels, use each weight too rarely.
bool worthwhile(const ConvShape& shape) {
  constexpr int64_t kFewChannels = 512;
  const bool winograd = winograd_suits(shape) && shape.in_channels <= kFewChannels &&
                        shape.out_channels <= kFewChannels;
  const int64_t least = winograd ? 6 * 6 : 12 * 12;
  // Offsets within a few planes are counted in 32 bits.
  constexpr int64_t kMaxPlane = 1 << 22;
  return shape.out_channels >= 4 && shape.out_height() * shape.out_width() >= least &&
         shape.height * shape.width <= kMaxPlane;
}

struct Geometry {
  int64_t images;
  int64_t height;
  int64_t width;
  int64_t in_channels;
  int64_t out_channels;
  std::pair<int64_t, int64_t> kernel;
  std::pair<int64_t, int64_t> stride;
  std::pair<int64_t, int64_t> padding;
};

/// Of float images and kernels that these kernels may take.
std::optional<Geometry> geometry_of(const at::Tensor& input, const at::Tensor& weight,
                                    const Arguments& arguments) {
  if (!use_own_convolution() || !plain(input, 4) || !plain(weight, 4) || arguments.transposed ||
      arguments.groups.maybe_as_int() != 1 || !all_one(arguments.dilation) ||
      weight.size(1) != input.size(1))
    return std::nullopt;
  const auto stride = pair_of(arguments.stride);
  const auto padding = pair_of(arguments.padding);
  if (!stride || !padding) return std::nullopt;
  const Geometry g{input.size(0), input.size(2),  input.size(3),
                   input.size(1), weight.size(0), {weight.size(2), weight.size(3)},
                   *stride,       *padding};
  const bool valid = g.stride.first > 0 && g.stride.second > 0 && g.padding.first >= 0 &&
                     g.padding.second >= 0 && g.padding.first < g.kernel.first &&
                     g.padding.second < g.kernel.second &&
                     g.height + 2 * g.padding.first >= g.kernel.first &&
                     g.width + 2 * g.padding.second >= g.kernel.second;
  return valid ? std::optional(g) : std::nullopt;
}

bool are(const std::pair<int64_t, int64_t>& values, int64_t expected) {
  return values == std::pair(expected, expected);
}

std::optional<ConvShape> direct_shape(const Geometry& g) {
  const ConvShape shape{g.in_channels,  g.height,        g.width,         g.out_channels,
                        g.kernel.first, g.kernel.second, g.padding.first, g.padding.second};
  return are(g.stride, 1) && worthwhile(shape) ? std::optional(shape) : std::nullopt;
}

std::optional<PointwiseShape> pointwise_shape(const Geometry& g) {
  const PointwiseShape shape{g.images,
                             g.in_channels,
                             g.out_channels,
                             {g.height, g.width, g.stride.first, g.stride.second}};
  constexpr int64_t kFewChannels = 8;
  constexpr int64_t kFewPixels = 128;
  const bool suits = are(g.kernel, 1) && g.in_channels >= kFewChannels &&
                     g.out_channels >= kFewChannels && g.images * shape.grid.pixels() >= kFewPixels;
  return suits ? std::optional(shape) : std::nullopt;
}

KernelClass direct_class(const ConvShape& shape) {
  constexpr int64_t kFewChannels = 16;
  if (winograd_suits(shape)) return KernelClass::kConvWinograd;
  return shape.in_channels < kFewChannels ? KernelClass::kConvFewChannels
                                          : KernelClass::kConvManyChannels;
}

/// Images themselves: oneDNN has no good kernel for three channels in their own planes.
std::optional<PhasedShape> phased_shape(const Geometry& g) {
  constexpr int64_t kFewChannels = 4;
  const PhasedShape shape{g.images,        g.in_channels,   g.height,
                          g.width,         g.out_channels,  g.kernel.first,
                          g.kernel.second, g.padding.first, g.padding.second};
  const bool suits = are(g.stride, 2) && g.in_channels <= kFewChannels && g.kernel.first >= 3 &&
                     g.kernel.second >= 3;
  return suits && worthwhile(shape.phases()) ? std::optional(shape) : std::nullopt;
}

const ConvKernels& kernels() {
  static const ConvKernels best = conv_kernels(best_cpu_isa());
  return best;
}

void run_images(const ConvImagesKernel& kernel, const ConvShape& shape, const ConvWeights& weights,
                int64_t images, const float* x, const float* bias, float* y) {
  const Scratch packed(kernel.packed_floats(shape));
  kernel.pack(shape, weights, packed.data());
  const int64_t in_floats = shape.in_channels * shape.height * shape.width;
  const int64_t out_floats = shape.out_channels * shape.out_height() * shape.out_width();
  const int64_t grain = std::max<int64_t>(1, kPartMultiplications / (out_floats * shape.depth()));
  parallel_for(0, images, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(kernel.scratch_floats(shape));
    kernel.run(shape, end - begin, x + begin * in_floats, packed.data(), bias,
               y + begin * out_floats, scratch.data());
    const ConvImagesKernel& directly = kernels().images;
    if (&kernel == &directly) return;
    for (int64_t i = begin; i < end; ++i) {
      float* const image = y + i * out_floats;
      if (all_finite(image, out_floats)) continue;
      run_images(directly, shape, weights, 1, x + i * in_floats, bias, image);
    }
  });
}

void run_images(const ConvShape& shape, const ConvWeights& weights, int64_t images, const float* x,
                const float* bias, float* y) {
  run_images(winograd_suits(shape) ? kernels().winograd_images : kernels().images, shape, weights,
             images, x, bias, y);
}

void run_weights(const ConvWeightsKernel& kernel, const ConvShape& shape, int64_t images,
                 const float* x, const float* dy, float* dw, float* dbias) {
  // The sums of a part fit the second-level cache.
  const int64_t max_in_channels = &kernel == &kernels().weights ? 128 : 64;
  // Every part reads all gradients of its panel, so there are no more parts than threads ask for.
  const int64_t panels = (shape.out_channels + kConvPanel - 1) / kConvPanel;
  const int64_t threads = at::in_parallel_region() ? 1 : num_kernel_threads();
  const int64_t chunks = std::min(
      shape.in_channels, std::max((threads + panels - 1) / panels,
                                  (shape.in_channels + max_in_channels - 1) / max_in_channels));
  parallel_for(0, panels * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = i % chunks;
      const ConvPart part{i / chunks * kConvPanel, shape.in_channels * chunk / chunks,
                          shape.in_channels * (chunk + 1) / chunks};
      const Scratch scratch(kernel.scratch_floats(shape, part));
      kernel.run(shape, part, images, x, dy, dw, dbias, scratch.data());
    }
  });
}

void run_weights(const ConvShape& shape, int64_t images, const float* x, const float* dy, float* dw,
                 float* dbias) {
  run_weights(winograd_suits(shape) ? kernels().winograd_weights : kernels().weights, shape, images,
              x, dy, dw, dbias);
}

/// What a convolution and its gradients are made of.
struct Operands {
  const float* x;
  const float* w;
  const float* dy;
};

/// y; bias or null.
void direct_forward(const ConvShape& shape, int64_t images, const Operands& in, const float* bias,
                    float* y) {
  run_images(shape, {in.w, shape.depth(), shape.taps(), false}, images, in.x, bias, y);
}
void direct_input_gradient(const ConvShape& shape, int64_t images, const Operands& in, float* dx) {
  run_images(shape.backward(), {in.w, shape.taps(), shape.depth(), true}, images, in.dy, nullptr,
             dx);
}

/// A convolution that these kernels take, one of three ways.
class OwnConvolution {
 public:
  static std::optional<OwnConvolution> of(const at::Tensor& input, const at::Tensor& weight,
                                          const Arguments& arguments) {
    const auto geometry = geometry_of(input, weight, arguments);
    if (!geometry) return std::nullopt;
    OwnConvolution own(*geometry);
    own.pointwise_ = pointwise_shape(*geometry);
    if (!own.pointwise_) own.direct_ = direct_shape(*geometry);
    if (!own.pointwise_ && !own.direct_) own.phased_ = phased_shape(*geometry);
    if (!own.pointwise_ && !own.direct_ && !own.phased_) return std::nullopt;
    const KernelClass id = own.pointwise_ ? KernelClass::kConvPointwise
                           : own.phased_  ? KernelClass::kConvStrided
                                          : direct_class(*own.direct_);
    if (own.phased_) own.direct_ = own.phased_->phases();
    return runs_here(id) ? std::optional(own) : std::nullopt;
  }

  std::vector<int64_t> out_sizes() const {
    const auto size = [](int64_t in, int64_t pad, int64_t kernel, int64_t stride) {
      return (in + 2 * pad - kernel) / stride + 1;
    };
    return {g_.images, g_.out_channels,
            size(g_.height, g_.padding.first, g_.kernel.first, g_.stride.first),
            size(g_.width, g_.padding.second, g_.kernel.second, g_.stride.second)};
  }

  bool by_phases() const { return phased_.has_value(); }

  void forward(const Operands& in, const float* bias, float* y) const {
    if (pointwise_) return pointwise_forward(*pointwise_, in.x, in.w, bias, y);
    if (!phased_) return direct_forward(*direct_, g_.images, in, bias, y);
    const Phases phases(*phased_, in.x, in.w);
    direct_forward(*direct_, g_.images, {phases.x.data(), phases.w.data(), nullptr}, bias, y);
  }

  void input_gradient(const Operands& in, float* dx) const {
    if (pointwise_) return pointwise_input_gradient(*pointwise_, in.dy, in.w, dx);
    if (!phased_) return direct_input_gradient(*direct_, g_.images, in, dx);
    const Phases phases(*phased_, nullptr, in.w);
    direct_input_gradient(*direct_, g_.images, {nullptr, phases.w.data(), in.dy}, phases.x.data());
    join_phases(*phased_, phases.x.data(), dx);
  }

  void weights_gradient(const Operands& in, float* dw, float* dbias) const {
    if (pointwise_) return pointwise_weights_gradient(*pointwise_, in.x, in.dy, dw, dbias);
    if (!phased_) return run_weights(*direct_, g_.images, in.x, in.dy, dw, dbias);
    const Phases phases(*phased_, in.x, nullptr);
    run_weights(*direct_, g_.images, phases.x.data(), in.dy, phases.w.data(), dbias);
    join_kernels(*phased_, phases.w.data(), dw);
  }

 private:
  struct Phases {
    Phases(const PhasedShape& shape, const float* from_x, const float* from_w)
        : x(shape.images * shape.phases().in_channels * shape.phases().height *
            shape.phases().width),
          w(shape.out_channels * shape.phases().depth()) {
      if (from_x != nullptr) split_phases(shape, from_x, x.data());
      if (from_w != nullptr) split_kernels(shape, from_w, w.data());
    }
    Scratch x;
    Scratch w;
  };

  explicit OwnConvolution(const Geometry& geometry) : g_(geometry) {}

  Geometry g_;
  std::optional<PointwiseShape> pointwise_;
  std::optional<ConvShape> direct_;
  std::optional<PhasedShape> phased_;
};

/// Copies again(i) over image i of `result` wherever image i of `checked` is not finite.
template <typename Again>
void repeat_not_finite(const at::Tensor& checked, const at::Tensor& result, const Again& again) {
  const int64_t images = checked.size(0);
  const int64_t checked_floats = checked.numel() / images;
  const int64_t floats = result.numel() / images;
  for (int64_t i = 0; i < images; ++i) {
    if (all_finite(checked.const_data_ptr<float>() + i * checked_floats, checked_floats)) continue;
    const at::Tensor image = again(i).contiguous();
    std::copy_n(image.const_data_ptr<float>(), floats,
                result.mutable_data_ptr<float>() + i * floats);
  }
}

/// The arguments of an operator's call but its tensors.
struct Call {
  c10::DispatchKeySet keys;
  c10::SymIntArrayRef stride;
  c10::SymIntArrayRef padding;
  c10::SymIntArrayRef dilation;
  bool transposed;
  c10::SymIntArrayRef output_padding;
  const c10::SymInt& groups;

  ConvolutionArguments arguments() const {
    return {stride, padding, dilation, transposed, output_padding, groups};
  }
  std::optional<OwnConvolution> own(const at::Tensor& input, const at::Tensor& weight) const {
    auto found = OwnConvolution::of(input, weight, {stride, padding, dilation, transposed, groups});
    // Ours would multiply a NaN or an infinity by the zeros of the padding.
    const bool finite = found && all_finite(weight.const_data_ptr<float>(), weight.numel());
    return finite ? found : std::nullopt;
  }
};

at::Tensor engine_convolution(const Call& call, const at::Tensor& input, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias) {
  if (auto parts = convolution_in_parts(call.keys, input, weight, bias, call.arguments())) {
    return *std::move(parts);
  }
  return at::_ops::convolution::redispatch(call.keys, input, weight, bias, call.stride,
                                           call.padding, call.dilation, call.transposed,
                                           call.output_padding, call.groups);
}

using ConvGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

ConvGradients engine_convolution_backward(const Call& call, const at::Tensor& dy,
                                          const at::Tensor& input, const at::Tensor& weight,
                                          at::OptionalSymIntArrayRef bias_sizes,
                                          std::array<bool, 3> mask) {
  if (auto parts = convolution_backward_in_parts(call.keys, dy, input, weight, bias_sizes,
                                                 call.arguments(), mask)) {
    return *std::move(parts);
  }
  return at::_ops::convolution_backward::redispatch(
      call.keys, dy, input, weight, bias_sizes, call.stride, call.padding, call.dilation,
      call.transposed, call.output_padding, call.groups, mask);
}

at::Tensor convolution(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const Call call{keys & kBelowReplicaKey, stride, padding, dilation, transposed,
                  output_padding,          groups};
  const bool with_bias = bias.has_value() && bias->defined();
  const auto own = call.own(input, weight);
  if (!own || (with_bias && (!plain(*bias, 1) || bias->size(0) != weight.size(0)))) {
    return engine_convolution(call, input, weight, bias);
  }
  at::Tensor output = empty_float(own->out_sizes());
  own->forward({input.const_data_ptr<float>(), weight.const_data_ptr<float>(), nullptr},
               with_bias ? bias->const_data_ptr<float>() : nullptr,
               output.mutable_data_ptr<float>());
  if (own->by_phases()) {
    repeat_not_finite(input, output, [&](int64_t image) {
      return engine_convolution(call, input.narrow(0, image, 1), weight, bias);
    });
  }
  return output;
}

ConvGradients convolution_backward(c10::DispatchKeySet keys, const at::Tensor& grad_output,
                                   const at::Tensor& input, const at::Tensor& weight,
                                   at::OptionalSymIntArrayRef bias_sizes,
                                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                                   c10::SymIntArrayRef dilation, bool transposed,
                                   c10::SymIntArrayRef output_padding, c10::SymInt groups,
                                   std::array<bool, 3> output_mask) {
  const Call call{keys & kBelowReplicaKey, stride, padding, dilation, transposed,
                  output_padding,          groups};
  const auto own = call.own(input, weight);
  const bool suits =
      own && is_cpu_float(grad_output) && grad_output.sizes() == at::IntArrayRef(own->out_sizes());
  if (!suits) {
    return engine_convolution_backward(call, grad_output, input, weight, bias_sizes, output_mask);
  }
  const at::Tensor dy = grad_output.contiguous();
  const Operands in{input.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                    dy.const_data_ptr<float>()};
  ConvGradients result;
  auto& [dx, dw, dbias] = result;
  if (output_mask[0]) {
    dx = empty_float(input.sizes());
    own->input_gradient(in, dx.mutable_data_ptr<float>());
    if (own->by_phases()) {
      repeat_not_finite(dx, dx, [&](int64_t image) {
        return std::get<0>(engine_convolution_backward(call, dy.narrow(0, image, 1),
                                                       input.narrow(0, image, 1), weight,
                                                       bias_sizes, {true, false, false}));
      });
    }
  }
  if (output_mask[1] || output_mask[2]) {
    dw = empty_float(weight.sizes());
    if (output_mask[2]) dbias = empty_float({weight.size(0)});
    own->weights_gradient(in, dw.mutable_data_ptr<float>(),
                          output_mask[2] ? dbias.mutable_data_ptr<float>() : nullptr);
    if (!output_mask[1]) {
      dw = at::Tensor();
    } else if (!all_finite(dw.const_data_ptr<float>(), dw.numel())) {
      // Ours multiplied what is not finite by the zeros of the padding, too.
      dw = std::get<1>(
          engine_convolution_backward(call, dy, input, weight, bias_sizes, {false, true, false}));
    }
  }
  return result;
}

}  // namespace

void register_convolution(torch::Library& library) {
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

}  // namespace strata::kernels
