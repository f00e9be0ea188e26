// A session and a peer that was let in, whose frames are well sealed and in any order, among sends,
// receives and cancellations of ours. An input is a list of what happens.
#include "wire/session/session.h"

#include <vector>

#include "fuzz/fed_stream.h"
#include "fuzz/fuzz_target.h"

namespace {

using namespace strata::wire;
using strata::fuzz::Input;

constexpr size_t kSizes[] = {0, 1, 48, 100, 1000, 1024, 1025, 9000};

// Large ones are slow, and there are few ways that only they take: two bytes ask for one.
size_t size_of(Input& input) {
  const size_t chosen = input.byte();
  if (chosen == 0xFE && input.byte() == 0xED) return 600'000;
  return kSizes[chosen % std::size(kSizes)];
}

Tag tag_of(Input& input) {
  return {.channel = static_cast<uint32_t>(input.below(3)),
          .id = static_cast<uint32_t>(input.below(3)),
          .fingerprint = input.below(8) == 0};
}

std::string frame_of(Input& input) {
  const Tag tag = tag_of(input);
  FrameHeader header;
  header.kind = static_cast<FrameKind>(input.below(11));
  header.flags = static_cast<uint8_t>(input.below(4));
  if (header.kind != FrameKind::kMessage) header.flags = 0;
  header.channel = tag.channel;
  header.id = tag.id;
  header.fingerprint = tag.fingerprint;
  header.message = static_cast<uint32_t>(input.below(6));
  if (input.below(8) == 0) header.window_returned = static_cast<uint32_t>(input.number());
  header.total = input.below(8) == 0 ? input.number() : size_of(input);
  header.part = static_cast<uint32_t>(std::min<uint64_t>(size_of(input), header.total));
  if (header.kind == FrameKind::kMismatch) header.part = sizeof(MismatchBody);
  if (header.kind >= FrameKind::kReceivePosted && header.kind <= FrameKind::kAbort) header.part = 0;
  if (header.kind == FrameKind::kWindowUpdate) header.part = 0;
  seal(header);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes.append(std::min<size_t>(header.part, kMaxPart), 'x');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  strata::fuzz::Feed feed;
  std::vector<std::vector<std::byte>> buffers;  // live longer than the transfers
  std::vector<Transfer> transfers;
  const uint64_t budget = input.flag() ? 1 << 14 : 100;
  const auto session = std::make_shared<Session>(
      Hello{.job = "job", .task = "/job:worker/task:0", .purpose = ""},
      Address{.host = "127.0.0.1", .port = 1}, std::make_unique<strata::fuzz::FedStream>(feed),
      SessionOptions{.own_task = "/job:worker/task:1",
                     .eager_limit = 1 << 10,
                     .peer_eager_limit = 1 << 10,
                     .receive_window = budget,
                     .send_window = budget},
      std::make_shared<ProgressEngine>(std::make_unique<strata::fuzz::NoReactor>()));
  session->start(1, false);
  for (int events = 0; !input.empty() && events < 64; ++events) {
    switch (input.below(16)) {
      case 0:
        buffers.emplace_back(size_of(input));
        transfers.push_back(session->send(tag_of(input), buffers.back()));
        break;
      case 1:
      case 2:
        buffers.emplace_back(size_of(input));
        transfers.push_back(session->receive(tag_of(input), buffers.back()));
        break;
      case 3:
        if (!transfers.empty()) transfers[input.below(transfers.size())].cancel();
        break;
      case 4:
        (void)strata::fuzz::takes(
            [&] { session->send_message(static_cast<uint32_t>(input.below(2)), input.text()); });
        break;
      case 5:
        (void)strata::fuzz::takes([&] {
          while (session->try_receive_message(static_cast<uint32_t>(input.below(2)))) {
          }
        });
        break;
      case 6:
        feed.writable = input.below(4) == 0 ? size_of(input) : ~size_t{0};
        break;
      case 7:
        if (input.below(16) == 0) feed.ended = true;
        if (input.below(16) == 1) feed.broken = true;
        if (input.below(16) == 2) session->close(Deadline::after(std::chrono::seconds(0)));
        if (input.below(16) == 3) session->fail({strata::ErrorCode::kAborted, "given up"});
        break;
      case 8: {  // the end of a frame may come later, or never
        const std::string frame = frame_of(input);
        feed.bytes += frame.substr(0, size_of(input));
        break;
      }
      default:
        feed.bytes += frame_of(input);
    }
    bool again = false;
    while (session->ready(again, false)) {
    }
    if (feed.read == feed.bytes.size()) {
      feed.bytes.clear();
      feed.read = 0;
    }
  }
  const bool lives = session->status().ok();
  session->fail({strata::ErrorCode::kAborted, "the end"});
  for (const Transfer& transfer : transfers) {
    strata::fuzz::expect(transfer.done(), "a connection that has failed leaves nothing pending");
    if (!lives) (void)transfer.status();
  }
  return 0;
}
