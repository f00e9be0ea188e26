#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "strata/core/export.h"

namespace at {
struct Generator;
}

namespace strata::tensor {

/// The random numbers of one replica. A random operator's draw depends on (seed, stream id, step)
/// and on the draws before it in the same step, not on the thread, the machine, other replicas, or
/// earlier steps: so a replica may move to another process, and a resumed run needs no saved state.
///
/// While a RandomStreamGuard holds it, every libtorch operator that takes an optional generator,
/// and got none, draws from it: torch::dropout, torch::rand, Tensor::normal_, ... in unchanged
/// modules. A dispatch key below autograd (CustomRNGKeyId) implements this; other operators skip it
/// at no cost.
///
/// On CPUs it is libtorch's Mersenne twister, its whole state filled from the key; dropout's masks
/// (bernoulli_(p) of dense float, double and bool tensors) come from a vectorised counter-based
/// generator: 11 us for dropout of 64 x 256 where libtorch needs 200 or more outside Intel
/// processors. On GPUs it is a Philox generator for each device; fused dropout and fused attention,
/// which take no generator, run with the device's default one set to the stream for that call.
/// Dropout inside cuDNN's recurrent layers, whose state libtorch caches per process, is not
/// covered.
///
/// Threads: one at a time, as for a replica. A copy is a second handle of the same stream.
class STRATA_API RandomStream {
 public:
  /// @param seed  The job's seed, the same in every replica.
  /// @param id    The replica's id in the whole job.
  RandomStream(uint64_t seed, uint64_t id);

  /// Begins step `step`: the next draw is the first of that step, also if the step is the same as
  /// before. Costs nothing until the first draw, which takes about a microsecond more.
  void set_step(uint64_t step);

  uint64_t seed() const;
  uint64_t id() const;
  uint64_t step() const;

  /// This stream's generator for `device`, in the state after the step's draws. It is for code that
  /// calls operators with an explicit generator.
  /// @throws c10::Error  no such device, or libtorch has no generators for its kind.
  const at::Generator& generator(c10::Device device = c10::Device(c10::DeviceType::CPU));

  /// Returns bits that depend on (seed, id, step) and `purpose` only; for code with generators of
  /// its own.
  uint64_t key(uint64_t purpose) const;

  struct Impl;

 private:
  friend class RandomStreamGuard;
  std::shared_ptr<Impl> impl_;
};

/// Makes `stream` the calling thread's stream during its lifetime; guards nest. libtorch carries
/// the choice to the threads that run a backward for this one. An explicit generator in a call is
/// respected. Cost: about 0.1 us. Threads: destroy it on the thread that made it.
class STRATA_API RandomStreamGuard {
 public:
  explicit RandomStreamGuard(const RandomStream& stream);
  ~RandomStreamGuard();
  RandomStreamGuard(const RandomStreamGuard&) = delete;
  RandomStreamGuard& operator=(const RandomStreamGuard&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::tensor
