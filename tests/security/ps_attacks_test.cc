// What a peer that is let in may send to a parameter server. Each attack is refused, and the server
// goes on to serve the honest worker beside it.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <new>
#include <random>

#include "ps/ps_cluster.h"
#include "ps/tables/buffer_pool.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/mailbox.h"
#include "ps/tables/worker_memory.h"
#include "security/raw_worker.h"
#include "strata/core/log.h"
#include "strata/ps/row_table.h"
#include "support/expect_error.h"
#include "support/soak_setting.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using test::RawWorker;

constexpr int64_t kElements = 1000;
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TableSpec flat_table() {
  return {.name = "flat", .parts = cut_evenly(kElements, sizeof(float), 1)};
}
TableSpec row_table() { return {.name = "rows", .rows = 50, .width = 4}; }

std::vector<std::byte> bytes_of(const std::vector<int64_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

Reply answer_in(Mailbox& mailbox) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(30)) {
    mailbox.reply.wait(std::chrono::seconds(1));
    if (const auto answer = mailbox.reply.take()) return decode_reply(*answer);
  }
  return {.code = ErrorCode::kDeadlineExceeded, .text = "no answer in the mailbox"};
}

class PsAttacksTest : public testing::Test {
 protected:
  PsAttacksTest()
      : cluster_(1, 2), attacker_(cluster_.network(), "worker-1", "/job:worker/task:1") {
    honest_ = cluster_.client(0);
    values_ = at::zeros({kElements});
    flat_ = honest_->create_flat(flat_table(), values_, true);
    rows_ = honest_->create_rows(row_table());
  }

  Reply create(const TableSpec& spec) {
    return attacker_.ask(
        {.kind = RequestKind::kCreate, .table = spec.name, .text = table_to_json(spec).dump()});
  }

  void expect_refused(const Reply& reply, const std::string& part,
                      ErrorCode code = ErrorCode::kInvalidArgument) {
    EXPECT_EQ(error_code_name(reply.code), error_code_name(code)) << reply.text;
    EXPECT_NE(reply.text.find(part), std::string::npos) << reply.text;
  }

  /// The server lives, and its tables are as the honest worker has left them.
  void expect_served() {
    const int64_t before = flat_->version();
    flat_->push(at::full({kElements}, 1.0F), {.learning_rate = 1});
    EXPECT_EQ(flat_->version(), before + 1);
    flat_->pull(values_);
    EXPECT_EQ(values_.min().item<double>(), values_.max().item<double>());
    EXPECT_EQ(values_[0].item<double>(), -static_cast<double>(before + 1));
  }

  PsCluster cluster_;
  RawWorker attacker_;
  std::unique_ptr<Client> honest_;
  at::Tensor values_;
  std::shared_ptr<FlatTable> flat_;
  std::shared_ptr<RowTable> rows_;
};

// 2^62 rows of width 4 are 2^64 elements: the product was 0, and a row number an absolute address.
TEST_F(PsAttacksTest, ATableWhoseSizeOverflowsIsRefused) {
  const int64_t huge = int64_t{1} << 62;
  for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
           {huge, 4}, {4, huge}, {huge, 2}, {huge, 1}, {kLargest, 1}, {kLargest, kLargest}}) {
    expect_refused(create({.name = "huge", .rows = rows, .width = width}), "table 'huge': got ");
  }
  TableSpec flat = {.name = "huge", .parts = {{0, kLargest, 0}}};
  expect_refused(create(flat), "beyond 2^63 bytes");
  flat.parts = {{0, huge, 0}, {huge, kLargest, 0}};
  expect_refused(create(flat), "beyond 2^63 bytes");
  // Fits a number, but not with the rule's slots.
  expect_refused(
      create({.name = "huge", .rule = tensor::AdamRule{}, .rows = int64_t{1} << 60, .width = 1}),
      "with 2 slots, beyond 2^63 bytes");
  expect_served();
}

TEST_F(PsAttacksTest, ATableBeyondTheServersMemoryIsRefused) {
  expect_refused(create({.name = "large", .rows = int64_t{1} << 50, .width = 1}),
                 "ServerLimits::memory", ErrorCode::kResourceExhausted);
  expect_served();
}

TEST_F(PsAttacksTest, ATableOfWrongPartsIsRefused) {
  TableSpec spec = flat_table();
  spec.name = "parts";
  for (const TablePart& part : std::vector<TablePart>{
           {-8, 0, 0}, {0, -8, 0}, {1000, 1000, 0}, {2000, 3000, 0}, {1000, 2000, 1}}) {
    spec.parts = flat_table().parts;
    spec.parts.push_back(part);
    expect_refused(create(spec), "table 'parts': got a part");
  }
  spec.parts = flat_table().parts;
  for (const TablePart& range : std::vector<TablePart>{{-1, 4, 0}, {0, 1001, 0}, {8, 4, 0}}) {
    spec.no_weight_decay = {range};
    expect_refused(create(spec), "without weight decay");
  }
  spec.no_weight_decay = {{0, 10, 0}, {5, 20, 0}};
  expect_refused(create(spec), "without weight decay");
  expect_served();
}

TEST_F(PsAttacksTest, NumbersThatAreNoEnumerationAreRefused) {
  Json json = table_to_json(row_table());
  const auto create_as = [&](const std::string& member, const Json& value) {
    Json changed = json;
    changed.set(member, value);
    changed.set("name", "odd");
    return attacker_.ask({.kind = RequestKind::kCreate, .table = "odd", .text = changed.dump()});
  };
  expect_refused(create_as("consistency", Json::array({7, 0, 1, 0})), "consistency 7",
                 ErrorCode::kDataLoss);
  expect_refused(create_as("consistency", Json::array({-1, 0, 1, 0})), "consistency -1",
                 ErrorCode::kDataLoss);
  expect_refused(create_as("consistency", Json::array({2, 0, int64_t{1} << 40, 0})), "as workers",
                 ErrorCode::kDataLoss);
  expect_refused(create_as("parts", Json::array({Json::array({0, 8, -1})})), "got -1 as server",
                 ErrorCode::kDataLoss);
  expect_refused(create_as("initializer", Json::array({9, 0, 0, 0})), "initializer 9",
                 ErrorCode::kDataLoss);
  expect_served();
}

TEST_F(PsAttacksTest, ARequestMustFitTheTablesForm) {
  const std::vector<std::byte> rows = bytes_of({0, 1});
  const std::vector<std::byte> gradients(2 * 4 * sizeof(float));
  struct Case {
    RequestKind kind;
    uint64_t rows;
    uint64_t bytes;
    std::vector<uint64_t> memory;
  };
  for (const Case& each : std::vector<Case>{{RequestKind::kPushRows, 0, 0, {}},
                                            {RequestKind::kPushRows, 2, gradients.size(), {}},
                                            {RequestKind::kPullRows, 0, 0, {}},
                                            {RequestKind::kPullRows, 2, 0, {}},
                                            {RequestKind::kPullRows, 0, 0, {1, 0}},
                                            {RequestKind::kPushRows, 0, 0, {1, 0, 1, 0}}}) {
    expect_refused(attacker_.ask({.kind = each.kind,
                                  .table = "flat",
                                  .rows = each.rows,
                                  .data_bytes = each.bytes,
                                  .memory = each.memory}),
                   "is for tables of rows; this table is flat");
  }
  for (const RequestKind kind : {RequestKind::kPull, RequestKind::kPush}) {
    expect_refused(attacker_.ask({.kind = kind, .table = "rows"}), "is for flat tables");
  }
  for (uint32_t kind : {12U, 15U, 77U, 4000000000U}) {
    expect_refused(attacker_.ask({.kind = static_cast<RequestKind>(kind), .table = "flat"}),
                   "which no table takes");
  }
  expect_served();
}

TEST_F(PsAttacksTest, SizesAndSlotsThatAreNotTheTablesAreRefused) {
  for (const RequestKind kind : {RequestKind::kPush, RequestKind::kFill, RequestKind::kPull,
                                 RequestKind::kRead, RequestKind::kCounters}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{3996}, uint64_t{4001}, ~uint64_t{0}}) {
      expect_refused(attacker_.ask({.kind = kind, .table = "flat", .data_bytes = bytes}), "bytes");
    }
    expect_refused(attacker_.ask({.kind = kind, .table = "flat", .rows = 5}), "");
  }
  for (const int64_t slot : {int64_t{-1}, int64_t{1}, kLargest, -kLargest}) {
    expect_refused(attacker_.ask({.kind = RequestKind::kRead, .table = "flat", .slot = slot}),
                   "slot");
    expect_refused(attacker_.ask({.kind = RequestKind::kRead, .table = "rows", .slot = slot}),
                   "slot");
  }
  for (const uint64_t rows : {uint64_t{51}, uint64_t{1} << 61, ~uint64_t{0}}) {
    expect_refused(attacker_.ask({.kind = RequestKind::kPullRows, .table = "rows", .rows = rows}),
                   "each of which comes once");
  }
  expect_served();
}

TEST_F(PsAttacksTest, RowsOutsideTheTableAreRefused) {
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
           {-1}, {50}, {kLargest}, {3, 3}, {4, 3}, {0, int64_t{1} << 40}}) {
    expect_refused(
        attacker_.ask({.kind = RequestKind::kPullRows, .table = "rows", .rows = rows.size()},
                      {bytes_of(rows)}),
        "got row");
    const uint64_t bytes = rows.size() * 4 * sizeof(float);
    expect_refused(attacker_.ask({.kind = RequestKind::kPushRows,
                                  .table = "rows",
                                  .rows = rows.size(),
                                  .data_bytes = bytes},
                                 {bytes_of(rows), std::vector<std::byte>(bytes)}),
                   "got row");
  }
  expect_served();
}

TEST_F(PsAttacksTest, SoManyTablesAreMadeAndNoMore) {
  for (int table = 0; table < 2000; ++table) {
    const Reply reply = create({.name = "t" + std::to_string(table), .rows = 1, .width = 1});
    if (reply.code == ErrorCode::kResourceExhausted) {
      expect_refused(reply, "1024 tables already", ErrorCode::kResourceExhausted);
      return expect_served();
    }
  }
  FAIL() << "2000 tables were made";
}

// A NaN would be in all weights for good; an encoding that is none was read as 16 bits an element.
TEST_F(PsAttacksTest, PushesWithNumbersThatMakeNoSenseAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto push = [&](const std::function<void(Request&)>& change) {
    Request request = {.kind = RequestKind::kPush,
                       .table = "flat",
                       .data_bytes = kElements * sizeof(float),
                       .learning_rate = 1};
    change(request);
    return attacker_.ask(request, {std::vector<std::byte>(request.data_bytes)});
  };
  expect_refused(push([&](Request& r) { r.learning_rate = nan; }), "learning_rate nan");
  expect_refused(push([&](Request& r) { r.weight_decay = infinity; }), "weight_decay inf");
  expect_refused(push([&](Request& r) { r.clip_value = -1; }), "clip_value -1");
  expect_refused(push([&](Request& r) { r.scale = -infinity; }), "scale -inf");
  expect_refused(push([&](Request& r) { r.weight = -2; }), "weight -2");
  for (const uint32_t encoding : {3U, 77U}) {
    expect_refused(push([&](Request& r) {
                     r.encoding = static_cast<PushEncoding>(encoding);
                     r.data_bytes /= 2;
                   }),
                   str_cat("got encoding ", encoding));
  }
  expect_served();
}

// Floats at odd addresses, which the compiler's vector loads need not stand.
TEST_F(PsAttacksTest, PlacesInSharedMemoryThatAreNotAlignedAreRefused) {
  WorkerMemory memory;
  const auto block = memory.take(4 * kElements * sizeof(float));
  ASSERT_NE(block, nullptr);
  const auto place = memory.find({block.get(), 1});
  ASSERT_TRUE(place);
  const uint64_t segment = place->segment;
  const Reply mapped = attacker_.ask({.kind = RequestKind::kMapSegment,
                                      .text = memory.introduce(segment),
                                      .slot = static_cast<int64_t>(segment)});
  ASSERT_TRUE(mapped.flag) << mapped.text;
  const auto ask = [&](RequestKind kind, uint64_t offset, PushEncoding encoding) {
    const bool pushes = kind == RequestKind::kPush;
    const uint64_t element = encoding == PushEncoding::kFull ? sizeof(float) : sizeof(uint16_t);
    return attacker_.ask({.kind = kind,
                          .table = "flat",
                          .data_bytes = pushes ? kElements * element : 0,
                          .encoding = encoding,
                          .memory = {segment, offset}});
  };
  for (const uint64_t offset : {uint64_t{1}, uint64_t{2}, uint64_t{4003}}) {
    expect_refused(ask(RequestKind::kPush, offset, PushEncoding::kFull), "a multiple of 4");
    expect_refused(ask(RequestKind::kPull, offset, PushEncoding::kFull), "a multiple of 4");
  }
  expect_refused(ask(RequestKind::kPush, 1, PushEncoding::kFloat16), "a multiple of 2");
  expect_refused(ask(RequestKind::kPush, uint64_t{1} << 63, PushEncoding::kFull), "bytes");
  EXPECT_EQ(ask(RequestKind::kPull, 8, PushEncoding::kFull).code, ErrorCode::kOk);
  expect_served();
}

// What is in a mailbox may be anything, and may change while it is read.
TEST_F(PsAttacksTest, WhatIsNoRequestInAMailboxCostsItsWorkerTheConnection) {
  for (const uint32_t bytes : {uint32_t{5}, uint32_t{MessageSlot::kMostBytes + 1}, ~uint32_t{0}}) {
    RawWorker worker(cluster_.network(), "worker-1", "/job:worker/task:1");
    WorkerMemory memory;
    const auto block = memory.take(sizeof(Mailbox::Memory));
    ASSERT_NE(block, nullptr);
    const uint64_t segment = memory.find({block.get(), 1})->segment;
    ASSERT_TRUE(worker
                    .ask({.kind = RequestKind::kMapSegment,
                          .text = memory.introduce(segment),
                          .slot = static_cast<int64_t>(segment)})
                    .flag);
    const auto open = [&](const std::vector<uint64_t>& place) {
      return worker.ask({.kind = RequestKind::kOpenMailbox, .memory = place});
    };
    expect_refused(open({}), "got 0 places");
    expect_refused(open({segment, 4}), "a multiple of 64");
    expect_refused(open({segment, 64}), "bytes 64 to");
    ASSERT_TRUE(open({segment, 0}).flag);
    EXPECT_EQ(open({segment, 0}).code, ErrorCode::kAlreadyExists);
    Mailbox mailbox(block);
    // Of requests only those for tables, whose data are in place.
    for (const RequestKind kind :
         {RequestKind::kCounters, RequestKind::kLeave, RequestKind::kCreate}) {
      ASSERT_TRUE(mailbox.request.put(encode(Request{.kind = kind, .id = 1, .table = "flat"})));
      const Reply reply = answer_in(mailbox);
      EXPECT_EQ(reply.code, ErrorCode::kInvalidArgument) << reply.text;
      EXPECT_NE(reply.text.find("in its mailbox"), std::string::npos) << reply.text;
    }
    auto* const slot = reinterpret_cast<MessageSlot::Memory*>(block.get());
    slot->text[0] = std::byte{0xFF};
    slot->bytes.store(bytes);
    mailbox.request.interrupt();
    const auto start = std::chrono::steady_clock::now();
    while (worker.ask({.kind = RequestKind::kCounters, .table = "flat"}).code == ErrorCode::kOk) {
      ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    }
    expect_served();
  }
}

// Names stand in errors and logs.
TEST_F(PsAttacksTest, NamesThatAreNoTextAreRefused) {
  for (const std::string& name : {std::string("a\nfake line"), std::string("\x1b[2J"),
                                  std::string(300, 'x'), std::string()}) {
    EXPECT_EQ(create({.name = name, .rows = 1, .width = 1}).code, ErrorCode::kInvalidArgument);
  }
  expect_served();
}

TEST(PsLimitsTest, AWorkersWaitingRequestsHaveABound) {
  const cluster::ClusterSpec spec({{"worker", {"worker-0:1", "worker-1:1"}}, {"ps", {"ps-0:1"}}});
  wire::MemoryNetwork network;
  const ParameterServer server(
      spec, {"ps", 0},
      {.server = {.transport = network.transport("ps-0")}, .limits = {.pending = 1000}});
  RawWorker worker(network, "worker-0", "/job:worker/task:0");
  const TableSpec table = flat_table();
  ASSERT_EQ(worker
                .ask({.kind = RequestKind::kCreate,
                      .table = table.name,
                      .text = table_to_json(table).dump()})
                .code,
            ErrorCode::kOk);
  const Reply reply = worker.ask({.kind = RequestKind::kPush,
                                  .table = table.name,
                                  .data_bytes = kElements * sizeof(float),
                                  .learning_rate = 1});
  EXPECT_EQ(reply.code, ErrorCode::kResourceExhausted) << reply.text;
  EXPECT_NE(reply.text.find("ServerLimits::pending"), std::string::npos) << reply.text;
  // What was refused holds nothing.
  EXPECT_EQ(worker.ask({.kind = RequestKind::kCounters, .table = table.name}).code, ErrorCode::kOk);
  // Another's are counted apart.
  RawWorker other(network, "worker-1", "/job:worker/task:1");
  EXPECT_EQ(other.ask({.kind = RequestKind::kCounters, .table = table.name}).code, ErrorCode::kOk);
}

TEST(PsLimitsTest, TheTablesOfAServerHaveABound) {
  const cluster::ClusterSpec spec({{"worker", {"worker-0:1"}}, {"ps", {"ps-0:1"}}});
  wire::MemoryNetwork network;
  const ParameterServer server(
      spec, {"ps", 0},
      {.server = {.transport = network.transport("ps-0")}, .limits = {.memory = 1000}});
  RawWorker worker(network, "worker-0", "/job:worker/task:0");
  const auto create = [&](const std::string& name, int64_t rows) {
    const TableSpec table = {.name = name, .rows = rows, .width = 1};
    return worker.ask(
        {.kind = RequestKind::kCreate, .table = name, .text = table_to_json(table).dump()});
  };
  EXPECT_EQ(create("one", 150).code, ErrorCode::kOk);
  const Reply refused = create("two", 150);
  EXPECT_EQ(refused.code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.text.find("table 'two': got 600 bytes for /job:ps/task:0, which keeps 600 and "
                              "may keep 1000 (ServerLimits::memory)"),
            std::string::npos)
      << refused.text;
  EXPECT_EQ(create("two", 100).code, ErrorCode::kOk);  // just fits
}

// Any fields in any combination, from a fixed seed: an answer or a refusal, never an end.
TEST_F(PsAttacksTest, RandomRequestsAreAnsweredOrRefused) {
  const auto requests = static_cast<int>(test::soak_setting("STRATA_FUZZ_REQUESTS", 3000));
  std::mt19937_64 random(7);
  const auto number = [&]() -> int64_t {
    switch (random() % 6) {
      case 0:
        return 0;
      case 1:
        return static_cast<int64_t>(random() % 4);
      case 2:
        return -static_cast<int64_t>(random() % 4);
      case 3:
        return int64_t{1} << (random() % 63);
      case 4:
        return 4000;
      default:
        return static_cast<int64_t>(random());
    }
  };
  std::optional<RawWorker> peer;
  for (int i = 0; i < requests; ++i) {
    // It never receives the values that it asks for, which fill its connection after a while.
    if (i % 50 == 0 || !peer->connection().status().ok()) {
      peer.emplace(cluster_.network(), "worker-1", "/job:worker/task:1");
    }
    Request request = {.kind = static_cast<RequestKind>(random() % 16),
                       .id = static_cast<uint32_t>(i + 1),
                       .table = random() % 2 == 0 ? "flat" : "rows",
                       .text = random() % 4 == 0 ? "{\"host\": \"x\"}" : "",
                       .flag = false,
                       .slot = number(),
                       .rows = random() % 3 == 0 ? static_cast<uint64_t>(number()) : 0,
                       .data_bytes = random() % 3 == 0 ? static_cast<uint64_t>(number()) : 0,
                       .step = number(),
                       .sequence = 0,
                       .encoding = static_cast<PushEncoding>(random() % 4)};
    if (random() % 8 == 0) request.memory = {random() % 3, static_cast<uint64_t>(number())};
    // What would rightly change the honest worker's table, or wait for data that never come, is
    // left out.
    if (request.kind == RequestKind::kPush || request.kind == RequestKind::kFill ||
        request.kind == RequestKind::kPushRows || request.kind == RequestKind::kPullRows) {
      request.data_bytes = 12345;
    }
    if (request.kind == RequestKind::kLeave) continue;  // after it nothing is answered
    (void)peer->ask(request);
  }
  expect_served();
}

TEST_F(PsAttacksTest, AFloodOfRefusedRequestsIsTenLinesASecondInTheLog) {
  constexpr int kRequests = 500;
  std::atomic<int> lines = 0;
  LogSink before = set_log_sink([&](const LogRecord& record) {
    if (record.message.find("refuses a request") != std::string::npos) ++lines;
  });
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRequests; ++i) {
    EXPECT_EQ(attacker_.ask({.kind = RequestKind::kPull, .table = "none"}).code,
              ErrorCode::kNotFound);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  set_log_sink(std::move(before));
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 10 * (took.count() + 1)) << took.count() << " s";
  expect_served();
}

TEST_F(PsAttacksTest, BytesThatAreNoRequestEndTheConnectionAlone) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    RawWorker peer(cluster_.network(), "worker-1", "/job:worker/task:1");
    std::string noise(random() % 300, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    peer.send(noise);
  }
  expect_served();
}

TEST(BufferPoolTest, AnAllocationThatFailsLeavesNothingInThePool) {
  bool fail = true;
  BufferPool pool([&](size_t bytes) -> BufferPool::Block {
    if (fail) throw std::bad_alloc();
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  });
  EXPECT_THROW((void)pool.take(1 << 20), std::bad_alloc);
  fail = false;
  const BufferPool::Buffer buffer = pool.take(1 << 20);
  ASSERT_NE(buffer.data(), nullptr);
  EXPECT_THROW((void)pool.take(~size_t{0}), std::bad_alloc);
}

}  // namespace
}  // namespace strata::ps
