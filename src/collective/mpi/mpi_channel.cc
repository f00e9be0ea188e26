#include "collective/mpi/mpi_channel.h"

#include <algorithm>
#include <cstring>

#include "collective/mpi/mpi_packets.h"

namespace strata::collective {
namespace {

constexpr int64_t kHeadBytes = 16;  // a fingerprint, and what aligns what is behind it
constexpr int64_t kFromAll = 2;     // times as many bytes as from one rank

/// Of a message, in memory.
int64_t slot_bytes(int64_t most) {
  constexpr int64_t kLine = 64;
  return (kHeadBytes + most + kLine - 1) / kLine * kLine;
}

bool adds(const CollectiveCall& call) { return call.reduction != nullptr; }

/// What a rank brings where nothing is added.
Range part_of(const CollectiveCall& call, int rank, int ranks) {
  if (call.collective == Collective::kAllGather) return call.part(rank, ranks);
  const bool brings = call.collective == Collective::kBroadcast && rank == call.root;
  return {.begin = 0, .end = brings ? call.elements : 0};
}

}  // namespace

MpiChannel::MpiChannel(const MpiGroup& group, const LocalSubtrees& subtrees, int rank, int tag,
                       int64_t small_bytes)
    : group_(group),
      subtrees_(subtrees),
      rank_(rank),
      tag_(tag),
      most_bytes_(std::min(small_bytes, small_bytes * kFromAll / std::max(1, ranks() - 1))) {}

int64_t MpiChannel::brought_bytes(const CollectiveCall& call) const {
  if (!adds(call)) return call.bytes() / (call.collective == Collective::kAllGather ? ranks() : 1);
  const int64_t widest = std::max(call.element_bytes, call.reduction->partial_bytes());
  return (call.elements * widest + kHeadBytes) * subtrees_.most();
}

bool MpiChannel::is_small(const CollectiveCall& call) const {
  return call.elements == 0 || brought_bytes(call) <= most_bytes_;
}

int64_t MpiChannel::bring(const CollectiveCall& call, std::byte* target) const {
  if (adds(call)) {
    const MpiPackets packets(subtrees_, rank_, call);
    packets.pack({.begin = 0, .end = call.elements}, target, true);
    return packets.bytes(rank_, call.elements);
  }
  const Range local = part_of(call, rank_, ranks());
  const int64_t bytes = local.size() * call.element_bytes;
  if (bytes > 0) std::memcpy(target, call.at(local.begin), static_cast<size_t>(bytes));
  return bytes;
}

const std::byte* MpiChannel::message(int rank) const {
  return rank == rank_ ? mine_.data() : received_.data() + rank * slot_bytes(most_bytes_);
}

uint64_t MpiChannel::fingerprint(int rank) const {
  uint64_t fingerprint = 0;
  std::memcpy(&fingerprint, message(rank), sizeof fingerprint);
  return fingerprint;
}

void MpiChannel::barrier(const CollectiveCall& call, uint64_t fingerprint, const MpiWait& wait) {
  const int64_t most = slot_bytes(most_bytes_);
  mine_.resize(static_cast<size_t>(most));
  received_.resize(static_cast<size_t>(most * ranks()));
  std::byte* const own = mine_.data();
  std::byte* const received = received_.data();
  MpiRequests requests(wait);
  const auto each_other = [&](auto&& start) {
    for (int i = 1; i < ranks(); ++i) start((rank_ + i) % ranks());
  };
  each_other([&](int other) {
    requests.start("MPI_Irecv", other, [&](MPI_Request* request) {
      return MPI_Irecv(received + other * most, static_cast<int>(most), MPI_BYTE, other, tag_,
                       group_.messages, request);
    });
  });
  std::memcpy(own, &fingerprint, sizeof fingerprint);
  const int64_t bytes = kHeadBytes + (is_small(call) ? bring(call, own + kHeadBytes) : 0);
  each_other([&](int other) {
    requests.start("MPI_Isend", other, [&](MPI_Request* request) {
      return MPI_Isend(own, static_cast<int>(bytes), MPI_BYTE, other, tag_, group_.messages,
                       request);
    });
  });
  requests.finish();
}

void MpiChannel::take(const CollectiveCall& call) const {
  if (adds(call)) {
    const bool divided = call.collective == Collective::kReduceScatter;
    const Range whole = {.begin = 0, .end = call.elements};
    MpiPackets(subtrees_, rank_, call)
        .join(divided ? call.part(rank_, ranks()) : whole, whole,
              [&](int rank) STRATA_REQUIRES(calls_) { return message(rank) + kHeadBytes; });
    return;
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    const Range part = part_of(call, rank, ranks());
    if (rank == rank_ || part.size() == 0) continue;
    std::memcpy(call.at(part.begin), message(rank) + kHeadBytes,
                static_cast<size_t>(part.size() * call.element_bytes));
  }
}

void MpiChannel::tell(int64_t& word, const MpiWait& wait) {
  MpiRequests requests(wait);
  if (rank_ != 0) {
    requests.start("MPI_Irecv", 0, [&](MPI_Request* request) {
      return MPI_Irecv(&word_, 1, MPI_INT64_T, 0, tag_ + 1, group_.messages, request);
    });
  } else {
    word_ = word;
    for (int other = 1; other < ranks(); ++other) {
      requests.start("MPI_Isend", other, [&](MPI_Request* request) {
        return MPI_Isend(&word_, 1, MPI_INT64_T, other, tag_ + 1, group_.messages, request);
      });
    }
  }
  requests.finish();
  word = word_;
}

}  // namespace strata::collective
