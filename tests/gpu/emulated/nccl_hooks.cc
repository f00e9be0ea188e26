// What the fake NCCL asks of the emulated GPUs.

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <vector>

#include "gpu/emulated/device.h"
#include "gpu/emulated/memory.h"
#include "gpu/emulated/order.h"
#include "gpu/fake_nccl/device_hooks.h"

namespace strata::test::emulated_gpu {
namespace {

struct Token {
  std::shared_ptr<Pending> pending;  // null: it was not in order, which order_errors tells
  std::atomic<bool> cancelled{false};
};

std::vector<Bytes> bytes_of_ranges(const fake_nccl::Range* ranges, size_t count) {
  std::vector<Bytes> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back({static_cast<const char*>(Memory::instance().host_address(ranges[i].begin)),
                   ranges[i].bytes});
  }
  return all;
}

int device_of_thread() { return current_device(); }

void* host_address(const void* device) { return Memory::instance().host_address(device); }

void* enqueue_for_nccl(void* stream, const char* name, const fake_nccl::Range* reads,
                       size_t n_reads, const fake_nccl::Range* writes, size_t n_writes) {
  auto* token = new Token();
  try {
    token->pending =
        enqueue_pending(*static_cast<const c10::Stream*>(stream), name,
                        bytes_of_ranges(reads, n_reads), bytes_of_ranges(writes, n_writes));
  } catch (const c10::Error& error) {  // none goes through a C library; order_errors has it
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
  }
  return token;
}

int wait_ready(void* handle) {
  auto* token = static_cast<Token*>(handle);
  if (token->pending) wait_until_ready(*token->pending, token->cancelled);
  return token->cancelled ? 0 : 1;
}

void cancel(void* handle) { static_cast<Token*>(handle)->cancelled = true; }

void complete_for_nccl(void* handle, int /*failed*/) {
  const std::unique_ptr<Token> token(static_cast<Token*>(handle));
  if (token->pending) emulated_gpu::complete(*token->pending);
}

}  // namespace
}  // namespace strata::test::emulated_gpu

extern "C" __attribute__((visibility("default"))) const strata::test::fake_nccl::DeviceHooks*
strata_emulated_device_hooks() {
  using namespace strata::test;  // NOLINT(google-build-using-namespace)
  static const fake_nccl::DeviceHooks hooks = {.size = sizeof(fake_nccl::DeviceHooks),
                                               .current_device = emulated_gpu::device_of_thread,
                                               .host_address = emulated_gpu::host_address,
                                               .enqueue = emulated_gpu::enqueue_for_nccl,
                                               .wait_ready = emulated_gpu::wait_ready,
                                               .cancel = emulated_gpu::cancel,
                                               .complete = emulated_gpu::complete_for_nccl};
  return &hooks;
}
