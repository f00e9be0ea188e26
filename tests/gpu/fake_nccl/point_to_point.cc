#include "gpu/fake_nccl/point_to_point.h"

#include <cstring>

#include "gpu/fake_nccl/reductions.h"

namespace strata::test::fake_nccl {
namespace {

size_t bytes_of(const Operation& operation) { return operation.count * size_of(operation.type); }

// What is left of a group with one peer.
struct Open {
  std::deque<Operation> sends;
  std::deque<Operation> receives;
  std::deque<Operation> expected;  ///< Matched receives, whose data are on the way.

  bool empty() const { return sends.empty() && receives.empty() && expected.empty(); }
};

class Group {
 public:
  explicit Group(Transport& transport)
      : transport_(transport), open_(static_cast<size_t>(transport.ranks())) {}

  void post(const std::vector<Operation>& operations) {
    std::vector<std::vector<Announcement>> posted(open_.size());
    for (const Operation& each : operations) {
      const auto peer = static_cast<size_t>(each.peer);
      (each.kind == Kind::kSend ? open_[peer].sends : open_[peer].receives).push_back(each);
      posted[peer].push_back(announcement_of(each));
    }
    for (int peer = 0; peer < transport_.ranks(); ++peer) {
      const auto& to = posted[static_cast<size_t>(peer)];
      if (to.empty() || peer == transport_.rank()) continue;
      // One message: a peer sees all of a group or nothing.
      transport_.send(peer, MessageKind::kPosted, to.data(), to.size() * sizeof(Announcement));
    }
  }

  void run() {
    copy_own();
    for (;;) {
      std::vector<Operation> to_send;
      bool done = false;
      transport_.wait([&] {
        bool moved = false;
        done = true;
        for (int peer = 0; peer < transport_.ranks(); ++peer) {
          moved = advance(peer, to_send) || moved;
          done = done && open_[static_cast<size_t>(peer)].empty();
        }
        return moved || done;
      });
      for (const Operation& each : to_send) {
        transport_.send_data(each.peer, MessageKind::kPointData, each.input, bytes_of(each));
      }
      if (done) return;
    }
  }

 private:
  // A rank's sends to itself.
  void copy_own() {
    Open& own = open_[static_cast<size_t>(transport_.rank())];
    while (!own.sends.empty() && !own.receives.empty()) {
      const Operation& send = own.sends.front();
      const Operation& receive = own.receives.front();
      check_match(receive, announcement_of(send));
      if (bytes_of(send) > 0) std::memmove(receive.output, send.input, bytes_of(send));
      own.sends.pop_front();
      own.receives.pop_front();
    }
    if (own.empty()) return;
    const Operation& left = own.sends.empty() ? own.receives.front() : own.sends.front();
    throw Failure{ncclInvalidUsage, name(transport_.rank()) + " calls " +
                                        describe(announcement_of(left)) +
                                        ", and its group has nothing for it"};
  }

  // What can be done with a peer now. @return Whether anything was.
  bool advance(int peer, std::vector<Operation>& to_send) {
    Open& open = open_[static_cast<size_t>(peer)];
    Inbox& inbox = transport_.inbox(peer);
    bool moved = false;
    while (!open.sends.empty() && !inbox.receives.empty()) {
      check_match(open.sends.front(), inbox.receives.front());
      to_send.push_back(open.sends.front());
      open.sends.pop_front();
      inbox.receives.pop_front();
      moved = true;
    }
    while (!open.receives.empty() && !inbox.sends.empty()) {
      check_match(open.receives.front(), inbox.sends.front());
      open.expected.push_back(open.receives.front());
      open.receives.pop_front();
      inbox.sends.pop_front();
      moved = true;
    }
    while (!open.expected.empty() && !inbox.point_data.empty()) {
      const Bytes& data = inbox.point_data.front();
      if (!data.empty()) std::memcpy(open.expected.front().output, data.data(), data.size());
      open.expected.pop_front();
      inbox.point_data.pop_front();
      moved = true;
    }
    if (!moved && !open.empty()) check_hope(peer, open, inbox);
    return moved;
  }

  // Whether what is open with a peer can still end.
  void check_hope(int peer, const Open& open, const Inbox& inbox) const {
    if (open.sends.empty() && open.receives.empty()) {
      if (inbox.departed)
        throw Failure{ncclRemoteError, name(peer) + " has destroyed its communicator"};
      return;  // data are on the way
    }
    const Operation& own = open.sends.empty() ? open.receives.front() : open.sends.front();
    // Each waits for a call that the other makes later.
    if (!inbox.sends.empty()) throw_different(own, peer, inbox.sends.front());
    if (!inbox.receives.empty()) throw_different(own, peer, inbox.receives.front());
    if (!inbox.collectives.empty()) throw_different(own, peer, inbox.collectives.front());
    if (inbox.departed)
      throw Failure{ncclRemoteError, name(peer) + " has destroyed its communicator"};
  }

  void check_match(const Operation& own, const Announcement& other) const {
    if (own.count != other.count || own.type != other.type) throw_different(own, own.peer, other);
  }

  [[noreturn]] void throw_different(const Operation& own, int peer, const Announcement& its) const {
    const std::string a = name(transport_.rank()) + " calls " + describe(announcement_of(own));
    const std::string b = name(peer) + " calls " + describe(its);
    throw Failure{ncclInvalidUsage,
                  "ranks differ: " + (transport_.rank() <= peer ? a + ", " + b : b + ", " + a)};
  }

  static std::string name(int rank) { return "rank " + std::to_string(rank); }

  Transport& transport_;
  std::vector<Open> open_;
};

}  // namespace

void run_point_to_point(Transport& transport, const std::vector<Operation>& operations) {
  if (operations.empty()) return;
  Group group(transport);
  group.post(operations);
  group.run();
}

}  // namespace strata::test::fake_nccl
