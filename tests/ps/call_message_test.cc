#include "ps/coordinator/call_message.h"

#include <gtest/gtest.h>

#include "strata/core/error.h"
#include "support/proto_contract.h"

namespace strata::ps {
namespace {

TEST(CallMessageTest, EveryFieldComesBack) {
  const CallMessage message = {
      .kind = CallKind::kRun,
      .number = ~uint64_t{0},
      .code = ErrorCode::kAborted,
      .text = "why",
      .lines = {"f() -> nothing", ""},
      .calls = {{.number = 1, .function = 2, .discard = true, .values = "abc"}, {}},
      .outcomes = {{.number = 9,
                    .code = ErrorCode::kNotFound,
                    .text = "no",
                    .values = "xyz",
                    .run_ns = 12,
                    .service_time_ns = uint64_t{1} << 50},
                   {}},
      .numbers = {3, 0, ~uint64_t{0}}};
  const std::string bytes = encode(message);
  EXPECT_EQ(decode_call_message(bytes), message);
  const std::string empty = encode({.kind = CallKind::kPong});
  EXPECT_EQ(decode_call_message(empty), CallMessage{.kind = CallKind::kPong});
}

TEST(CallMessageTest, IsWhatItsContractSays) {
  test::ProtoContract contract("strata/call_message.proto");
  contract.expect_message<CallMessage>("CallMessage");
  contract.expect_enum("CallKind", "src/ps/coordinator/call_message.h");
  contract.expect_enum("ErrorCode", "include/strata/core/error.h");
  contract.expect_nothing_else();
}

TEST(CallMessageTest, DamagedBytesAreRefusedOrHarmless) {
  const CallMessage message = {.kind = CallKind::kRun,
                               .calls = {{.number = 300, .function = 2, .values = "abc"}},
                               .outcomes = {{.number = 9, .text = "no", .values = "xyz"}}};
  const std::string text = encode(message);
  int refused = 0;
  const auto try_it = [&](const std::string& bytes) {
    try {
      (void)decode_call_message(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      ++refused;
    }
  };
  for (size_t size = 0; size < text.size(); ++size) try_it(text.substr(0, size));
  for (size_t i = 0; i < text.size() * 8; ++i) {
    std::string flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    try_it(flipped);
  }
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace strata::ps
