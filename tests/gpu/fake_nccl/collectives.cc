#include "gpu/fake_nccl/collectives.h"

#include <algorithm>
#include <cstring>

#include "gpu/fake_nccl/reductions.h"

namespace strata::test::fake_nccl {
namespace {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

[[noreturn]] void throw_different(int rank, const Announcement& own, int other,
                                  const Announcement& its) {
  // Each rank's text begins with the lower one.
  const std::string a = rank_name(rank) + " calls " + describe(own);
  const std::string b = rank_name(other) + " calls " + describe(its);
  throw Failure{ncclInvalidUsage, "ranks differ: " + (rank < other ? a + ", " + b : b + ", " + a)};
}

// One collective on this rank.
class Ring {
 public:
  Ring(Transport& transport, const Operation& operation)
      : transport_(transport),
        operation_(operation),
        rank_(transport.rank()),
        ranks_(transport.ranks()),
        size_(size_of(operation.type)) {}

  void run() {
    switch (operation_.kind) {
      case Kind::kAllReduce:
        return all_reduce();
      case Kind::kReduce:
        return reduce_to_root();
      case Kind::kBroadcast:
        return broadcast();
      case Kind::kReduceScatter:
        return reduce_scatter();
      default:
        return all_gather();
    }
  }

 private:
  struct Part {
    std::byte* begin;
    size_t count;
  };

  int modulo(int rank) const { return ((rank % ranks_) + ranks_) % ranks_; }
  int next() const { return modulo(rank_ + 1); }
  int previous() const { return modulo(rank_ - 1); }
  size_t count() const { return operation_.count; }
  bool is_mean() const { return operation_.op == ncclAvg; }

  void send(const void* data, size_t count) {
    transport_.send_data(next(), MessageKind::kCollectiveData, data, count * size_);
  }

  Bytes receive(size_t count) {
    Bytes data = transport_.receive_data(previous());
    if (data.size() != count * size_) throw Failure{ncclInternalError, "data of another length"};
    return data;
  }

  void add(const Part& part, const Bytes& other) {
    reduce(operation_.type, operation_.op, part.begin, other.data(), part.count);
  }

  // This rank's values, as they are added.
  Bytes own_values(size_t count) const {
    Bytes values(count * size_);
    if (count > 0) std::memcpy(values.data(), operation_.input, values.size());
    if (is_mean()) before_mean(operation_.type, values.data(), count, ranks_);
    return values;
  }

  // Part `index` of `count` values, which are cut for the ranks.
  Part part(Bytes& values, size_t count, int index) const {
    const size_t each = (count + static_cast<size_t>(ranks_) - 1) / static_cast<size_t>(ranks_);
    const size_t begin = std::min(count, each * static_cast<size_t>(modulo(index)));
    return {values.data() + begin * size_, std::min(each, count - begin)};
  }

  // Afterwards rank r has the sum of part r + `shift`.
  void add_parts(Bytes& values, size_t count, int shift) {
    for (int step = 0; step < ranks_ - 1; ++step) {
      const int first = rank_ + shift - 1 - step;
      const Part sent = part(values, count, first);
      send(sent.begin, sent.count);
      const Part received = part(values, count, first - 1);
      add(received, receive(received.count));
    }
  }

  void finish(void* values, size_t count) const {
    if (is_mean()) after_mean(operation_.type, values, count, ranks_);
  }

  void write(const void* values, size_t count, size_t at = 0) {
    if (count > 0)
      std::memmove(static_cast<std::byte*>(operation_.output) + at * size_, values, count * size_);
  }

  void all_reduce() {
    Bytes values = own_values(count());
    add_parts(values, count(), 1);
    for (int step = 0; step < ranks_ - 1; ++step) {
      const Part sent = part(values, count(), rank_ + 1 - step);
      send(sent.begin, sent.count);
      const Part received = part(values, count(), rank_ - step);
      const Bytes data = receive(received.count);
      std::copy(data.begin(), data.end(), received.begin);
    }
    finish(values.data(), count());
    write(values.data(), count());
  }

  void reduce_scatter() {
    const size_t all = count() * static_cast<size_t>(ranks_);
    Bytes values = own_values(all);
    add_parts(values, all, 0);
    const Part own = part(values, all, rank_);
    finish(own.begin, own.count);
    write(own.begin, own.count);
  }

  // From the rank after the root round to the root.
  void reduce_to_root() {
    Bytes values = own_values(count());
    if (rank_ != modulo(operation_.peer + 1)) add({values.data(), count()}, receive(count()));
    if (rank_ != operation_.peer) return send(values.data(), count());
    finish(values.data(), count());
    write(values.data(), count());
  }

  void broadcast() {
    if (rank_ == operation_.peer) {
      if (ranks_ > 1) send(operation_.input, count());
      return write(operation_.input, count());
    }
    const Bytes values = receive(count());
    if (next() != operation_.peer) send(values.data(), count());
    write(values.data(), count());
  }

  void all_gather() {
    write(operation_.input, count(), static_cast<size_t>(rank_) * count());
    const auto* from = static_cast<const std::byte*>(operation_.output);
    for (int step = 0; step < ranks_ - 1; ++step) {
      send(from + static_cast<size_t>(modulo(rank_ - step)) * count() * size_, count());
      write(receive(count()).data(), count(),
            static_cast<size_t>(modulo(rank_ - step - 1)) * count());
    }
  }

  Transport& transport_;
  const Operation& operation_;
  const int rank_;
  const int ranks_;
  const size_t size_;
};

}  // namespace

std::vector<Announcement> agree(Transport& transport, const Announcement& own) {
  const int rank = transport.rank();
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    if (peer != rank) transport.send(peer, MessageKind::kCollective, &own, sizeof(own));
  }
  std::vector<Announcement> all(static_cast<size_t>(transport.ranks()), own);
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    if (peer == rank) continue;
    transport.wait([&] {
      Inbox& inbox = transport.inbox(peer);
      if (!inbox.collectives.empty()) {
        all[static_cast<size_t>(peer)] = inbox.collectives.front();
        inbox.collectives.pop_front();
        return true;
      }
      // The peer cannot come here before this rank answers, and this rank waits for it.
      if (!inbox.sends.empty()) throw_different(rank, own, peer, inbox.sends.front());
      if (!inbox.receives.empty()) throw_different(rank, own, peer, inbox.receives.front());
      if (inbox.departed) {
        throw Failure{ncclRemoteError, rank_name(peer) + " has destroyed its communicator"};
      }
      return false;
    });
  }
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    const Announcement& its = all[static_cast<size_t>(peer)];
    if (!same_collective(own, its)) throw_different(rank, own, peer, its);
  }
  return all;
}

void run_collective(Transport& transport, const Operation& operation) {
  agree(transport, announcement_of(operation));
  Ring(transport, operation).run();
}

}  // namespace strata::test::fake_nccl
