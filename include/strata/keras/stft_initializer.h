#pragma once

#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/keras/initializers.h"

namespace strata::initializers {

struct STFTSideWords {
  enum Word { kReal, kImag };
  static constexpr const char* kOption = "side";
  static constexpr const char* kWords[] = {"real", "imag"};
};

struct STFTOptions {
  OneOf<STFTSideWords> side = "real";
  /// "hann", "hamming", "blackman", "bartlett", "boxcar"; unset: none.
  std::optional<std::string> window = "hann";
  std::optional<std::string> scaling = "density";  ///< Of a window; or "spectrum"; unset: none.
  bool periodic = false;
};
/// Fills a kernel `[frame, 1, frequencies]` with the cosines or sines of a discrete Fourier
/// transform of 2 (frequencies - 1) values.
struct STRATA_API STFT : Initializer {
  explicit STFT(const STFTOptions& options = {});
};

}  // namespace strata::initializers
