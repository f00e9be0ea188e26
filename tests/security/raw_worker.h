#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/tables/request.h"
#include "strata/core/error.h"
#include "wire/memory/memory_network.h"
#include "wire/transport.h"

namespace strata::test {

/// A peer of a parameter server that was let in, and says what it likes.
class RawWorker {
 public:
  RawWorker(wire::MemoryNetwork& network, const std::string& host, const std::string& task,
            const std::string& server = "ps-0", std::string purpose = "ps")
      : transport_(network.transport(host)),
        connection_(transport_->connect(
            wire::Address::parse(server + ":1"),
            {.job = "strata", .task = task, .purpose = std::move(purpose)}, deadline())) {}

  /// Sends the request and what it brings, and waits.
  /// @return the answer, or the status that the connection ended with.
  ps::Reply ask(ps::Request request, const std::vector<std::vector<std::byte>>& data = {}) {
    request.id = ++last_id_;
    std::vector<wire::Transfer> sends;
    try {
      connection_->send_message(ps::kTableChannel, encode(request));
      for (const auto& part : data) {
        sends.push_back(connection_->send({.channel = ps::kDataChannel, .id = request.id}, part));
      }
      std::optional<std::string> message;
      const bool came = transport_->wait_until(
          [&] {
            return (message = connection_->try_receive_message(ps::kTableChannel)).has_value();
          },
          deadline());
      EXPECT_TRUE(came) << "no answer";
      return came ? ps::decode_reply(*message) : ps::Reply{.code = ErrorCode::kDeadlineExceeded};
    } catch (const Error& error) {
      return {.code = error.code(), .text = error.what()};
    }
  }

  /// Sends any bytes as a request.
  void send(const std::string& bytes) { connection_->send_message(ps::kTableChannel, bytes); }

  wire::Connection& connection() { return *connection_; }

 private:
  static wire::Deadline deadline() { return wire::Deadline::after(std::chrono::seconds(30)); }

  std::shared_ptr<wire::Transport> transport_;
  std::shared_ptr<wire::Connection> connection_;
  uint32_t last_id_ = 0;
};

}  // namespace strata::test
