// Failures: those that tests order, those that callers make, and what ends them.
#include <barrier>

#include "gpu/fake_nccl/test_ranks.h"

namespace strata::test::fake_nccl {
namespace {

class FakeNcclFaultsTest : public testing::Test {
 protected:
  ~FakeNcclFaultsTest() override {
    fake_nccl_set_faults(nullptr);
    EXPECT_EQ(fake_nccl_open_communicators(), 0);
  }

  static void set(const char* faults) { ASSERT_EQ(fake_nccl_set_faults(faults), 0); }

  static ncclResult_t add_one(Rank& self, float* value) {
    return ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, self.comm, self.stream);
  }

  static bool is_pending(const Rank& self) {
    return fake_nccl_stream_synchronize(self.stream, 50) == 1;
  }

  // What has been enqueued has failed afterwards.
  static void abort(Rank& self) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ncclCommAbort(self.comm), ncclSuccess);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_EQ(fake_nccl_stream_synchronize(self.stream, 0), 2);
    self.comm = nullptr;
  }
};

ncclConfig_t not_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

TEST_F(FakeNcclFaultsTest, AnAbortEndsAStalledOperationHereAndIsAnErrorAtThePeers) {
  set("stall:rank=1,call=2");
  std::barrier<> all_wait(3);
  with_communicator(3, [&](Rank& self) {
    float value = 1;
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    expect_done(self.stream);
    EXPECT_EQ(value, 3);
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    EXPECT_TRUE(is_pending(self));
    EXPECT_EQ(async_error(self.comm), ncclSuccess);
    all_wait.arrive_and_wait();
    if (self.rank != 2) {
      EXPECT_EQ(await_error(self.comm), ncclRemoteError);
      EXPECT_TRUE(std::string(ncclGetLastError(self.comm))
                      .ends_with(": its communicator has been aborted"));
      EXPECT_EQ(add_one(self, &value), ncclRemoteError);
      EXPECT_TRUE(is_pending(self));  // as NCCL's kernels, until this rank aborts, too
    }
    abort(self);
    EXPECT_EQ(value, 3);
  });
}

TEST_F(FakeNcclFaultsTest, AnErrorIsTheRanksOwnAndRemoteAtItsPeers) {
  set("error:rank=0,call=1");
  std::barrier<> rank_1_has_called(2);
  with_communicator(2, [&](Rank& self) {
    float value = 1;
    if (self.rank == 0) rank_1_has_called.arrive_and_wait();
    EXPECT_EQ(add_one(self, &value), ncclSuccess);
    if (self.rank == 1) rank_1_has_called.arrive_and_wait();
    EXPECT_EQ(await_error(self.comm), self.rank == 0 ? ncclSystemError : ncclRemoteError);
    EXPECT_STREQ(ncclGetLastError(self.comm), self.rank == 0
                                                  ? "error of STRATA_FAKE_NCCL in call 1"
                                                  : "rank 0: error of STRATA_FAKE_NCCL in call 1");
    EXPECT_TRUE(is_pending(self));
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(self.comm, 0, 0, &part, nullptr), async_error(self.comm));
    abort(self);
  });
}

TEST_F(FakeNcclFaultsTest, AFaultOfOneCommunicatorLeavesOthersAlone) {
  set("stall:call=1,comm=2");
  Rank ranks[3] = {};
  for (Rank& each : ranks) {
    each.stream = stream_of(&each);
    ASSERT_EQ(ncclCommInitAll(&each.comm, 1, nullptr), ncclSuccess);
    float value = 1;
    ASSERT_EQ(add_one(each, &value), ncclSuccess);
    if (&each == &ranks[1]) {
      EXPECT_TRUE(is_pending(each));
      abort(each);
    } else {
      expect_done(each.stream);
      EXPECT_EQ(ncclCommDestroy(each.comm), ncclSuccess);
    }
  }
}

TEST_F(FakeNcclFaultsTest, DestroyDoesNotWaitForAStalledOperationForEver) {
  set("stall:rank=0;destroy_ms=20");
  with_communicator(2, [](Rank& self) {
    float value = 1;
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(self.comm), ncclSuccess);
    self.comm = nullptr;
    EXPECT_EQ(fake_nccl_stream_synchronize(self.stream, 0), 2);
  });
}

TEST_F(FakeNcclFaultsTest, DestroyWaitsForWhatIsOnItsWay) {
  set("delay_us=20000");
  with_communicator(2, [](Rank& self) {
    float value = 1;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(self.comm), ncclSuccess);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
    EXPECT_EQ(fake_nccl_stream_synchronize(self.stream, 0), 0);
    EXPECT_EQ(value, 2);
    EXPECT_EQ(ncclCommDestroy(self.comm), ncclInvalidArgument);  // no longer there
    self.comm = nullptr;
  });
}

TEST_F(FakeNcclFaultsTest, AFinalizedPeerIsAnErrorForWhatNeedsIt) {
  with_communicator(2, [](Rank& self) {
    float value = 1;
    if (self.rank == 1) {
      EXPECT_EQ(ncclCommFinalize(self.comm), ncclSuccess);
      EXPECT_EQ(async_error(self.comm), ncclSuccess);
      EXPECT_EQ(add_one(self, &value), ncclInvalidArgument);
      return;
    }
    ASSERT_EQ(add_one(self, &value), ncclSuccess);
    EXPECT_EQ(await_error(self.comm), ncclRemoteError);
    EXPECT_STREQ(ncclGetLastError(self.comm), "rank 1 has destroyed its communicator");
    abort(self);
  });
}

TEST_F(FakeNcclFaultsTest, ConnectsWithoutBlocking) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  Rank first{0, 2, nullptr, nullptr};
  ncclConfig_t config = not_blocking();
  ASSERT_EQ(ncclCommInitRankConfig(&first.comm, 2, id, 0, &config), ncclInProgress);
  ASSERT_NE(first.comm, nullptr);
  EXPECT_EQ(async_error(first.comm), ncclInProgress);
  float value = 1;
  EXPECT_EQ(add_one(first, &value), ncclInvalidArgument);  // not before it is connected
  Rank second{1, 2, nullptr, nullptr};
  ASSERT_EQ(ncclCommInitRankConfig(&second.comm, 2, id, 1, &config), ncclInProgress);
  float values[2] = {1, 2};
  Rank* const both[] = {&first, &second};
  for (Rank* each : both) {
    EXPECT_TRUE(eventually([&] { return async_error(each->comm) != ncclInProgress; }));
    EXPECT_EQ(async_error(each->comm), ncclSuccess);
    each->stream = stream_of(each);
  }
  for (Rank* each : both) {
    ASSERT_EQ(add_one(*each, &values[each->rank]), ncclInProgress);
    EXPECT_EQ(add_one(*each, &values[each->rank]), ncclInvalidArgument);  // it has not been asked
    EXPECT_EQ(async_error(each->comm), ncclInProgress);
    EXPECT_EQ(async_error(each->comm), ncclSuccess);
  }
  for (Rank* each : both) {
    expect_done(each->stream);
    EXPECT_EQ(values[each->rank], 3);
    EXPECT_EQ(ncclCommFinalize(each->comm), ncclInProgress);
    EXPECT_TRUE(eventually([&] { return async_error(each->comm) == ncclSuccess; }));
    EXPECT_EQ(ncclCommDestroy(each->comm), ncclSuccess);
  }
}

TEST_F(FakeNcclFaultsTest, AnAbortEndsARankThatDoesNotConnect) {
  set("init_stall:rank=1");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2] = {};
  ncclConfig_t config = not_blocking();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
  }
  EXPECT_EQ(async_error(comms[0]), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
  EXPECT_TRUE(eventually([&] { return async_error(comms[0]) == ncclRemoteError; }));
  EXPECT_STREQ(ncclGetLastError(comms[0]), "rank 1 has failed while a communicator was made");
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclSuccess);
}

TEST_F(FakeNcclFaultsTest, ARankThatFailsToConnectIsAnErrorForAll) {
  set("init_error:rank=1");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  in_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, id, rank), rank == 1 ? ncclSystemError : ncclRemoteError);
    EXPECT_EQ(comm, nullptr);
  });
}

TEST_F(FakeNcclFaultsTest, ARankThatDoesNotConnectIsAnErrorInTheEnd) {
  set("init_stall:rank=0;init_ms=30");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  in_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRank(&comm, 2, id, rank);
    // Rank 1 hears of rank 0, or waits as long.
    EXPECT_TRUE(result == ncclSystemError || (rank == 1 && result == ncclRemoteError)) << result;
  });
}

TEST_F(FakeNcclFaultsTest, NotEnoughRanksAreAnErrorInTheEnd) {
  set("init_ms=30");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  EXPECT_STREQ(ncclGetLastError(nullptr), "a connection has not been made in time");
}

TEST_F(FakeNcclFaultsTest, RanksThatDisagreeAreToldSo) {
  struct Case {
    int ranks[2];
    int rank[2];
    const char* text[2];  // one of them
  };
  const Case cases[] = {
      {{2, 3},
       {0, 1},
       {"rank 1 expects 3 ranks, and another 2", "rank 0 expects 2 ranks, and another 3"}},
      {{2, 2}, {1, 1}, {"two callers are rank 1", "two callers are rank 1"}}};
  for (const Case& each : cases) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::string text;
    in_threads(2, [&](int i) {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, each.ranks[i], id, each.rank[i]), ncclInvalidUsage);
      if (i == 0) text = ncclGetLastError(nullptr);
    });
    EXPECT_TRUE(text == each.text[0] || text == each.text[1]) << text;
  }
  const int one_device[] = {4, 4};
  ncclComm_t comms[2] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 2, one_device), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("have one device, 4"), std::string::npos);
}

struct Difference {
  std::function<ncclResult_t(Rank&, float*)> calls[2];
  const char* text;
};

std::vector<Difference> differences() {
  const auto all_reduce = [](size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return [=](Rank& self, float* values) {
      return ncclAllReduce(values, values, count, type, op, self.comm, self.stream);
    };
  };
  const auto broadcast = [](int root) {
    return [=](Rank& self, float* values) {
      return ncclBroadcast(values, values, 4, ncclFloat32, root, self.comm, self.stream);
    };
  };
  const auto send = [](size_t count) {
    return [=](Rank& self, float* values) {
      return ncclSend(values, count, ncclFloat32, 1 - self.rank, self.comm, self.stream);
    };
  };
  const auto receive = [](size_t count) {
    return [=](Rank& self, float* values) {
      return ncclRecv(values, count, ncclFloat32, 1 - self.rank, self.comm, self.stream);
    };
  };
  const auto split = [](Rank& self, float*) {
    ncclComm_t part = nullptr;
    return ncclCommSplit(self.comm, 0, 0, &part, nullptr) == ncclInvalidUsage ? ncclSuccess
                                                                              : ncclInternalError;
  };
  const auto sum = all_reduce(4, ncclFloat32, ncclSum);
  return {
      {{sum, all_reduce(5, ncclFloat32, ncclSum)},
       "ranks differ: rank 0 calls ncclAllReduce(count 4, float32, sum), rank 1 calls "
       "ncclAllReduce(count 5, "
       "float32, sum)"},
      {{sum, all_reduce(4, ncclInt32, ncclSum)},
       "ranks differ: rank 0 calls ncclAllReduce(count 4, float32, sum), rank 1 calls "
       "ncclAllReduce(count 4, "
       "int32, sum)"},
      {{sum, all_reduce(4, ncclFloat32, ncclMax)},
       "ranks differ: rank 0 calls ncclAllReduce(count 4, float32, sum), rank 1 calls "
       "ncclAllReduce(count 4, "
       "float32, max)"},
      {{sum, broadcast(1)},
       "ranks differ: rank 0 calls ncclAllReduce(count 4, float32, sum), rank 1 calls "
       "ncclBroadcast(count 4, "
       "float32, root 1)"},
      {{broadcast(0), broadcast(1)},
       "ranks differ: rank 0 calls ncclBroadcast(count 4, float32, root 0), rank 1 calls "
       "ncclBroadcast(count 4, "
       "float32, root 1)"},
      {{send(3), receive(2)},
       "ranks differ: rank 0 calls ncclSend(count 3, float32, peer 1), rank 1 calls ncclRecv(count "
       "2, float32, "
       "peer 0)"},
      {{send(3), send(3)},
       "ranks differ: rank 0 calls ncclSend(count 3, float32, peer 1), rank 1 calls ncclSend(count "
       "3, float32, "
       "peer 0)"},
      {{receive(3), receive(3)},
       "ranks differ: rank 0 calls ncclRecv(count 3, float32, peer 1), rank 1 calls ncclRecv(count "
       "3, float32, "
       "peer 0)"},
      {{send(3), sum},
       "ranks differ: rank 0 calls ncclSend(count 3, float32, peer 1), rank 1 calls "
       "ncclAllReduce(count 4, "
       "float32, sum)"},
      {{sum, receive(3)},
       "ranks differ: rank 0 calls ncclAllReduce(count 4, float32, sum), rank 1 calls "
       "ncclRecv(count 3, float32, "
       "peer 0)"},
      {{split, sum},
       "ranks differ: rank 0 calls ncclCommSplit, rank 1 calls ncclAllReduce(count 4, float32, "
       "sum)"},
  };
}

TEST_F(FakeNcclFaultsTest, CallsThatDifferAreReportedOnAllRanks) {
  for (const Difference& each : differences()) {
    with_communicator(2, [&](Rank& self) {
      std::vector<float> values(8);
      ASSERT_EQ(each.calls[self.rank](self, values.data()), ncclSuccess) << each.text;
      EXPECT_EQ(await_error(self.comm), ncclInvalidUsage);
      EXPECT_STREQ(ncclGetLastError(self.comm), each.text);
      EXPECT_EQ(ncclCommAbort(self.comm), ncclSuccess);
      self.comm = nullptr;
      fake_nccl_stream_synchronize(self.stream, 0);
    });
  }
}

TEST_F(FakeNcclFaultsTest, ASendToOneselfNeedsItsReceiveInTheGroup) {
  with_communicator(1, [](Rank& self) {
    float value = 1;
    ASSERT_EQ(ncclSend(&value, 1, ncclFloat32, 0, self.comm, self.stream), ncclSuccess);
    EXPECT_EQ(await_error(self.comm), ncclInvalidUsage);
    EXPECT_STREQ(
        ncclGetLastError(self.comm),
        "rank 0 calls ncclSend(count 1, float32, peer 0), and its group has nothing for it");
    abort(self);
  });
}

TEST_F(FakeNcclFaultsTest, ArgumentsAreChecked) {
  with_communicator(2, [](Rank& self) {
    float value = 1;
    const auto fails = [&](ncclResult_t result, const char* text) {
      EXPECT_EQ(result, ncclInvalidArgument);
      EXPECT_STREQ(ncclGetLastError(nullptr), text);
    };
    if (self.rank != 0) return;  // the last error is the process's
    fails(ncclAllReduce(nullptr, &value, 1, ncclFloat32, ncclSum, self.comm, self.stream),
          "ncclAllReduce: a buffer is null");
    fails(ncclAllReduce(&value, &value, 1, ncclNumTypes, ncclSum, self.comm, self.stream),
          "ncclAllReduce: no such type");
    fails(ncclAllReduce(&value, &value, 1, ncclFloat8e5m2, ncclSum, self.comm, self.stream),
          "ncclAllReduce: this library does not reduce the type");
    fails(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclNumOps, self.comm, self.stream),
          "ncclAllReduce: no such reduction");
    fails(ncclBroadcast(&value, &value, 1, ncclFloat32, 2, self.comm, self.stream),
          "ncclBroadcast: rank 2 of 2");
    fails(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, self.stream),
          "ncclAllReduce: no such communicator, or no longer");
    fails(ncclCommCount(self.comm, nullptr), "ncclCommCount: the result's address is null");
    ncclComm_t comm = nullptr;
    ncclUniqueId id{};
    fails(ncclCommInitRank(&comm, 2, id, 0), "the unique id is none of ncclGetUniqueId");
    fails(ncclCommInitRank(&comm, 2, id, 2), "ncclCommInitRank: rank 2 of 2");
    ncclConfig_t config{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    fails(ncclCommInitRankConfig(&comm, 2, id, 0, &config),
          "the configuration is not initialized: NCCL_CONFIG_INITIALIZER");
    fails(ncclCommSplit(self.comm, -5, 0, &comm, nullptr), "ncclCommSplit: color -5");
  });
}

TEST_F(FakeNcclFaultsTest, ReadsFaultsAndSaysWhichItCannotRead) {
  for (const char* text : {"stall", "stall:rank", "stall:rank=x", "stall:rank=-1", "slow:rank=1",
                           "delay_us=fast", "rank=1", "stall:rank=1,when=2"}) {
    EXPECT_EQ(fake_nccl_set_faults(text), 1) << text;
    EXPECT_EQ(ncclGetLastError(nullptr),
              "STRATA_FAKE_NCCL: cannot read \"" + std::string(text) + "\"");
  }
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  set("stall:rank=9,call=9;version=21805");
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 21805);
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
               "remote process exited or there was a network error");
}

}  // namespace
}  // namespace strata::test::fake_nccl
