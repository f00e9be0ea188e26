#include "ps/tables/request.h"

#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "support/proto_contract.h"

namespace strata::ps {
namespace {

TEST(RequestTest, WhatIsWrittenComesBack) {
  const Request request = {.kind = RequestKind::kPushRows,
                           .id = 0xFFFFFFFF,
                           .table = "users",
                           .text = "{}",
                           .flag = true,
                           .slot = 3,
                           .rows = 10,
                           .data_bytes = uint64_t{1} << 40,
                           .step = -1,
                           .sequence = 12,
                           .learning_rate = 0.1,
                           .weight_decay = 0.2,
                           .clip_value = 0.3,
                           .scale = 0,
                           .weight = 0.5,
                           .encoding = PushEncoding::kBFloat16,
                           .memory = {0, 5, uint64_t{1} << 63},
                           .on_behalf_of = 2,
                           .worker = "/job:worker/task:1",
                           .core = 128,
                           .waits = true};
  EXPECT_EQ(decode_request(encode(request)), request);
  EXPECT_EQ(decode_request(encode(Request{})), Request{});
  const Reply reply = {.id = 7,
                       .code = ErrorCode::kNotFound,
                       .text = "no",
                       .version = -3,
                       .flag = true,
                       .unreplicated = true,
                       .promoted = true,
                       .same_core = true};
  EXPECT_EQ(decode_reply(encode(reply)), reply);
}

TEST(RequestTest, IsWhatItsContractSays) {
  test::ProtoContract contract("strata/table_request.proto");
  contract.expect_message<Request>("Request");
  contract.expect_message<Reply>("Reply");
  contract.expect_enum("RequestKind", "src/ps/tables/request.h");
  contract.expect_enum("PushEncoding", "src/ps/tables/request.h");
  contract.expect_enum("ErrorCode", "include/strata/core/error.h");
  contract.expect_nothing_else();
}

TEST(RequestTest, DamagedBytesAreErrorsOrOtherRequests) {
  const std::string good = encode(Request{.id = 3, .table = "users", .rows = 10});
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    try {
      (void)decode_request(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(RequestTest, AFieldOfAnotherKindIsNamed) {
  expect_error([] { (void)decode_request(std::string("\x1a\x01x\x11", 4)); }, ErrorCode::kDataLoss,
               "[ps] request: offset 4: got a field of another kind; expected the bytes of a "
               "request");
}

TEST(RequestTest, AKindOfZeroIsRefused) {
  expect_error([] { (void)decode_request(std::string("\x08\x00", 2)); }, ErrorCode::kDataLoss,
               "[ps] request: got kind 0; expected a kind of RequestKind, which begin at 1; its "
               "bytes are damaged, or the sender is no worker of this version");
}

}  // namespace
}  // namespace strata::ps
