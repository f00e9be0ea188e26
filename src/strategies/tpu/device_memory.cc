#include "strategies/tpu/device_memory.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>

#include <utility>

#include "graph/fake.h"
#include "graph/stablehlo/transfers.h"
#include "strata/core/error.h"

namespace strata::tpu {

using graph::stablehlo::Geometry;
using graph::stablehlo::part_of;

at::Tensor DeviceMemory::memory_of(const Piece& piece, size_t replica) {
  if (piece.host.update == nullptr) return piece.host.replicas[replica];
  return piece.host.replicas[0].clone(at::MemoryFormat::Contiguous);
}

size_t DeviceMemory::piece_of(const graph::stablehlo::Parameter& parameter, const HostPlace& host) {
  const auto is_same = [&](const Piece& piece) {
    if (piece.parameter.where != parameter.where) return false;
    if (host.update != nullptr) {
      return piece.host.update == host.update && piece.host.slot == host.slot;
    }
    return piece.host.update == nullptr &&
           piece.host.replicas[0].storage().is_alias_of(host.replicas[0].storage());
  };
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!is_same(pieces_[i])) continue;
    if (host.variable) pieces_[i].host.variable = host.variable;
    return i;
  }
  pieces_.push_back({.parameter = parameter, .host = host});
  return pieces_.size() - 1;
}

bool DeviceMemory::overlap(const Piece& a, const Piece& b) {
  if (a.host.update != nullptr || b.host.update != nullptr) return false;
  if (!a.host.replicas[0].storage().is_alias_of(b.host.replicas[0].storage())) return false;
  const auto end = [](const Geometry& where) {
    return where.offset + graph::extent(where.sizes, where.strides);
  };
  return a.parameter.where.offset < end(b.parameter.where) &&
         b.parameter.where.offset < end(a.parameter.where);
}

std::vector<uint32_t> DeviceMemory::versions_of(const Piece& piece) {
  std::vector<uint32_t> versions;
  for (const at::Tensor& each : piece.host.replicas) {
    versions.push_back(static_cast<uint32_t>(each._version()));
  }
  return versions;
}

void DeviceMemory::note_equal(Piece& piece) const {
  piece.versions = versions_of(piece);
  piece.elements = part_of(memory_of(piece, 0), piece.parameter.where).clone();
}

/// A version also changes where a tensor is written with what it has, or another part of its storage.
bool DeviceMemory::has_changed_here(Piece& piece) const {
  if (!piece.elements.defined()) return true;
  std::vector<uint32_t> versions = versions_of(piece);
  if (versions == piece.versions) return false;
  if (!at::equal(part_of(memory_of(piece, 0), piece.parameter.where), piece.elements)) return true;
  piece.versions = std::move(versions);
  return false;
}

void DeviceMemory::prepare(size_t index) {
  Piece& piece = pieces_[index];
  if (has_changed_here(piece)) piece.on_devices = piece.is_newer = false;
  if (piece.on_devices) return;
  for (Piece& other : pieces_) {
    if (&other != &piece && other.is_newer && overlap(piece, other)) fetch_one(other);
  }
  piece.buffers.clear();
  for (size_t r = 0; r < num_replicas_; ++r) {
    piece.buffers.push_back(std::make_unique<pjrt::Buffer>(
        graph::stablehlo::copy_capture(client_, piece.parameter, memory_of(piece, r), r)));
  }
  piece.on_devices = true;
  note_equal(piece);
}

DeviceMemory::Buffers DeviceMemory::set(size_t index, Buffers buffers) {
  Piece& piece = pieces_[index];
  std::swap(piece.buffers, buffers);
  piece.is_newer = true;
  for (Piece& other : pieces_) {
    if (&other != &piece && overlap(piece, other)) other.on_devices = false;
  }
  return buffers;
}

void DeviceMemory::fetch_one(Piece& piece) {
  piece.is_newer = false;
  const auto read = [&](size_t replica, const at::Tensor& to) {
    graph::stablehlo::read_capture(*piece.buffers[replica], piece.parameter, to, timeout_);
  };
  if (piece.host.update != nullptr) {
    const at::Tensor value = at::empty_like(memory_of(piece, 0));
    read(0, value);
    piece.host.update->set_shipped_slot(piece.host.slot, value);
  } else {
    for (size_t r = 0; r < num_replicas_; ++r) {
      const at::Tensor& to = piece.host.replicas[r];
      const bool shared = r > 0 && to.storage().is_alias_of(piece.host.replicas[0].storage());
      if (!shared) read(r, to);
    }
  }
  if (piece.host.variable) piece.host.variable->state()->bump_version();
}

void DeviceMemory::expect_writes_here() {
  for (Piece& piece : pieces_) piece.on_devices = false;
}

void DeviceMemory::expect_writes_here(const optimizers::ShippedUpdate& update) {
  for (Piece& piece : pieces_) {
    if (piece.host.update.get() == &update) piece.on_devices = piece.is_newer = false;
  }
}

void DeviceMemory::fetch() {
  std::vector<Piece*> fetched;
  for (Piece& piece : pieces_) {
    if (!piece.is_newer || has_changed_here(piece)) continue;  // the program has written it since
    fetch_one(piece);
    fetched.push_back(&piece);
  }
  for (Piece* const piece : fetched) note_equal(*piece);
}

}  // namespace strata::tpu
