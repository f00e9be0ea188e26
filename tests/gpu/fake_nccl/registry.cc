#include "gpu/fake_nccl/registry.h"

#include <map>
#include <mutex>

namespace strata::test::fake_nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
  uintptr_t handles = 0;
  std::string last_error;
};

// Never destroyed: a program may leave communicators open, whose threads use it.
Registry& registry() {
  static auto* const all = new Registry();
  return *all;
}

}  // namespace

ncclComm_t add_communicator(std::shared_ptr<Communicator> communicator) {
  const std::lock_guard lock(registry().mutex);
  const auto handle = reinterpret_cast<ncclComm_t>(++registry().handles * 64);
  registry().communicators[handle] = std::move(communicator);
  return handle;
}

std::shared_ptr<Communicator> find_communicator(ncclComm_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().communicators.find(handle);
  return at == registry().communicators.end() ? nullptr : at->second;
}

std::shared_ptr<Communicator> remove_communicator(ncclComm_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().communicators.find(handle);
  if (at == registry().communicators.end()) return nullptr;
  std::shared_ptr<Communicator> communicator = std::move(at->second);
  registry().communicators.erase(at);
  return communicator;
}

int count_communicators() {
  const std::lock_guard lock(registry().mutex);
  return static_cast<int>(registry().communicators.size());
}

void set_last_error(const std::string& text) {
  const std::lock_guard lock(registry().mutex);
  registry().last_error = text;
}

std::string last_error() {
  const std::lock_guard lock(registry().mutex);
  return registry().last_error;
}

}  // namespace strata::test::fake_nccl
