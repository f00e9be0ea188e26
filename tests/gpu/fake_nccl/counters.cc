#include "gpu/fake_nccl/counters.h"

namespace strata::test::fake_nccl {
namespace {

template <typename Key>
uint64_t find(const std::map<Key, uint64_t>& counts, const Key& key) {
  const auto at = counts.find(key);
  return at == counts.end() ? 0 : at->second;
}

}  // namespace

Counters& Counters::of_process() {
  static auto* const all = new Counters();
  return *all;
}

void Counters::operation_ended(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  ++operations_[kind];
}

void Counters::bytes_sent(int peer, uint64_t bytes, bool to_other_host) {
  const std::lock_guard lock(mutex_);
  bytes_[peer] += bytes;
  if (to_other_host) bytes_to_other_hosts_ += bytes;
}

void Counters::reset() {
  const std::lock_guard lock(mutex_);
  operations_.clear();
  bytes_.clear();
  bytes_to_other_hosts_ = 0;
}

uint64_t Counters::operations(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  return find(operations_, kind);
}

uint64_t Counters::bytes_to(int peer) const {
  const std::lock_guard lock(mutex_);
  return find(bytes_, peer);
}

uint64_t Counters::bytes_to_other_hosts() const {
  const std::lock_guard lock(mutex_);
  return bytes_to_other_hosts_;
}

}  // namespace strata::test::fake_nccl
