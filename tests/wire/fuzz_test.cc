// Random and almost right bytes: a peer that sends them gets nothing, and the endpoint goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "wire/fuzz.h"
#include "wire/handshake/handshake_message.h"
#include "wire/raw_socket.h"
#include "wire/server.h"
#include "wire/session/frame.h"
#include "wire/wires.h"

namespace strata::wire {
namespace {

constexpr int kTries = 10'000;

TEST(WireFuzzTest, HellosThatAreNoneGetNothing) {
  const LogLines quiet;
  SocketWires wires;
  EchoServer server(wires, 1);
  auto transport = wires.transport(0);
  std::mt19937_64 random(1);
  const std::string right =
      encode_hello({.hello = hello_of(0), .eager_limit = 65536, .eager_budget = 1 << 20});
  for (int i = 0; i < kTries; ++i) {
    const RawSocket stranger(server.address());
    ASSERT_TRUE(stranger.connected());
    (void)stranger.send(almost_a_hello(right, random));
    stranger.send_nothing_more();
    // A refusal perhaps; never a welcome.
    const std::string answer = stranger.receive();
    if (!answer.empty()) {
      ASSERT_GT(answer.size(), kEnvelopeSize) << i;
      const auto message =
          decode_handshake_message(answer.substr(0, kEnvelopeSize), answer.substr(kEnvelopeSize));
      ASSERT_TRUE(std::holds_alternative<Status>(message)) << i;
    }
    if (i % 2000 == 0) EchoServer::visit(*transport, server.address(), 0);
  }
  EXPECT_EQ(server.came_in(), 5u);
}

TEST(WireFuzzTest, NoiseInPlaceOfTlsGetsNothing) {
  if (!socket_transport_has_tls()) return;
  const LogLines quiet;
  TlsWires wires;
  EchoServer server(wires, 1);
  auto transport = wires.transport(0);
  std::mt19937_64 random(2);
  for (int i = 0; i < kTries / 5; ++i) {
    const RawSocket stranger(server.address());
    std::string bytes = random_text(random() % 200, random);
    if (random() % 2 == 0) bytes = std::string("\x16\x03\x01\x00\x80\x01", 6) + bytes;
    if (random() % 4 == 0) bytes = encode_hello({.hello = hello_of(0)});
    (void)stranger.send(bytes);
    stranger.send_nothing_more();
    const std::string answer = stranger.receive();
    ASSERT_TRUE(answer.size() < 100) << answer;  // an alert at most
  }
  EchoServer::visit(*transport, server.address(), 0);
  EXPECT_EQ(server.came_in(), 1u);
}

std::string frame(std::mt19937_64& random, bool sealed) {
  FrameHeader header;
  header.kind = static_cast<FrameKind>(random() % 11);
  if (random() % 8 == 0) header.flags = static_cast<uint8_t>(random() % 5);
  header.channel = static_cast<uint32_t>(random() % 3);
  header.id = static_cast<uint32_t>(random() % 4);
  header.message = static_cast<uint32_t>(random() % 6);
  if (random() % 16 == 0) header.window_returned = static_cast<uint32_t>(random() % 1000);
  header.fingerprint = random() % 2;
  const uint64_t sizes[] = {0, 1, 100, 1000, 32, 5000, 70'000, kMaxPart, kMaxPart + 1};
  header.part = static_cast<uint32_t>(sizes[random() % 9]);
  header.total = random() % 3 == 0 ? header.part : sizes[random() % 9] * (1 + random() % 3);
  if (random() % 50 == 0) header.total = random();
  if (random() % 50 == 0) header.reserved = 1;
  if (header.kind == FrameKind::kMismatch) header.part = sizeof(MismatchBody);
  if (header.kind >= FrameKind::kReceivePosted && header.kind <= FrameKind::kAbort) header.part = 0;
  if (sealed) seal(header);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(std::min<size_t>(header.part, kMaxPart), 'x');
  if (random() % 20 == 0) bytes[random() % bytes.size()] ^= 1;
  return bytes;
}

// From a peer that was let in: whatever it sends, the connection holds or is broken off, memory is
// bounded, and others see nothing of it.
TEST(WireFuzzTest, FramesThatAreNoneEndTheConnectionAlone) {
  const LogLines quiet;
  SocketWires wires;
  auto server = wires.transport(1);
  const Address address = server->listen(wires.place(1), hello_of(1));
  auto right = wires.transport(2);
  std::shared_ptr<Connection> right_here;
  Thread connector("connector", [&] { right_here = right->connect(address, hello_of(2), soon()); });
  const auto right_there = server->accept(soon());
  connector.join();

  std::mt19937_64 random(3);
  int frames = 0;
  int broken_off = 0;
  while (frames < kTries) {
    const RawSocket peer(address);
    ASSERT_TRUE(peer.send(
        encode_hello({.hello = hello_of(3), .eager_limit = 65536, .eager_budget = 1 << 20})));
    const auto connection = server->accept(soon());
    std::vector<std::vector<std::byte>> buffers;
    std::vector<Transfer> transfers;
    // Something for its frames to hit.
    const uint64_t sizes[] = {0, 1, 100, 5000, 70'000, 1 << 20};
    for (uint32_t i = 0; i < 8; ++i) {
      const Tag tag = {.channel = static_cast<uint32_t>(random() % 3),
                       .id = static_cast<uint32_t>(random() % 4),
                       .fingerprint = random() % 2};
      buffers.emplace_back(sizes[random() % 6]);
      transfers.push_back(random() % 2 == 0 ? connection->send(tag, buffers.back())
                                            : connection->receive(tag, buffers.back()));
    }
    for (int i = 0; i < 40 && connection->status().ok(); ++i, ++frames) {
      const std::string bytes = frame(random, random() % 40 != 0);
      size_t sent = 0;
      while (sent < bytes.size() && connection->status().ok()) {
        sent += peer.send_some(std::string_view(bytes).substr(sent));
        while (server->progress()) {
        }
        peer.throw_away();
      }
      if (random() % 4 == 0 && !transfers.empty()) transfers.erase(transfers.begin());
    }
    broken_off += connection->status().ok() ? 0 : 1;
  }
  EXPECT_GT(broken_off, 100);

  std::vector<std::byte> bytes(100'000, std::byte{7});
  std::vector<std::byte> received(bytes.size());
  Transfer send = right_here->send({}, bytes);
  Transfer receive = right_there->receive({}, received);
  Thread sender("sender", [&] { EXPECT_TRUE(right->wait(send, soon()).ok()); });
  EXPECT_EQ(server->wait(receive, soon()).message(), "");
  EXPECT_TRUE(bytes == received);
}

}  // namespace
}  // namespace strata::wire
