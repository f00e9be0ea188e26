#include "strata/keras/stft_initializer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bartlett_window.h>
#include <ATen/ops/blackman_window.h>
#include <ATen/ops/hamming_window.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/ones.h>

#include <numbers>

#include "keras/initializers/initializer_classes.h"

namespace strata::initializers {

template <typename Config>
void visit(Config& config, STFTOptions& options) {
  config("side", options.side);
  config("window", options.window);
  config("periodic", options.periodic);
  config("scaling", options.scaling);
}

namespace {

at::Tensor window_of(const STFTOptions& options, int64_t length) {
  const std::string& name = *options.window;
  const auto dtype = at::TensorOptions(at::kDouble);
  const bool periodic = options.periodic;
  if (name == "hann") return at::hann_window(length, periodic, dtype);
  if (name == "hamming") return at::hamming_window(length, periodic, dtype);
  if (name == "blackman") return at::blackman_window(length, periodic, dtype);
  if (name == "bartlett") return at::bartlett_window(length, periodic, dtype);
  STRATA_CHECK(name == "boxcar", kUnimplemented, "[initializers] STFT: got window='", name,
               "'; expected 'hann', 'hamming', 'blackman', 'bartlett' or 'boxcar'");
  return at::ones({length}, dtype);
}

at::Tensor kernel_of(const STFTOptions& options, at::IntArrayRef shape, at::ScalarType dtype) {
  STRATA_CHECK(shape.size() == 3 && shape[1] == 1 && shape[2] > 1, kInvalidArgument,
               "[initializers] STFT: got shape ", shape, "; expected [frame, 1, frequencies]");
  const auto transform = static_cast<double>(2 * (shape[2] - 1));
  const at::Tensor time = at::arange(shape[0], at::kDouble).view({-1, 1, 1});
  const at::Tensor turns = time * at::arange(shape[2], at::kDouble) / transform;
  const at::Tensor angle = turns * (-2 * std::numbers::pi);
  at::Tensor kernel = options.side == STFTSideWords::kReal ? angle.cos() : angle.sin();
  if (options.window) {
    const at::Tensor window = window_of(options, shape[0]);
    kernel = kernel * window.view({-1, 1, 1});
    if (options.scaling == "density") kernel = kernel / window.square().sum().sqrt();
    if (options.scaling == "spectrum") kernel = kernel / window.abs().sum();
  }
  return kernel.to(dtype);
}

void check(const STFTOptions& options) {
  options.side.check("[initializers] STFT");
  STRATA_CHECK(
      !options.scaling || options.scaling == "density" || options.scaling == "spectrum",
      kInvalidArgument,
      "[initializers] STFT: Scaling is invalid, it must be `None`, 'density' or 'spectrum'. "
      "Received scaling=",
      options.scaling.value_or(""));
  if (options.window) (void)window_of(options, 1);
}

}  // namespace

STFT::STFT(const STFTOptions& options)
    : Initializer("STFT", keras::write_options(STFTOptions(options)),
                  [options](at::IntArrayRef shape, at::ScalarType dtype) {
                    return kernel_of(options, shape, dtype);
                  }) {
  check(options);
}

std::vector<Classes::Class> fourier_classes() {
  return {{"STFT",
           [](const Json& config, const std::string& owner) -> Initializer {
             return STFT(keras::read_options<STFTOptions>(config, owner));
           },
           {"STFTInitializer"}}};
}

}  // namespace strata::initializers
