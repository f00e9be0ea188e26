#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "graph/stablehlo/lower.h"
#include "optim/step/shipped_update.h"
#include "pjrt/client.h"
#include "strata/runtime/variable.h"

namespace strata::tpu {

/// Where the elements of a piece of memory are in this process.
struct HostPlace {
  std::vector<at::Tensor> replicas = {};                   ///< By replica; of a slot one for all.
  std::optional<Variable> variable = {};                   ///< That they are the copies of.
  std::shared_ptr<optimizers::ShippedUpdate> update = {};  ///< Of a slot.
  size_t slot = 0;
};

/// What steps read and write, on the devices: a piece stays there from run to run, and is copied when the other
/// side has written it: to the devices before a run, to this process when it is read.
/// Threads: one at a time.
class DeviceMemory {
 public:
  DeviceMemory(pjrt::Client client, size_t num_replicas, std::chrono::milliseconds timeout)
      : client_(std::move(client)), num_replicas_(num_replicas), timeout_(timeout) {}

  /// The number of the piece that a program has as `parameter`.
  size_t piece_of(const graph::stablehlo::Parameter& parameter, const HostPlace& host);

  /// Copies the piece to the devices, if they do not have it as it is now.
  void prepare(size_t piece);
  const pjrt::Buffer& buffer(size_t piece, size_t replica) const {
    return *pieces_[piece].buffers[replica];
  }
  using Buffers = std::vector<std::unique_ptr<pjrt::Buffer>>;
  /// A run has written the piece: its buffers now, by replica. @return Those before, which the run reads.
  Buffers set(size_t piece, Buffers buffers);

  /// Copies what runs have written to this process.
  void fetch();
  /// This process is about to write any piece without a trace, or, of one optimizer, has written its slots.
  void expect_writes_here();
  void expect_writes_here(const optimizers::ShippedUpdate& update);

 private:
  struct Piece {
    graph::stablehlo::Parameter parameter;
    HostPlace host;
    std::vector<std::unique_ptr<pjrt::Buffer>> buffers = {};
    bool on_devices = false;  // as they are on the newer side
    bool is_newer = false;    // on the devices
    // Of this process, when both sides were the same the last time.
    std::vector<uint32_t> versions = {};
    at::Tensor elements = {};
  };

  static at::Tensor memory_of(const Piece& piece, size_t replica);
  static bool overlap(const Piece& a, const Piece& b);
  bool has_changed_here(Piece& piece) const;
  static std::vector<uint32_t> versions_of(const Piece& piece);
  void note_equal(Piece& piece) const;
  void fetch_one(Piece& piece);

  pjrt::Client client_;
  size_t num_replicas_;
  std::chrono::milliseconds timeout_;
  std::vector<Piece> pieces_;
};

}  // namespace strata::tpu
