#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/graph/graph.h"

namespace strata::graph {

/// Where a step called an operator. Addresses alone: they get names when a message needs them.
struct Place {
  /// Return addresses, innermost first, without those in libtorch and the system's libraries.
  std::vector<void*> frames = {};
  std::string layer = {};  ///< Of Keras's, that was called then.
  /// Of what a backward pass has called: the place of the operator whose gradient it computes.
  std::shared_ptr<const Place> forward = nullptr;
};

/// "called at net.cc:12 (Net::forward); layer dense_1", "in the backward pass of net.cc:12 (Net::forward)".
/// Of code without debug information "called in Net::forward (addr2line -e /bin/net 0x1a2b)". Empty: no
/// frame is the program's.
/// Cost: it reads the symbols of all libraries of the process, 0.3 s the first time.
std::string describe(const Place& place);

/// As text behind a node's name: "; called at ...", or nothing.
std::string describe_place(const Node& node);

/// The place of the caller, as `describe` has it, now.
std::string describe_here();

/// Finds places while a step is recorded, and keeps one for operators that were called at the same.
/// Threads: one at a time. Cost: 1 us an operator.
class Places {
 public:
  Places();
  /// Of the operator that is recorded now.
  std::shared_ptr<const Place> here();

 private:
  std::shared_ptr<const Place> forward_of(uint64_t sequence_number) const;
  std::shared_ptr<const Place> backward_of(const std::shared_ptr<const Place>& forward);

  uint64_t begin_;  // autograd's sequence number
  /// Of each operator that autograd has made nodes for: the number after them. Ascending.
  std::vector<std::pair<uint64_t, std::shared_ptr<const Place>>> numbered_;
  std::map<std::pair<std::vector<void*>, std::string>, std::shared_ptr<const Place>> known_;
  std::map<const Place*, std::shared_ptr<const Place>> backward_;
};

/// While it lives, this thread computes the gradient that autograd's node of this number has. libtorch's engine says
/// so by itself.
class STRATA_API BackwardGuard {
 public:
  explicit BackwardGuard(uint64_t sequence_number);
  ~BackwardGuard();
  BackwardGuard(const BackwardGuard&) = delete;
  BackwardGuard& operator=(const BackwardGuard&) = delete;

 private:
  std::optional<uint64_t> before_;
};

/// While it lives, this thread calls the layer `name`, which must live as long.
class STRATA_API LayerNameGuard {
 public:
  explicit LayerNameGuard(const std::string& name);
  ~LayerNameGuard();
  LayerNameGuard(const LayerNameGuard&) = delete;
  LayerNameGuard& operator=(const LayerNameGuard&) = delete;

 private:
  const std::string* before_;
};

}  // namespace strata::graph
