#include "cluster/data_connections.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "core/thread.h"
#include "wire/server.h"

namespace strata::cluster {
namespace {

using wire::Deadline;

/// A task that takes data connections in, and peers that open them.
class DataConnectionsTest : public testing::Test {
 protected:
  DataConnectionsTest() {
    address_ = transport_->listen({.host = "here", .port = 0}, hello(0, ""));
    thread_ = Thread("server", [this](const std::stop_token& stop) {
      transport_->wait_until(
          [this] {
            while (auto connection = transport_->try_accept()) {
              const std::string purpose = connection->peer().purpose;
              data_.accept(purpose, std::move(connection));
              ++accepted_;
            }
            return false;
          },
          Deadline::after(std::chrono::seconds(300)), stop);
    });
  }
  ~DataConnectionsTest() override {
    thread_.request_stop();
    transport_->wake();
    thread_.join();
    data_.close(Deadline::after(std::chrono::seconds(0)));
  }

  static wire::Hello hello(int task, const std::string& purpose) {
    return {.job = "job", .task = wire::task_name(task), .generation = 1, .purpose = purpose};
  }
  /// Opens one and waits until it has been taken in, or refused.
  std::shared_ptr<wire::Connection> open(int task, const std::string& purpose) {
    const int before = accepted_;
    auto connection = peers_->connect(address_, hello(task, purpose), wire::soon());
    EXPECT_TRUE(eventually([&] { return accepted_ > before; }));
    return connection;
  }
  bool fails(const std::shared_ptr<wire::Connection>& connection) {
    return eventually([&] { return !connection->status().ok(); });
  }
  /// For what the server's thread does, with progress of the peers'.
  bool eventually(const std::function<bool()>& done) {
    const Deadline limit = wire::soon();
    while (!done()) {
      if (limit.passed()) return false;
      if (!peers_->progress()) std::this_thread::yield();
    }
    return true;
  }

  const wire::LogLines log_;
  wire::MemoryNetwork network_;
  const std::unique_ptr<wire::Transport> transport_ = network_.transport("here");
  const std::unique_ptr<wire::Transport> peers_ = network_.transport("there");
  DataConnections data_{*transport_};
  std::atomic<int> accepted_ = 0;
  wire::Address address_;
  Thread thread_;
};

TEST_F(DataConnectionsTest, OnePeerHasSoManyAndNoMore) {
  constexpr int kMost = DataConnections::kMostPerPeer;
  std::vector<std::shared_ptr<wire::Connection>> opened;
  for (int i = 0; i < kMost; ++i) opened.push_back(open(1, str_cat("purpose", i)));
  for (int i = 0; i < 20; ++i) {
    const auto more = open(1, str_cat("more", i));
    ASSERT_TRUE(fails(more));
    EXPECT_NE(more->status().message().find(
                  "/job:worker/task:1 has 256 data connections open; expected no more"),
              std::string::npos)
        << more->status().message();
  }
  EXPECT_TRUE(log_.has("has 256 data connections open"));
  // Those that it has stay, one of them may be opened anew, and another peer has its own.
  for (const auto& each : opened) EXPECT_TRUE(each->status().ok());
  const auto anew = open(1, "purpose0");
  const auto other = open(2, "purpose0");
  EXPECT_FALSE(peers_->wait_until([&] { return !anew->status().ok() || !other->status().ok(); },
                                  Deadline::after(std::chrono::milliseconds(50))));
}

TEST_F(DataConnectionsTest, ClosedOnesMakeRoom) {
  constexpr int kMost = DataConnections::kMostPerPeer;
  std::vector<std::shared_ptr<wire::Connection>> opened;
  for (int i = 0; i < kMost; ++i) opened.push_back(open(1, str_cat("purpose", i)));
  for (const auto& each : opened) each->fail({ErrorCode::kAborted, "given up"});
  // They are known as broken until their places are needed.
  ASSERT_TRUE(eventually([&] { return data_.broken().size() == 1; }));
  for (int i = 0; i < 5 * kMost; ++i) {
    auto next = open(1, str_cat("next", i));
    ASSERT_TRUE(next->status().ok()) << i << next->status().message();
    next->fail({ErrorCode::kAborted, "given up"});
    ASSERT_TRUE(eventually([&] { return !data_.broken().empty(); }));
  }
}

}  // namespace
}  // namespace strata::cluster
