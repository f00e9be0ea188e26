// The limits of suite ps: bytes that go to the servers' processes and back, and nothing else.
#include <algorithm>
#include <cstddef>
#include <memory>

#include "core/nontemporal_copy.h"
#include "ps/tables/mapped_memory.h"
#include "ps/tables/worker_memory.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/ps/table.h"
#include "suites/calls.h"
#include "suites/ps.h"
#include "wire/tcp/socket_transport.h"

namespace strata::bench {
namespace {

wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }

/// One end: a worker's connections to all servers, or a server's to the worker.
class Ends {
 public:
  explicit Ends(const PsWorkerOptions& options)
      : is_worker_(options.role.ends_with("-worker")),
        task_(options.task),
        servers_(static_cast<int>(options.servers.size())),
        transport_(wire::make_socket_transport()) {
    const wire::Hello hello = {
        .job = "bench",
        .task = str_cat(is_worker_ ? "/job:worker/task:" : "/job:ps/task:", task_),
        .purpose = "copy"};
    if (!is_worker_) {
      transport_->listen(wire::Address::parse(options.servers[static_cast<size_t>(task_)]), hello);
      connections_.push_back(transport_->accept(limit()));
      return;
    }
    for (const std::string& server : options.servers) {
      connections_.push_back(transport_->connect(wire::Address::parse(server), hello, limit()));
    }
  }

  bool is_worker() const { return is_worker_; }
  wire::Transport& transport() { return *transport_; }
  const auto& connections() const { return connections_; }

  /// Cut as a flat table is; a server's own.
  std::vector<ps::TablePart> parts(int64_t bytes) const {
    std::vector<ps::TablePart> parts = ps::cut_evenly(bytes / 4, 4, servers_);
    if (!is_worker_) {
      std::erase_if(parts, [&](const ps::TablePart& part) { return part.server != task_; });
    }
    return parts;
  }

 private:
  const bool is_worker_;
  const int task_;
  const int servers_;
  std::unique_ptr<wire::Transport> transport_;
  std::vector<std::shared_ptr<wire::Connection>> connections_;
};

/// Through sockets, in messages of at most 1 MiB. All processes make the same calls.
class Copy {
 public:
  explicit Copy(const PsWorkerOptions& options) : ends_(options) {}

  std::function<void()> prepare(const Calls& calls) {
    const auto bytes = static_cast<size_t>(calls.bytes);
    there_.assign(bytes, std::byte{1});
    back_.assign(bytes, std::byte{0});
    const auto call = [this, parts = ends_.parts(calls.bytes)] {
      ends_.is_worker() ? ask(parts) : answer(parts);
    };
    call();
    STRATA_CHECK(!ends_.is_worker() || back_ == there_, kInternal,
                 "[strata bench] got other bytes than were sent");
    return call;
  }

 private:
  static constexpr size_t kMessage = size_t{1} << 20;
  static constexpr uint32_t kThere = 2;
  static constexpr uint32_t kBack = 3;

  /// What of `buffer` goes over which connection.
  template <typename Function>
  void each_message(const std::vector<ps::TablePart>& parts, std::vector<std::byte>& buffer,
                    const Function& function) {
    for (const ps::TablePart& part : parts) {
      const auto& connection =
          ends_.connections()[ends_.is_worker() ? static_cast<size_t>(part.server) : 0];
      const auto end = static_cast<size_t>(part.end) * 4;
      for (auto at = static_cast<size_t>(part.begin) * 4; at < end; at += kMessage) {
        transfers_.push_back(
            function(*connection, std::span(buffer).subspan(at, std::min(kMessage, end - at))));
      }
    }
  }
  void send(uint32_t channel, const std::vector<ps::TablePart>& parts,
            std::vector<std::byte>& buffer) {
    each_message(parts, buffer, [&](wire::Connection& connection, std::span<std::byte> bytes) {
      return connection.send({channel, call_, 0}, bytes);
    });
  }
  void receive(uint32_t channel, const std::vector<ps::TablePart>& parts,
               std::vector<std::byte>& buffer) {
    each_message(parts, buffer, [&](wire::Connection& connection, std::span<std::byte> bytes) {
      return connection.receive({channel, call_, 0}, bytes);
    });
  }
  void wait() {
    const Status status = ends_.transport().wait_all(transfers_, limit());
    STRATA_CHECK(status.ok(), kUnavailable, "[strata bench] copy: ", status.message());
    transfers_.clear();
  }

  void ask(const std::vector<ps::TablePart>& parts) {
    ++call_;
    receive(kBack, parts, back_);
    send(kThere, parts, there_);
    wait();
  }
  void answer(const std::vector<ps::TablePart>& parts) {
    ++call_;
    receive(kThere, parts, there_);
    wait();
    send(kBack, parts, there_);
    wait();
  }

  Ends ends_;
  std::vector<wire::Transfer> transfers_;
  std::vector<std::byte> there_, back_;
  uint32_t call_ = 0;
};

/// Through memory that all processes map: a server copies what is in the worker's to its own, and
/// that back to another place of the worker's.
class MemoryCopy {
 public:
  explicit MemoryCopy(const PsWorkerOptions& options) : ends_(options) {}

  std::function<void()> prepare(const Calls& calls) {
    const auto bytes = static_cast<size_t>(calls.bytes);
    if (ends_.is_worker()) {
      show(bytes);
    } else {
      map(bytes);
    }
    const auto call = [this, parts = ends_.parts(calls.bytes)] {
      ends_.is_worker() ? ask() : answer(parts);
    };
    call();
    STRATA_CHECK(!ends_.is_worker() || std::equal(there_.get(), there_.get() + bytes, back_.get()),
                 kInternal, "[strata bench] got other bytes than were sent");
    return call;
  }

 private:
  static constexpr uint32_t kChannel = 1;
  static constexpr int64_t kBlock = 256 << 10;

  void show(size_t bytes) {
    for (std::shared_ptr<std::byte>* block : {&there_, &back_}) {
      *block = memory_.take(bytes);
      STRATA_CHECK(*block, kResourceExhausted, "[strata bench] no shared memory");
      const std::string text = memory_.introduce(memory_.find({block->get(), 1})->segment);
      for (const auto& connection : ends_.connections()) connection->send_message(kChannel, text);
    }
    std::fill_n(there_.get(), bytes, std::byte{1});
  }
  void map(size_t bytes) {
    for (std::shared_ptr<std::byte>* block : {&there_, &back_}) {
      ps::MappedMemory mapped;
      STRATA_CHECK(mapped.map(1, receive(*ends_.connections()[0])), kUnavailable,
                   "[strata bench] the worker's memory cannot be mapped");
      *block = mapped.at(1, 0, bytes);
    }
    own_.assign(bytes, std::byte{0});
  }

  void ask() {
    for (const auto& connection : ends_.connections()) connection->send_message(kChannel, "");
    for (const auto& connection : ends_.connections()) receive(*connection);
  }
  void answer(const std::vector<ps::TablePart>& parts) {
    receive(*ends_.connections()[0]);
    for (const ps::TablePart& part : parts) {
      for (int64_t at = part.begin * 4; at < part.end * 4; at += kBlock) {
        const int64_t size = std::min(kBlock, part.end * 4 - at);
        std::copy_n(there_.get() + at, size, own_.data() + at);
        strata::detail::nontemporal_copy(back_.get() + at, own_.data() + at, size);
      }
    }
    detail::nontemporal_fence();
    ends_.connections()[0]->send_message(kChannel, "");
  }
  std::string receive(wire::Connection& connection) {
    std::optional<std::string> message;
    const bool came = ends_.transport().wait_until(
        [&] { return (message = connection.try_receive_message(kChannel)).has_value(); }, limit());
    STRATA_CHECK(came, kUnavailable, "[strata bench] copy: the other end has closed");
    return std::move(*message);
  }

  Ends ends_;
  ps::WorkerMemory memory_;
  std::shared_ptr<std::byte> there_, back_;  // the worker's
  std::vector<std::byte> own_;               // a server's
};

}  // namespace

int run_ps_copy(const PsWorkerOptions& options) {
  Copy copy(options);
  serve_calls("copy", [&](const Calls& calls) { return copy.prepare(calls); });
  return 0;
}

int run_ps_memory_copy(const PsWorkerOptions& options) {
  MemoryCopy copy(options);
  serve_calls("copy", [&](const Calls& calls) { return copy.prepare(calls); });
  return 0;
}

}  // namespace strata::bench
