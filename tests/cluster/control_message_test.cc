#include "cluster/control_message.h"

#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "support/proto_contract.h"

namespace strata::cluster {
namespace {

ControlMessage full_message() {
  return {.kind = MessageKind::kBarrier,
          .request = 7,
          .generation = 1ull << 60,
          .number = 3,
          .code = ErrorCode::kUnavailable,
          .name = "epoch",
          .value = std::string("a\0b", 3),
          .expected = "",
          .address = "h:1",
          .flag = true,
          .timeout_ms = 1500,
          .operation = "step 3",
          .tasks = {{"/job:worker/task:0", "a:1"}, {"/job:worker/task:1", ""}}};
}

TEST(ControlMessageTest, GoesThereAndBack) {
  EXPECT_EQ(decode(encode(full_message())), full_message());
  const ControlMessage empty;
  EXPECT_EQ(decode(encode(empty)), empty);
  EXPECT_EQ(decode(encode(empty)).expected, std::nullopt);
}

TEST(ControlMessageTest, IsWhatItsContractSays) {
  test::ProtoContract contract("strata/control_message.proto");
  contract.expect_message<ControlMessage>("ControlMessage");
  contract.expect_enum("MessageKind", "src/cluster/control_message.h");
  contract.expect_enum("ErrorCode", "include/strata/core/error.h");
  contract.expect_nothing_else();
  EXPECT_EQ(find_fault(contract.schema(), "ControlMessage", encode(full_message())), "");
}

TEST(ControlMessageTest, FieldsOfALaterVersionArePassedOver) {
  const std::string later = encode(full_message()) + "\xA2\x06\x03xyz";  // field 100: "xyz"
  EXPECT_EQ(decode(later), full_message());
}

TEST(ControlMessageTest, RefusesWhatIsNone) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "offset 0: got no kind"},
      {"\x08", "offset 1: got the end inside of a number"},
      {"\x32\x05xy", "offset 2: got a length beyond the end"},
      {std::string("\x30\x01", 2), "offset 1: got a field of another kind"},
      {"\x62\x02\x0A\x09", "offset 4: got a length beyond the end"},
  };
  for (const auto& [bytes, what] : cases) {
    expect_error(
        [&, bytes = bytes] { (void)decode(bytes); }, ErrorCode::kDataLoss,
        str_cat("[cluster] control message: ", what, "; expected the bytes of a control message"));
  }
}

TEST(ControlMessageTest, ACodeOfALaterVersionIsAnUnknownError) {
  for (const char* code : {"\x28\x11", "\x28\x80\x80\x04", "\x28\x80\x80\x80\x80\x10"}) {
    EXPECT_EQ(decode(std::string("\x08\x20") + code).code, ErrorCode::kUnknown);
  }
  EXPECT_EQ(decode("\x08\x20\x28\x10").code, ErrorCode::kUnauthenticated);
}

// Whatever comes, it is a message or a kDataLoss; the sanitizers watch.
TEST(ControlMessageTest, AnyBytesAreReadOrRefused) {
  std::mt19937_64 random(1);
  const std::string good = encode(full_message());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (uint64_t flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      (void)decode(bytes);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace strata::cluster
