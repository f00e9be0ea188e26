#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "wire/memory/memory_network.h"
#include "wire/memory/memory_reactor.h"
#include "wire/stream.h"

namespace strata::wire {

using TimePoint = Reactor::TimePoint;

/// One direction between two hosts, as it is now.
struct MemoryLink {
  LinkOptions options;
  TimePoint busy_until = TimePoint::min();
  bool cut = false;
  bool silent = false;
  std::optional<uint64_t> bytes_until_cut = std::nullopt;
};

/// One direction of one connection. Under the network's mutex.
struct MemoryPipe {
  struct Piece {
    TimePoint due;
    std::vector<std::byte> bytes;
    size_t read = 0;
  };
  /// The poller to notify of events.
  struct End {
    std::shared_ptr<MemoryReactor::Shared> reactor;
    uint64_t key = 0;  // 0: not yet
    bool closed = false;

    void announce(TimePoint due) const {
      if (key != 0) reactor->announce(key, due);
    }
  };

  std::string from;
  std::string to;
  std::deque<Piece> pieces;
  size_t bytes = 0;
  TimePoint last_due = TimePoint::min();
  bool ended = false;  // no more will be written
  bool broken = false;
  bool writer_waits = false;
  End writer;
  End reader;
  std::mt19937_64 random;
};

/// What is behind a MemoryNetwork.
struct MemoryNetwork::Impl {
  /// A transport that listens; notified by its key.
  struct Listener {
    MemoryPipe::End end;
    std::deque<std::pair<std::unique_ptr<Stream>, std::string>> incoming;  // and from which host
  };

  explicit Impl(const MemoryNetworkOptions& the_options) : options(the_options) {}

  MemoryLink& link(const std::string& from, const std::string& to) STRATA_REQUIRES(mutex) {
    return links.try_emplace({from, to}, MemoryLink{.options = options.link}).first->second;
  }
  void break_pipe(MemoryPipe& pipe) STRATA_REQUIRES(mutex);
  void break_all(const std::string& a, const std::string& b) STRATA_REQUIRES(mutex);

  const MemoryNetworkOptions options;
  Mutex mutex;
  std::map<std::pair<std::string, std::string>, MemoryLink> links STRATA_GUARDED_BY(mutex);
  std::map<std::pair<std::string, uint16_t>, std::shared_ptr<Listener>> listeners
      STRATA_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<MemoryPipe>> pipes STRATA_GUARDED_BY(mutex);
  uint16_t next_port STRATA_GUARDED_BY(mutex) = 10000;
  uint64_t pipes_made STRATA_GUARDED_BY(mutex) = 0;
};

/// One end of a connection in a MemoryNetwork.
class MemoryStream final : public Stream {
 public:
  MemoryStream(std::shared_ptr<MemoryNetwork::Impl> network, std::shared_ptr<MemoryPipe> out,
               std::shared_ptr<MemoryPipe> in)
      : network_(std::move(network)), out_(std::move(out)), in_(std::move(in)) {}
  ~MemoryStream() override { close(); }

  void watch(uint64_t key) override;
  Outcome establish() override { return Outcome::kMoved; }
  Result write(std::span<const iovec> parts) override;
  Result read(std::span<const iovec> parts) override;
  void end() override;
  void close() override;

 private:
  Outcome reset();

  const std::shared_ptr<MemoryNetwork::Impl> network_;
  const std::shared_ptr<MemoryPipe> out_;
  const std::shared_ptr<MemoryPipe> in_;
};

}  // namespace strata::wire
