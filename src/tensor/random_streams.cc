#include "tensor/random_streams.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "core/mutex.h"
#include "core/split_mix64.h"
#include "tensor/random_ops.h"
#include "tensor/replica_operators.h"
#include "tensor/torch_version.h"

namespace strata::tensor {
namespace {

constexpr uint64_t kGolden = strata::detail::kSplitMix64Step;
using strata::detail::split_mix64;

/// The key of (seed, id, step, purpose). A checkpoint's promise of the same bits after a resume
/// rests on it: never change it.
constexpr uint64_t derive(uint64_t seed, uint64_t id, uint64_t step, uint64_t purpose) {
  uint64_t key = split_mix64(seed + kGolden);
  key = split_mix64(key ^ split_mix64(id + 2 * kGolden));
  key = split_mix64(std::rotl(key, 21) ^ split_mix64(step + 3 * kGolden));
  return split_mix64(std::rotl(key, 21) ^ split_mix64(purpose + 4 * kGolden));
}

/// libtorch would seed the twister from 32 bits only; 8 replicas collide in those after some ten
/// thousand steps. So the whole state comes from 128 bits of key.
at::mt19937 twister(uint64_t start, uint64_t increment) {
  at::mt19937_data_pod data{};
  data.seed_ = start;
  data.seeded_ = true;
  data.left_ = 1;
  data.next_ = 0;
  increment |= 1;
  for (size_t i = 0; i < data.state_.size(); i += 2) {
    start += increment;
    const uint64_t word = split_mix64(start);
    data.state_[i] = static_cast<uint32_t>(word);
    data.state_[i + 1] = static_cast<uint32_t>(word >> 32);
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

enum Purpose : uint64_t {
  kTwisterStart = 0,
  kTwisterIncrement = 1,
  kDeviceSeed = 2,
  kFirstFree = 1 << 16,
  kFirstMask = uint64_t{1} << 62
};

}  // namespace

/// Lies in libtorch's thread-local debug info, which ThreadLocalState carries to other threads
/// together with the dispatch keys, so that the key is never there without its stream.
struct RandomStream::Impl : c10::DebugInfoBase {
  struct DeviceGenerator {
    at::Generator generator;
    bool stale = true;
  };

  const at::Generator& generator(c10::Device device);
  void reseed(DeviceGenerator& entry, c10::Device device) const;

  uint64_t seed = 0;
  uint64_t id = 0;
  uint64_t step = 0;
  uint64_t masks = 0;  // drawn in this step
  DeviceGenerator cpu;
  std::map<c10::DeviceIndex, DeviceGenerator> gpus;
};

const at::Generator& RandomStream::Impl::generator(c10::Device device) {
  DeviceGenerator* entry = &cpu;
  if (device.is_cpu()) {
    if (!entry->generator.defined()) entry->generator = at::make_generator<at::CPUGeneratorImpl>();
  } else {
    if (!device.has_index()) {
      device.set_index(at::globalContext().defaultGenerator(device).device().index());
    }
    entry = &gpus[device.index()];
    if (!entry->generator.defined()) {
      entry->generator = at::globalContext().defaultGenerator(device).clone();
    }
  }
  if (entry->stale) {
    reseed(*entry, device);
    entry->stale = false;
  }
  return entry->generator;
}

void RandomStream::Impl::reseed(DeviceGenerator& entry, c10::Device device) const {
  std::lock_guard lock(entry.generator.mutex());
  if (!device.is_cpu()) {
    entry.generator.set_current_seed(derive(seed, id, step, kDeviceSeed));
    return;
  }
  auto* cpu_generator = entry.generator.get<at::CPUGeneratorImpl>();
  cpu_generator->set_engine(
      twister(derive(seed, id, step, kTwisterStart), derive(seed, id, step, kTwisterIncrement)));
  // Normal draws come in pairs; the second of an earlier step must not leak into this one.
  cpu_generator->set_next_float_normal_sample(std::nullopt);
  cpu_generator->set_next_double_normal_sample(std::nullopt);
}

RandomStream::RandomStream(uint64_t seed, uint64_t id) : impl_(std::make_shared<Impl>()) {
  detail::link_replica_operators();
  impl_->seed = seed;
  impl_->id = id;
}

void RandomStream::set_step(uint64_t step) {
  impl_->step = step;
  impl_->masks = 0;
  impl_->cpu.stale = true;
  for (auto& [index, entry] : impl_->gpus) entry.stale = true;
}

uint64_t RandomStream::seed() const { return impl_->seed; }
uint64_t RandomStream::id() const { return impl_->id; }
uint64_t RandomStream::step() const { return impl_->step; }

const at::Generator& RandomStream::generator(c10::Device device) {
  return impl_->generator(device);
}

uint64_t RandomStream::key(uint64_t purpose) const {
  return derive(impl_->seed, impl_->id, impl_->step, purpose + kFirstFree);
}

struct RandomStreamGuard::State {
  c10::DebugInfoGuard stream;
  c10::impl::IncludeDispatchKeyGuard key;
};

RandomStreamGuard::RandomStreamGuard(const RandomStream& stream)
    : state_(
          new State{.stream = {random_stream_slot(), stream.impl_},
                    .key = c10::impl::IncludeDispatchKeyGuard(c10::DispatchKey::CustomRNGKeyId)}) {}

RandomStreamGuard::~RandomStreamGuard() = default;

namespace detail {
namespace {

RandomStream::Impl* current_stream() {
  return static_cast<RandomStream::Impl*>(c10::ThreadLocalDebugInfo::get(random_stream_slot()));
}

/// One loan at a time: two logical devices of one card share its default generator.
Mutex& loan_mutex() {
  static auto* mutex = new Mutex();
  return *mutex;
}

}  // namespace

std::optional<at::Generator> generator_or_stream(const std::optional<at::Generator>& given,
                                                 c10::Device device) {
  if (given.has_value() && given->defined()) return given;
  if (!device.is_cpu() && !device.is_cuda()) return given;
  RandomStream::Impl* stream = current_stream();
  if (stream == nullptr) return given;
  return stream->generator(device);
}

std::optional<uint64_t> next_mask_key() {
  RandomStream::Impl* stream = current_stream();
  if (stream == nullptr) return std::nullopt;
  return derive(stream->seed, stream->id, stream->step, kFirstMask + stream->masks++);
}

ScopedDefaultGenerator::ScopedDefaultGenerator(c10::Device device) {
  if (!device.is_cuda()) return;
  stream_ = generator_or_stream(std::nullopt, device);
  if (!stream_) return;
  loan_mutex().lock();
  lender_ = at::globalContext().defaultGenerator(device);
  std::lock_guard lock(lender_.mutex());
  lender_seed_ = lender_.current_seed();
  lender_offset_ = lender_.get_offset();
  lender_.set_current_seed(stream_->current_seed());
  lender_.set_offset(stream_->get_offset());
}

ScopedDefaultGenerator::~ScopedDefaultGenerator() {
  if (!stream_) return;
  {
    std::lock_guard lock(lender_.mutex());
    stream_->set_offset(lender_.get_offset());
    lender_.set_current_seed(lender_seed_);
    lender_.set_offset(lender_offset_);
  }
  loan_mutex().unlock();
}

}  // namespace detail
}  // namespace strata::tensor
