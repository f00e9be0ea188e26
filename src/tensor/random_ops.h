#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace strata::tensor::detail {

/// `given` if the caller gave one; else the generator that the calling thread's stream has for
/// `device`; else nothing (no stream here, or a device without random numbers of its own, such as
/// meta).
std::optional<at::Generator> generator_or_stream(const std::optional<at::Generator>& given,
                                                 c10::Device device);

/// The key of the thread's stream for one mask (a draw of many Bernoulli elements); the next call
/// gives another. Nothing without a stream.
std::optional<uint64_t> next_mask_key();

/// For GPU operators that always draw from the device's default generator: while this lives, that
/// one is where the thread's stream is; afterwards the stream has moved on instead of it.
/// Nothing happens on other devices or without a stream.
class ScopedDefaultGenerator {
 public:
  explicit ScopedDefaultGenerator(c10::Device device);
  ~ScopedDefaultGenerator();
  ScopedDefaultGenerator(const ScopedDefaultGenerator&) = delete;
  ScopedDefaultGenerator& operator=(const ScopedDefaultGenerator&) = delete;

 private:
  std::optional<at::Generator> stream_;
  at::Generator lender_;
  uint64_t lender_seed_ = 0;
  uint64_t lender_offset_ = 0;
};

}  // namespace strata::tensor::detail
