#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "strata/core/error.h"

namespace strata {

/// One value for each replica of this process, by local number. `Strategy::run` returns these and
/// passes each replica its own.
/// Source: tf.distribute.DistributedValues (PerReplica).
template <typename T>
class PerReplica {
 public:
  using value_type = T;

  PerReplica() = default;
  explicit PerReplica(std::vector<T> values) : values_(std::move(values)) {}

  int size() const { return static_cast<int>(values_.size()); }

  // References to T; for bool the proxy of std::vector<bool>.
  typename std::vector<T>::const_reference get(int replica) const {
    check(replica);
    return values_[static_cast<size_t>(replica)];
  }
  typename std::vector<T>::reference get(int replica) {
    check(replica);
    return values_[static_cast<size_t>(replica)];
  }

  const std::vector<T>& values() const { return values_; }
  std::vector<T>& values() { return values_; }

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  void check(int replica) const {
    STRATA_CHECK(replica >= 0 && replica < size(), kOutOfRange, "[per_replica] get: got replica ",
                 replica, "; expected 0 to ", size() - 1);
  }

  std::vector<T> values_;
};

}  // namespace strata
