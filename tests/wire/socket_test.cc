// What is particular to sockets: real processes that die, strangers, names.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "support/expect_error.h"
#include "wire/handshake/handshake_message.h"
#include "wire/raw_socket.h"
#include "wire/server.h"
#include "wire/session/frame.h"
#include "wire/wires.h"

namespace strata::wire {
namespace {

// A process of its own: task 1, which says "ready" and then does nothing, with `work` between.
class Child {
 public:
  /// Made before the parent has a transport: its threads and files would be there twice.
  explicit Child(Wires& wires) {
    EXPECT_EQ(::pipe(ends_), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    try {
      Address to = {.host = "127.0.0.1", .port = 0};
      if (::read(ends_[0], &to.port, sizeof to.port) != sizeof to.port) ::_exit(1);
      const auto transport = wires.transport(1);
      const auto connection = transport->connect(to, hello_of(1), soon());
      connection->send_message(0, "ready");
      transport->wait_until([] { return false; }, Deadline::after(std::chrono::minutes(2)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(0);
  }
  ~Child() {
    end(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const int fd : ends_) ::close(fd);
  }
  void connect_to(const Address& to) const {
    EXPECT_EQ(::write(ends_[1], &to.port, sizeof to.port), ssize_t{sizeof to.port});
  }
  void end(int signal) const { ::kill(pid_, signal); }

 private:
  int ends_[2];
  pid_t pid_ = 0;
};

std::vector<std::string> socket_kinds() {
  std::vector<std::string> all = {"Tcp"};
  if (socket_transport_has_tls()) all.emplace_back("Tls");
  if (has_ucx_transport()) all.emplace_back("Ucx");
  return all;
}

class KilledPeerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "Tls") {
      wires_ = std::make_unique<TlsWires>();
    } else if (GetParam() == "Ucx") {
      wires_ = std::make_unique<UcxWires>();
    } else {
      wires_ = std::make_unique<SocketWires>();
    }
  }
  std::unique_ptr<Wires> wires_;
};

INSTANTIATE_TEST_SUITE_P(Sockets, KilledPeerTest, testing::ValuesIn(socket_kinds()),
                         [](const auto& info) { return info.param; });

TEST_P(KilledPeerTest, EndsEverythingAtOnceAndIsNamed) {
  const Child child(*wires_);
  auto transport = wires_->transport(0);
  child.connect_to(transport->listen(wires_->place(0), hello_of(0)));
  const auto connection = transport->accept(soon());
  EXPECT_EQ(connection->receive_message(0, soon()), "ready");

  std::vector<std::byte> bytes(10'000'000);
  Transfer send = connection->send({.channel = 1, .id = 1, .fingerprint = 0}, bytes);
  Transfer receive = connection->receive({.channel = 1, .id = 2, .fingerprint = 0}, bytes);
  Status of_waiter;
  Thread waiter("waiter", [&] {
    std::vector<std::byte> more(10);
    Transfer third = connection->receive({.channel = 1, .id = 3, .fingerprint = 0}, more);
    of_waiter = transport->wait(third, soon());
  });
  EXPECT_FALSE(
      transport->wait_until([] { return false; }, Deadline::after(std::chrono::milliseconds(20))));
  const auto killed = Deadline::Clock::now();
  child.end(SIGKILL);
  const Status status = transport->wait(receive, soon());
  waiter.join();
  EXPECT_LT(Deadline::Clock::now() - killed, std::chrono::seconds(2));
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(
      status.message().find(str_cat("[wire] receive of 10000000 bytes (channel 1, id 2) from ",
                                    "/job:worker/task:1 at 127.0.0.1:")),
      std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(": the peer has disconnected"), std::string::npos)
      << status.message();
  EXPECT_EQ(of_waiter.code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(send.done());
  EXPECT_EQ(send.status().code(), ErrorCode::kUnavailable);
  EXPECT_THROW(connection->send_message(0, "hello?"), Error);
}

// One that is stopped is not gone: only a deadline, or the layer above, ends the wait.
TEST_P(KilledPeerTest, AStoppedPeerIsSilent) {
  const Child child(*wires_);
  auto transport = wires_->transport(0);
  child.connect_to(transport->listen(wires_->place(0), hello_of(0)));
  const auto connection = transport->accept(soon());
  EXPECT_EQ(connection->receive_message(0, soon()), "ready");
  child.end(SIGSTOP);
  std::vector<std::byte> bytes(10'000'000);
  Transfer send = connection->send({.channel = 1, .id = 1, .fingerprint = 0}, bytes);
  EXPECT_EQ(transport->wait(send, Deadline::after(std::chrono::milliseconds(30))).code(),
            ErrorCode::kDeadlineExceeded);
  connection->fail({ErrorCode::kUnavailable, "it was silent for 30 ms"});
  EXPECT_EQ(send.status().message(), str_cat("[wire] send of 10000000 bytes (channel 1, id 1) to ",
                                             connection->name(), ": it was silent for 30 ms"));
}

// A connect that waits for a silent port has a deadline too.
TEST(SocketTransportTest, ConnectGivesUpAtItsDeadline) {
  SocketWires wires;
  auto transport = wires.transport(0);
  auto silent = wires.transport(1);
  // Nobody makes progress there: the system takes the connection, and no hello comes.
  const Address address = silent->listen(wires.place(1), hello_of(1));
  const auto limit = std::chrono::milliseconds(50);
  expect_error(
      [&] {
        transport->connect(address, hello_of(0), Deadline::after(limit), {.peer = task_name(1)});
      },
      ErrorCode::kDeadlineExceeded,
      str_cat("[wire] connect: the deadline passed before /job:worker/task:1 at ",
              address.to_string(), " answered; the last error: connected, but no hello arrived"));
  expect_error_containing(
      [&] {
        transport->connect({.host = "127.0.0.1", .port = 1}, hello_of(0), Deadline::after(limit));
      },
      ErrorCode::kDeadlineExceeded, "Connection refused");
  expect_error_containing(
      [&] {
        transport->connect({.host = "no-such-name.invalid", .port = 1}, hello_of(0),
                           Deadline::after(limit));
      },
      ErrorCode::kDeadlineExceeded, "no-such-name.invalid");
}

// Where UCX is missing there is one wire only.
TEST(SocketTransportTest, OneThatSendsAnotherWayIsRefused) {
  if (!has_ucx_transport()) {
    expect_error_containing([] { make_ucx_transport(); }, ErrorCode::kUnimplemented,
                            "this build has no UCX");
    return;
  }
  SocketWires sockets;
  UcxWires ucx;
  EchoServer server(sockets, 1);
  expect_error_containing(
      [&] {
        ucx.transport(0)->connect(server.address(), hello_of(0), soon(), {.peer = task_name(1)});
      },
      ErrorCode::kPermissionDenied,
      "refused: /job:worker/task:0 sends over ucx, /job:worker/task:1 over sockets; choose one "
      "wire for all tasks");
  EchoServer other(ucx, 1);
  expect_error_containing(
      [&] { sockets.transport(0)->connect(other.address(), hello_of(0), soon()); },
      ErrorCode::kPermissionDenied,
      "/job:worker/task:0 sends over sockets, /job:worker/task:1 over ucx");
}

TEST(SocketTransportTest, NamesAreLookedUp) {
  SocketWires wires;
  EchoServer server(wires, 1);
  auto transport = wires.transport(0);
  EchoServer::visit(*transport, {.host = "localhost", .port = server.address().port}, 0);
}

TEST(SocketTransportTest, BindsTheGivenAddressOnly) {
  SocketWires wires;
  auto transport = wires.transport(0);
  const Address address = transport->listen({.host = "127.0.0.1", .port = 0}, hello_of(0));
  auto other = wires.transport(1);
  expect_error_containing(
      [&] {
        other->connect({.host = "127.0.0.2", .port = address.port}, hello_of(1),
                       Deadline::after(std::chrono::milliseconds(20)));
      },
      ErrorCode::kDeadlineExceeded, "Connection refused");
}

TEST(SocketTransportTest, StrangersAreRefusedAndLogged) {
  const LogLines log;
  SocketWires wires;
  EchoServer server(wires, 1);
  {
    const RawSocket browser(server.address());
    EXPECT_TRUE(browser.send("GET / HTTP/1.1\r\nHost: worker-1\r\n\r\n"));
    EXPECT_EQ(browser.receive(), "");
    EXPECT_TRUE(log.has(": it sent bytes that are no strata handshake")) << log.text();
    EXPECT_NE(log.text().find("[wire] refused 127.0.0.1:"), std::string::npos);
  }
  {
    std::string hello = encode_hello({.hello = hello_of(0)});
    hello[6] = 9;
    const RawSocket newer(server.address());
    EXPECT_TRUE(newer.send(hello));
    EXPECT_NE(newer.receive().find("version 9 of the protocol; this is version 2"),
              std::string::npos);
  }
  {
    const RawSocket half(server.address());
    EXPECT_TRUE(half.send(encode_hello({.hello = hello_of(0)}).substr(0, 20)));
    half.send_nothing_more();
    EXPECT_EQ(half.receive(), "");
    EXPECT_TRUE(log.has("it closed the connection without a hello")) << log.text();
  }
  auto transport = wires.transport(0);
  EchoServer::visit(*transport, server.address(), 0);
  EXPECT_EQ(server.came_in(), 1u);
}

// Bytes and the end come in one event, which may be the last one.
TEST(SocketTransportTest, AnEndThatComesWithBytesIsSeen) {
  SocketWires wires;
  auto transport = wires.transport(0);
  const Address address = transport->listen(wires.place(0), hello_of(0));
  FrameHeader header;
  header.kind = FrameKind::kControl;
  header.total = header.part = 5;
  seal(header);
  const std::string text =
      std::string(reinterpret_cast<const char*>(&header), sizeof header) + "hello";
  const std::string hello =
      encode_hello({.hello = hello_of(1), .eager_limit = 1000, .eager_budget = 1000});
  for (const bool all_at_once : {true, false}) {
    const RawSocket peer(address);
    EXPECT_TRUE(peer.send(all_at_once ? hello + text : hello));
    if (all_at_once) peer.send_nothing_more();
    const auto connection = transport->accept(soon());
    if (!all_at_once) {
      EXPECT_TRUE(peer.send(text));
      peer.send_nothing_more();
    }
    EXPECT_EQ(connection->receive_message(0, soon()), "hello");
    EXPECT_TRUE(transport->wait_until([&] { return !connection->status().ok(); }, soon()));
    EXPECT_EQ(connection->status().code(), ErrorCode::kUnavailable);
  }
}

// They would be waited for in vain; the longest is let go for the next.
TEST(SocketTransportTest, StrangersThatSayNothingKeepNobodyOut) {
  SocketWires wires;
  EchoServer server(wires, 1);
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(std::make_unique<RawSocket>(server.address()));
    ASSERT_TRUE(silent.back()->connected());
  }
  auto transport = wires.transport(0);
  EchoServer::visit(*transport, server.address(), 0);
  EXPECT_EQ(silent.front()->receive(), "");
}

}  // namespace
}  // namespace strata::wire
