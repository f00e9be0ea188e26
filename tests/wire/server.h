#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/thread.h"
#include "strata/core/log.h"
#include "wire/wires.h"

namespace strata::wire {

/// A task that listens, and a thread that answers what it is sent (channel 0) with the same.
class EchoServer {
 public:
  EchoServer(Wires& wires, int task)
      : transport_(wires.transport(task)),
        address_(transport_->listen(wires.place(task), hello_of(task))),
        thread_("server", [this](const std::stop_token& stop) { serve(stop); }) {}

  const Address& address() const { return address_; }
  Transport& transport() { return *transport_; }
  size_t came_in() const {
    const std::lock_guard lock(mutex_);
    return came_in_;
  }

  /// A right peer: still gets in, and still gets answers.
  static void visit(Transport& transport, const Address& address, int task) {
    const auto connection = transport.connect(address, hello_of(task), soon());
    const std::string text = str_cat("I am ", task);
    connection->send_message(0, text);
    EXPECT_EQ(connection->receive_message(0, soon()), text);
    connection->close(soon());
  }

 private:
  void serve(const std::stop_token& stop) {
    std::vector<std::shared_ptr<Connection>> peers;
    std::shared_ptr<Connection> next;
    while (!stop.stop_requested()) {
      try {
        peers.push_back(transport_->accept(Deadline::after(std::chrono::milliseconds(1)), stop));
        const std::lock_guard lock(mutex_);
        ++came_in_;
      } catch (const Error&) {
      }
      std::erase_if(peers, [](const auto& peer) {
        try {
          while (const auto text = peer->try_receive_message(0)) peer->send_message(0, *text);
          return false;
        } catch (const Error&) {
          return true;
        }
      });
    }
  }

  std::unique_ptr<Transport> transport_;
  Address address_;
  mutable std::mutex mutex_;
  size_t came_in_ = 0;
  Thread thread_;
};

/// What is logged while it lives.
class LogLines {
 public:
  LogLines()
      : before_(set_log_sink([this](const LogRecord& record) {
          const std::lock_guard lock(mutex_);
          text_ += str_cat(record.message, "\n");
        })) {}
  ~LogLines() { set_log_sink(before_); }

  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  /// Waits until it is logged.
  bool has(const std::string& part) const {
    const Deadline limit = soon();
    while (!limit.passed()) {
      if (text().find(part) != std::string::npos) return true;
      std::this_thread::yield();
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  LogSink before_;
};

}  // namespace strata::wire
