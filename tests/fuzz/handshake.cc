// The beginning of a connection, of either end, from a stranger's bytes.
#include "wire/handshake/handshake.h"

#include "fuzz/fed_stream.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::wire;
  strata::fuzz::Input input(data, size);
  const uint8_t first = input.byte();
  strata::fuzz::Feed feed{.bytes = std::string(input.rest()), .ended = (first & 2) != 0};
  Hello own{.job = "job", .task = "/job:worker/task:1", .purpose = "data"};
  int finished = 0;
  Handshake handshake(
      (first & 1) != 0, std::make_unique<strata::fuzz::FedStream>(feed),
      Address{.host = "127.0.0.1", .port = 1}, HelloMessage{.hello = own},
      [](const Hello& peer) {
        return peer.task == "/job:worker/task:0"
                   ? strata::Status()
                   : strata::Status(strata::ErrorCode::kPermissionDenied, "no");
      },
      Deadline::after(std::chrono::hours(1)), [&] { ++finished; },
      (first & 4) != 0 ? std::optional(JobSecret("a secret of a job")) : std::nullopt);
  bool again = false;
  for (int i = 0; i < 4; ++i) (void)handshake.ready(again, false);
  strata::fuzz::expect(finished == (handshake.finished() ? 1 : 0), "it finishes once");
  if (!handshake.finished()) handshake.abort({strata::ErrorCode::kDeadlineExceeded, "late"});
  if (handshake.status().ok()) {
    strata::fuzz::expect((first & 4) == 0, "nobody gets in without the secret");
    strata::fuzz::expect(handshake.peer().hello.job == own.job, "the peer is of the same job");
    strata::fuzz::expect(handshake.take_stream() != nullptr, "a good peer has a stream");
  }
  (void)handshake.stage();
  return 0;
}
