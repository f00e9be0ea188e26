#include "collective/mpi/mpi_collectives.h"

#include <algorithm>
#include <limits>

#include "collective/mpi/mpi_packets.h"

namespace strata::collective {
namespace {

/// [0, size) in pieces.
struct Pieces {
  int64_t size;
  int64_t each;

  int64_t count() const { return (size + each - 1) / each; }
  Range operator[](int64_t index) const {
    return {.begin = index * each, .end = std::min(size, (index + 1) * each)};
  }
};

Pieces pieces_of(int64_t size, int64_t bytes_each, int64_t piece_bytes) {
  return {.size = size, .each = std::max<int64_t>(1, piece_bytes / bytes_each)};
}

void grow(std::vector<std::byte>& memory, int64_t bytes) {
  if (static_cast<int64_t>(memory.size()) < bytes) memory.resize(static_cast<size_t>(bytes));
}

/// How a reduction's elements are divided: piece by piece, and each among the ranks.
class Division {
 public:
  Division(const CollectiveCall& call, int ranks, const Pieces& pieces)
      : divided_(call.collective == Collective::kReduceScatter),
        part_elements_(call.elements / ranks),
        ranks_(ranks),
        pieces_(pieces) {}

  int64_t count() const { return pieces_.count(); }
  Range part(int64_t piece, int rank) const {
    Range range = pieces_[piece];
    if (divided_) {
      range.begin += part_elements_ * rank;
      range.end += part_elements_ * rank;
      return range;
    }
    const Range chunk = chunk_range(range.size(), ranks_, rank);
    return {.begin = range.begin + chunk.begin, .end = range.begin + chunk.end};
  }

 private:
  bool divided_;  // the call itself gives each rank a part
  int64_t part_elements_;
  int ranks_;
  Pieces pieces_;
};

/// One reduction in fixed order.
class Reducing {
 public:
  Reducing(const MpiCollectives& with, const CollectiveCall& call)
      : with_(with),
        call_(call),
        packets_(*with.subtrees, with.rank, call),
        division_(call, with.ranks, pieces(with, call)),
        // MPI counts in int.
        in_place_(packets_.plain() && call.bytes() <= std::numeric_limits<int>::max()) {}

  int64_t count() const { return division_.count(); }
  void scatter(int64_t piece, MpiRequests& requests) const;
  void join(int64_t piece) const;
  void gather(int64_t piece, MpiRequests& requests) const;

 private:
  static Pieces pieces(const MpiCollectives& with, const CollectiveCall& call) {
    const bool divided = call.collective == Collective::kReduceScatter;
    const int64_t widest = std::max(call.element_bytes, call.reduction->partial_bytes());
    return pieces_of(divided ? call.elements / with.ranks : call.elements,
                     widest * with.subtrees->most() * (divided ? with.ranks : 1), with.piece_bytes);
  }
  MpiScratch::Piece& memory(int64_t piece) const {
    return with_.scratch->pieces[static_cast<size_t>(piece) % with_.scratch->pieces.size()];
  }

  const MpiCollectives& with_;
  const CollectiveCall& call_;
  const MpiPackets packets_;
  const Division division_;
  const bool in_place_;  // sent from where the values are
};

void Reducing::scatter(int64_t piece, MpiRequests& requests) const {
  MpiScratch::Piece& memory = this->memory(piece);
  const Range local = division_.part(piece, with_.rank);
  int64_t sent = 0;
  int64_t received = 0;
  for (auto* counts : {&memory.of_sent, &memory.of_received}) {
    counts->counts.assign(static_cast<size_t>(with_.ranks), 0);
    counts->places.assign(static_cast<size_t>(with_.ranks), 0);
  }
  constexpr int64_t kLine = 64;
  const auto next = [](int64_t offset) { return (offset + kLine - 1) / kLine * kLine; };
  for (int rank = 0; rank < with_.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    const Range remote = division_.part(piece, rank);
    const int64_t bytes = packets_.bytes(with_.rank, remote.size());
    memory.of_sent.places[r] =
        static_cast<int>(in_place_ ? remote.begin * call_.element_bytes : next(sent));
    sent = next(sent) + bytes;
    if (rank == with_.rank) continue;  // a rank does not send to itself
    memory.of_sent.counts[r] = static_cast<int>(bytes);
    memory.of_received.places[r] = static_cast<int>(next(received));
    memory.of_received.counts[r] = static_cast<int>(packets_.bytes(rank, local.size()));
    received = next(received) + memory.of_received.counts[r];
  }
  grow(memory.received, received);
  const std::byte* from = call_.values.empty() ? nullptr : call_.values[0];
  if (!in_place_) {
    grow(memory.sent, sent);
    from = memory.sent.data();
    for (int rank = 0; rank < with_.ranks; ++rank) {
      packets_.pack(division_.part(piece, rank),
                    memory.sent.data() + memory.of_sent.places[static_cast<size_t>(rank)],
                    rank != with_.rank);
    }
  }
  requests.start("MPI_Ialltoallv", with_.rank, [&](MPI_Request* request) {
    return MPI_Ialltoallv(from, memory.of_sent.counts.data(), memory.of_sent.places.data(),
                          MPI_BYTE, memory.received.data(), memory.of_received.counts.data(),
                          memory.of_received.places.data(), MPI_BYTE, with_.group, request);
  });
}

void Reducing::join(int64_t piece) const {
  const MpiScratch::Piece& memory = this->memory(piece);
  const Range local = division_.part(piece, with_.rank);
  packets_.join(local, local, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return rank == with_.rank ? memory.sent.data() + memory.of_sent.places[r]
                              : memory.received.data() + memory.of_received.places[r];
  });
}

void Reducing::gather(int64_t piece, MpiRequests& requests) const {
  MpiScratch::Counts& parts =
      with_.scratch->gathers[static_cast<size_t>(piece) % MpiScratch::kGathers];
  parts.counts.clear();
  parts.places.clear();
  const int64_t begin = division_.part(piece, 0).begin;
  for (int rank = 0; rank < with_.ranks; ++rank) {
    const Range part = division_.part(piece, rank);
    parts.counts.push_back(static_cast<int>(part.size() * call_.element_bytes));
    parts.places.push_back(static_cast<int>((part.begin - begin) * call_.element_bytes));
  }
  requests.start("MPI_Iallgatherv", with_.rank, [&](MPI_Request* request) {
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, call_.at(begin), parts.counts.data(),
                           parts.places.data(), MPI_BYTE, with_.group, request);
  });
}

/// Runs pieces that do not depend on each other, some at a time.
template <typename Start>
void run_pieces(const MpiCollectives& with, const Pieces& pieces, Start&& start) {
  MpiRequests requests(with.wait);
  for (int64_t piece = 0; piece < pieces.count(); ++piece) {
    start(pieces[piece], requests);
    if (piece % 2 == 1) requests.finish();
  }
  requests.finish();
}

}  // namespace

void MpiCollectives::reduce(const CollectiveCall& call) const {
  const Reducing reducing(*this, call);
  const int64_t count = reducing.count();
  std::array<MpiRequests, 2> scattered = {MpiRequests(wait), MpiRequests(wait)};
  MpiRequests gathered(wait);
  for (int64_t turn = 0; turn <= count; ++turn) {
    if (turn < count) reducing.scatter(turn, scattered[static_cast<size_t>(turn % 2)]);
    if (turn == 0) continue;
    const int64_t piece = turn - 1;
    scattered[static_cast<size_t>(piece % 2)].finish();
    reducing.join(piece);
    if (call.collective != Collective::kAllReduce) continue;
    reducing.gather(piece, gathered);
    if (turn % static_cast<int64_t>(MpiScratch::kGathers) == 0) gathered.finish();
  }
  gathered.finish();
}

void MpiCollectives::add(const CollectiveCall& call, MPI_Datatype dtype) const {
  c10::SmallVector<Operand, 16> sources;
  for (const std::byte* value : call.values) {
    sources.push_back({.data = const_cast<std::byte*>(value)});
  }
  if (sources.empty()) {
    call.reduction->fill_neutral(call.result, call.elements);
  } else {
    call.reduction->reduce(sources.data(), static_cast<int>(sources.size()), call.elements,
                           {.data = call.result}, false);
  }
  run_pieces(*this, pieces_of(call.elements, call.element_bytes, piece_bytes),
             [&](const Range& piece, MpiRequests& requests) {
               requests.start("MPI_Iallreduce", rank, [&](MPI_Request* request) {
                 return MPI_Iallreduce(MPI_IN_PLACE, call.at(piece.begin),
                                       static_cast<int>(piece.size()), dtype, MPI_SUM, group,
                                       request);
               });
             });
  Operand sum = {.data = call.result};
  call.reduction->reduce(&sum, 1, call.elements, sum, true);
}

void MpiCollectives::all_gather(const CollectiveCall& call) const {
  const int64_t part_bytes = call.bytes() / ranks;
  run_pieces(*this, pieces_of(part_bytes, ranks, piece_bytes),
             [&](const Range& piece, MpiRequests& requests) {
               requests.start("MPI_Iallgather", rank, [&](MPI_Request* request) {
                 // A piece of each part; MPI's own counts and places are int.
                 MPI_Datatype bytes = MPI_DATATYPE_NULL;
                 MPI_Datatype spread = MPI_DATATYPE_NULL;
                 check_mpi(MPI_Type_contiguous(static_cast<int>(piece.size()), MPI_BYTE, &bytes),
                           "MPI_Type_contiguous");
                 check_mpi(MPI_Type_create_resized(bytes, 0, part_bytes, &spread),
                           "MPI_Type_create_resized");
                 check_mpi(MPI_Type_commit(&spread), "MPI_Type_commit");
                 const int code =
                     MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, call.result + piece.begin, 1, spread,
                                    group, request);
                 MPI_Type_free(&spread);  // when the operation is done
                 MPI_Type_free(&bytes);
                 return code;
               });
             });
}

void MpiCollectives::broadcast(const CollectiveCall& call) const {
  run_pieces(*this, pieces_of(call.bytes(), 1, piece_bytes),
             [&](const Range& piece, MpiRequests& requests) {
               requests.start("MPI_Ibcast", call.root, [&](MPI_Request* request) {
                 return MPI_Ibcast(call.result + piece.begin, static_cast<int>(piece.size()),
                                   MPI_BYTE, call.root, group, request);
               });
             });
}

}  // namespace strata::collective
