// A session that is sent any bytes by a peer that was let in; nearly all are no frames.
#include "wire/session/frame.h"

#include "fuzz/fed_stream.h"
#include "fuzz/fuzz_target.h"
#include "wire/session/session.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::wire;
  strata::fuzz::Feed feed{.bytes = std::string(strata::fuzz::text_of(data, size)), .ended = true};
  const auto session = std::make_shared<Session>(
      Hello{.job = "job", .task = "/job:worker/task:0", .purpose = ""},
      Address{.host = "127.0.0.1", .port = 1}, std::make_unique<strata::fuzz::FedStream>(feed),
      SessionOptions{.own_task = "/job:worker/task:1",
                     .eager_limit = 1 << 10,
                     .peer_eager_limit = 1 << 10,
                     .receive_window = 1 << 14,
                     .send_window = 1 << 14},
      std::make_shared<ProgressEngine>(std::make_unique<strata::fuzz::NoReactor>()));
  session->start(1, false);
  std::byte bytes[100];
  Transfer receive = session->receive({.channel = 1, .id = 2, .fingerprint = 3}, bytes);
  bool again = false;
  while (session->ready(again, false)) {
  }
  (void)strata::fuzz::takes([&] { (void)session->try_receive_message(0); });
  return 0;
}
